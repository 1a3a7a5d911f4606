"""Ctrl-C at any moment of ``standfast remember``: one line, exit code 130, and no acknowledged record is
lost.
"""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from standfast.memory import Memory
from standfast.records.vocabulary import Band
from tests.figures import Figures

# Prints "ready" first, so that the interrupt hits our own code and not the start of the interpreter.
PROGRAM = "from standfast.__main__ import main; print('ready', flush=True); main()"
SHORT, LONG = 8, 300


def _remember(store: Path, number: int, wait_seconds: float | None) -> tuple[int, str, str, float]:
    """Interrupt one call after a while; returns exit code, stdout, stderr and duration."""
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
        # The first one early, because a machine that was busy before makes all others come too late.
        moment = (0.1 if number == 1 else dice.random()) * whole_seconds
        code, answer, complaint, _ = _remember(store, number, moment)
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


def test_an_interrupt_loses_no_acknowledged_record(tmp_path: Path, figures: Figures) -> None:
    _check(tmp_path, SHORT, figures)


@pytest.mark.slow
def test_many_interrupts_lose_no_acknowledged_record(tmp_path: Path, figures: Figures) -> None:
    _check(tmp_path, LONG, figures)


@pytest.mark.parametrize("module", ["standfast.cli", "dataclasses", "copy", "apsw"])
def test_an_interrupt_during_an_import_prints_one_line(tmp_path: Path, module: str) -> None:
    """Some libraries crash if they are interrupted while they are imported."""
    program = (
        "import os, signal, sys\n"
        "from standfast.__main__ import main\n"
        "def interrupt(event, arguments):\n"
        f"    if event == 'import' and arguments[0] == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.addaudithook(interrupt)\n"
        "main()"
    )
    words = ["remember", "Cats purr.", "--source", "doc:cats", "--store", str(tmp_path / "agent.db")]
    result = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stdout, result.stderr) == (130, "", "Interrupted.\n")


def test_the_installed_script_is_the_tested_entry_point() -> None:
    project = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")

    assert 'standfast = "standfast.__main__:main"' in project
