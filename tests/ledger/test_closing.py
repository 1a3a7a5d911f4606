"""Closing a memory signs what is not signed yet, also what a process that was killed had committed."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast.cli import main
from standfast.ledger.checkpoint import Checkpoint
from standfast.ledger.note import unverified_text
from standfast.memory import Memory
from tests.ledger.kept import cut_after, tamper

PROGRAM = """
import os, signal, sys
from standfast.memory import Memory

memory = Memory.open(sys.argv[1])
with memory.run(workflow="w", mode="buffered_write") as run:
    run.remember(f"Gate {sys.argv[2]} opens at noon.", subject=f"gate/{sys.argv[2]}", source={"kind": "doc", "id": "plan"})
print(len(list(memory.store.entries())), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""  # noqa: E501  # A text as a whole.


def _commit_and_be_killed(path: Path, gate: int) -> int:
    """How many entries the ledger had when the process was killed."""
    words = [sys.executable, "-c", PROGRAM, str(path), str(gate)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return int(done.stdout)


def _signed_sizes(path: Path) -> list[int]:
    mirror = Path(f"{path}-files/checkpoints")
    lines = mirror.read_text(encoding="ascii").splitlines() if mirror.exists() else []
    return [Checkpoint.parse(unverified_text(json.loads(line))).size for line in lines]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store will be."""
    return tmp_path / "store.db"


def test_who_closes_after_a_kill_signs_what_was_committed(path: Path) -> None:
    for gate in range(2):
        entries = _commit_and_be_killed(path, gate)
        assert entries not in _signed_sizes(path)

        Memory.open(str(path)).close()

        # The first signature is behind the entry that names its key.
        assert _signed_sizes(path)[-1] == (entries if gate else entries + 1)
    with Memory.open(str(path)) as memory:
        assert list(memory.verify()) == []
    assert len(_signed_sizes(path)) == 2, "where nothing is missing, nothing is signed"


def test_who_verifies_after_a_kill_signs_nothing(path: Path) -> None:
    _commit_and_be_killed(path, 1)

    told = CliRunner().invoke(main, ["verify", "--store", str(path), "--json"])

    assert (told.exit_code, json.loads(told.stdout)["state"]) == (3, "unsigned_tail")
    assert json.loads(told.stdout)["tail"]["unsigned_entries"] > 0
    assert _signed_sizes(path) == []
    assert not (path.with_name("store.db-files") / "log.key").exists()


def test_who_has_no_key_of_a_log_that_has_one_signs_nothing(path: Path) -> None:
    _commit_and_be_killed(path, 1)
    Memory.open(str(path)).close()
    _commit_and_be_killed(path, 2)
    before = _signed_sizes(path)
    (path.with_name("store.db-files") / "log.key").unlink()
    Memory.open(str(path)).close()

    assert _signed_sizes(path) == before
    assert not (path.with_name("store.db-files") / "log.key").exists()


def test_who_only_reads_a_ledger_that_contradicts_its_checkpoints_is_not_stopped_by_closing(
    path: Path,
) -> None:
    for gate in range(2):
        _commit_and_be_killed(path, gate)
        Memory.open(str(path)).close()
    before = _signed_sizes(path)
    tamper(path, cut_after(1))
    (path.with_name("store.db-files") / "head").unlink()
    with Memory.open(str(path)) as memory:
        problems = list(memory.verify())

    assert any("a signed checkpoint covers" in problem for problem in problems)
    assert _signed_sizes(path) == before
