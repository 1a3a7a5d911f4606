"""The commit policy: whether a run of which only a part is accepted is committed."""

from pathlib import Path

import pytest

from standfast import Memory
from standfast.clock import ManualClock
from standfast.errors import CommitAborted, InvalidValue
from standfast.records.vocabulary import Band
from standfast.settings import Settings
from standfast.wiring import open_memory

SECRET = "The password of the admin is hunter2hunter2."


def _all_or_nothing(path: Path) -> Memory:
    return Memory.open(str(path / "agent.db"), commit_policy="all_or_nothing", clock=ManualClock())


def test_by_default_what_is_accepted_is_committed_beside_what_is_refused(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "agent.db")) as memory:
        with memory.run(workflow="w", mode="buffered_write") as run:
            run.remember("Ada prefers answers in German.", subject="ada")
            run.remember(SECRET, subject="admin")
        assert run.receipt is not None
        assert {record.text for record in memory.records(band=Band.ACTIVE)} == {
            "Ada prefers answers in German."
        }


def test_all_or_nothing_rejects_a_run_of_which_a_part_is_refused(tmp_path: Path) -> None:
    with _all_or_nothing(tmp_path) as memory:
        run = memory.run(workflow="w", mode="buffered_write", run_id="r1")
        run.remember("Ada prefers answers in German.", subject="ada")
        run.remember(SECRET, subject="admin")

        with pytest.raises(CommitAborted, match="1 of 2 texts were not accepted") as aborted:
            run.commit()

        assert aborted.value.facts["reason_code"] == "policy_rejected"
        assert "hunter2" not in str(aborted.value)
        assert list(memory.records()) == []
        assert memory.store.head() == 0
        with pytest.raises(CommitAborted, match="policy_rejected"):
            run.commit()
        assert run.trace is not None
        assert "run_failed" in {gap.code for gap in run.trace.metadata.gaps}


def test_a_rejection_outlives_the_process(tmp_path: Path) -> None:
    for _ in range(2):
        with _all_or_nothing(tmp_path) as memory:
            run = memory.run(workflow="w", mode="buffered_write", run_id="r1")
            run.remember("Ada prefers answers in German.", subject="ada")
            run.remember(SECRET, subject="admin")
            with pytest.raises(CommitAborted, match="policy_rejected"):
                run.commit()
            assert memory.store.recover() == []
            assert memory.store.head() == 0


def test_forgetting_is_a_part_of_the_run_too(tmp_path: Path) -> None:
    with _all_or_nothing(tmp_path) as memory:
        memory.remember("Ada prefers answers in German.", subject="ada")
        run = memory.run(workflow="w", mode="buffered_write")
        run.forget("ada", reason="asked for")
        run.remember(SECRET)
        with pytest.raises(CommitAborted, match="policy_rejected"):
            run.commit()
        assert {record.text for record in memory.records(band=Band.ACTIVE)} == {
            "Ada prefers answers in German."
        }


def test_a_run_of_which_all_is_accepted_or_nothing_is_committed(tmp_path: Path) -> None:
    """A refusal alone is recorded as ever: there is nothing that it could spoil."""
    with _all_or_nothing(tmp_path) as memory:
        assert memory.remember("Ada prefers answers in German.", subject="ada").receipt is not None
        assert memory.remember(SECRET).receipt is not None
        with memory.run(workflow="w", mode="buffered_write") as run:
            run.remember("Ada prefers answers in German.")
            run.remember("Ben prefers answers in French.")
        assert run.receipt is not None


def test_the_policy_is_part_of_the_policy_set_and_comes_from_the_settings(tmp_path: Path) -> None:
    ids = set()
    for policy in ("accepted", "all_or_nothing"):
        settings = Settings.load(
            {"STANDFAST_STORE": str(tmp_path / "agent.db"), "STANDFAST_COMMIT_POLICY": policy}
        )
        with open_memory(settings, create=True) as memory:
            ids.add(memory.policy_set_id)
    assert len(ids) == 2


def test_an_unknown_policy_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="all_or_nothing"):
        Memory.open(str(tmp_path / "agent.db"), commit_policy="maybe")
    assert list(tmp_path.iterdir()) == []
