"""The decisions of the pipeline, one by one and at their boundaries, without any backend."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from standfast.errors import CommitAborted, InvalidValue, PayloadMismatch, StaleFence
from standfast.ledger.chain import Tip, check
from standfast.limits import (
    LEASE_SECONDS,
    MAX_CLOCK_SKEW_SECONDS,
    MAX_COMMIT_FACTS,
    MAX_COMMIT_WRITES,
    MAX_KEY_CHARS,
)
from standfast.records.canon import fingerprint_of_bytes
from standfast.records.vocabulary import AbortReason, ActionType, BufferState, Receipt
from standfast.store import pipeline
from standfast.store.commit import Commit, Fact, RecordVector, Write, payload_fingerprint_of
from standfast.store.pipeline import Submission
from standfast.store.protocol import AppliedCommit, Buffer, StateView, Version
from tests.store.builders import NAMESPACE, commit, expire, memory_store, merge, write

NOW = 1_800_000_000.0


def _view(*, head: int = 0, latest: dict[str, Version] | None = None, **parts: Any) -> StateView:
    rows: dict[str, Any] = {"applied": {}, "buffers": {}, "tip": Tip(), "now": NOW} | parts
    return StateView(
        head=head,
        latest={(NAMESPACE, key): version for key, version in (latest or {}).items()},
        commit_of=lambda snapshot: f"commit-{snapshot}",
        is_written=lambda *_: False,
        **rows,
    )


def _version(key: str, snapshot: int, action: ActionType, content: bytes | None = b'"x"') -> Version:
    digest = None if content is None else fingerprint_of_bytes(content)
    return Version(NAMESPACE, key, snapshot, action, digest, content)


def _decide(view: StateView, asked: Commit, fence: int | None = None) -> Any:
    changes, (answer,) = pipeline.decide_commits(view, [Submission(asked, fence)])
    return changes, answer


def _buffer(asked: Commit, state: BufferState = BufferState.PENDING, **fields: Any) -> Buffer:
    return Buffer(
        asked.commit_id,
        asked.run_id,
        asked.payload_fingerprint,
        state,
        content=asked.as_bytes(),
        owner="w1",
        fence=3,
        lease_until=NOW + 5,
        **fields,
    )


LIVE = _version("a", 4, ActionType.WRITE)
ENDED = _version("a", 4, ActionType.EXPIRE, None)


@pytest.mark.parametrize(
    ("change", "latest", "start", "problem"),
    [
        (write("a", "y"), None, 0, None),
        (write("a", "y"), ENDED, 0, None),
        (write("a", "x"), LIVE, 0, None),
        (write("a", "y"), LIVE, 9, "another record is there since snapshot 4"),
        (merge("a", "y"), None, 9, "there is no such record"),
        (merge("a", "y"), LIVE, 3, "the run started at snapshot 3, and the record changed in 4"),
        (merge("a", "y"), LIVE, 4, None),
        (merge("a", "y"), LIVE, 5, None),
        (merge("a", "y"), ENDED, 4, "the record expired in snapshot 4"),
        (merge("a", "y", erases="law"), ENDED, 4, "the record expired in snapshot 4"),
        (expire("a"), None, 9, "there is no such record"),
        (expire("a"), LIVE, 3, "the run started at snapshot 3"),
        (expire("a"), LIVE, 4, None),
        (expire("a"), ENDED, 4, "the record expired in snapshot 4"),
        (replace(expire("a"), again=True), ENDED, 4, None),
        (expire("a", erases="law"), ENDED, 4, None),
        (expire("a", erases="law"), ENDED, 3, "the run started at snapshot 3"),
    ],
)
def test_a_write_conflicts_with_the_newest_version_or_not(
    change: Write, latest: Version | None, start: int, problem: str | None
) -> None:
    view = _view(head=9, latest={} if latest is None else {"a": latest})
    changes, answer = _decide(view, commit("r", change, at=start))

    if problem is None:
        assert isinstance(answer, Receipt)
        assert [applied.memory_snapshot_id for applied in changes.applied] == [10]
    else:
        assert isinstance(answer, CommitAborted)
        assert problem in str(answer)
        assert ("(commit commit-4)" in str(answer)) == (latest is not None)
        assert not changes.versions
        assert not changes.applied
        assert not changes.entries


def test_a_run_can_start_at_the_head_and_not_behind_it() -> None:
    at_head, behind = (_decide(_view(head=2), commit("r", write("a"), at=at))[1] for at in (2, 3))

    assert isinstance(at_head, Receipt)
    assert "starts from snapshot 3, but the newest is 2" in str(behind)


def test_a_batch_is_decided_in_order_each_on_top_of_the_one_before() -> None:
    batch = [commit("r1", write("a", 1)), commit("r2", write("a", 2)), commit("r3", write("b"))]
    view = _view()
    changes, answers = pipeline.decide_commits(view, [Submission(one) for one in batch])

    assert [getattr(answer, "memory_snapshot_id", None) for answer in answers] == [1, None, 2]
    assert f"(commit {batch[0].commit_id})" in str(answers[1])
    assert [version.memory_snapshot_id for version in changes.versions] == [1, 2]
    assert [buffer.state for buffer in changes.buffers] == [BufferState.ABORTED]
    assert check(changes.entries) == view.tip == changes.entries[-1].tip
    assert view.head == 2


def test_the_same_commit_twice_in_a_batch_is_applied_once() -> None:
    one = commit("r1", write("a"))
    _, (first, again) = pipeline.decide_commits(_view(), [Submission(one), Submission(one)])

    assert isinstance(first, Receipt)
    assert isinstance(again, Receipt)
    assert not first.replayed
    assert again == msgspec.structs.replace(first, replayed=True)


def test_a_commit_s_ledger_entries_are_its_erasures_its_facts_and_itself() -> None:
    asked = commit(
        "r", expire("a", erases="law"), write("b"), at=4, facts=[Fact.of("one", {"n": 1}), Fact.of("two", {})]
    )
    changes, answer = _decide(_view(head=4, latest={"a": LIVE}, tip=Tip(seq=7, hash="f" * 64)), asked)
    entries = [entry.read() for entry in changes.entries]
    of_commit = {"commit_id": asked.commit_id, "memory_snapshot_id": 5}

    assert [(entry["seq"], entry["kind"]) for entry in entries] == [
        (8, "erasure"),
        (9, "one"),
        (10, "two"),
        (11, "commit"),
    ]
    assert entries[0]["body"] == of_commit | {"namespace": NAMESPACE, "key": "a", "reason": "law"}
    assert entries[1]["body"] == of_commit | {"told": {"n": 1}}
    assert entries[3]["body"] == of_commit | {
        "commit_payload_fingerprint": asked.payload_fingerprint,
        "facts": 3,
        "policy_set_id": "policies",
        "run_id": "r",
        "start_snapshot_id": 4,
        "writes": 2,
    }
    assert (answer.ledger_seq, answer.ledger_hash) == (11, changes.entries[-1].hash)
    assert [(erasure.key, erasure.memory_snapshot_id) for erasure in changes.erasures] == [("a", 5)]
    assert {entry["at"] for entry in entries} == {"2027-01-15T08:00:00.000000Z"} == {answer.committed_at}


def test_a_plain_commit_has_one_entry_that_counts_no_facts() -> None:
    changes, _ = _decide(_view(), commit("r", write("a")))
    (entry,) = changes.entries

    assert "facts" not in entry.read()["body"]


@pytest.mark.parametrize(
    ("state", "fence", "same_payload", "expected"),
    [
        (BufferState.PENDING, 3, True, Receipt),
        (BufferState.PENDING, 2, True, StaleFence),
        (BufferState.PENDING, 4, True, StaleFence),
        (BufferState.PENDING, None, True, StaleFence),
        (BufferState.PENDING, 3, False, PayloadMismatch),
        (BufferState.OPEN, 3, True, Receipt),
        (BufferState.OPEN, 3, False, Receipt),
        (BufferState.OPEN, 2, False, PayloadMismatch),
        (BufferState.OPEN, None, True, StaleFence),
        (BufferState.ABORTED, 3, True, CommitAborted),
        (BufferState.ABORTED, None, True, CommitAborted),
        (BufferState.ABORTED, None, False, PayloadMismatch),
    ],
)
def test_a_staged_commit_is_applied_by_the_holder_of_its_fence_only(
    state: BufferState, fence: int | None, same_payload: bool, expected: type[Any]
) -> None:
    asked = commit("r", write("a", "new"))
    staged = asked if same_payload else commit("r", write("a", "old"))
    reasons = {"reason_code": "policy_rejected", "problem": "no"} if state is BufferState.ABORTED else {}
    view = _view(buffers={asked.commit_id: _buffer(staged, state, **reasons)})
    changes, answer = _decide(view, asked, fence)

    assert type(answer) is expected
    assert changes.dropped == ([asked.commit_id] if expected is Receipt else [])
    if isinstance(answer, CommitAborted):
        assert (answer.facts["reason_code"], answer.facts["problem"]) == ("policy_rejected", "no")


@pytest.mark.parametrize("fence", [None, 3, 4])
def test_a_discarded_commit_can_be_submitted_anew_and_no_old_fence_fits(fence: int | None) -> None:
    asked = commit("r", write("a"))
    _, discarded = pipeline.decide_discard(
        view := _view(buffers={asked.commit_id: _buffer(asked, BufferState.OPEN)}), asked.commit_id, 3
    )
    (vacant,) = pipeline.decide_discard(view, asked.commit_id, 3)[0].buffers
    _, answer = _decide(_view(buffers={asked.commit_id: vacant}), asked, fence)

    assert discarded
    assert (vacant.is_discarded, vacant.fence, vacant.owner, vacant.lease_until) == (True, 4, "", NOW)
    assert isinstance(answer, Receipt if fence is None else StaleFence)


@pytest.mark.parametrize(
    ("fence", "state", "expected"),
    [
        (3, BufferState.OPEN, True),
        (2, BufferState.OPEN, False),
        (4, BufferState.OPEN, False),
        (3, BufferState.PENDING, False),
    ],
)
def test_only_an_open_buffer_of_the_holder_is_discarded(
    fence: int, state: BufferState, expected: bool
) -> None:
    asked = commit("r", write("a"))
    changes, answer = pipeline.decide_discard(
        _view(buffers={asked.commit_id: _buffer(asked, state)}), asked.commit_id, fence
    )

    assert answer is expected
    assert bool(changes) is expected
    assert pipeline.decide_discard(_view(), asked.commit_id, fence)[1] is False


@pytest.mark.parametrize(
    ("lease_until", "waits_for", "state", "claimed"),
    [
        (NOW, None, BufferState.PENDING, True),
        (NOW - 1, None, BufferState.OPEN, True),
        (NOW + 0.001, None, BufferState.PENDING, False),
        (NOW, "approval", BufferState.PENDING, False),
        (NOW, None, BufferState.ABORTED, False),
        (NOW + LEASE_SECONDS + MAX_CLOCK_SKEW_SECONDS, None, BufferState.PENDING, False),
        (NOW + LEASE_SECONDS + MAX_CLOCK_SKEW_SECONDS + 0.001, None, BufferState.PENDING, True),
    ],
)
def test_a_buffer_is_claimed_when_its_lease_has_expired(
    lease_until: float, waits_for: str | None, state: BufferState, claimed: bool
) -> None:
    held = msgspec.structs.replace(
        _buffer(commit("r", write("a")), state), lease_until=lease_until, waits_for=waits_for
    )
    changes, answer = pipeline.decide_claims(_view(buffers={held.commit_id: held}), worker="w2")

    assert changes.buffers == answer
    assert [(one.owner, one.fence, one.lease_until) for one in answer] == (
        [("w2", 4, NOW + LEASE_SECONDS)] if claimed else []
    )


@pytest.mark.parametrize(
    ("fence", "state", "renewed"),
    [
        (3, BufferState.PENDING, True),
        (3, BufferState.OPEN, True),
        (2, BufferState.PENDING, False),
        (3, BufferState.ABORTED, False),
    ],
)
def test_a_lease_is_renewed_by_the_holder_of_the_fence(fence: int, state: BufferState, renewed: bool) -> None:
    held = _buffer(commit("r", write("a")), state)
    changes, answer = pipeline.decide_renewal(_view(buffers={held.commit_id: held}), held.commit_id, fence)

    assert bool(changes) is renewed
    assert answer == (msgspec.structs.replace(held, lease_until=NOW + LEASE_SECONDS) if renewed else answer)
    assert isinstance(answer, Buffer if renewed else StaleFence)
    if isinstance(answer, StaleFence):
        assert (answer.facts["fence"], answer.facts["given_fence"]) == (held.fence, fence)


def test_a_lease_of_nothing_is_not_renewed() -> None:
    changes, answer = pipeline.decide_renewal(_view(), "unknown", 3)

    assert not changes
    assert isinstance(answer, StaleFence)
    assert answer.facts["fence"] == 0


def test_an_abort_leaves_the_reason_and_no_content() -> None:
    held = _buffer(commit("r", write("a")), waits_for="approval")
    view = _view(buffers={held.commit_id: held})
    changes, answer = pipeline.decide_abort(view, held, AbortReason.POLICY_REJECTED, "no")
    (aborted,) = changes.buffers
    stale = msgspec.structs.replace(held, fence=2)

    assert isinstance(answer, CommitAborted)
    assert (aborted.state, aborted.content, aborted.waits_for) == (BufferState.ABORTED, None, None)
    assert (aborted.reason_code, aborted.problem, aborted.fence) == ("policy_rejected", "no", 3)
    assert isinstance(pipeline.decide_abort(view, stale, AbortReason.POLICY_REJECTED, "no")[1], StaleFence)
    assert isinstance(pipeline.decide_abort(_view(), held, AbortReason.POLICY_REJECTED, "no")[1], StaleFence)


@pytest.mark.parametrize(
    ("held_state", "held_wait", "state", "wait", "expected"),
    [
        (None, None, BufferState.OPEN, None, (BufferState.OPEN, None, 1)),
        (None, None, BufferState.PENDING, "approval", (BufferState.PENDING, "approval", 1)),
        (BufferState.OPEN, None, BufferState.PENDING, None, (BufferState.PENDING, None, 3)),
        (BufferState.OPEN, "approval", BufferState.OPEN, None, (BufferState.OPEN, None, 3)),
        (BufferState.PENDING, None, BufferState.OPEN, None, (BufferState.PENDING, None, 3)),
        (BufferState.PENDING, None, BufferState.OPEN, "approval", (BufferState.PENDING, "approval", 3)),
        (BufferState.PENDING, "approval", BufferState.PENDING, None, (BufferState.PENDING, "approval", 3)),
        (BufferState.PENDING, "one", BufferState.PENDING, "two", (BufferState.PENDING, "one", 3)),
    ],
)
def test_staging_again_never_opens_what_is_settled_or_lifts_its_wait(
    held_state: BufferState | None,
    held_wait: str | None,
    state: BufferState,
    wait: str | None,
    expected: tuple[BufferState, str | None, int],
) -> None:
    asked = commit("r", write("a"))
    held = {} if held_state is None else {asked.commit_id: _buffer(asked, held_state, waits_for=held_wait)}
    changes, buffer = pipeline.decide_stage(
        _view(buffers=held), asked, owner="w1", state=state, waits_for=wait
    )

    assert isinstance(buffer, Buffer)
    assert changes.buffers == [buffer]
    assert (buffer.state, buffer.waits_for, buffer.fence) == expected
    assert (buffer.owner, buffer.lease_until) == ("w1", NOW + LEASE_SECONDS)
    assert Commit.from_bytes(buffer.content or b"") == asked


def test_another_owner_can_not_stage_a_commit_that_is_held() -> None:
    asked = commit("r", write("a"))
    view = _view(buffers={asked.commit_id: _buffer(asked)})
    changes, answer = pipeline.decide_stage(
        view, asked, owner="w2", state=BufferState.PENDING, waits_for=None
    )

    assert not changes
    assert isinstance(answer, StaleFence)


def test_a_fact_without_a_commit_has_only_its_body() -> None:
    changes, entry = pipeline.decide_fact(_view(tip=Tip(seq=4, hash="a" * 64)), Fact.of("access", {"n": 1}))

    assert changes.entries == [entry]
    assert entry.read()["body"] == {"told": {"n": 1}}
    assert (entry.seq, entry.read()["previous"]) == (5, "a" * 64)


def test_the_fingerprint_covers_every_part_of_a_write_and_the_order_of_facts() -> None:
    base = Write.of(NAMESPACE, "a", ActionType.MERGE, 1)
    facts = [Fact.of("one", {}), Fact.of("two", {})]
    others = [
        Write.of("other", "a", ActionType.MERGE, 1),
        Write.of(NAMESPACE, "b", ActionType.MERGE, 1),
        Write.of(NAMESPACE, "a", ActionType.WRITE, 1),
        Write.of(NAMESPACE, "a", ActionType.MERGE, 2),
        Write.of(NAMESPACE, "a", ActionType.MERGE, 1, erases="why"),
        Write.of(NAMESPACE, "a", ActionType.MERGE, 1, erases="why not"),
    ]
    digests = [payload_fingerprint_of([one]) for one in [base, *others]]
    digests += [payload_fingerprint_of([base], some) for some in (facts, facts[::-1], facts[:1])]

    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("field", ["namespace", "key", "embedder"])
def test_a_vector_names_its_record_and_its_embedder(field: str) -> None:
    fields: dict[str, Any] = {"namespace": "n", "key": "k", "embedder": "e", "content": b"v"}

    assert RecordVector(**fields).of_snapshot is None
    with pytest.raises(InvalidValue, match=field):
        RecordVector(**(fields | {field: ""}))


def test_a_commit_has_at_least_one_write_and_at_most_the_limit() -> None:
    writes = [write(f"k{number}") for number in range(MAX_COMMIT_WRITES + 1)]
    facts = [Fact.of("f", {})] * (MAX_COMMIT_FACTS + 1)

    assert len(commit("r", *writes[:-1]).writes) == MAX_COMMIT_WRITES
    assert len(commit("r", writes[0], facts=facts[:-1]).facts) == MAX_COMMIT_FACTS
    for wrong in ((), writes):
        with pytest.raises(
            InvalidValue, match=f"has {len(wrong)} writes, and a commit takes 1 to {MAX_COMMIT_WRITES}"
        ):
            commit("r", *wrong)
    with pytest.raises(InvalidValue, match="1001 facts, and a commit takes at most 1000"):
        commit("r", writes[0], facts=facts)
    with pytest.raises(InvalidValue, match="writes one record twice"):
        commit("r", write("a"), merge("a"))


def test_a_staged_commit_that_was_changed_is_not_read_back() -> None:
    whole = commit("r", write("a", "good"), write("c", "fine"), facts=[Fact.of("f", {"n": 1})]).as_bytes()

    assert Commit.from_bytes(whole).run_id == "r"
    for old, new in ((b'"r"', b'"s"'), (b'"key":"a"', b'"key":"b"'), (b"Imdvb2Qi", b"ImJhZCEi")):
        assert old in whole
        with pytest.raises(ValueError, match="does not match its own fingerprint"):
            Commit.from_bytes(whole.replace(old, new))


# Whatever runs commit in whatever order, each snapshot shows what a plain model says, for ever.

KEYS = ["a", "b"]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["write", "merge", "expire"]),
        st.sampled_from(KEYS),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=15,
)


def _allowed(kind: str, value: str, history: list[tuple[int, str | None]], start: int) -> bool:
    """The model's rule, from the history of one key: (snapshot, content)."""
    shown = history[-1][1] if history else None
    if kind == "write":
        return shown is None or shown == value
    return shown is not None and history[-1][0] <= start


@example([("write", "a", 1, 0), ("merge", "a", 2, 0), ("merge", "a", 2, 1), ("expire", "a", 0, 2)])
@example([("write", "a", 1, 0), ("write", "a", 1, 0), ("write", "a", 2, 0)])
@example([("write", "a", 1, 0), ("expire", "a", 0, 0), ("merge", "a", 1, 0), ("write", "a", 2, 0)])
@given(CHANGES)
def test_every_snapshot_shows_what_a_plain_model_says(acts: list[tuple[str, str, int, int]]) -> None:
    store = memory_store()
    states: list[dict[str, str]] = [{}]
    histories: dict[str, list[tuple[int, str | None]]] = {key: [] for key in KEYS}
    for number, (kind, key, value, back) in enumerate(acts):
        start = max(0, len(states) - 1 - back)
        made = {"write": write, "merge": merge}[kind](key, value) if kind != "expire" else expire(key)
        asked = commit(f"r{number}", made, at=start)
        if _allowed(kind, str(value), histories[key], start):
            content = None if kind == "expire" else str(value)
            shown = {**states[-1], key: content}
            states.append({name: text for name, text in shown.items() if text is not None})
            histories[key].append((len(states) - 1, content))
            assert store.commit(asked).memory_snapshot_id == len(states) - 1
        else:
            with pytest.raises(CommitAborted):
                store.commit(asked)

    for snapshot, state in enumerate(states):
        found = {v.key: (v.content or b"").decode() for v in store.scan(NAMESPACE, at=snapshot)}
        assert found == state
        read = store.read(NAMESPACE, KEYS, at=snapshot)
        assert {k: (v.content or b"").decode() for k, v in read.items()} == state


def test_a_receipt_is_the_applied_commit() -> None:
    applied = AppliedCommit(3, "c" * 64, "r", "p" * 64, "2026-01-01T00:00:00.000000Z", 7, "h" * 64)

    assert pipeline.receipt_of(applied, replayed=True) == Receipt(
        commit_id="c" * 64,
        memory_snapshot_id=3,
        payload_fingerprint="p" * 64,
        committed_at="2026-01-01T00:00:00.000000Z",
        ledger_seq=7,
        ledger_hash="h" * 64,
        replayed=True,
    )


@pytest.mark.parametrize("kind", ["commit", "erasure", "", "x" * 257])
def test_a_fact_has_a_name_for_its_kind_that_the_store_does_not_use(kind: str) -> None:
    with pytest.raises(InvalidValue):
        Fact.of(kind, {})


@pytest.mark.parametrize(
    "wrong",
    [
        {"namespace": ""},
        {"key": ""},
        {"key": "k" * (MAX_KEY_CHARS + 1)},
        {"action": ActionType.SKIP},
        {"content": None},
        {"fingerprint": None},
        {"action": ActionType.EXPIRE},
        {"action": ActionType.EXPIRE, "content": None},
        {"erases": ""},
    ],
)
def test_a_write_that_breaks_a_rule_can_not_be_built(wrong: dict[str, Any]) -> None:
    fields: dict[str, Any] = {
        "namespace": "n",
        "key": "k" * 528,
        "action": ActionType.WRITE,
        "content": b"1",
        "fingerprint": "f",
    }

    assert Write(**fields).record_key == ("n", "k" * 528)
    with pytest.raises(InvalidValue):
        Write(**fields | wrong)


@pytest.mark.parametrize("wrong", [{"run_id": ""}, {"policy_set_id": ""}, {"memory_snapshot_id": -1}])
def test_a_commit_that_breaks_a_rule_can_not_be_built(wrong: dict[str, Any]) -> None:
    fields: dict[str, Any] = {
        "run_id": "r",
        "policy_set_id": "p",
        "memory_snapshot_id": 0,
        "writes": [write("a")],
    }

    assert Commit.of(**fields).memory_snapshot_id == 0
    with pytest.raises(InvalidValue):
        Commit.of(**fields | wrong)


def test_the_order_of_writes_does_not_change_a_commit() -> None:
    forward, backward = (
        commit("r", *writes) for writes in ([write("a"), write("b")], [write("b"), write("a")])
    )

    assert forward == backward
    assert [one.key for one in backward.writes] == ["a", "b"]


def test_a_refused_commit_submitted_twice_in_one_batch_is_refused_once() -> None:
    stale = commit("r", merge("a", "y"), at=3)
    changes, answers = pipeline.decide_commits(
        _view(head=9, latest={"a": LIVE}), [Submission(stale, None), Submission(stale, None)]
    )

    assert [type(answer) for answer in answers] == [CommitAborted, CommitAborted]
    assert [buffer.state for buffer in changes.buffers] == [BufferState.ABORTED]
