"""What vouches for the newest entry of the ledger, asked by a process that has the store open."""

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from standfast import Memory
from standfast.ledger import Checkpoint, CheckpointFile, KeyFile, LedgerTail, Notary, VerifyingKey
from standfast.ledger.note import log_name
from standfast.store.opening import open_store
from standfast.store.restore import accept_restored
from tests.ledger.builders import LOG_KEY
from tests.memory.conftest import HANDBOOK
from tests.store.builders import memory_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with two ledger entries, signed."""
    path = tmp_path / "agent.db"
    with Memory.open(str(path)) as memory:
        memory.remember("EU refunds take 14 days.", source=HANDBOOK)
    return path


def delete_side_files(path: Path) -> None:
    shutil.rmtree(f"{path}-files")


def kept(path: Path) -> tuple[tuple[str, ...], list[VerifyingKey]]:
    """A copy of the checkpoints and of the key that signed them."""
    key = KeyFile(Path(f"{path}-files/log.key"), name=log_name(path)).load().verifying_key
    return CheckpointFile(f"{path}-files/checkpoints").read().notes, [key]


def test_a_chain_whose_side_files_were_deleted_is_not_intact_also_after_the_next_write(path: Path) -> None:
    delete_side_files(path)
    with Memory.open(str(path)) as memory:
        memory.remember("US refunds take 30 days.", source=HANDBOOK)
    with Memory.open(str(path)) as memory:
        found = memory.verification()

    (problem,) = found.problems
    assert problem.startswith("the ledger names the key standfast/agent+")
    assert "its checkpoints are missing" in problem
    (notice,) = found.notices
    assert notice.startswith("From entry ")
    assert "is signed with another key" in notice


def test_a_file_that_was_copied_alone_is_broken_until_it_is_accepted_as_it_is(path: Path) -> None:
    delete_side_files(path)
    memory = Memory.open(str(path), notary=None)
    memory.close()
    with contextlib.closing(open_store(str(path), create=False)) as store:
        alone = Memory(store, notary=Notary.for_store(str(path), store.entries, store.branches))
        shutil.rmtree(f"{path}-files")
        (problem,) = alone.verify()
    accept_restored(
        str(path),
        reason="the other disk died",
        notary_of=lambda store: Notary.for_store(
            str(path), store.entries, store.branches, store.announce_key
        ),
    )
    with Memory.open(str(path)) as memory:
        found = memory.verification()

    assert "its checkpoints are missing" in problem
    assert (found.state, found.problems) == ("sound", ())


def test_checkpoints_that_were_kept_vouch_or_contradict(path: Path, tmp_path: Path) -> None:
    notes, keys = kept(path)
    delete_side_files(path)
    with Memory.open(str(path)) as memory:
        assert list(memory.verify(notes, keys)) == []
        assert memory.tail(notes, keys).signed_seq >= 3
    forged = tmp_path / "forged.db"
    with Memory.open(str(forged)) as memory:
        memory.remember("Refunds need nobody.", source=HANDBOOK)
        (problem,) = memory.verify(notes, keys)

    assert problem.startswith("kept checkpoint 1: a signed checkpoint")


def test_what_this_process_writes_needs_no_witness_until_it_is_signed(path: Path) -> None:
    with Memory.open(str(path)) as memory:
        memory.remember("US refunds take 30 days.", source=HANDBOOK)
        unsigned = memory.tail()
        assert list(memory.verify()) == []
        memory.checkpoint()
        signed = memory.tail()

    assert (unsigned.newest_seq, unsigned.unsigned_entries, unsigned.signed_seq) == (5, 2, 3)
    assert unsigned.summary.startswith(
        "Unsigned tail: 2 entries are not covered by a signed checkpoint since"
    )
    assert signed.summary.startswith("Entry 5, the newest, is covered by a checkpoint")


@pytest.mark.parametrize(
    ("tail", "summary"),
    [
        (LedgerTail(), "The ledger is empty."),
        (
            LedgerTail(newest_seq=4, signed_seq=4, signed_by="log"),
            "Entry 4, the newest, is covered by a checkpoint",
        ),
        (
            LedgerTail(newest_seq=4, signed_seq=3, unsigned_since="2026-01-01", unsigned_seconds=200_000.0),
            "Unsigned tail: 1 entry is not covered by a signed checkpoint since 2026-01-01 (2 days ago)",
        ),
    ],
)
def test_a_tail_says_what_vouches_for_the_newest_entry(tail: LedgerTail, summary: str) -> None:
    assert tail.summary.startswith(summary)


def test_a_checkpoint_that_contradicts_covers_nothing(tmp_path: Path) -> None:
    store = memory_store()
    memory = Memory(store)
    memory.remember("EU refunds take 14 days.", source=HANDBOOK)
    elsewhere = Checkpoint(origin=LOG_KEY.name, size=2, root_hash="0" * 64).sign([LOG_KEY])
    found = memory.verification([elsewhere], [LOG_KEY.verifying_key])

    assert found.state == "broken"
    assert found.tail.signed_seq == 0
    assert "covered by a checkpoint" not in found.tail.summary


def test_who_signs_while_the_checkpoints_are_read_makes_nothing_look_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory.open(str(path)) as memory, Memory.open(str(path)) as other:
        read, days = Notary.checkpoints, iter(range(30, 90))

        def sign_after(self: Notary) -> Any:
            found = read(self)
            monkeypatch.setattr(Notary, "checkpoints", read)
            other.remember(f"US refunds take {next(days)} days.", source=HANDBOOK)
            other.checkpoint()
            monkeypatch.setattr(Notary, "checkpoints", sign_after)
            return found

        monkeypatch.setattr(Notary, "checkpoints", sign_after)

        assert memory.verification().problems == ()


def test_a_store_in_memory_that_a_notary_signs_has_three_states(tmp_path: Path) -> None:
    store = memory_store()
    signer = Notary(LOG_KEY, CheckpointFile(tmp_path / "checkpoints"), store.entries)
    memory = Memory(store, notary=signer)
    memory.remember("EU refunds take 14 days.", source=HANDBOOK)
    unsigned = memory.verification()
    memory.checkpoint()

    assert (unsigned.state, unsigned.holds, unsigned.problems) == ("unsigned_tail", True, ())
    assert unsigned.tail.unsigned_entries == 2
    assert memory.verification().state == "sound"


def test_a_store_in_memory_needs_no_witness() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("EU refunds take 14 days.", source=HANDBOOK)

        assert list(memory.verify()) == []
        assert memory.tail().newest_seq == 2
        assert memory.verification().state == "sound"
