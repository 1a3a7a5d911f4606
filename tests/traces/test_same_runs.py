"""The same agent, recorded under other hash seeds, time zones, locales, clocks and thread timing: always
equivalent.
"""

import itertools

import pytest

from standfast.traces.artifact import Trace
from standfast.traces.equivalence import compare
from tests.figures import Figures
from tests.subprocesses import other_environment, run_python
from tests.traces.scripted import recorded

LOCALES = ("C", "C.UTF-8", "POSIX", "tr_TR.UTF-8")


def _recorded_elsewhere(runs: int, number: int) -> list[Trace]:
    """Traces from a process of its own, in other_environment of its own."""
    here = other_environment(number) | {"LC_ALL": LOCALES[number % len(LOCALES)]}
    result = run_python("-m", "tests.traces.scripted", str(runs), **here)
    return [Trace.read(line) for line in result.encode().splitlines()]


def _check(processes: int, runs_each: int, figures: Figures) -> None:
    expected = recorded()
    traces = list(
        itertools.chain.from_iterable(_recorded_elsewhere(runs_each, number) for number in range(processes))
    )
    figures("equivalent runs", runs=len(traces), hash_seeds=processes)

    assert len(traces) == processes * runs_each >= 100
    assert len({trace.run_id for trace in traces}) > 90
    assert [compare(expected, trace).differences for trace in traces] == [()] * len(traces)
    assert all(compare(expected, trace).is_equivalent for trace in traces)
    assert all(compare(left, right).is_equivalent for left, right in itertools.pairwise(traces))


def test_a_hundred_runs_in_other_surroundings_are_equivalent(figures: Figures) -> None:
    _check(5, 20, figures)


@pytest.mark.slow
def test_a_thousand_runs_in_a_hundred_processes_are_equivalent(figures: Figures) -> None:
    _check(100, 10, figures)
