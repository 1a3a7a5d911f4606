"""How a benchmark measures: several ways of doing one thing, interleaved, the best of each compared."""

import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One figure: what was compared, what came out, and what we promise."""

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
    """Seconds a call, for each way: the best of many rounds in which all ways take turns, so that noise hits all.

    Long calls on a busy machine are better measured by the processor's time, ``clock=time.process_time``.
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
    """A figure that should not be smaller than its bound."""
    return Ratio(name=name, measured=measured, target=f"≥ {bound:g}×", holds=measured >= bound, detail=detail)


def at_most(name: str, measured: float, bound: float, detail: str = "", unit: str = "×") -> Ratio:
    """A figure that should not be larger than its bound."""
    return Ratio(
        name=name, measured=measured, target=f"≤ {bound:g}{unit}", holds=measured <= bound, detail=detail
    )


def shown(name: str, measured: float, detail: str = "") -> Ratio:
    """A figure that is printed for comparison, without a promise."""
    return Ratio(name=name, measured=measured, target="", holds=None, detail=detail)
