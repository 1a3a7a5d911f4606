"""What vouches for the newest entry of the ledger, asked by a process that has the store open."""

import contextlib
from pathlib import Path

import pytest

from standfast import Memory
from standfast.ledger import Checkpoint, CheckpointFile, KeyFile, LedgerTail, Notary, VerifyingKey
from standfast.ledger.note import log_name
from tests.ledger.builders import LOG_KEY
from tests.memory.conftest import HANDBOOK
from tests.store.builders import memory_store, sqlite_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two ledger entries, signed."""
    path = tmp_path / "agent.db"
    with Memory.open(str(path)) as memory:
        memory.remember("EU refunds take 14 days.", source=HANDBOOK)
    return path


def delete_side_files(path: Path) -> None:
    for file in path.parent.glob("agent.db-*"):
        file.unlink()


def kept(path: Path) -> tuple[tuple[str, ...], list[VerifyingKey]]:
    """A copy of the checkpoints and of the key that signed them."""
    key = KeyFile(Path(f"{path}-log.key"), name=log_name(path)).load().verifying_key
    return CheckpointFile(f"{path}-log.checkpoints").read().notes, [key]


def test_a_chain_whose_side_files_were_deleted_is_not_intact_also_after_the_next_write(path: Path) -> None:
    delete_side_files(path)
    with Memory.open(str(path)) as memory:
        (problem,) = memory.verify()
        memory.remember("US refunds take 30 days.", source=HANDBOOK)
        (later,) = memory.verify()

    assert problem.startswith("nothing vouches for entry 2, the newest when the store was opened")
    assert later == problem


def test_checkpoints_that_were_kept_vouch_or_contradict(path: Path, tmp_path: Path) -> None:
    notes, keys = kept(path)
    delete_side_files(path)
    with Memory.open(str(path)) as memory:
        assert list(memory.verify(notes, keys)) == []
        assert memory.tail(notes, keys).signed_seq == 2
    forged = tmp_path / "forged.db"
    with Memory.open(str(forged)) as memory:
        memory.remember("Refunds need nobody.", source=HANDBOOK)
        (problem,) = memory.verify(notes, keys)

    assert problem.startswith("kept checkpoint 1: a signed checkpoint of 2 entries has another root")


def test_what_this_process_writes_needs_no_witness_until_it_is_signed(path: Path) -> None:
    with Memory.open(str(path)) as memory:
        memory.remember("US refunds take 30 days.", source=HANDBOOK)
        unsigned = memory.tail()
        assert list(memory.verify()) == []
        memory.checkpoint()
        signed = memory.tail()

    assert (unsigned.newest_seq, unsigned.opened_seq, unsigned.signed_seq) == (4, 2, 2)
    assert unsigned.summary.startswith("Entry 4, the newest, is not signed yet")
    assert signed.summary.startswith("Entry 4, the newest, is covered by a checkpoint")


@pytest.mark.parametrize(
    ("tail", "summary"),
    [
        (LedgerTail(), "The ledger is empty."),
        (
            LedgerTail(newest_seq=4, signed_seq=4, signed_by="log"),
            "Entry 4, the newest, is covered by a checkpoint",
        ),
        (LedgerTail(newest_seq=4, opened_seq=3, signed_seq=2), "Nothing vouches for entry 3"),
        (
            LedgerTail(newest_seq=4, opened_seq=4, signed_seq=2, acknowledged_seq=4),
            "Entry 4, the newest, is covered by the store's head file only",
        ),
        (
            LedgerTail(newest_seq=4, opened_seq=3, signed_seq=2, acknowledged_seq=3),
            "Entry 4, the newest, is not signed yet",
        ),
    ],
)
def test_a_tail_says_what_vouches_for_the_newest_entry(tail: LedgerTail, summary: str) -> None:
    assert tail.summary.startswith(summary)


def test_without_a_head_file_a_notary_or_a_kept_checkpoint_must_vouch(tmp_path: Path) -> None:
    """A store in memory, or on a server, has no head file."""
    store = memory_store()
    Memory(store).remember("EU refunds take 14 days.", source=HANDBOOK)
    signer = Notary(
        LOG_KEY, CheckpointFile(tmp_path / "checkpoints"), lambda after: store.entries(after=after)
    )
    elsewhere = Checkpoint(origin=LOG_KEY.name, size=1, root_hash="0" * 64).sign([LOG_KEY])

    assert Memory(store).tail().problem is None
    assert "entry 2" in (Memory(store).tail([elsewhere], [LOG_KEY.verifying_key]).problem or "")
    signed = Memory(store, notary=signer)
    assert "entry 2" in (signed.tail().problem or "")
    signed.checkpoint()
    assert signed.tail().problem is None


def test_a_file_without_its_head_file_has_no_witness_if_nobody_signs(path: Path) -> None:
    with contextlib.closing(sqlite_store(path)) as store:
        assert Memory(store).tail().problem is None
    Path(f"{path}-head").unlink()
    with contextlib.closing(sqlite_store(path)) as store:
        assert "entry 2" in (Memory(store).tail().problem or "")


def test_a_store_in_memory_needs_no_witness() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("EU refunds take 14 days.", source=HANDBOOK)

        assert list(memory.verify()) == []
        assert memory.tail() == LedgerTail(newest_seq=2)
