"""Shell completion: what a shell offers after each of these words."""

import os
import subprocess
import sys

import click
import pytest
from click.shell_completion import BashComplete

from standfast.cli import main


def offered(*words: str, beginning: str = "") -> list[str]:
    """The completions of the last, unfinished word."""
    complete = BashComplete(main, {}, "standfast", "_STANDFAST_COMPLETE")
    return [item.value for item in complete.get_completions(list(words), beginning)]


def test_every_command_is_offered() -> None:
    assert offered() == main.list_commands(click.Context(main))
    assert offered(beginning="re") == [
        "read",
        "recall",
        "receipt",
        "recover",
        "refusals",
        "release",
        "remember",
        "restore",
        "retention",
        "revert",
    ]
    assert offered("trace") == ["compare", "replay", "show", "validate"]


def test_options_and_their_choices_are_offered() -> None:
    assert "--subject" in offered("remember", beginning="--s")
    assert "--store" in offered("trace", "replay", beginning="--")
    assert offered("read", "x", "--dropped") == ["full", "counts"]


@pytest.mark.parametrize(
    ("shell", "expected"), [("bash", "complete -o nosort"), ("zsh", "compdef"), ("fish", "complete ")]
)
def test_each_shell_gets_its_script(shell: str, expected: str) -> None:
    """As the help says: eval "$(_STANDFAST_COMPLETE=bash_source standfast)"."""
    environment = os.environ | {"_STANDFAST_COMPLETE": f"{shell}_source"}
    result = subprocess.run(
        [sys.executable, "-m", "standfast"], capture_output=True, text=True, check=False, env=environment
    )

    assert expected in result.stdout, result.stderr


def test_a_shell_gets_its_completions() -> None:
    environment = os.environ | {
        "_STANDFAST_COMPLETE": "bash_complete",
        "COMP_WORDS": "standfast hist",
        "COMP_CWORD": "1",
    }
    result = subprocess.run(
        [sys.executable, "-m", "standfast"], capture_output=True, text=True, check=True, env=environment
    )

    assert result.stdout.split() == ["plain,history"]
