"""The same agent over memory, anywhere and at any time: equivalent.

One thing changed: caught, with its own reason code.
"""

import itertools

import pytest

from standfast.traces.artifact import Trace
from standfast.traces.equivalence import ReasonCode, compare
from tests.figures import Figures
from tests.memory.scripted import KNOWN, Script
from tests.subprocesses import other_environment, run_python


def _recorded_elsewhere(runs: int, number: int) -> list[Trace]:
    """Traces from a process of its own, in other_environment of its own."""
    result = run_python("-m", "tests.memory.scripted", str(runs), **other_environment(number + 1))
    return [Trace.read(line) for line in result.encode().splitlines()]


def _check(processes: int, runs_each: int, figures: Figures) -> None:
    traces = [trace for number in range(processes) for trace in _recorded_elsewhere(runs_each, number)]
    figures("equivalent runs over memory", runs=len(traces), hash_seeds=processes)

    assert len({trace.run_id for trace in traces}) == len(traces) == processes * runs_each
    expected = Script().play()
    assert [compare(expected, trace).differences for trace in traces] == [()] * len(traces)
    assert all(compare(left, right).is_equivalent for left, right in itertools.pairwise([expected, *traces]))


def test_ten_runs_in_other_surroundings_are_equivalent(figures: Figures) -> None:
    _check(2, 5, figures)


@pytest.mark.slow
def test_a_hundred_runs_in_other_surroundings_are_equivalent(figures: Figures) -> None:
    _check(20, 5, figures)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (Script(city="Bergen"), ReasonCode.NORMALIZED_ARGS),
        (Script(known=(("policy/eu-returns", KNOWN[0][1]), *KNOWN[1:])), ReasonCode.SELECTED_RECORDS),
        (
            Script(known=((KNOWN[0][0], "EU refunds and parcels take 14 days."), *KNOWN[1:])),
            ReasonCode.RANK_ORDER,
        ),
        (Script(strict=False), ReasonCode.POLICY_SET_ID),
        (Script(guardrail="pii-kept"), ReasonCode.GUARDRAILS),
    ],
    ids=["argument", "record", "rank", "policy", "guardrail"],
)
def test_one_change_is_caught_with_its_own_reason_code(changed: Script, code: ReasonCode) -> None:
    comparison = compare(Script().play(), changed.play())

    # Another tool argument gives another result, which is told as well.
    assert {one.code for one in comparison.differences} - {ReasonCode.TOOL_RESULT} == {code}
    assert comparison.first is not None
    assert comparison.first.code is code
