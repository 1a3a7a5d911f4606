"""The rules of equivalence: each has a fixture that passes it and one that fails it."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast import Memory
from standfast.traces.artifact import Trace
from standfast.traces.equivalence import (
    ClaimVerdict,
    Comparison,
    Difference,
    ReasonCode,
    ShortfallCode,
    compare,
    compare_artifacts,
    shortfalls,
)
from tests.traces.fixture_files import (
    DIFFERENT,
    EQUIVALENT,
    FOLDER,
    REJECTED,
    base,
    changed,
    put,
    rename_events,
    swap_ties,
    texts,
)
from tests.traces.scripted import FixedMemory, Script, a_run, recorded

BASE = (FOLDER / "base.json").read_bytes()


def test_records_of_equal_score_in_the_wrong_order_prove_nothing() -> None:
    wrong = Trace.from_json(changed(swap_ties))
    found = compare(wrong, wrong)

    assert found.verdict is ClaimVerdict.REJECTED
    assert {one.code for one in found.left_shortfalls} == {ShortfallCode.RANK_ORDER}


def test_recalls_that_differ_only_in_the_instant_asked_about_are_not_equivalent() -> None:
    traces = []
    with Memory.open(":memory:") as memory:
        memory.remember("Refunds take 14 days.", subject="b")
        memory.remember("Refunds take 30 days.", subject="a")
        for now_utc in ("2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2026-01-01T00:00:00Z"):
            with memory.run(workflow="triage", mode="read_only") as run:
                run.recall("refunds", tokens=200, now_utc=now_utc, controller="phase6-v1")
                run.recall("refunds", tokens=200, now_utc=now_utc)
            assert run.trace is not None
            traces.append(run.trace)
    first, later, again = traces

    assert {one.code for one in compare(first, later).differences} == {ReasonCode.FILTERS}
    assert compare(first, again).differences == ()
    for read in first.retrievals:
        order = [(-one.score, one.record_id) for one in read.selected_records]
        assert order == sorted(order)


def test_the_committed_fixtures_are_what_the_code_makes() -> None:
    committed = {
        file.relative_to(FOLDER).as_posix(): file.read_text(encoding="utf-8")
        for file in FOLDER.rglob("*.json")
    }

    assert committed == texts(), "run: make schemas"


@pytest.mark.parametrize("name", EQUIVALENT)
def test_what_does_not_count_makes_no_difference(name: str) -> None:
    other = (FOLDER / "equivalent" / f"{name}.json").read_bytes()

    assert compare_artifacts(BASE, other).verdict is ClaimVerdict.EQUIVALENT
    assert compare_artifacts(other, BASE).is_equivalent


@pytest.mark.parametrize("code", ReasonCode)
def test_every_rule_catches_its_difference_under_its_own_code(code: ReasonCode) -> None:
    comparison = compare_artifacts(BASE, (FOLDER / "different" / f"{code}.json").read_bytes())

    expected = ClaimVerdict.ERASED if code is ReasonCode.ERASED_SINCE else ClaimVerdict.DIFFERENT
    assert comparison.verdict is expected
    assert code in {difference.code for difference in comparison.differences}
    assert {difference.code for difference in comparison.differences} <= {code, *CONSEQUENCES.get(code, ())}


# What can't change alone: another tool has another profile, another profile is another model config.
CONSEQUENCES = {
    ReasonCode.TOOL_NAME: {ReasonCode.TOOL_PROFILE_VERSION, ReasonCode.TOOL_RESULT},
    ReasonCode.TOOL_PROFILE_VERSION: {ReasonCode.MODEL_CONFIG_ID},
    ReasonCode.OUTPUT_TYPE: {ReasonCode.OUTPUT_SHAPE},
    ReasonCode.TOOL_OUTCOME: {ReasonCode.TOOL_RESULT},
    ReasonCode.ERASED_SINCE: {ReasonCode.SELECTED_RECORDS},
}


@pytest.mark.parametrize("code", ShortfallCode)
def test_a_claim_without_the_full_contract_is_rejected_on_either_side(code: ShortfallCode) -> None:
    short = (FOLDER / "rejected" / f"{code}.json").read_bytes()
    left, right, same = (
        compare_artifacts(short, BASE),
        compare_artifacts(BASE, short),
        compare_artifacts(short, short),
    )

    assert {left.verdict, right.verdict, same.verdict} == {ClaimVerdict.REJECTED}
    assert (
        [fall.code for fall in left.left_shortfalls]
        == [code]
        == [fall.code for fall in right.right_shortfalls]
    )
    assert left.right_shortfalls == right.left_shortfalls == ()


def test_there_is_a_fixture_for_every_way_to_fall_short() -> None:
    files = {file.stem for file in (FOLDER / "rejected").iterdir()}

    assert files == set(ShortfallCode)
    assert {*REJECTED, ShortfallCode.DAMAGED, ShortfallCode.UNREADABLE} == set(ShortfallCode)


@pytest.mark.parametrize(
    ("code", "agent", "run", "memory"),
    [
        (ReasonCode.NORMALIZED_ARGS, Script(query="parcel position"), None, None),
        (ReasonCode.QUERY_FINGERPRINT, Script(question="refund rules"), None, None),
        (ReasonCode.TOOL_RESULT, Script(hits=("lost",)), None, None),
        (ReasonCode.SIDE_EFFECT, Script(recipient="bob@example.org"), None, None),
        (ReasonCode.GUARDRAILS, Script(guardrails=()), None, None),
        (ReasonCode.OUTPUT_SHAPE, Script(sections=("body",)), None, None),
        (ReasonCode.DECISION_TYPE, Script(hits=()), None, None),
        (ReasonCode.POLICY_SET_ID, None, {"policy_set_id": "policies-v2"}, None),
        (ReasonCode.MEMORY_SNAPSHOT_ID, None, {"memory_snapshot_id": 42}, None),
        (ReasonCode.SELECTED_RECORDS, None, None, (("eu-refunds", 0.9), ("other", 0.5))),
        (ReasonCode.RANK_ORDER, None, None, (("eu-refunds", 0.9), ("us-refunds", 0.5), ("eu-postage", 0.4))),
    ],
)
def test_a_change_of_the_agent_is_caught_where_it_was_made(
    code: ReasonCode, agent: Script | None, run: dict[str, Any] | None, memory: Any
) -> None:
    """Not the artifact is changed here, but what is recorded."""
    held = FixedMemory()
    if memory is not None:
        held.records = memory
    other = recorded(agent, a_run("run-2", **(run or {})), memory=held)
    comparison = compare(recorded(), other)

    assert comparison.verdict is ClaimVerdict.DIFFERENT
    assert comparison.first is not None
    found = [difference.code for difference in comparison.differences]
    assert found[0] == code or (code is ReasonCode.SIDE_EFFECT and found[1] == code)


def test_a_difference_tells_the_index_the_place_and_both_values() -> None:
    comparison = compare(recorded(), recorded(Script(query="parcel position")))

    assert comparison.first == Difference(
        code=ReasonCode.NORMALIZED_ARGS,
        event_index=1,
        place="events[1].tool_calls[0].normalized_args",
        left={"query": "parcel status"},
        right={"query": "parcel position"},
    )


def test_runs_of_which_one_goes_on_diverge_at_its_first_additional_event() -> None:
    document = base()
    longer = _trace(document)
    DIFFERENT[ReasonCode.EVENT_COUNT](document)
    shorter = _trace(document)
    for one, other in ((longer, shorter), (shorter, longer)):
        (found,) = (each for each in compare(one, other).differences if each.code is ReasonCode.EVENT_COUNT)

        assert found.event_index == len(shorter.events) < len(longer.events)


def test_true_and_one_are_different_arguments() -> None:
    left, right = base(), base()
    left["events"][1]["tool_calls"][0]["normalized_args"] = {"query": 1}
    right["events"][1]["tool_calls"][0]["normalized_args"] = {"query": True}

    assert [difference.code for difference in compare(_trace(left), _trace(right)).differences] == [
        ReasonCode.NORMALIZED_ARGS
    ]


def _trace(document: dict[str, Any]) -> Trace:
    return Trace.from_document(changed(lambda _: None, document))


def _mirrored(comparison: Comparison) -> Comparison:
    return Comparison(
        verdict=comparison.verdict,
        left_run_id=comparison.right_run_id,
        right_run_id=comparison.left_run_id,
        left_shortfalls=comparison.right_shortfalls,
        right_shortfalls=comparison.left_shortfalls,
        differences=tuple(
            Difference(
                code=each.code,
                event_index=each.event_index,
                place=each.place,
                left=each.right,
                right=each.left,
            )
            for each in comparison.differences
        ),
    )


STRUCTURAL = {ReasonCode.EVENT_COUNT, ReasonCode.TOOL_CALL_COUNT, ReasonCode.RETRIEVAL_COUNT}
SAFE = [mutate for code, mutate in DIFFERENT.items() if code not in STRUCTURAL]
changed_traces = st.lists(st.sampled_from([*SAFE, *EQUIVALENT.values()]), max_size=4, unique=True).map(
    lambda mutations: _changed_by(mutations)  # noqa: PLW0108  # Defined below.
)


def _changed_by(mutations: list[Any]) -> Trace:
    document = base()
    for mutate in mutations:
        # Renaming comes last, because the other changes find their places by the ids that were recorded.
        if mutate is not rename_events:
            mutate(document)
    if rename_events in mutations:
        rename_events(document)
    return _trace(document)


@settings(max_examples=60)
@given(changed_traces)
def test_every_trace_is_equivalent_to_itself_if_it_may_claim_anything(trace: Trace) -> None:
    comparison = compare(trace, deepcopy(trace))

    assert comparison.differences == ()
    assert comparison.is_equivalent == (comparison.left_shortfalls == ())


@settings(max_examples=60)
@given(changed_traces, changed_traces)
def test_comparing_the_other_way_round_mirrors_the_answer(left: Trace, right: Trace) -> None:
    assert compare(right, left) == _mirrored(compare(left, right))


@settings(max_examples=60)
@given(changed_traces, st.randoms(use_true_random=False))
def test_renaming_events_never_matters(trace: Trace, dice: Any) -> None:
    document = deepcopy(trace.as_json())
    document["events"] = [dict(event) for event in document["events"]]
    names = {event["event_id"]: f"{dice.random()}-{event['index']}" for event in document["events"]}
    for event in document["events"]:
        event["event_id"] = names[event["event_id"]]
    for read in document["retrievals"]:
        read["event_id"] = names[read["event_id"]]
    renamed = _trace(document)

    assert compare(trace, renamed).differences == ()
    assert compare(trace, renamed).verdict == compare(trace, trace).verdict


uncounted = st.lists(st.sampled_from(list(EQUIVALENT.values())), max_size=6, unique=True)


@settings(max_examples=60)
@given(uncounted, uncounted)
def test_no_mix_of_changes_that_do_not_count_makes_a_difference(left: list[Any], right: list[Any]) -> None:
    assert compare(_changed_by(left), _changed_by(right)).is_equivalent


@settings(max_examples=60)
@given(st.sampled_from([code for code in ReasonCode if code not in STRUCTURAL]), uncounted)
def test_a_change_that_counts_is_not_hidden_by_others_that_do_not(
    code: ReasonCode, others: list[Any]
) -> None:
    comparison = compare(_changed_by(others), _changed_by([*others, DIFFERENT[code]]))

    assert comparison.verdict in (ClaimVerdict.DIFFERENT, ClaimVerdict.ERASED)
    assert code in {difference.code for difference in comparison.differences}


@pytest.mark.parametrize(("field", "value"), [("gap_count", 1), ("complete", False)])
def test_a_trace_that_says_something_is_missing_claims_nothing(field: str, value: object) -> None:
    """Even if it lists no gap."""
    trace = Trace.from_document(changed(put(f"metadata.{field}", value)))

    assert [fall.code for fall in shortfalls(trace)] == [ShortfallCode.INCOMPLETE]
