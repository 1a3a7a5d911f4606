"""Leases: thousands of schedules of skewed clocks, crashes and stopped owners, and no write with a stale
fence.

A failing seed tells its history; ``python -m tests.store.simulation SEED`` plays it again.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from standfast.errors import BrokenChain, CommitAborted, StaleFence
from standfast.records.vocabulary import AbortReason, Receipt
from standfast.store import pipeline
from standfast.store.commit import Commit
from standfast.store.pipeline import Submission
from standfast.store.protocol import Buffer, Changes, StateView
from tests.figures import Figures
from tests.store.referee import Violation
from tests.store.simulation import World, play_all

FAST_SEEDS, SLOW_SEEDS, CHUNK = 1_500, 100_000, 500
MUTANT_SEEDS = 1_000


@pytest.mark.parametrize("first", range(0, FAST_SEEDS, CHUNK))
def test_no_schedule_breaks_a_rule(first: int, figures: Figures) -> None:
    _play(range(first, first + CHUNK), figures)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FAST_SEEDS, SLOW_SEEDS, 10 * CHUNK))
def test_no_schedule_breaks_a_rule_in_the_long_form(first: int, figures: Figures) -> None:
    _play(range(first, first + 10 * CHUNK), figures)


def _play(seeds: range, figures: Figures) -> None:
    figures("leases", **play_all(seeds), stale_fences_that_took_effect=0)


def test_a_seed_is_a_history() -> None:
    """The same seed gives the same history, to the last answer."""
    one, two = World(7), World(7)
    one.play()
    two.play()

    assert one.history() == two.history()
    assert len(one.trace) > 30


# The harness must be able to fail: each of these breaks one rule of the pipeline.

_known = pipeline._known_answer
_decide_stage, _decide_claims = pipeline.decide_stage, pipeline.decide_claims
_decide_renewal, _decide_discard, _decide_abort = (
    pipeline.decide_renewal,
    pipeline.decide_discard,
    pipeline.decide_abort,
)


def _nobody_looks_at_the_fence(view: StateView, asked: Submission) -> object:
    answer = _known(view, asked)
    return None if isinstance(answer, StaleFence) else answer


def _a_lease_is_as_good_as_a_fence(view: StateView, asked: Submission) -> object:
    answer = _known(view, asked)
    held = view.buffers.get(asked.commit.commit_id)
    leased = held is not None and held.lease_until > view.now and asked.fence is not None
    return None if isinstance(answer, StaleFence) and leased else answer


def _nobody_remembers_what_was_applied(view: StateView, asked: Submission) -> object:
    answer = _known(view, asked)
    return None if isinstance(answer, Receipt) else answer


def _nobody_remembers_what_was_aborted(view: StateView, asked: Submission) -> object:
    answer = _known(view, asked)
    return None if isinstance(answer, CommitAborted) else answer


def _claims_keep_the_fence(view: StateView, *, worker: str) -> tuple[Changes, list[Buffer]]:
    _, claimed = _decide_claims(view, worker=worker)
    kept = [msgspec.structs.replace(buffer, fence=buffer.fence - 1) for buffer in claimed]
    return Changes(buffers=kept), kept


def _anybody_renews(view: StateView, commit_id: str, fence: int) -> object:
    held = view.buffers.get(commit_id)
    return _decide_renewal(view, commit_id, fence if held is None else held.fence)


def _anybody_discards(view: StateView, commit_id: str, fence: int) -> tuple[Changes, bool]:
    held = view.buffers.get(commit_id)
    return _decide_discard(view, commit_id, fence if held is None else held.fence)


def _discarding_forgets_the_fence(view: StateView, commit_id: str, fence: int) -> tuple[Changes, bool]:
    _, done = _decide_discard(view, commit_id, fence)
    return Changes(dropped=[commit_id] if done else []), done


def _anybody_aborts(view: StateView, buffer: Buffer, reason: AbortReason, problem: str) -> object:
    held = view.buffers.get(buffer.commit_id)
    return _decide_abort(view, buffer if held is None else held, reason, problem)


def _staging_opens_what_was_settled(view: StateView, staged: Commit, **how: Any) -> tuple[Changes, object]:
    changes, answer = _decide_stage(view, staged, **how)
    if isinstance(answer, Buffer):
        answer = msgspec.structs.replace(answer, state=how["state"], waits_for=how["waits_for"])
        changes = Changes(buffers=[answer])
    return changes, answer


def _nothing(*_: object) -> None:
    return None


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("_known_answer", _nobody_looks_at_the_fence),
        ("_known_answer", _a_lease_is_as_good_as_a_fence),
        ("_known_answer", _nobody_remembers_what_was_applied),
        ("_known_answer", _nobody_remembers_what_was_aborted),
        ("decide_claims", _claims_keep_the_fence),
        ("decide_renewal", _anybody_renews),
        ("decide_discard", _anybody_discards),
        ("decide_discard", _discarding_forgets_the_fence),
        ("decide_abort", _anybody_aborts),
        ("decide_stage", _staging_opens_what_was_settled),
        ("_conflict_with", _nothing),
        ("_payload_mismatch", _nothing),
    ],
    ids=lambda given: given if isinstance(given, str) else given.__name__.strip("_"),
)
def test_a_broken_pipeline_is_caught(
    name: str, broken: Callable[..., object], monkeypatch: pytest.MonkeyPatch, figures: Figures
) -> None:
    monkeypatch.setattr(pipeline, name, broken)

    with pytest.raises((Violation, BrokenChain)):
        _play(range(MUTANT_SEEDS), figures)
