"""Copies of stores."""

import threading
from pathlib import Path

import pytest

from standfast.errors import CannotOpen, Corruption
from standfast.limits import COPY_PAGE_RECORDS, SCAN_PAGE_RECORDS
from standfast.store import backup
from standfast.store.commit import Fact
from standfast.store.opening import open_store
from standfast.store.protocol import Version, VersionQuery
from standfast.store.restore import restore_copy
from standfast.store.store import Store
from tests.store.builders import NAMESPACE, commit, contents, expire, memory_store, merge, sqlite_store, write

RECORDS = [{"memory_id": f"m{n}", "text": f"fact {n} — ü", "tags": ["a"], "score": n / 3} for n in range(5)]


def _filled() -> Store:
    store = memory_store()
    store.commit(
        commit(
            "r1",
            *(write(f"LEDGER/shared//{r['memory_id']}", r) for r in RECORDS),
            write("other", [1, {"x": None}]),
        )
    )
    store.commit(
        commit(
            "r2",
            merge("LEDGER/shared//m1", RECORDS[1] | {"text": "changed"}),
            expire("LEDGER/shared//m2"),
            at=1,
        )
    )
    return store


def _fingerprints(store: Store) -> dict[str, str | None]:
    return {version.key: version.fingerprint for version in store.scan(NAMESPACE)}


def test_a_copy_is_the_same_store(tmp_path: Path, store: Store) -> None:
    source = _filled()
    source.backup_to(store)

    assert store.head() == source.head()
    assert [contents(store, at) for at in range(3)] == [contents(source, at) for at in range(3)]
    assert list(store.verify()) == []
    assert store._storage.entries(after=0, limit=9) == source._storage.entries(after=0, limit=9)


def test_a_copy_can_be_brought_up_to_date_and_used_further(store: Store) -> None:
    source = _filled()
    source.backup_to(store)
    source.commit(commit("r3", write("later"), at=2))
    source.backup_to(store)

    assert contents(store) == contents(source)
    assert store.commit(commit("r4", write("own"), at=3)).memory_snapshot_id == 4


def test_facts_that_belong_to_no_commit_are_copied_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup, "SCAN_PAGE_RECORDS", 2)
    source = _filled()
    for number in range(5):
        source.append_fact(Fact.of("note", {"number": number}))
    before = source._storage.entries(after=0, limit=99)
    source.backup_to(store)

    assert store._storage.entries(after=0, limit=99) == source._storage.entries(after=0, limit=99) == before
    source.append_fact(Fact.of("note", {"number": 5}))
    source.commit(commit("r3", write("later"), at=2))
    source.append_fact(Fact.of("note", {"number": 6}))
    source.backup_to(store)
    source.backup_to(store)
    assert store._storage.entries(after=0, limit=99) == source._storage.entries(after=0, limit=99)
    assert list(store.verify()) == []


def test_another_store_is_not_copied_over(store: Store) -> None:
    store.commit(commit("r1", write("mine")))
    with pytest.raises(Corruption, match="another store"):
        _filled().backup_to(store)

    assert list(contents(store)) == ["mine"]


def test_a_copy_is_of_one_moment_while_writers_go_on(tmp_path: Path) -> None:
    source, target = sqlite_store(tmp_path / "source.db"), sqlite_store(tmp_path / "target.db")
    stop = threading.Event()

    def keep_writing() -> None:
        number = 0
        while not stop.is_set():
            source.commit(commit(f"w{number}", write(f"k{number}"), at=0))
            number += 1

    writer = threading.Thread(target=keep_writing)
    writer.start()
    try:
        while source.head() < 50:
            pass
        heads = [source.backup_to(target) for _ in range(5)]
    finally:
        stop.set()
        writer.join()

    assert heads == sorted(heads)
    assert contents(target) == contents(source, heads[-1])
    assert list(target.verify()) == []
    source.close()
    target.close()


def test_a_copy_has_the_identity_of_its_source(store: Store) -> None:
    source = _filled()
    source.backup_to(store)

    assert store.identity == source.identity


def test_a_store_that_forgot_is_copied_in_more_than_one_page(tmp_path: Path, store: Store) -> None:
    source = sqlite_store(tmp_path / "source.db")
    count = SCAN_PAGE_RECORDS + 50
    for number in range(count):
        source.commit(commit(f"w{number}", write(f"k{number}")))
    source.commit(
        commit("forget", *(expire(f"k{n}", erases="asked to") for n in range(0, count, 7)), at=count)
    )
    source.backup_to(store)

    assert list(store.verify()) == []
    assert contents(store) == contents(source)
    assert store.versions_of(1) == source.versions_of(1)
    source.close()


def test_what_was_erased_since_the_last_copy_is_erased_in_the_copy_too(store: Store) -> None:
    source = memory_store()
    source.commit(commit("w", write("old", "secret"), write("kept")))
    source.backup_to(store)
    source.commit(commit("forget", expire("old", erases="asked to"), at=1))
    source.backup_to(store)

    assert [version.content for version in store.history(NAMESPACE, "old")] == [None, None]
    assert list(store.verify()) == []


def test_a_copy_beside_a_writer_that_forgets_is_intact(tmp_path: Path) -> None:
    source, target = sqlite_store(tmp_path / "source.db"), sqlite_store(tmp_path / "target.db")
    for number in range(300):
        source.commit(commit(f"w{number}", write(f"k{number}")))

    source_storage = source._storage
    read_versions = source_storage.versions

    def read_and_forget(query: VersionQuery) -> list[Version]:
        # A writer forgets something between any two reads of the copy, for as long as there is something.
        if query.snapshot is not None and query.snapshot % 3 == 0 and query.snapshot <= 300:
            key = 300 - query.snapshot
            at = source.head()
            source.commit(commit(f"f{key}", expire(f"k{key}", erases="asked to"), at=at))
        return read_versions(query)

    source_storage.versions = read_and_forget  # type: ignore[method-assign]
    head = source.backup_to(target)

    assert head > 300
    assert list(target.verify()) == []
    source_storage.versions = read_versions  # type: ignore[method-assign]
    source.backup_to(target)
    assert list(target.verify()) == []
    assert contents(target) == contents(source)
    source.close()
    target.close()


def test_a_copy_reads_a_few_records_at_a_time(store: Store) -> None:
    source = memory_store()
    source.commit(commit("bulk", *(write(f"k{n:05}", n) for n in range(3 * COPY_PAGE_RECORDS))))
    storage, largest = source._storage, [0]
    read_versions = storage.versions

    def read(query: VersionQuery) -> list[Version]:
        rows = read_versions(query)
        largest[0] = max(largest[0], len(rows))
        return rows

    storage.versions = read  # type: ignore[method-assign]
    source.backup_to(store)

    assert largest[0] == COPY_PAGE_RECORDS
    assert contents(store) == contents(source)


def test_a_restore_that_was_interrupted_is_begun_anew(tmp_path: Path) -> None:
    source, place = str(tmp_path / "backup.db"), tmp_path / "store.db"
    copy = open_store(source, create=True)
    copy.commit(commit("r1", write("LEDGER/shared//m0", RECORDS[0])))
    copy.close()
    draft = Path(f"{place}.restoring")
    draft.write_bytes(b"half of something")
    restore_copy(source, str(place))

    assert place.exists()
    assert not draft.exists()
    with pytest.raises(CannotOpen):
        restore_copy(source, str(place))
