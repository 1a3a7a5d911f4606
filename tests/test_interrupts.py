"""Ctrl-C at any moment of ``standfast remember``: one line, exit code 130, and nothing lost that was acknowledged."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from standfast.memory import Memory
from standfast.vocabulary import Band
from tests.figures import Figures

# Says when it begins, so that the moments are those of our own code and not of the interpreter's start.
PROGRAM = "from standfast.__main__ import main; print('ready', flush=True); main()"
SHORT, LONG = 8, 300


def _remember(store: Path, number: int, wait_seconds: float | None) -> tuple[int, str, str, float]:
    """One call that is interrupted after a while: exit code, answer, complaint, and how long it took."""
    fact = f"Gate number {number} opens at noon."
    words = ["remember", fact, "--subject", f"gate/{number}", "--source", "doc:plan", "--store", str(store)]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = time.monotonic()
        if wait_seconds is not None:
            time.sleep(wait_seconds)
            process.send_signal(signal.SIGINT)
        answer, complaint = process.communicate(timeout=60)
    return process.returncode, answer, complaint, time.monotonic() - began


def _check(folder: Path, calls: int, figures: Figures) -> None:
    store, dice, acknowledged, interrupted = folder / "agent.db", Random(7), set(), 0
    *_, whole_seconds = _remember(store, 0, None)
    for number in range(1, calls + 1):
        code, answer, complaint, _ = _remember(store, number, dice.random() * whole_seconds)
        assert (code, complaint) in ((0, ""), (130, "Interrupted.\n")), (number, code, complaint)
        interrupted += code == 130
        if answer:
            acknowledged.add(json.loads(answer)["memory_id"])
    figures("interrupted calls", calls=calls, interrupted=interrupted, acknowledged=len(acknowledged))

    assert interrupted > 0
    with Memory.open(str(store)) as memory:
        known = {record.memory_id for record in memory.records(band=Band.LEDGER)}
        assert acknowledged | {"gate/0"} <= known
        assert list(memory.verify()) == []


def test_an_interrupt_at_any_moment_loses_nothing_that_was_acknowledged(
    tmp_path: Path, figures: Figures
) -> None:
    _check(tmp_path, SHORT, figures)


@pytest.mark.slow
def test_interrupts_at_many_moments_lose_nothing_that_was_acknowledged(
    tmp_path: Path, figures: Figures
) -> None:
    _check(tmp_path, LONG, figures)


@pytest.mark.parametrize("module", ["standfast.cli", "dataclasses", "copy", "apsw"])
def test_an_interrupt_while_libraries_load_is_answered_in_words(tmp_path: Path, module: str) -> None:
    """Some libraries crash when they are unwound in the middle of their making; the first that loads this module, say."""
    program = (
        "import os, signal, sys\n"
        "from standfast.__main__ import main\n"
        "def interrupt(event, told):\n"
        f"    if event == 'import' and told[0] == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.addaudithook(interrupt)\n"
        "main()"
    )
    words = ["remember", "Cats purr.", "--source", "doc:cats", "--store", str(tmp_path / "agent.db")]
    told = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )

    assert (told.returncode, told.stdout, told.stderr) == (130, "", "Interrupted.\n")


def test_the_script_of_the_package_is_the_one_that_is_tested_here() -> None:
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")

    assert 'standfast = "standfast.__main__:main"' in project
