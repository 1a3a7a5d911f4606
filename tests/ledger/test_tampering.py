"""Whatever is done to a store's ledger of 1,000 entries, verifying or opening tells, and names the first
break.

``tests/ledger/test_chain.py`` proves the walk itself over a synthetic ledger; here the store is real, and so
are the files, the witness, the key and the checkpoints.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from standfast.clock import CountedIds, ManualClock, seeded
from standfast.errors import BrokenChain, StandfastError
from standfast.ledger.chain import Entry, Tip, check, extend
from standfast.memory import Memory
from standfast.store.audit import erasures_in
from standfast.store.commit import ERASURE_KIND
from standfast.store.compression import packed
from standfast.store.protocol import Erasure, Storage
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from tests.figures import Figures
from tests.ledger.kept import ENTRIES, Kept, Tampering, altered, problems_at, tamper

PROOF = "A real store's ledger of 1,000 entries, tampered with"
FAST_BYTES, FAST_FILES, FAST_ROWS = 500, 2, 1
SLOW_BYTES, SLOW_FILES, SLOW_ROWS = 15_000, 300, 25


class Shown:
    """A store's storage that shows other ledger entries than its own."""

    def __init__(self, storage: Storage, entries: Sequence[Entry]) -> None:
        self._storage = storage
        self._entries = entries

    def entries(self, *, after: int, limit: int) -> list[Entry]:
        """The others."""
        return list(self._entries[after : after + limit])

    def check(self, **_: object) -> Iterator[str]:
        """Nothing below the rows is looked at."""
        return iter(())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


@pytest.fixture(scope="module")
def storage(kept: Kept) -> Iterator[SQLiteStorage]:
    opened = SQLiteStorage(str(kept.folder / "store.db"), clock=ManualClock(), ids=CountedIds())
    yield opened
    opened.close()


def first_break(problems: Iterator[str]) -> tuple[str | None, int | None]:
    """The first problem that is told, and the entry at which the chain is said to break, if it is."""
    first = None
    for problem in problems:
        first = first or problem
        if problem.startswith("The ledger breaks at entry "):
            return first, int(problem.split()[5].rstrip(":"))
    return first, None


def test_the_untouched_store_holds(kept: Kept, ram_folder: Path) -> None:
    with problems_at(kept.copy(ram_folder / "copy")) as problems:
        assert list(problems) == []
    kinds = {entry.read()["kind"] for entry in kept.entries}
    assert kinds == {"commit", "audit", "decision", "erasure", "log_key", "retention", "note"}
    assert len(kept.entries) == ENTRIES


# Single bytes.


def _bytes_shown(kept: Kept, storage: SQLiteStorage, seed: int, count: int, figures: Figures) -> None:
    dice = seeded(seed)
    for _ in range(count):
        place = dice.randrange(ENTRIES)
        entry = kept.entries[place]
        at, mask = dice.randrange(len(entry.content)), dice.randrange(1, 256)
        changed = msgspec.structs.replace(entry, content=altered(entry.content, at, mask))
        shown: Any = Shown(storage, [*kept.entries[:place], changed, *kept.entries[place + 1 :]])
        memory = Memory(Store(shown, clock=ManualClock(), ids=CountedIds()))

        told = f"The ledger breaks at entry {entry.seq}: its content does not match its hash"
        assert next(memory.verify()).startswith(told), f"byte {at} of entry {entry.seq} ^ {mask}"
    figures(PROOF, changed_bytes_found_by_verify=count)


def test_a_changed_byte_is_the_first_thing_told(kept: Kept, storage: SQLiteStorage, figures: Figures) -> None:
    _bytes_shown(kept, storage, 1, FAST_BYTES, figures)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_each_of_many_changed_bytes_is_the_first_thing_told(
    kept: Kept, storage: SQLiteStorage, seed: int, figures: Figures
) -> None:
    _bytes_shown(kept, storage, seed, SLOW_BYTES // 4, figures)


@pytest.mark.slow
def test_every_byte_of_every_entry_counts(kept: Kept, figures: Figures) -> None:
    """All of them. What stands before the changed entry is untouched, so each walk starts there."""
    tip, changes = Tip(), 0
    for entry in kept.entries:
        for at in range(len(entry.content)):
            changed = msgspec.structs.replace(entry, content=altered(entry.content, at, 1 + at % 255))
            with pytest.raises(BrokenChain) as broken:
                check([changed], start=tip)
            assert broken.value.facts["seq"] == entry.seq
            changes += 1
        tip = entry.tip
    figures(PROOF, every_byte_changed=changes)


def _bytes_in_files(kept: Kept, folder: Path, seed: int, count: int, figures: Figures) -> None:
    """The same in the file itself; all of what is told is read, because it must come to its end."""
    dice = seeded(seed)
    for number in range(count):
        entry = kept.entries[dice.randrange(ENTRIES)]
        content = altered(entry.content, dice.randrange(len(entry.content)), dice.randrange(1, 256))
        path = kept.copy(folder / f"{seed}-{number}")
        tamper(path, _update("ledger", "content", packed(content), f"seq = {entry.seq}"))
        with problems_at(path) as problems:
            told = list(problems)

        assert told[0].startswith(
            f"The ledger breaks at entry {entry.seq}: its content does not match its hash"
        )
    figures(PROOF, changed_bytes_in_files=count)


def test_a_byte_changed_in_the_file_is_told(kept: Kept, ram_folder: Path, figures: Figures) -> None:
    _bytes_in_files(kept, ram_folder, 1, FAST_FILES, figures)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_each_of_many_bytes_changed_in_the_file_is_told(
    kept: Kept, ram_folder: Path, seed: int, figures: Figures
) -> None:
    _bytes_in_files(kept, ram_folder, seed, SLOW_FILES // 3, figures)


# Rows.

OTHER_DIGEST = b"\xab" * 32
EDITS: dict[str, dict[str, tuple[object, ...]]] = {
    "ledger": {
        "seq": (5_000, -1),
        "content": (b"{}", b"", b"\xff"),
        "hash": (OTHER_DIGEST, b"", b"\xff"),
    },
    "commits": {
        "memory_snapshot_id": (5_000, 0),
        "commit_id": (OTHER_DIGEST, b""),
        "run_id": ("another", b"\xff"),
        "payload_fingerprint": (OTHER_DIGEST, b""),
        "committed_at": ("2026-01-01T00:00:00.000000Z", ""),
        "ledger_seq": (1_000, 9_999),
        "ledger_hash": (OTHER_DIGEST, b""),
    },
    "versions": {
        "id": (99, 9_999 << 16),
        "namespace": ("another", ""),
        "key": ("VAULT/shared//another", ""),
        "action": (2, 0, 7),
        "fingerprint": (OTHER_DIGEST, None),
        "content": (packed(b'{"memory_id":"x","text":"y"}'), b"", b"\x02", None),
        "erased_by": (400, 9_999),
    },
}


def _update(table: str, column: str, value: object, where: str) -> Tampering:
    def update(connection: apsw.Connection) -> None:
        if isinstance(value, bytes) and column in ("run_id", "committed_at"):
            # No UTF-8 at all, where there should be text.
            connection.execute(f"UPDATE {table} SET {column} = CAST(? AS TEXT) WHERE {where}", (value,))
        else:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (value,))
        assert connection.changes() == 1, (table, column, value, where)

    return update


def _told(path: Path, most: int | None = None) -> list[str]:
    """What is told of a store first, or all of it, be it at opening, by an error, or by verifying."""
    told: list[str] = []
    try:
        with problems_at(path) as problems:
            told += islice(problems, most)
    except StandfastError as error:
        told.append(str(error))
    return told


def _rowids(kept: Kept, table: str, column: str, count: int) -> list[int]:
    """Some rows, the first and the last among them, in which a change of this column changes something."""
    with closing(apsw.Connection(str(kept.folder / "store.db"), vfs="cksmvfs")) as connection:
        # An old value that is as the new one is no edit; neither is a content that was erased, or never was.
        where = "content IS NOT NULL AND id >> 16 > 1 AND action = 1 AND content != x'02'"
        sql = f"SELECT rowid FROM {table} {f'WHERE {where}' if table == 'versions' else ''} ORDER BY rowid"
        rows = [row for (row,) in connection.execute(sql)]
    return [rows[0], rows[-1], *seeded(len(column)).sample(rows[1:-1], count)][-count - 1 :]


def _edits(kept: Kept, folder: Path, table: str, rows: int, figures: Figures) -> None:
    count = 0
    for column, values in EDITS[table].items():
        for rowid in _rowids(kept, table, column, rows):
            value = values[count % len(values)]
            path = kept.copy(folder / f"{table}-{count}")
            tamper(path, _update(table, column, value, f"rowid = {rowid}"))
            count += 1
            # Now and then all of it is read, because it must come to its end.
            told = _told(path, None if count % 10 == 0 else 1)

            assert told, f"{table}.{column} = {value!r} in row {rowid}"
            shutil.rmtree(path.parent)
    figures(PROOF, edited_columns=count)


@pytest.mark.parametrize("table", EDITS)
def test_every_column_of_every_table_counts(
    kept: Kept, ram_folder: Path, table: str, figures: Figures
) -> None:
    _edits(kept, ram_folder, table, FAST_ROWS, figures)


@pytest.mark.slow
@pytest.mark.parametrize("table", EDITS)
def test_every_column_of_many_rows_counts(kept: Kept, ram_folder: Path, table: str, figures: Figures) -> None:
    _edits(kept, ram_folder, table, SLOW_ROWS, figures)


@pytest.mark.parametrize("seq", [1, 2, 333, 999])
def test_a_deleted_entry_is_named(kept: Kept, ram_folder: Path, seq: int) -> None:
    path = kept.copy(ram_folder / "copy")
    tamper(path, f"DELETE FROM ledger WHERE seq = {seq}")
    with problems_at(path) as problems:
        assert first_break(problems)[1] == seq


@pytest.mark.parametrize("snapshot", [1, 77, 350])
@pytest.mark.parametrize("table", ["commits", "versions"])
def test_deleted_commits_and_records_are_told(
    kept: Kept, ram_folder: Path, table: str, snapshot: int
) -> None:
    path = kept.copy(ram_folder / "copy")
    column = "memory_snapshot_id" if table == "commits" else "id >> 16"
    tamper(path, f"DELETE FROM {table} WHERE {column} = {snapshot}")
    told = " ".join(_told(path))

    assert f"snapshot {snapshot} " in told
    assert (
        "is missing" if table == "commits" else "its records do not match its payload fingerprint"
    ) in told


@pytest.mark.parametrize(("one", "other"), [(1, 2), (500, 501), (3, 998), (999, 1_000)])
def test_two_entries_that_changed_places_are_named(
    kept: Kept, ram_folder: Path, one: int, other: int
) -> None:
    path = kept.copy(ram_folder / "copy", without=("-files/head",))
    left, right = kept.entries[one - 1], kept.entries[other - 1]

    def swap(connection: apsw.Connection) -> None:
        for seq, entry in ((one, right), (other, left)):
            change = "UPDATE ledger SET content = ?, hash = ? WHERE seq = ?"
            connection.execute(change, (packed(entry.content), bytes.fromhex(entry.hash), seq))

    tamper(path, swap)
    with problems_at(path) as problems:
        assert first_break(problems)[1] == one


@pytest.mark.parametrize(
    "columns", [("content",), ("fingerprint", "content"), ("key",), ("namespace", "key")]
)
def test_two_records_that_changed_places_are_told(
    kept: Kept, ram_folder: Path, columns: tuple[str, ...]
) -> None:
    path = kept.copy(ram_folder / "copy")

    def swap(connection: apsw.Connection) -> None:
        picked = ", ".join(columns)
        sql = (
            f"SELECT rowid, {picked} FROM versions WHERE content IS NOT NULL AND key LIKE 'LEDGER/%' ORDER BY"
            " rowid"
        )
        (one, *first), *_, (other, *last) = connection.execute(sql).fetchall()
        if "namespace" in columns:
            first[0], last[0] = "a", "b"
        connection.execute("DROP INDEX versions_by_place")
        for rowid, values in ((one, last), (other, first)):
            setting = ", ".join(f"{column} = ?" for column in columns)
            connection.execute(f"UPDATE versions SET {setting} WHERE rowid = ?", (*values, rowid))
        connection.execute("CREATE INDEX versions_by_place ON versions (namespace, key)")

    tamper(path, swap)
    assert _told(path, 1)


def test_a_fact_that_looks_like_an_erasure_is_none() -> None:
    body: dict[str, Any] = {
        "namespace": "default",
        "key": "LEDGER/shared//m-1",
        "memory_snapshot_id": 2,
        "until": 1,
    }
    entries = [
        extend(
            Tip(), kind=kind, at="2026-01-01T00:00:00.000000Z", body={**body, "cites": {"kind": "erasure"}}
        )
        for kind in ("note", ERASURE_KIND)
    ]

    assert list(erasures_in(entries)) == [Erasure(**body)]
