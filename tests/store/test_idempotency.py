"""Idempotency: however often and in whatever order commits are submitted, each has one effect and one
answer.
"""

import threading
from collections import defaultdict
from typing import NamedTuple

import msgspec

from standfast.clock import seeded
from standfast.errors import CommitAborted, PayloadMismatch, StoreError
from standfast.records.vocabulary import Receipt
from standfast.store.commit import Commit
from standfast.store.pipeline import Submission
from standfast.store.store import Store
from tests.figures import Figures
from tests.store.builders import NAMESPACE, commit, contents, merge, write

SUBMISSIONS, COMMITS, THREADS = 10_000, 500, 16


class Answered(NamedTuple):
    """A commit as it was submitted, and what came back."""

    asked: Commit
    answer: Receipt | StoreError


def _submissions(seed: int) -> list[Commit]:
    """Every commit about twenty times, one time in ten with another payload, in no order; some conflict."""
    dice = seeded(seed)
    asked = []
    for place in range(SUBMISSIONS):
        number = place % COMMITS
        forged = dice.random() < 0.1
        own = write(f"own{number}", "forged" if forged else number)
        contended = [merge(f"shared{number % 40}", number)] if number % 5 == 0 else []
        asked.append(commit(f"run{number}", own, *contended, at=1))
    dice.shuffle(asked)
    return asked


def _submit(store: Store, asked: list[Commit]) -> list[Answered]:
    """All of them, from many threads at once."""
    answered: list[Answered] = []

    def submit(share: list[Commit]) -> None:
        for each in share:
            try:
                answered.append(Answered(each, store.commit(each)))
            except StoreError as error:
                answered.append(Answered(each, error))

    threads = [threading.Thread(target=submit, args=(asked[n::THREADS],)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answered


def test_ten_thousand_duplicated_and_reordered_submissions_have_one_effect_each(
    store: Store, figures: Figures, backend: str
) -> None:
    store.commit(commit("genesis", *(write(f"shared{number}", 0) for number in range(40))))
    answered = _submit(store, _submissions(seed=1))
    by_commit = defaultdict(list)
    for each in answered:
        by_commit[each.asked.commit_id].append(each)
    receipts = [each.answer for each in answered if isinstance(each.answer, Receipt)]
    firsts = [receipt for receipt in receipts if not receipt.replayed]
    mismatches = sum(isinstance(each.answer, PayloadMismatch) for each in answered)
    aborts = sum(isinstance(each.answer, CommitAborted) for each in answered)
    figures(
        f"idempotency on {backend}",
        submissions=len(answered),
        effects=len(firsts),
        replays=len(receipts) - len(firsts),
        aborts=aborts,
        mismatches=mismatches,
    )

    assert len(answered) == SUBMISSIONS == len(receipts) + mismatches + aborts
    assert len(by_commit) == COMMITS
    for those in by_commit.values():
        _check_one_commit(store, those)
    assert store.head() == 1 + len(firsts)
    assert sorted(receipt.memory_snapshot_id for receipt in firsts) == list(range(2, 2 + len(firsts)))
    assert len(contents(store)) == 40 + len(firsts)
    assert list(store.verify()) == []


def _check_one_commit(store: Store, answered: list[Answered]) -> None:
    """Whichever payload came first is the commit; it was applied once or aborted, and everybody was told the
    same.
    """
    settled = next(each for each in answered if not isinstance(each.answer, PayloadMismatch)).asked
    same = [each for each in answered if each.asked.payload_fingerprint == settled.payload_fingerprint]
    others = [each for each in answered if each.asked.payload_fingerprint != settled.payload_fingerprint]
    versions = store.history(NAMESPACE, settled.writes[0].key)

    assert all(isinstance(each.answer, PayloadMismatch) for each in others)
    if isinstance(same[0].answer, Receipt):
        receipts = [each.answer for each in same if isinstance(each.answer, Receipt)]
        (first,) = [receipt for receipt in receipts if not receipt.replayed]
        assert len(receipts) == len(same)
        assert {msgspec.structs.replace(receipt, replayed=False) for receipt in receipts} == {first}
        assert [version.memory_snapshot_id for version in versions] == [first.memory_snapshot_id]
        assert versions[0].content == settled.writes[0].content
    else:
        assert all(isinstance(each.answer, CommitAborted) for each in same)
        assert len({str(each.answer) for each in same}) == 1
        assert versions == []


def test_a_commit_is_the_same_in_whatever_order_its_writes_are_given(store: Store) -> None:
    first = store.commit(commit("r1", write("a"), write("b")))
    again = store.commit(commit("r1", write("b"), write("a")))

    assert again == msgspec.structs.replace(first, replayed=True)


def test_another_payload_is_refused_after_an_abort_too(store: Store) -> None:
    refused = commit("r1", merge("nothing"))
    other = commit("r1", write("a"))
    answers = [each.answer for asked in (refused, other, refused) for each in _submit(store, [asked])]

    assert [type(answer) for answer in answers] == [CommitAborted, PayloadMismatch, CommitAborted]
    assert store.head() == 0


def test_duplicates_within_one_transaction_are_one_commit(store: Store) -> None:
    """The first is decided, and the others find it decided."""
    one, two = commit("r1", write("a")), commit("r2", write("b"))
    answers = store._commit_batch([Submission(each) for each in (one, two, one, one, two)])

    assert [isinstance(answer, Receipt) and answer.replayed for answer in answers] == [0, 0, 1, 1, 1]
    assert store.head() == 2
