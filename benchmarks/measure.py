"""Measures several implementations in turns and compares the best time of each."""

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One result: what was compared, the ratio, and the target."""

    name: str
    measured: float
    target: str
    holds: bool | None
    detail: str = ""


def best_seconds(
    ways: dict[str, Callable[[], object]],
    *,
    calls: int,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Seconds per call of each implementation: the best of many rounds in which they take turns, so that
    noise hits all.

    For long calls on a busy machine, measure CPU time with ``clock=time.process_time``.
    """
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            start = clock()
            for _ in range(calls):
                way()
            best[name] = min(best[name], (clock() - start) / calls)
    return best


def at_least(name: str, measured: float, bound: float, detail: str = "") -> Ratio:
    """A result that must not be below its bound."""
    return Ratio(name=name, measured=measured, target=f"≥ {bound:g}×", holds=measured >= bound, detail=detail)


def at_most(name: str, measured: float, bound: float, detail: str = "", unit: str = "×") -> Ratio:
    """A result that must not be above its bound."""
    return Ratio(
        name=name, measured=measured, target=f"≤ {bound:g}{unit}", holds=measured <= bound, detail=detail
    )


def shown(name: str, measured: float, detail: str = "") -> Ratio:
    """A result without a target, for comparison."""
    return Ratio(name=name, measured=measured, target="", holds=None, detail=detail)
