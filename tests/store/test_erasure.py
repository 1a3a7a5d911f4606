"""Erasing: the content goes, and everything that was ever proved of it can still be proved."""

from pathlib import Path

import pytest

from standfast.errors import CommitAborted, Corruption
from standfast.store.commit import Commit, Write
from standfast.store.store import Store
from standfast.vocabulary import ActionType
from tests.store.builders import NAMESPACE, commit, contents, expire, memory_store, merge, sqlite_store, write
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


@pytest.mark.usefixtures("plain_contents")
def test_erased_bytes_are_nowhere_in_the_files(tmp_path: Path) -> None:
    big = SECRET * 500
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("a", big), *(write(f"k{n}", f"filler {n}") for n in range(50))))
    store.commit(commit("r2", expire("a", erases="asked for"), at=1))
    found = [path.name for path in tmp_path.iterdir() if b"swordfish" in path.read_bytes()]

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
