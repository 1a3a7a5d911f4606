"""Facts: what the ledger is told beside the commits, in the same transaction or alone."""

import pytest

from standfast.errors import CommitAborted, InvalidValue, PayloadMismatch
from standfast.limits import MAX_DEPTH_LEVELS
from standfast.store.audit import _fact_in
from standfast.store.commit import Commit, Fact
from standfast.store.store import Store
from tests.raising import raises_code
from tests.store.builders import commit, memory_store, merge, write

JUDGED = Fact.of("judgement", {"verdict": "SEAL", "score": 1.0})
SEALED = Fact.of("approval", {"who": "alice"})


def test_facts_stand_right_before_their_commit_and_name_it(store: Store) -> None:
    receipt = store.commit(commit("r1", write("a"), facts=[JUDGED, SEALED]))
    told = [entry.read() for entry in store.entries()]

    assert [entry["kind"] for entry in told] == ["judgement", "approval", "commit"]
    assert [entry["body"]["commit_id"] for entry in told] == [receipt.commit_id] * 3
    assert told[0]["body"]["told"] == {"verdict": "SEAL", "score": 1}
    assert receipt.ledger_seq == 3
    assert list(store.verify()) == []


def test_a_refused_commit_tells_nothing(store: Store) -> None:
    with pytest.raises(CommitAborted):
        store.commit(commit("r1", merge("nothing there"), facts=[JUDGED]))

    assert list(store.entries()) == []


def test_facts_belong_to_the_payload(store: Store) -> None:
    store.commit(commit("r1", write("a"), facts=[JUDGED]))

    assert store.commit(commit("r1", write("a"), facts=[JUDGED])).replayed
    with pytest.raises(PayloadMismatch):
        store.commit(commit("r1", write("a"), facts=[SEALED]))
    with pytest.raises(PayloadMismatch):
        store.commit(commit("r1", write("a")))


def test_a_staged_commit_keeps_its_facts(store: Store) -> None:
    staged = commit("r1", write("a"), facts=[JUDGED])
    buffer = store.stage(staged)

    assert Commit.from_bytes(buffer.content or b"") == staged
    store.commit(staged, fence=buffer.fence)
    assert [entry.read()["kind"] for entry in store.entries()] == ["judgement", "commit"]


def test_a_fact_alone_is_one_entry_between_commits(store: Store) -> None:
    store.commit(commit("r1", write("a")))
    entry = store.append_fact(Fact.of("access", {"refused": "POST /v1/records"}))
    store.commit(commit("r2", write("b"), at=1, facts=[JUDGED]))

    assert entry.seq == 2
    assert store.head() == 2
    assert [e.read()["kind"] for e in store.entries()] == ["commit", "access", "judgement", "commit"]
    assert list(store.verify()) == []


def test_verifying_reads_a_fact_as_parsing_does(store: Store) -> None:
    tricky = {"a": '},"kind":"x","previous":"', "b": {"kind": "y", "told": [1.5, {"told": None}]}, "é": "\\"}
    store.commit(commit("r1", write("a"), facts=[JUDGED, Fact.of("judgement", tricky)]))
    store.commit(commit("r2", merge("a", 2, erases="a request"), at=1, facts=[Fact.of("with space", tricky)]))
    entries = list(store.entries())
    cut = [_fact_in(entry) for entry in entries]
    parsed = [Fact.of("judgement", entries[place].read()["body"]["told"]) for place in (0, 1)]

    assert cut == [*parsed, None, None, None, None]
    assert list(store.verify()) == []


def test_a_fact_that_its_entry_could_not_hold_is_refused_at_once() -> None:
    body: dict[str, object] = {}
    for _ in range(MAX_DEPTH_LEVELS - 2):
        body = {"in": body}

    with raises_code("canon_depth"):
        Fact.of("judgement", body)


@pytest.mark.parametrize("kind", ["commit", "erasure"])
def test_nobody_can_tell_the_ledger_of_a_commit_that_was_none(kind: str) -> None:
    with pytest.raises(InvalidValue, match="reserved for the store"):
        Fact.of(kind, {})


def test_a_copy_holds_the_facts_behind_the_last_commit_too(store: Store) -> None:
    target = memory_store()
    store.commit(commit("r1", write("a"), facts=[JUDGED]))
    store.append_fact(SEALED)
    store.backup_to(target)
    store.append_fact(JUDGED)
    store.commit(commit("r2", write("b"), at=1))
    store.backup_to(target)

    assert [e.hash for e in target.entries()] == [e.hash for e in store.entries()]
    assert list(target.verify()) == []


def test_reading_by_prefix_keeps_to_it(store: Store) -> None:
    store.commit(commit("r1", *(write(key) for key in ("LEDGER/a", "LEDGER/b", "VAULT/a", "a", "z"))))

    assert [v.key for v in store.scan("tests", prefix="LEDGER/")] == ["LEDGER/a", "LEDGER/b"]
    assert [v.key for v in store.scan("tests", prefix="LEDGER/", after="LEDGER/a")] == ["LEDGER/b"]
    assert [v.key for v in store.scan("tests", prefix="nothing/")] == []
