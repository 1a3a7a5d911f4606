"""A ledger that lost its end, was rolled back or written anew is found by what is kept beside the store, or
elsewhere.
"""

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from standfast.clock import CountedIds, ManualClock, seeded
from standfast.errors import Corruption, StandfastError
from standfast.ledger.checkpoint import Checkpoint
from standfast.ledger.notary import Notary
from standfast.ledger.note import VerifyingKey
from standfast.memory import Memory
from standfast.store.commit import Fact
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from tests.figures import Figures
from tests.ledger.kept import (
    Kept,
    altered,
    cut_after,
    forge_from,
    notary_of,
    opened,
    problems_at,
    tamper,
    witness,
)

KEPT_ELSEWHERE = ("-files/head", "-files/checkpoints")


def _rolled_back(kept: Kept, folder: Path, how: str, without: tuple[str, ...]) -> Path:
    path = kept.copy(folder, without=without, older=how == "rolled back")
    if how == "cut":
        with closing(apsw.Connection(str(path), vfs="cksmvfs")) as connection:
            head = connection.execute("SELECT max(memory_snapshot_id) FROM commits").get
        tamper(path, cut_after(head - 3))
    return path


@pytest.mark.parametrize("how", ["cut", "rolled back"])
def test_a_lost_end_shows_at_opening(kept: Kept, ram_folder: Path, how: str) -> None:
    for number, without in enumerate([(), ("-files/checkpoints",)]):
        path = _rolled_back(kept, ram_folder / f"{number}", how, without)
        with pytest.raises(Corruption, match="entry 1000 of the ledger was acknowledged and is missing"):
            problems_at(path).__enter__()


@pytest.mark.parametrize("how", ["cut", "rolled back"])
def test_a_lost_end_shows_by_the_checkpoints_where_the_witness_is_gone_too(
    kept: Kept, ram_folder: Path, how: str
) -> None:
    path = _rolled_back(kept, ram_folder / "copy", how, ("-files/head",))
    witness(path)
    with problems_at(path) as problems:
        first = next(problems)

    assert "a signed checkpoint covers" in first
    assert "on they are missing" in first


@pytest.mark.parametrize("how", ["cut", "rolled back"])
def test_missing_checkpoints_are_told(kept: Kept, ram_folder: Path, how: str) -> None:
    path = _rolled_back(kept, ram_folder / "copy", how, KEPT_ELSEWHERE)
    with problems_at(path) as problems:
        assert any("checkpoints are missing" in problem for problem in problems)


@pytest.mark.parametrize("how", ["cut", "rolled back"])
def test_where_all_witnesses_are_gone_a_checkpoint_kept_elsewhere_tells(
    kept: Kept, ram_folder: Path, how: str
) -> None:
    """Inside the folder it shows only that nothing vouches; that is why an outsider should keep a
    checkpoint.
    """
    path = _rolled_back(kept, ram_folder / "copy", how, (*KEPT_ELSEWHERE, "-files/log.key", "-files/log.pub"))
    with problems_at(path) as problems:
        told = list(problems)
    # The database holds the newest checkpoint; an older one holds one that does not contradict it.
    assert any("a signed checkpoint covers 1000 entries" in problem for problem in told) == (how == "cut")
    assert any("its checkpoints are missing" in problem for problem in told)
    assert "covers 1000 entries" in _problems_by(kept, path)[0]


def _problems_by(kept: Kept, path: Path) -> list[str]:
    """What an outsider finds who kept the last checkpoint and the public key."""
    key = VerifyingKey.parse((kept.folder / "store.db-files/log.pub").read_text(encoding="ascii").strip())
    storage = SQLiteStorage(str(path), clock=ManualClock(), ids=CountedIds())
    try:
        return list(Store(storage, clock=ManualClock(), ids=CountedIds()).verify([kept.checkpoint], [key]))
    finally:
        storage.close()


@pytest.mark.parametrize("seq", [1, 400, 999])
def test_a_ledger_written_anew_from_an_entry_on_is_found_by_the_checkpoints(
    kept: Kept, ram_folder: Path, seq: int
) -> None:
    """Every hash is right, the commits agree, and so does the witness; only what was signed does not."""
    path = kept.copy(ram_folder / "copy")
    tamper(path, forge_from(seq))
    with pytest.raises(Corruption, match="entry 1000 of the ledger was acknowledged and is another"):
        problems_at(path).__enter__()
    witness(path)
    with problems_at(path) as problems:
        first = next(problems)
    last_sound, first_broken = map(int, re.findall(r"entries between (\d+) and (\d+) were changed", first)[0])

    assert "has another root" in first
    assert last_sound <= seq <= first_broken, "the two checkpoints around the forgery are named"
    assert "has another root" in _problems_by(kept, path)[0]


def test_a_forger_with_the_key_is_found_by_who_kept_a_checkpoint(kept: Kept, ram_folder: Path) -> None:
    """Whoever can write the store and beside it can sign its head, and remove the checkpoint in the database;
    that is why the key or a checkpoint belongs elsewhere.
    """
    path = kept.copy(ram_folder / "copy", without=KEPT_ELSEWHERE)
    tamper(path, forge_from(700), "DELETE FROM temporary WHERE kind = 'ledger'")
    with Memory.open(str(path)) as forger:
        forger.checkpoint()
    with problems_at(path) as problems:
        assert list(problems) == []
    assert "has another root" in _problems_by(kept, path)[0]


# What is kept beside the store.


def test_every_seventh_byte_of_the_checkpoints_counts(kept: Kept, ram_folder: Path, figures: Figures) -> None:
    path = kept.copy(ram_folder / "copy")
    mirror = Path(f"{path}-files/checkpoints")
    whole = mirror.read_bytes()
    dice = seeded(7)
    with problems_at(path) as problems:
        assert list(problems) == []
    memory = Memory.open(str(path))
    changes = range(0, len(whole) - 1, 7)
    for at in changes:
        changed = altered(whole, at, dice.randrange(1, 256))
        mirror.write_bytes(changed)
        assert memory.ledger.notary is not None
        notes, keys, torn = memory.ledger.notary.checkpoints()
        told = [*torn, *_unsigned(notes, keys)]

        assert told, f"byte {at}"
    memory.store.close()
    figures("Checkpoints beside a store, tampered with", changed_bytes_of_checkpoints=len(changes))


def _unsigned(notes: Sequence[str], keys: Sequence[VerifyingKey]) -> list[str]:
    told = []
    for note in notes:
        try:
            Checkpoint.verify(note, keys)
        except StandfastError as error:
            told.append(str(error))
    return told


def test_a_key_that_was_deleted_or_exchanged_is_told(kept: Kept, ram_folder: Path) -> None:
    path = kept.copy(ram_folder / "copy", without=("-files/log.key", "-files/log.pub"))
    with closing(opened(path).store) as store:
        deleted = Memory(store, notary=notary_of(path, store)).verification()
    with opened(path) as other:
        assert other.ledger.notary is not None
        assert other.ledger.notary.verifying_key, "another one is made"
        exchanged = other.verification()
        other.remember("Gate 1 opens at noon.")
    with opened(path) as later:
        changed = later.verification()

    assert [one.state for one in (deleted, exchanged, changed)] == ["sound"] * 3
    assert deleted.notices[0].startswith("The log's key is missing.")
    assert "which the ledger does not name yet" in exchanged.notices[0]
    (notice,) = changed.notices
    assert "the ledger is signed with another key" in notice


def test_a_checkpoint_of_a_key_that_the_ledger_does_not_name_is_broken(kept: Kept, ram_folder: Path) -> None:
    path = kept.copy(ram_folder / "copy", without=("-files/log.key", "-files/log.pub"))
    with closing(opened(path).store) as store:
        silent = Notary.for_store(str(path), store.entries, store.branches)
        assert silent is not None
        store.append_fact(Fact.of("note", {"number": 1}))
        silent.checkpoint()
        found = Memory(store, notary=silent).verification()

    assert found.state == "broken"
    assert "the ledger does not name it" in found.problems[0]


def test_an_edited_schema_is_told(kept: Kept, ram_folder: Path) -> None:
    path = kept.copy(ram_folder / "copy")
    with closing(apsw.Connection(str(path), vfs="cksmvfs")) as connection:
        connection.execute("DROP TRIGGER ledger_never_changes")
        connection.execute("CREATE TRIGGER eager AFTER INSERT ON ledger BEGIN DELETE FROM buffers; END")
    with problems_at(path) as problems:
        assert next(problems) == "the schema's trigger eager is not Standfast's"
        assert next(problems) == "the schema's trigger ledger_never_changes is missing"
