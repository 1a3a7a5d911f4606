"""The contract that every backend keeps."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import msgspec
import pytest

from standfast.errors import (
    CommitAborted,
    NoSuchSnapshot,
    OutcomeUnknown,
    PayloadMismatch,
    StaleFence,
    StoreFailed,
)
from standfast.records.vocabulary import AbortReason, ActionType, BufferState, Receipt
from standfast.store import pipeline
from standfast.store.commit import Write
from standfast.store.pipeline import CommitAnswer, Submission, described
from standfast.store.protocol import BEHIND_ALL_KEYS, Buffer, Changes, Transaction, Version, VersionQuery
from standfast.store.store import Store
from tests.store.builders import NAMESPACE, commit, contents, expire, merge, write
from tests.store.conftest import Ager, Opener


def test_an_empty_store_is_at_snapshot_zero(store: Store) -> None:
    assert store.head() == 0
    assert contents(store) == {}
    assert list(store.verify()) == []


def test_the_size_grows_with_what_is_stored(store: Store) -> None:
    before = store.size_bytes()
    taken: list[float] = []
    store.on_commit = taken.append
    store.commit(commit("r1", *(write(f"k{number}", "text " * 20) for number in range(500))))

    assert store.size_bytes() > before
    assert [seconds >= 0 for seconds in taken] == [True]


def test_a_commit_makes_the_next_snapshot_and_is_read_back(store: Store) -> None:
    receipt = store.commit(commit("r1", write("a", {"n": 1}), write("b", "text")))

    assert (receipt.memory_snapshot_id, receipt.ledger_seq, receipt.replayed) == (1, 1, False)
    assert contents(store) == {"a": '{"n":1}', "b": '"text"'}
    assert store.read(NAMESPACE, ["b", "nothing"])["b"].fingerprint == write("b", "text").fingerprint
    assert list(store.verify()) == []


def test_snapshots_have_no_gaps_and_each_can_be_read_again(store: Store) -> None:
    for number in range(1, 6):
        store.commit(commit(f"r{number}", write(f"k{number}"), at=number - 1))
    store.commit(commit("r6", merge("k1", "changed"), expire("k2"), at=5))

    assert [sorted(contents(store, at)) for at in range(7)] == [
        [],
        ["k1"],
        ["k1", "k2"],
        ["k1", "k2", "k3"],
        ["k1", "k2", "k3", "k4"],
        ["k1", "k2", "k3", "k4", "k5"],
        ["k1", "k3", "k4", "k5"],
    ]
    assert (contents(store, 5)["k1"], contents(store, 6)["k1"]) == ('"x"', '"changed"')


def test_a_commit_with_new_keys_is_applied_once_though_its_outcome_was_unknown(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is looked up for it at first, but once its answer was lost, it may be there."""
    transaction = store._storage.transaction

    @contextmanager
    def cut_off() -> Iterator[Transaction]:
        with transaction() as one:
            yield one
        monkeypatch.undo()
        raise OutcomeUnknown(problem="the answer was lost")

    monkeypatch.setattr(store._storage, "transaction", cut_off)
    receipt = store.commit(commit("r1", write("a")), new=frozenset({"a"}))

    assert (receipt.memory_snapshot_id, receipt.replayed) == (1, True)
    assert store.head() == 1
    assert list(store.verify()) == []


def test_a_commit_whose_outcome_is_unknown_is_not_tried_again_before_the_storage_is_reset(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def cut_off() -> AbstractContextManager[Transaction]:
        attempts.append("cut off")
        raise OutcomeUnknown(problem="the answer was lost")

    def fails() -> None:
        raise StoreFailed(problem="the disk is gone")

    monkeypatch.setattr(store._storage, "transaction", cut_off)
    monkeypatch.setattr(store._storage, "reset", fails)
    with pytest.raises(OutcomeUnknown, match=r"the answer was lost.*; then .*the disk is gone"):
        store.commit(commit("r1", write("a")))

    assert attempts == ["cut off"]


def test_of_two_commits_that_fail_together_each_gets_an_answer_of_its_own(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = store._storage.transaction

    @contextmanager
    def refuses_bad() -> Iterator[Transaction]:
        with transaction() as one:
            append = one.append

            def checked(changes: Changes) -> None:
                if any(row.key == "bad" for row in changes.versions):
                    raise StoreFailed(problem="the row can't be stored")
                append(changes)

            monkeypatch.setattr(one, "append", checked)
            yield one

    monkeypatch.setattr(store._storage, "transaction", refuses_bad)
    pair = [Submission(commit(name, write(name))) for name in ("bad", "good")]
    answers = store._commit_batch(pair)

    assert [type(answer) for answer in answers] == [StoreFailed, Receipt]
    assert list(contents(store)) == ["good"]


def test_a_store_whose_commits_go_elsewhere_says_where_it_was_read(store: Store) -> None:
    store.commit(commit("r1", write("other")))
    asked: list[Submission] = []

    def applied(submission: Submission) -> CommitAnswer:
        asked.append(submission)
        return pipeline.receipt_of(store.commit_of(1))

    reads = store.commit_through(applied)
    receipt = store.commit(commit("r2", write("new"), at=1))
    store.read(NAMESPACE, ["read"])
    list(store.scan(NAMESPACE, prefix="scanned"))
    store.presence(NAMESPACE, ["said"])
    store.versions_under(NAMESPACE, ["under"])

    assert (receipt.memory_snapshot_id, store.head()) == (1, 1)
    assert [one.commit.run_id for one in asked] == ["r2"]
    assert reads == {(NAMESPACE, place) for place in ("read", "scanned", "said", "under")}


def test_what_is_told_of_a_commit_has_its_id_and_its_fingerprint(store: Store) -> None:
    asked = commit("r1", write("a"))
    receipt = store.commit(asked)
    known = store.status(asked.commit_id)
    assert known is not None
    told = described(known)

    assert (told.commit_id, told.commit_payload_fingerprint) == (asked.commit_id, receipt.payload_fingerprint)
    assert (told.state, told.memory_snapshot_id) == (BufferState.APPLIED, 1)


def test_what_is_told_of_a_refused_commit_has_the_reason(store: Store) -> None:
    asked = commit("r1", merge("nothing"))
    with pytest.raises(CommitAborted):
        store.commit(asked)
    known = store.status(asked.commit_id)
    assert isinstance(known, Buffer)
    told = described(known)

    assert (told.commit_id, told.commit_payload_fingerprint) == (asked.commit_id, asked.payload_fingerprint)
    assert (told.state, told.waits_for, told.memory_snapshot_id) == (BufferState.ABORTED, None, None)
    assert told.reason_code == "validation_failed"
    assert "nothing" in (told.problem or "")


def test_presence_tells_the_head_and_which_prefixes_any_key_ever_had(store: Store) -> None:
    store.commit(commit("r1", write("a/b/1"), write("ab/2")))
    store.commit(commit("r2", expire("ab/2"), at=1))

    assert store.presence(NAMESPACE, ["a/", "a/b/1", "a/c", "ab/", "b", ""]) == (
        2,
        [True, True, False, True, False, True],
    )
    assert store.presence("elsewhere", ["a/"]) == (2, [False])


def test_a_state_that_never_was_can_not_be_read(store: Store) -> None:
    for at in (-1, 1):
        with pytest.raises(NoSuchSnapshot):
            store.read(NAMESPACE, ["a"], at=at)


def test_history_tells_every_version(store: Store) -> None:
    store.commit(commit("r1", write("a", 1)))
    store.commit(commit("r2", merge("a", 2), at=1))
    store.commit(commit("r3", expire("a"), at=2))
    store.commit(commit("r4", write("a", 3), at=3))

    assert [(v.memory_snapshot_id, v.action, v.content) for v in store.history(NAMESPACE, "a")] == [
        (1, "WRITE", b"1"),
        (2, "MERGE", b"2"),
        (3, "EXPIRE", None),
        (4, "WRITE", b"3"),
    ]


def test_committing_twice_changes_nothing(store: Store) -> None:
    first = store.commit(commit("r1", write("a")))
    again = store.commit(commit("r1", write("a")))

    assert again.replayed
    assert Receipt.from_json(again.as_json() | {"replayed": False}) == first
    assert store.head() == 1


def test_the_same_commit_id_with_another_payload_is_refused(store: Store) -> None:
    store.commit(commit("r1", write("a", 1)))

    with pytest.raises(PayloadMismatch):
        store.commit(commit("r1", write("a", 2)))
    assert contents(store) == {"a": "1"}


def test_runs_that_start_together_lose_no_update(store: Store) -> None:
    """The second of two runs that change one record is told of the first; both commits are named."""
    store.commit(commit("r0", write("a", 0)))
    left = store.commit(commit("left", merge("a", 1), at=1))
    with pytest.raises(CommitAborted) as refusal:
        store.commit(commit("right", merge("a", 2), at=1))

    assert refusal.value.facts["reason_code"] == "validation_failed"
    assert left.commit_id in str(refusal.value)
    assert refusal.value.facts["commit_id"] in str(refusal.value)
    assert contents(store) == {"a": "1"}


def test_new_records_of_runs_that_start_together_never_conflict(store: Store) -> None:
    store.commit(commit("left", write("a", 1)))
    store.commit(commit("right", write("b", 2)))

    assert contents(store) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (write("a", "other"), "another record"),
        (merge("nothing"), "no such record"),
        (expire("nothing"), "no such record"),
        (merge("gone"), "expired"),
        (expire("gone"), "expired"),
    ],
    ids=["overwrite", "merge nothing", "expire nothing", "merge expired", "expire expired"],
)
def test_a_write_that_does_not_fit_the_head_aborts_all_of_its_commit(
    store: Store, second: object, problem: str
) -> None:
    store.commit(commit("r0", write("a"), write("gone")))
    store.commit(commit("r1", expire("gone"), at=1))
    with pytest.raises(CommitAborted, match=problem):
        store.commit(commit("r2", write("new"), second, at=2))  # type: ignore[arg-type]

    assert sorted(contents(store)) == ["a"]
    assert store.head() == 2


def test_two_runs_may_remember_the_same_thing(store: Store) -> None:
    store.commit(commit("left", write("a", "same")))
    store.commit(commit("right", write("a", "same")))

    assert store.head() == 2


def test_a_run_can_not_start_from_the_future(store: Store) -> None:
    with pytest.raises(CommitAborted, match="newest is 0"):
        store.commit(commit("r1", write("a"), at=1))


def test_an_aborted_commit_stays_aborted(store: Store) -> None:
    refused = commit("r1", merge("a"))
    for _ in range(2):
        with pytest.raises(CommitAborted, match="no such record"):
            store.commit(refused)
    status = store.status(refused.commit_id)

    assert isinstance(status, Buffer)
    assert (status.state, status.reason_code, status.content) == (
        BufferState.ABORTED,
        "validation_failed",
        None,
    )


def test_status_tells_what_is_known_of_a_commit(store: Store) -> None:
    applied = commit("r1", write("a"))
    store.commit(applied)
    staged = store.stage(commit("r2", write("b"), at=1))

    assert isinstance(store.status(applied.commit_id), Receipt)
    assert store.status(staged.commit_id) == staged
    assert store.status("0" * 64) is None


def test_a_staged_commit_is_invisible_until_it_is_applied(store: Store, opener: Opener) -> None:
    pending = commit("r1", write("a"))
    buffer = store.stage(pending)

    assert buffer.state is BufferState.PENDING
    assert contents(opener()) == {}
    assert store.commit(pending, fence=buffer.fence).memory_snapshot_id == 1
    assert contents(opener()) == {"a": '"x"'}


def test_a_staged_commit_needs_its_fence(store: Store) -> None:
    pending = commit("r1", write("a"))
    buffer = store.stage(pending)
    for fence in (None, buffer.fence + 1, 0):
        with pytest.raises(StaleFence):
            store.commit(pending, fence=fence)

    assert store.head() == 0


def test_recovery_leaves_the_living_alone(store: Store, age_leases: Ager) -> None:
    pending = store.stage(commit("r1", write("a")))
    age_leases(29)

    assert store.recover() == []
    assert store.renew(pending).fence == pending.fence


def test_recovery_applies_what_was_settled_and_discards_what_was_open(
    store: Store, opener: Opener, age_leases: Ager
) -> None:
    settled, growing = commit("r1", write("a")), commit("r2", write("b"))
    store.stage(settled)
    store.stage(growing, settled=False)
    age_leases(31)
    answers = opener().recover()

    assert sorted(str(type(answer).__name__) for answer in answers) == ["NoneType", "Receipt"]
    assert contents(store) == {"a": '"x"'}
    assert store.status(growing.commit_id) is None


def test_an_owner_that_comes_back_too_late_is_shut_out(
    store: Store, opener: Opener, age_leases: Ager
) -> None:
    pending = commit("r1", merge("a"))
    buffer = store.stage(pending)
    age_leases(31)
    (answer,) = opener().recover()

    assert isinstance(answer, CommitAborted)
    with pytest.raises(CommitAborted):
        store.commit(pending, fence=buffer.fence)
    with pytest.raises(StaleFence):
        store.renew(buffer)


def test_a_commit_that_waits_for_an_approval_is_not_recovered(store: Store, age_leases: Ager) -> None:
    waiting = commit("r1", write("a"))
    buffer = store.stage(waiting, waits_for="approval")
    age_leases(31)

    assert store.recover() == []
    assert store.commit(waiting, fence=buffer.fence).memory_snapshot_id == 1


def test_a_policy_can_reject_what_was_staged(store: Store) -> None:
    pending = commit("r1", write("a"))
    buffer = store.stage(pending)
    aborted = store.abort(buffer, AbortReason.POLICY_REJECTED, "the judge said VOID")

    assert aborted.facts["reason_code"] == "policy_rejected"
    with pytest.raises(CommitAborted, match="VOID"):
        store.commit(pending, fence=buffer.fence)


def test_an_open_buffer_grows_and_can_be_discarded(store: Store) -> None:
    store.stage(commit("r1", write("a")), settled=False)
    grown = store.stage(commit("r1", write("a"), write("b")), settled=False)

    assert store.discard(grown)
    assert not store.discard(grown)
    assert store.status(grown.commit_id) is None


def test_everything_is_there_after_a_restart(opener: Opener) -> None:
    before = opener()
    receipt = before.commit(commit("r1", write("a", {"ü": [1.5, None]})))
    after = opener()

    assert contents(after) == {"a": '{"ü":[1.5,null]}'}
    assert after.commit(commit("r1", write("a", {"ü": [1.5, None]}))).ledger_hash == receipt.ledger_hash
    assert list(after.verify()) == []


def test_namespaces_are_apart(store: Store) -> None:
    store.commit(commit("r1", write("a")))

    assert store.read("elsewhere", ["a"]) == {}
    assert list(store.scan("elsewhere")) == []
    assert store.namespaces() == [NAMESPACE]


def test_scanning_goes_on_over_many_pages(store: Store) -> None:
    keys = [f"k{number:05}" for number in range(2_500)]
    store.commit(commit("r1", *(write(key) for key in keys)))

    assert list(contents(store)) == keys


def test_a_prefix_shows_its_keys_and_no_others(store: Store) -> None:
    """Keys that sort right before and right behind a prefix's, and ones with letters from the far end of
    Unicode.
    """
    inside = ["b/", "b/\U0001f600", "b/a", "b/z", "b/zz", "b/é", "b/\uffdc"]
    outside = ["a", "b", "b0", "ba", "b.", "c/", "b\U0001f600"]
    store.commit(commit("r1", *(write(key) for key in (*inside, *outside))))

    assert [v.key for v in store.scan(NAMESPACE, prefix="b/")] == sorted(inside)
    assert [v.key for v in store.scan(NAMESPACE, prefix="b/", after="b/z")] == sorted(inside)[3:]
    assert [v.key for v in store.scan(NAMESPACE, prefix="b")] == sorted({*inside, *outside} - {"a", "c/"})


# Reading versions: every backend answers every query as a plain filter over all rows does.

QUERIES = [
    VersionQuery(),
    VersionQuery(limit=1),
    VersionQuery(limit=4),
    VersionQuery(newest=True),
    VersionQuery(newest=True, limit=3),
    VersionQuery(after=("n1", "b")),
    VersionQuery(after=("n1", BEHIND_ALL_KEYS), limit=1),
    VersionQuery(after=("n2", BEHIND_ALL_KEYS)),
    VersionQuery(snapshot=0),
    VersionQuery(snapshot=1),
    VersionQuery(snapshot=3),
    VersionQuery(snapshot=9),
    VersionQuery(snapshot=1, namespace="n1", prefix="b"),
    VersionQuery(snapshot=3, at=2),
    VersionQuery(at=0),
    VersionQuery(at=2, newest=True),
    VersionQuery(namespace="n1"),
    VersionQuery(namespace="n1", at=2),
    VersionQuery(namespace="n1", at=2, newest=True),
    VersionQuery(namespace="n1", newest=True, after=("n1", "b"), limit=2),
    VersionQuery(namespace="n1", prefix="b"),
    VersionQuery(namespace="n1", prefix="b", after=("n1", "a")),
    VersionQuery(namespace="n1", prefix="b", after=("n1", "b")),
    VersionQuery(namespace="n1", prefix="b/", after=("n1", "b/1"), newest=True),
    VersionQuery(namespace="n1", bands=["b"]),
    VersionQuery(namespace="n1", bands=["b", "d"], at=2),
    VersionQuery(namespace="n1", bands=["b", "d"], since=0, at=1, limit=2),
    VersionQuery(namespace="nobody"),
    VersionQuery(namespace="n1", keys=[]),
    VersionQuery(namespace="n1", keys=["b", "a", "b", "zz"]),
    VersionQuery(namespace="n1", keys=["b", "a"], newest=True),
    VersionQuery(namespace="n1", keys=["a", "b"], at=2, newest=True),
    VersionQuery(namespace="n2", keys=["a"], at=1),
]


def _filtered(rows: list[Version], query: VersionQuery) -> list[Version]:
    """What a query asks for, in the plainest words."""
    found = [
        row
        for row in sorted(rows, key=lambda row: (row.namespace, row.key, row.memory_snapshot_id))
        if query.namespace in (None, row.namespace)
        and (query.keys is None or row.key in query.keys)
        and row.key.startswith(query.prefix)
        and (not query.bands or any(row.key.startswith(f"{band}/") for band in query.bands))
        and (row.namespace, row.key) > query.after
        and query.snapshot in (None, row.memory_snapshot_id)
        and (query.since is None or row.memory_snapshot_id > query.since)
        and (query.at is None or row.memory_snapshot_id <= query.at)
    ]
    if query.newest:
        found = list({(row.namespace, row.key): row for row in found}.values())
    return found[: query.limit]


def test_versions_are_what_a_plain_filter_finds(store: Store) -> None:
    def change(namespace: str, key: str, action: ActionType, value: object = None) -> Write:
        return Write.of(namespace, key, action, value)

    keys = [
        ("n1", "a"),
        ("n1", "b"),
        ("n1", "b/"),
        ("n1", "b/1"),
        ("n1", "b/2"),
        ("n1", "c"),
        ("n1", "d/1"),
        ("n2", "a"),
    ]
    store.commit(commit("r1", *(change(*key, ActionType.WRITE, 1) for key in keys)))
    store.commit(
        commit("r2", change("n1", "a", ActionType.MERGE, 2), change("n2", "b", ActionType.WRITE, 1), at=1)
    )
    store.commit(
        commit("r3", change("n1", "b", ActionType.EXPIRE), change("n1", "a", ActionType.MERGE, 3), at=2)
    )
    rows = [row for snapshot in (1, 2, 3) for row in store.versions_of(snapshot)]

    assert len(rows) == 12
    for query in QUERIES:
        assert store._storage.versions(query) == _filtered(rows, query), query
    bare = store.versions_between("n1", 1, 2, with_content=False)
    assert bare == [
        msgspec.structs.replace(row, content=None)
        for row in rows
        if row.memory_snapshot_id == 2 and row.namespace == "n1"
    ]
    assert store.namespaces() == ["n1", "n2"]


def test_commits_and_receipts_are_found_by_their_snapshot(store: Store) -> None:
    receipts = [store.commit(commit(f"r{number}", write(f"k{number}"))) for number in range(3)]

    assert [applied.memory_snapshot_id for applied in store.commits()] == [1, 2, 3]
    assert [applied.run_id for applied in store.commits(after=1, limit=1)] == ["r1"]
    assert store.receipt_of(2) == msgspec.structs.replace(receipts[1], replayed=True)
    for wrong in (-1, 0, 4):
        with pytest.raises(NoSuchSnapshot):
            store.commit_of(wrong)


def test_a_stage_by_a_clock_far_ahead_is_recovered(opener: Opener, age_leases: Ager) -> None:
    store = opener()
    store.stage(commit("r1", write("a")))
    age_leases(-10 * 365 * 86_400.0)
    answers = opener().recover()

    assert [isinstance(answer, Receipt) for answer in answers] == [True]


def test_aborted_commits_are_forgotten_after_some_days(store: Store, age_leases: Ager) -> None:
    store.commit(commit("r1", write("a")))
    refused = commit("r2", write("a", "other"))
    with pytest.raises(CommitAborted):
        store.commit(refused)
    store.recover()
    kept = store.status(refused.commit_id)
    age_leases(15 * 86_400.0)
    store.recover()

    assert kept is not None
    assert store.status(refused.commit_id) is None


def test_a_store_keeps_the_identity_that_it_was_created_with(opener: Opener) -> None:
    identity = opener().identity

    assert identity.store_id == identity.branch_id
    assert len(identity.store_id) == 32
    assert opener().identity == identity
