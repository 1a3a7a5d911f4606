"""Vectors: stored with the commit, shown as of each snapshot, gone with what they belong to."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from standfast.clock import CountedIds, ManualClock
from standfast.errors import Corruption
from standfast.store.protocol import Changes, Vector
from standfast.store.sqlite import SQLiteStorage
from standfast.store.store import Store
from tests.store.builders import (
    NAMESPACE,
    commit,
    expire,
    memory_store,
    merge,
    sqlite_store,
    vector,
    with_vectors,
    write,
)
from tests.store.conftest import Ager, Opener


def shown(store: Store, at: int) -> dict[str, int]:
    """The first byte of each vector that a snapshot shows."""
    return {
        one.key: one.content[0]
        for one in store.vectors(NAMESPACE)
        if one.since <= at and (one.ended is None or at < one.ended)
    }


def _history(store: Store) -> None:
    store.commit(with_vectors("r1", write("a"), write("b"), vectors=[vector("a", 1), vector("b", 2)]))
    store.commit(with_vectors("r2", merge("a", "new"), vectors=[vector("a", 3)], at=1))
    store.commit(commit("r3", merge("b", "without"), at=2))
    store.commit(with_vectors("r4", write("c"), vectors=[vector("b", 4, of_snapshot=3)], at=3))


def test_each_snapshot_shows_the_vectors_of_its_versions(store: Store) -> None:
    _history(store)

    assert [shown(store, at) for at in range(5)] == [
        {},
        {"a": 1, "b": 2},
        {"a": 3, "b": 2},
        {"a": 3},
        {"a": 3, "b": 4},
    ]
    assert [one.key for one in store.vectors_between(NAMESPACE, 4, 4)] == ["b"]
    assert list(store.verify()) == []


def test_a_vector_is_no_part_of_the_commit_that_stores_it(store: Store) -> None:
    first = store.commit(with_vectors("r1", write("a"), vectors=[vector("a", 1)]))
    again = store.commit(with_vectors("r1", write("a"), vectors=[vector("a", 9)]))

    assert again.replayed
    assert again.payload_fingerprint == first.payload_fingerprint
    assert shown(store, 1) == {"a": 1}


def test_erasing_a_record_takes_its_vectors_of_every_snapshot(store: Store) -> None:
    _history(store)
    store.commit(commit("r5", expire("a", erases="asked for"), at=4))
    store.commit(with_vectors("r6", merge("b", "z", erases="asked for"), vectors=[vector("b", 5)], at=5))

    assert [shown(store, at) for at in range(1, 7)] == [{}] * 5 + [{"b": 5}]
    assert list(store.verify()) == []


def test_a_vector_for_what_changed_or_went_meanwhile_is_left_out(store: Store) -> None:
    store.commit(commit("r1", write("a"), write("b"), write("c")))
    store.commit(commit("r2", merge("a", "new"), expire("b", erases="asked for"), at=1))
    late = [vector("a", 1, of_snapshot=1), vector("b", 2, of_snapshot=1), vector("c", 3, of_snapshot=1)]
    store.commit(with_vectors("r3", write("d"), vectors=late, at=1))

    assert shown(store, 3) == {"c": 3}
    assert list(store.verify()) == []


def test_a_staged_commit_keeps_its_vectors(store: Store, age_leases: Ager) -> None:
    store.stage(with_vectors("r1", write("a"), vectors=[vector("a", 7)]))
    age_leases(60)
    store.recover()

    assert shown(store, 1) == {"a": 7}


def test_a_backup_has_the_vectors_also_when_it_is_brought_up_to_date(store: Store) -> None:
    target = memory_store()
    store.commit(with_vectors("r1", write("a"), write("b"), vectors=[vector("a", 1), vector("b", 2)]))
    store.backup_to(target)
    store.commit(with_vectors("r2", merge("a", "new"), vectors=[vector("a", 3)], at=1))
    store.commit(commit("r3", expire("b", erases="asked for"), at=2))
    store.backup_to(target)

    assert list(target.vectors(NAMESPACE)) == list(store.vectors(NAMESPACE))
    assert [shown(target, at) for at in (1, 2, 3)] == [{"a": 1}, {"a": 3}, {"a": 3}]
    assert list(target.verify()) == []


def test_vectors_are_there_after_a_restart_and_namespaces_are_apart(opener: Opener) -> None:
    _history(opener())

    assert shown(opener(), 4) == {"a": 3, "b": 4}
    assert list(opener().vectors("others")) == []


def test_an_embedder_of_a_commit_that_failed_is_known_to_none(tmp_path: Path) -> None:
    clock, ids = ManualClock(), CountedIds()
    storage = SQLiteStorage(str(tmp_path / "store.db"), clock=clock, ids=ids)
    store = Store(storage, clock=clock, ids=ids, any_rows=True)
    store.commit(commit("r1", write("a")))
    with pytest.raises(KeyboardInterrupt):
        _interrupt(storage, Vector(NAMESPACE, "a", 1, "tests/2", 1, vector("a", 1).content))
    of_another = replace(vector("b", 3), embedder="tests/2")
    store.commit(with_vectors("r2", write("b"), vectors=[vector("b", 2)], at=1))
    store.commit(with_vectors("r3", merge("b", "new"), vectors=[of_another], at=2))

    assert [(one.embedder, one.content[0]) for one in store.vectors(NAMESPACE)] == [
        ("tests/1", 2),
        ("tests/2", 3),
    ]
    assert list(store.verify()) == []
    store.close()


def _interrupt(storage: SQLiteStorage, vector: Vector) -> None:
    with storage.transaction() as transaction:
        transaction.append(Changes(vectors=[vector]))
        raise KeyboardInterrupt


def test_vectors_of_several_embedders_are_read_in_order(store: Store) -> None:
    both = [replace(vector("a", number), embedder=f"tests/{number}") for number in (2, 1)]
    store.commit(with_vectors("r1", write("b"), write("a"), vectors=[*both, vector("b", 3)]))

    found = [(one.key, one.embedder, one.content[0]) for one in store.vectors(NAMESPACE)]
    assert found == [("a", "tests/1", 1), ("a", "tests/2", 2), ("b", "tests/1", 3)]
    assert store.vectors_between(NAMESPACE, 1, 1) == list(store.vectors(NAMESPACE))


def test_a_vector_with_a_turned_bit_is_refused_and_named(tmp_path: Path) -> None:
    import apsw

    path = tmp_path / "store.db"
    store = sqlite_store(path)
    store.commit(with_vectors("r1", write("a"), vectors=[vector("a", 1)]))
    store.close()
    apsw.Connection(str(path), vfs="cksmvfs").execute("UPDATE vectors SET content = x'010101FF'")

    damaged = sqlite_store(path)
    with pytest.raises(Corruption):
        list(damaged.vectors(NAMESPACE))
    assert any("checksum" in problem for problem in damaged.verify())
    damaged.close()


_FOR_ERASED = (
    "INSERT INTO vectors SELECT id, 1, 5, (SELECT content FROM vectors), 5 FROM versions"
    " WHERE key = 'b' AND id >> 16 = 3"
)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("UPDATE vectors SET ended = 2 WHERE version >> 16 = 3", "tests/b in snapshot 3: it ends with"),
        ("UPDATE vectors SET ended = NULL WHERE ended = 2", "tests/a in snapshot 1: it ends with"),
        ("UPDATE vectors SET ended = 4 WHERE ended = 2", "tests/a in snapshot 1: it ends with"),
        (_FOR_ERASED, "tests/b in snapshot 3: there is no content"),
        (
            "UPDATE vectors SET version = 9 WHERE ended = 2",
            "of vectors refers to a row of versions",
        ),
    ],
)
def test_a_vector_that_does_not_fit_its_version_is_named(tmp_path: Path, change: str, problem: str) -> None:
    import apsw

    store = sqlite_store(tmp_path / "store.db")
    store.commit(with_vectors("r1", write("a"), write("b"), vectors=[vector("a", 1), vector("b", 2)]))
    store.commit(with_vectors("r2", merge("a", "new"), vectors=[vector("a", 3)], at=1))
    store.commit(with_vectors("r3", merge("b", "new"), vectors=[vector("b", 4)], at=2))
    if change == _FOR_ERASED:
        store.commit(commit("r4", write("c"), at=3))
        store.commit(commit("r5", expire("b", erases="asked for"), at=4))
    assert list(store.verify()) == []
    with apsw.Connection(str(tmp_path / "store.db"), vfs="cksmvfs") as intruder:
        intruder.execute(change)

    assert any(problem in found for found in store.verify())
    store.close()


def _all_bytes(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in folder.rglob("*") if one.is_file())


def test_no_byte_of_an_erased_vector_stays_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = sqlite_store(path)
    store.commit(with_vectors("r1", write("a"), write("b"), vectors=[vector("a", 0xA7), vector("b", 2)]))
    assert bytes([0xA7]) * 8 in _all_bytes(tmp_path)
    store.commit(commit("r2", expire("a", erases="asked for"), at=1))
    store.close()

    assert bytes([0xA7]) * 8 not in _all_bytes(tmp_path)
