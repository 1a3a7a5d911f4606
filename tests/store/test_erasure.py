"""Erasing: the content goes, and everything that was ever proved of it can still be proved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from standfast.errors import CommitAborted, Corruption, StoreFailed
from standfast.records.vocabulary import ActionType
from standfast.store import audit
from standfast.store.commit import Commit, Write
from standfast.store.pipeline import Submission
from standfast.store.protocol import VersionQuery
from standfast.store.store import Store
from tests.store.builders import (
    NAMESPACE,
    commit,
    contents,
    erase,
    expire,
    memory_store,
    merge,
    sqlite_store,
    vector,
    with_vectors,
    write,
)
from tests.store.conftest import Opener

SECRET = "the launch code is 0000-swordfish"


def _erased(store: Store) -> Store:
    store.commit(commit("r1", write("a", SECRET), write("b", "stays")))
    store.commit(commit("r2", merge("a", SECRET + " still"), at=1))
    store.commit(commit("r3", expire("a", erases="past 90 days"), at=2))
    return store


def test_erased_content_is_gone_from_every_snapshot_and_everything_still_verifies(store: Store) -> None:
    _erased(store)

    assert [contents(store, at=at) for at in (1, 2, 3)] == [{"b": '"stays"'}] * 3
    assert [(v.content, v.erased_by) for v in store.history(NAMESPACE, "a")] == [
        (None, 3),
        (None, 3),
        (None, None),
    ]
    assert all(v.fingerprint for v in store.history(NAMESPACE, "a")[:2])
    assert list(store.verify()) == []


def test_a_new_version_can_take_the_place_of_what_it_erases(store: Store) -> None:
    store.commit(commit("r1", write("a", SECRET)))
    store.commit(commit("r2", merge("a", "a tombstone", erases="asked for"), at=1))

    assert contents(store) == {"a": '"a tombstone"'}
    assert contents(store, at=1) == {}
    assert list(store.verify()) == []


def test_the_ledger_tells_what_was_erased_and_why(store: Store) -> None:
    told = [entry.read() for entry in _erased(store).entries()]

    assert [entry["kind"] for entry in told] == ["commit", "commit", "erasure", "commit"]
    assert told[2]["body"]["reason"] == "past 90 days"
    assert (told[2]["body"]["namespace"], told[2]["body"]["key"]) == (NAMESPACE, "a")
    assert told[2]["body"]["commit_id"] == told[3]["body"]["commit_id"]


def test_an_erasing_commit_submitted_again_changes_nothing(store: Store) -> None:
    store.commit(commit("r1", write("a", SECRET)))
    erasing = commit("r2", expire("a", erases="asked for"), at=1)
    first = store.commit(erasing)
    again = store.commit(erasing)

    assert (again.replayed, again.ledger_hash) == (True, first.ledger_hash)
    assert store.head() == 2


def test_the_same_change_without_the_erasure_is_another_payload() -> None:
    plain, erasing = commit("r", expire("a"), at=1), commit("r", expire("a", erases="why"), at=1)

    assert plain.payload_fingerprint != erasing.payload_fingerprint
    assert Commit.from_bytes(erasing.as_bytes()) == erasing


def test_an_erasure_whose_record_changed_meanwhile_erases_nothing(store: Store) -> None:
    store.commit(commit("r1", write("a", SECRET)))
    store.commit(commit("r2", merge("a", "newer"), at=1))
    with pytest.raises(Exception, match="the record changed in 2"):
        store.commit(commit("r3", expire("a", erases="late"), at=1))

    assert contents(store) == {"a": '"newer"'}
    assert contents(store, at=1) == {"a": f'"{SECRET}"'}


def test_what_has_ended_can_be_ended_again_to_erase_it(store: Store) -> None:
    store.commit(commit("r1", write("a", SECRET)))
    store.commit(commit("r2", expire("a"), at=1))
    assert contents(store, at=1) == {"a": f'"{SECRET}"'}
    store.commit(commit("r3", expire("a", erases="asked for"), at=2))

    assert [contents(store, at=at) for at in (1, 2, 3)] == [{}] * 3
    assert list(store.verify()) == []


def test_what_has_ended_is_not_ended_again_for_nothing(store: Store) -> None:
    store.commit(commit("r1", write("a", SECRET)))
    store.commit(commit("r2", expire("a"), at=1))
    for again in (expire("a"), merge("a", "more", erases="asked for")):
        with pytest.raises(CommitAborted, match="expired in snapshot 2"):
            store.commit(commit(f"r3-{again.action}", again, at=2))


def test_what_begins_anew_can_erase_what_ended_there(store: Store) -> None:
    store.commit(commit("r1", write("a", SECRET)))
    store.commit(commit("r2", expire("a"), at=1))
    store.commit(
        commit("r3", Write.of(NAMESPACE, "a", ActionType.WRITE, "a new life", erases="asked for"), at=2)
    )

    assert [contents(store, at=at) for at in (1, 2, 3)] == [{}, {}, {"a": '"a new life"'}]
    assert list(store.verify()) == []


def test_an_erasure_by_version_takes_what_is_older_and_leaves_what_is_newer(store: Store) -> None:
    store.commit(commit("r1", write("a", SECRET), write("b", "old"), write("c", SECRET)))
    store.commit(with_vectors("r2", merge("a", "newer"), vectors=[vector("a", 2)], at=1))
    store.commit(commit("r3", erase("a", until=1), erase("b", until=1), erase("c", until=0), at=1))

    assert contents(store) == {"a": '"newer"', "c": f'"{SECRET}"'}
    assert contents(store, at=1) == {"c": f'"{SECRET}"'}
    assert [(v.content, v.erased_by) for v in store.history(NAMESPACE, "a")] == [
        (None, 3),
        (b'"newer"', None),
    ]
    assert [v.action for v in store.history(NAMESPACE, "b")] == [ActionType.WRITE, ActionType.EXPIRE]
    assert [one.key for one in store.vectors(NAMESPACE)] == ["a"]
    assert list(store.verify()) == []


def test_an_erasure_by_version_never_conflicts_and_what_it_left_can_be_changed(store: Store) -> None:
    store.commit(commit("r1", write("a", SECRET)))
    late = commit("late", erase("a", until=1), at=1)
    store.commit(commit("r2", merge("a", "newer"), at=1))
    receipt = store.commit(late)
    store.commit(commit("r4", merge("a", "newest"), at=2))

    assert contents(store) == {"a": '"newest"'}
    assert contents(store, at=receipt.memory_snapshot_id) == {"a": '"newer"'}
    assert store.commit(late).replayed
    assert list(store.verify()) == []


def test_two_erasures_by_version_of_one_record_in_one_transaction(store: Store) -> None:
    """Each version is emptied by the first that reaches it."""
    store.commit(commit("r1", write("a", SECRET)))
    store.commit(commit("r2", merge("a", SECRET + " again"), at=1))
    store.commit(commit("r3", merge("a", "newer"), at=2))
    pages = [commit("e1", erase("a", until=1), at=3), commit("e2", erase("a", until=2), at=3)]
    store._commit_batch([Submission(one) for one in pages])

    assert [v.erased_by for v in store.history(NAMESPACE, "a")] == [4, 5, None]
    assert list(store.verify()) == []


def test_a_copy_takes_over_erasures_by_version(store: Store) -> None:
    target, fresh = memory_store(), memory_store()
    store.commit(commit("r1", write("a", SECRET), write("b")))
    store.backup_to(target)
    store.commit(commit("r2", merge("a", "newer"), at=1))
    store.commit(commit("r3", erase("a", until=1), erase("b", until=1), at=1))
    store.backup_to(target)
    store.backup_to(fresh)

    for copy in (target, fresh):
        assert copy.history(NAMESPACE, "a") == store.history(NAMESPACE, "a")
        assert contents(copy) == {"a": '"newer"'}
        assert list(copy.verify()) == []


def test_a_missing_row_of_an_erasure_by_version_is_found() -> None:
    """Only an erasure that left a newer version has no row of its own."""
    store = memory_store()
    store.commit(commit("r1", write("a", SECRET)))
    store.commit(commit("r2", erase("a", until=1), at=1))
    store._storage._versions[NAMESPACE, "a"].pop()  # type: ignore[attr-defined]  # Damage on purpose.
    store._storage._written[1].clear()  # type: ignore[attr-defined]  # As above.

    assert any("do not match its payload fingerprint" in problem for problem in store.verify())


@pytest.mark.usefixtures("plain_contents")
def test_erased_bytes_are_nowhere_in_the_files(tmp_path: Path) -> None:
    big = SECRET * 500
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("a", big), *(write(f"k{n}", f"filler {n}") for n in range(50))))
    store.commit(commit("r2", expire("a", erases="asked for"), at=1))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    found = [path.name for path in files if b"swordfish" in path.read_bytes()]

    assert found == []
    assert list(store.verify()) == []
    store.close()


def test_a_copy_that_was_made_before_an_erasure_is_erased_when_it_is_brought_up_to_date(store: Store) -> None:
    target = memory_store()
    store.commit(commit("r1", write("a", SECRET), write("b")))
    store.backup_to(target)
    store.commit(commit("r2", expire("a", erases="asked for"), at=1))
    store.backup_to(target)

    assert contents(target, at=1) == {"b": '"x"'}
    assert list(target.verify()) == []
    assert [e.hash for e in target.entries()] == [e.hash for e in store.entries()]


def test_a_fresh_copy_of_an_erased_store_verifies(store: Store) -> None:
    target = memory_store()
    _erased(store).backup_to(target)

    assert list(target.verify()) == []
    assert target.history(NAMESPACE, "a") == store.history(NAMESPACE, "a")


def test_content_that_was_emptied_by_hand_is_an_error_and_not_an_absence(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("a", SECRET)))
    hand = store._storage.begin()  # type: ignore[attr-defined]  # The very connection that may write.
    hand.execute("ROLLBACK; DROP TRIGGER versions_never_change; UPDATE versions SET content = NULL")
    store._storage._lock.release()  # type: ignore[attr-defined]  # As above.

    with pytest.raises(Corruption):
        store.read(NAMESPACE, ["a"])
    store.close()


def test_reopening_finds_what_was_erased_still_erased(opener: Opener) -> None:
    _erased(opener())
    again = opener()

    assert contents(again, at=1) == {"b": '"stays"'}
    assert list(again.verify()) == []


class _Beside:
    """A storage beside which something happens before each read."""

    def __init__(self, store: Store, happens: Callable[[str, tuple[Any, ...]], None]) -> None:
        self._storage = store._storage
        self._happens = happens

    def __getattr__(self, name: str) -> Any:
        if not callable(value := getattr(self._storage, name)):
            return value

        def read(*args: Any, **named: Any) -> Any:
            self._happens(name, args)
            return getattr(self._storage, name)(*args, **named)

        return read


def _problems(storage: Any) -> list[str]:
    return list(audit.problems_of(storage, [], [], rebuild_indexes=False))


@pytest.mark.parametrize("quiet_reads", [0, 2, 5, 7, 9, 12, 16, 20])
def test_a_store_is_verified_while_others_write_and_erase(
    quiet_reads: int, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer adds, changes and erases between any two reads, from one of them on."""
    monkeypatch.setattr(audit, "SCAN_PAGE_RECORDS", 8)
    store, writer = opener(), opener()
    for number in range(12):
        key = f"k{number}"
        store.commit(with_vectors(f"r{number}", write(key), vectors=[vector(key, number)], at=number))
    reads = 0

    def write_on(*_: object) -> None:
        nonlocal reads
        reads += 1
        number = reads - quiet_reads
        if 0 < number <= 24:
            old, change = f"k{11 - number // 2}", (write, expire, write, merge)[number % 4]
            new = (
                expire(old, erases="asked for")
                if change is expire
                else change(old if number % 2 else f"n{number}")
            )
            writer.commit(commit(f"w{number}", new, at=writer.head()))

    assert _problems(_Beside(store, write_on)) == []
    assert reads > quiet_reads
    assert _problems(store._storage) == []


def test_the_versions_of_many_small_commits_are_read_together_and_those_of_a_large_one_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "SCAN_PAGE_RECORDS", 40)
    for number in range(100):
        rows = 45 if number in (50, 51) else 1
        writes = [write(f"k{number}/{row}") for row in range(rows)]
        store.commit(commit(f"r{number}", *writes, at=number))
    asked: list[VersionQuery] = []

    def note(name: str, args: tuple[Any, ...]) -> None:
        asked.extend(args if name == "versions" else ())

    assert _problems(_Beside(store, note)) == []
    assert len(asked) < 30
    assert {51, 52} <= {query.snapshot for query in asked}


def test_a_version_that_cannot_be_read_is_told_of_its_own_commit(store: Store) -> None:
    for number in range(20):
        store.commit(commit(f"r{number}", write(f"k{number}"), at=number))

    def fail(name: str, args: tuple[Any, ...]) -> None:
        if name == "versions":
            query: VersionQuery = args[0]
            is_read = query.snapshot == 14 or (query.since or 99) < 14 <= (query.at or 0)
            if is_read:
                raise StoreFailed(problem="the row can't be read")

    (problem,) = _problems(_Beside(store, fail))

    assert problem.startswith("snapshot 14 ")
