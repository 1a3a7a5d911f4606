"""Shell completion, by click's own machinery: what a shell would offer after each of these beginnings."""

import os
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete

from standfast.cli import COMMANDS, main


def offered(*words: str, beginning: str = "") -> list[str]:
    """What the shell offers for the word that is begun."""
    complete = BashComplete(main, {}, "standfast", "_STANDFAST_COMPLETE")
    return [item.value for item in complete.get_completions(list(words), beginning)]


def test_every_command_is_offered() -> None:
    assert offered() == sorted(COMMANDS)
    assert offered(beginning="re") == ["read", "receipt", "recover", "remember", "retention"]
    assert offered("trace") == ["compare", "replay", "show", "validate"]


def test_options_and_their_choices_are_offered() -> None:
    assert "--subject" in offered("remember", beginning="--s")
    assert "--store" in offered("trace", "replay", beginning="--")
    assert offered("read", "x", "--dropped") == ["full", "counts"]


@pytest.mark.parametrize(
    ("shell", "told"), [("bash", "complete -o nosort"), ("zsh", "compdef"), ("fish", "complete ")]
)
def test_each_shell_gets_its_script(shell: str, told: str) -> None:
    """As the help says: eval "$(_STANDFAST_COMPLETE=bash_source standfast)"."""
    environment = os.environ | {"_STANDFAST_COMPLETE": f"{shell}_source"}
    result = subprocess.run(
        [sys.executable, "-m", "standfast"], capture_output=True, text=True, check=False, env=environment
    )

    assert told in result.stdout, result.stderr


def test_the_completion_that_a_shell_asks_for_is_answered() -> None:
    environment = os.environ | {
        "_STANDFAST_COMPLETE": "bash_complete",
        "COMP_WORDS": "standfast hist",
        "COMP_CWORD": "1",
    }
    result = subprocess.run(
        [sys.executable, "-m", "standfast"], capture_output=True, text=True, check=True, env=environment
    )

    assert result.stdout.split() == ["plain,history"]
