"""The pace of calls, and the access log that a flood can't fill."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.clock import ManualClock
from standfast.errors import Forbidden, RateLimited
from standfast.limits import MAX_REFUSAL_GROUPS, REFUSALS_LOGGED_PER_MINUTE
from standfast.server.access.protection import AccessLog, RateLimiter, RefusedCall
from standfast.store.store import Store, open_store


def _taken(pace: RateLimiter, name: str, times: int) -> int:
    taken = 0
    for _ in range(times):
        try:
            pace.take(name)
        except RateLimited:
            continue
        taken += 1
    return taken


def test_a_caller_has_a_burst_and_then_a_rate() -> None:
    clock = ManualClock()
    pace = RateLimiter(clock, per_second=2, burst=10)

    assert _taken(pace, "a", 20) == 10
    assert _taken(pace, "b", 20) == 10
    clock.advance(3)
    assert _taken(pace, "a", 20) == 6
    with pytest.raises(RateLimited) as refused:
        pace.take("a")
    assert refused.value.facts == {"retry_after_seconds": 1}


@settings(max_examples=50)
@given(waits=st.lists(st.floats(0, 5), max_size=50))
def test_no_caller_ever_exceeds_burst_plus_rate(waits: list[float]) -> None:
    clock = ManualClock()
    pace = RateLimiter(clock, per_second=3, burst=5)
    taken = 0
    for wait in waits:
        clock.advance(wait)
        taken += _taken(pace, "a", 10)

    assert taken <= 5 + 3 * sum(waits) + 1e-6


def test_the_names_that_are_paced_are_bounded() -> None:
    pace = RateLimiter(ManualClock(), per_second=1, burst=1, max_names=100)
    for number in range(10_000):
        pace.take(str(number))

    assert len(pace._buckets) == 100


def _refusal(act: str = "recall", key_id: str | None = None) -> RefusedCall:
    error = Forbidden(role="agent", operation=act, where="x", problem="the key is for other namespaces")
    return RefusedCall.of(
        error, interface="http", operation=act, key_id=key_id, namespace="s\u202epoof\n" * 99
    )


def _told(store: Store) -> list[dict[str, Any]]:
    return [entry.read()["body"]["told"] for entry in store.entries() if entry.read()["kind"] == "access"]


def _times(told: list[dict[str, Any]]) -> int:
    return sum(
        1 if "refused" in fact else sum(group["times"] for group in fact["refused_too"]) for fact in told
    )


def test_a_refusal_is_told_to_the_ledger_in_printable_words() -> None:
    store = open_store(":memory:", create=True)
    AccessLog(store).note(_refusal(key_id="k1"))
    (told,) = _told(store)

    assert told["refused"]["code"] == "forbidden"
    assert told["refused"]["key_id"] == "k1"
    assert told["refused"]["namespace"].isprintable()
    assert len(told["refused"]["namespace"]) < 1_000


def test_a_flood_is_counted_and_costs_a_dozen_entries_a_minute() -> None:
    clock = ManualClock()
    store = open_store(":memory:", create=True, clock=clock)
    refusals = AccessLog(store)
    for number in range(5_000):
        refusals.note(_refusal(key_id=f"k{number}"))
    during = len(_told(store))
    clock.advance(61)
    refusals.flush(only_if_over=True)
    counted = _told(store)[-1]["refused_too"]

    assert during == REFUSALS_LOGGED_PER_MINUTE
    assert len(_told(store)) == REFUSALS_LOGGED_PER_MINUTE + 1
    assert len(counted) <= MAX_REFUSAL_GROUPS + 1
    assert _times(_told(store)) == 5_000


@settings(max_examples=50)
@given(steps=st.lists(st.tuples(st.sampled_from(["recall", "forget"]), st.floats(0, 40)), max_size=60))
def test_every_refusal_is_told_once(steps: list[tuple[str, float]]) -> None:
    clock = ManualClock()
    store = open_store(":memory:", create=True, clock=clock)
    refusals = AccessLog(store)
    for act, wait in steps:
        refusals.note(_refusal(act))
        clock.advance(wait)
    refusals.flush()
    refusals.flush()
    counted: Counter[str] = Counter()
    for fact in _told(store):
        for group in fact.get("refused_too", [fact.get("refused")]):
            counted[group["operation"]] += group.get("times", 1)

    assert counted == Counter(act for act, _ in steps)
