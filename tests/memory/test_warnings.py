"""What was applied is never reported as an error: what fails after a commit is a warning beside its
receipt.
"""

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.cli import main
from standfast.clock import CountedIds
from standfast.limits import MAX_WARNINGS
from standfast.memory import Memory
from standfast.traces.folder import TraceFolder
from tests.memory.conftest import HANDBOOK
from tests.raising import raises_code


@pytest.fixture
def unsynced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose checkpoint file can't be synced any more."""
    with Memory.open(str(tmp_path / "agent.db")) as memory:
        memory.checkpoint()

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", fail)


def _call(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--store", str(folder / "agent.db")])


@pytest.mark.usefixtures("unsynced")
def test_a_checkpoint_that_cannot_be_synced_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory.open(str(tmp_path / "agent.db"))
    answer = memory.remember("EU refunds take 14 days.", source=HANDBOOK, run_id="r-1")
    memory.close()
    (warning,) = memory.warnings

    assert answer.receipt is not None
    assert warning.startswith("Everything is stored, but the ledger's head could not be signed: ")
    assert "Input/output error" in warning
    assert [(record.name, record.levelno) for record in caplog.records] == [
        ("standfast.memory", logging.WARNING)
    ]
    with Memory.open(str(tmp_path / "agent.db"), notary=None) as again:
        retried = again.remember("EU refunds take 14 days.", source=HANDBOOK, run_id="r-1")

    assert retried.receipt is not None
    assert retried.receipt.commit_id == answer.receipt.commit_id
    assert retried.receipt.replayed


@pytest.mark.usefixtures("unsynced")
def test_signing_on_request_still_fails_aloud(tmp_path: Path) -> None:
    memory = Memory.open(str(tmp_path / "agent.db"))
    memory.remember("EU refunds take 14 days.", source=HANDBOOK)
    with raises_code("checkpoint_file_failed"):
        memory.checkpoint()
    memory.close()


@pytest.mark.usefixtures("unsynced")
def test_a_command_whose_checkpoint_fails_warns_and_exits_0(tmp_path: Path) -> None:
    words = ("remember", "EU refunds take 14 days.", "--source", "doc:handbook", "--run-id", "r-1")
    first, again = _call(tmp_path, *words), _call(tmp_path, *words)
    listed = _call(tmp_path, "at", "1")

    assert (first.exit_code, again.exit_code) == (0, 0)
    assert first.stderr.startswith(
        "Warning: Everything is stored, but the ledger's head could not be signed: "
    )
    assert first.stderr.count("\n") == 1
    assert "accepted" in first.stdout
    assert "Warning" not in first.stdout
    assert "snapshot 1" in again.stdout, "the retry is not refused"
    assert listed.exit_code == 0
    assert listed.stderr == "", "who only reads is not warned"


def test_a_trace_that_cannot_be_stored_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("a file where the folder should be")
    memory = Memory.open(":memory:", traces=TraceFolder(tmp_path / "traces", ids=CountedIds()))
    answer = memory.remember("EU refunds take 14 days.", source=HANDBOOK, run_id="r-1")

    assert answer.receipt is not None
    (warning,) = memory.warnings
    assert warning.startswith("The trace of run r-1 could not be stored: ")


def test_only_the_newest_warnings_are_kept(tmp_path: Path) -> None:
    (tmp_path / "traces").write_text("a file where the folder should be")
    memory = Memory.open(":memory:", traces=TraceFolder(tmp_path / "traces", ids=CountedIds()))
    for number in range(MAX_WARNINGS + 1):
        memory.run(workflow="w", run_id=f"r-{number}").discard()

    assert len(memory.warnings) == MAX_WARNINGS
    assert "r-1 " in memory.warnings[0]
