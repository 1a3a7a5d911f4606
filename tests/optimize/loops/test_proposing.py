"""Proposals that earn their calls: where additions go, what ablations drop, what is reworded, what is
bought.
"""

from pathlib import Path
from typing import Any

import pytest

from standfast.limits import TWICE_RUN_SAMPLES
from standfast.optimize import (
    Dataset,
    GateSettings,
    ModelReply,
    ModelRequest,
    Sample,
    ScriptedProvider,
    optimize,
)
from standfast.optimize.evals.evaluators import (
    AllOf,
    FunctionEvaluator,
    NoRefusal,
    Score,
    SessionFacts,
    TokensUnder,
    ToolCalled,
    as_evaluator,
    graded_session,
)
from standfast.optimize.loops.apply import apply_report
from standfast.optimize.loops.gate import RejectReason
from standfast.optimize.loops.meaning import addition_objection
from standfast.optimize.loops.proposals import SampleOutcome, StrategySession
from standfast.optimize.loops.report import html_report, summary_lines
from standfast.optimize.loops.strategies import Ablation, FewShot, Reflection, with_addition
from standfast.optimize.prompts.overrides import approved_prompt
from standfast.optimize.prompts.template import PromptTemplate, Section
from standfast.optimize.providers.adapter import TokenUsage
from tests.optimize.loops.harness import COUNTER, RIGHT, TEMPLATE, Harness, Planted, agent, dataset
from tests.raising import raises_code

ONE_SECTION = PromptTemplate(
    ns="n", key="k", sections=(Section(key="prompt", body="You add.\n\nAdd ${a} and ${b}."),)
)


def _outcome(number: int, output: str, *, passed: bool = True, truncated: bool = False) -> SampleOutcome:
    sample = Sample(id=f"s{number}", input={"a": number, "b": 1}, expected=str(number + 1))
    return SampleOutcome(sample=sample, output=output, passed=passed, reason="", truncated=truncated)


def _session(*outcomes: SampleOutcome) -> StrategySession:
    return StrategySession(counter=COUNTER, outcomes=lambda _: outcomes)


def test_a_first_mistake_is_an_error_and_nothing_hangs() -> None:
    report = optimize("Add ${a}", [{"a": 1, "expected": "1"}], ScriptedProvider(lambda _: "1"))

    assert report.stopped is not None
    assert "34 held-out samples" in report.stopped
    with raises_code("invalid_dataset", match="row 1 must be"):
        optimize("Add ${a}", ["no row"], ScriptedProvider(lambda _: "1"))
    with raises_code("invalid_dataset", match="read_dataset"):
        optimize("Add ${a}", "samples.jsonl", ScriptedProvider(lambda _: "1"))
    with raises_code("optimization_failed", match="needs a value for a"):
        optimize("Add ${a}", [(f"x{n}", "1") for n in range(90)], ScriptedProvider(lambda _: "1"))


@pytest.mark.parametrize(
    "rows",
    [
        [{"id": "row-1", "a": 1, "expected": "2"}],
        [{"id": "row-1", "input": {"a": 1}, "expected": "2"}],
        [({"a": 1}, "2")],
        [Sample(id="row-1", input={"a": 1}, expected="2")],
    ],
)
def test_rows_of_many_forms_are_a_dataset(rows: Any) -> None:
    assert Dataset.of(rows) == Dataset(samples=(Sample(id="row-1", input={"a": 1}, expected="2"),))
    assert Dataset.of({"1": "2"}).samples[0].input == "1"


def test_examples_and_instructions_stand_before_the_input() -> None:
    prompt = ONE_SECTION.descriptor
    few = FewShot(1).propose(prompt, adapter=None, session=_session(_outcome(1, "2")))
    model = ScriptedProvider(lambda _: "- Be exact.")
    told = Reflection(model).propose(prompt, adapter=None, session=_session(_outcome(1, "3", passed=False)))

    assert few[0].proposed_body == "You add.\n\na: 1\nb: 1\nanswer: 2\n\nAdd ${a} and ${b}."
    assert told[0].proposed_body == "You add.\n\n- Be exact.\n\nAdd ${a} and ${b}."
    for edit in (few[0], told[0]):
        after = prompt.with_bodies({edit.path: (edit.proposed_body, None)})
        assert addition_objection(prompt, after, counter=COUNTER) is None


def test_an_addition_never_lands_inside_a_list_or_behind_the_input() -> None:
    assert with_addition("- a\n- ${b}\n\nEnd.", "x") == "x\n\n- a\n- ${b}\n\nEnd."
    assert with_addition("Fixed.", "x") == "Fixed.\n\nx"
    sections = (Section(key="task", body="${q}"), Section(key="footer", body="Bye."))
    prompt = PromptTemplate(ns="n", key="k", sections=sections).descriptor
    [edit] = FewShot(1).propose(prompt, adapter=None, session=_session(_outcome(1, "2")))

    assert edit.path == ("task",)
    assert edit.proposed_body.endswith("\n\n${q}")


def test_an_answer_that_was_cut_off_is_no_example_and_half_an_instruction_is_none() -> None:
    cut = _outcome(1, "2", truncated=True)
    assert FewShot(1).propose(ONE_SECTION.descriptor, adapter=None, session=_session(cut)) == []

    def script(request: ModelRequest) -> ModelReply:
        assert "cut off" in request.prompt
        return ModelReply(text="- Be exact.\n- Never sa", model="m", stopped="length")

    failed = _outcome(1, "3", passed=False, truncated=True)
    edits = Reflection(ScriptedProvider(script)).propose(
        ONE_SECTION.descriptor, adapter=None, session=_session(failed)
    )
    assert [edit.proposed_body.split("\n\n")[1] for edit in edits] == ["- Be exact."]


def test_answers_that_are_cut_off_are_counted_in_the_report(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> ModelReply:
        found = RIGHT.search(request.prompt)
        assert found is not None
        text = str(int(found[1]) + int(found[2]))
        return ModelReply(text=text, model="m", stopped="length" if found[1] == "7" else "stop")

    harness = Harness(tmp_path, ScriptedProvider(script), Planted(("role", "You are a calculator.")))
    report = harness.optimize(dataset(100))

    assert report.truncated_answers >= 2
    assert any("answers were cut off" in line for line in summary_lines(report))


class _OneBadUnit(Ablation):
    """Proposes to remove both halves of the examples, though the second is needed."""

    def propose_edits(self, prompt: Any, session: StrategySession) -> Any:
        whole = StrategySession(counter=session.counter, survives=lambda prompts: [True] * len(prompts))
        return super().propose_edits(prompt, whole)


def test_an_ablation_that_fails_loses_only_the_units_that_fail(tmp_path: Path) -> None:
    needs = lambda _number, prompt, _repeat: "Ten and ten" in prompt  # noqa: E731
    report = Harness(tmp_path, agent(needs), _OneBadUnit()).optimize(dataset(100))
    bodies = {one.section_path[0]: one.proposed_body for one in report.modifications}

    assert bodies["examples"] == "Ten and ten make twenty."
    assert bodies["role"] == ""


def test_other_words_need_a_sample_that_tests_the_sentence_or_a_flag(tmp_path: Path) -> None:
    """The agent needs to be told to calculate, in whatever words; nobody asks for the sea."""
    needs = lambda _number, prompt, _repeat: "calculator" in prompt or "reckoner" in prompt  # noqa: E731
    tested = ("role", "You are a reckoner that people like.\n\nYou are proud of it.")
    untested = ("examples", "Ten and ten make twenty.\n\nWide is the ocean.")
    edits, strict = Planted(tested, untested), GateSettings(remove_untested=True)
    report = Harness(tmp_path / "a", agent(needs), edits, gate=strict).optimize(dataset(100))
    listed = {one.after: (one.tested, one.accepted) for one in report.reworded}

    assert [one.section_path for one in report.modifications] == [("role",)]
    assert [one.reason for one in report.rejected] == [RejectReason.REWORDED]
    assert listed == {
        "You are a reckoner that people like.": (True, True),
        "Wide is the ocean.": (False, False),
    }
    assert any("not reworded (no sample tests it)" in line for line in summary_lines(report))
    assert "Reworded sentences" in html_report(report)
    allowed = GateSettings(remove_untested=True, accept_reworded=True)
    both = Harness(tmp_path / "b", agent(needs), edits, gate=allowed).optimize(dataset(100))
    assert {one.section_path[0] for one in both.modifications} == {"role", "examples"}


def _churning(share: float, seed: int = 0) -> Any:
    """An agent at temperature 0: without its second line this share of outcomes changes, half of them
    gains.
    """

    def needs(number: int, prompt: str, _repeat: int) -> bool:
        drawn = int(str(hash_of(number, seed))[-6:]) / 1e6
        base = drawn < 0.8
        if "proud" in prompt:
            return base
        lost, gained = 0.8 - share / 2 <= drawn < 0.8, 0.8 <= drawn < 0.8 + share / 2
        return (base and not lost) or gained

    return needs


def hash_of(number: int, seed: int) -> int:
    """A number that has nothing to do with the sample's."""
    return (number * 2_654_435_761 + seed * 40_503 + 12_345) * 2_246_822_519 % (1 << 61)


def test_a_model_that_does_not_vary_buys_samples_and_no_repeats(tmp_path: Path) -> None:
    edit = ("role", "You are a calculator that people like.")
    harness = Harness(tmp_path, agent(_churning(0.05)), Planted(edit))
    report = harness.optimize(dataset(400))

    assert report.has_modifications
    assert not report.model_varies
    # Both prompts once on every sample, and a few samples twice: the probe, and some that changed.
    assert report.evaluations <= 800 + TWICE_RUN_SAMPLES * 3


def test_a_baseline_that_passes_too_little_pays_for_one_look_only(tmp_path: Path) -> None:
    needs = lambda number, *_: number % 2 == 0  # noqa: E731
    harness = Harness(tmp_path, agent(needs), Planted(("role", "You are a calculator.")))
    report = harness.optimize(dataset(100))

    assert [one.reason for one in report.rejected] == [RejectReason.NOT_ENOUGH_SAMPLES]
    assert report.evaluations <= 100 + TWICE_RUN_SAMPLES
    assert report.stopped is not None
    assert "held-out samples, and there are" in report.stopped


def test_a_sample_that_must_pass_rejects_what_loses_it_and_shows_both_answers(tmp_path: Path) -> None:
    needs = lambda number, prompt, _repeat: number != 7 or "proud" in prompt  # noqa: E731
    marked = Dataset.of(
        [
            {"id": one.id, **one.input, "expected": one.expected, "must_pass": one.id == "s7"}
            for one in dataset(100)
        ]
    )
    edit = ("role", "You are a calculator.")
    assert Harness(tmp_path / "a", agent(needs), Planted(edit)).optimize(dataset(100)).has_modifications
    report = Harness(tmp_path / "b", agent(needs), Planted(edit)).optimize(marked)
    [rejected] = report.rejected

    assert "s7" in rejected.detail
    assert [(one.sample_id, one.baseline_output, one.candidate_output) for one in rejected.lost] == [
        ("s7", "15", "I do not know")
    ]
    assert "'15' became 'I do not know'" in str(report)
    assert "I do not know" in html_report(report)
    assert marked.digest != dataset(100).digest


def test_a_report_that_rejects_does_not_say_that_the_runs_exclude_a_loss(tmp_path: Path) -> None:
    """The harm shows only on samples that had no part in choosing."""
    _, confirm = dataset(100).split(GateSettings().held_out_share)
    hurt = {int(sample.id[1:]) for sample in confirm.samples[:12]}
    needs = lambda number, prompt, _repeat: number not in hurt or "proud" in prompt  # noqa: E731
    report = Harness(tmp_path, agent(needs), Planted(("role", "You are a calculator."))).optimize(
        dataset(100)
    )
    last = summary_lines(report)[-1]

    assert not report.has_modifications
    assert "nothing is changed" in summary_lines(report)[1]
    assert report.worst_loss is not None
    assert report.worst_loss > GateSettings().margin
    assert "is not excluded, and the margin is 10%" in last
    assert report.tried_pass_rate is not None
    assert f"{report.tried_pass_rate:.1%}" in last
    assert len(report.samples) > 0
    assert "before and after" in html_report(report)


def _losing_step_by_step(number: int, prompt: str, _repeat: int) -> bool:
    """Each line that goes costs six samples in a hundred, of which the margin allows ten."""
    lines = ("proud of it", "One and one", "Ten and ten")
    gone = sum(line not in prompt for line in lines)
    return number % 100 >= 6 * gone


def test_the_margin_is_kept_against_the_version_that_a_human_approved(tmp_path: Path) -> None:
    edits = [("role", "You are a calculator that people like."), ("examples", "Ten and ten make twenty.")]
    samples = [Dataset(samples=dataset(2_000).samples[n : n + 1_000]) for n in (0, 1_000)]

    def optimized(edit: tuple[str, str], samples: Dataset[Any, Any]) -> Any:
        harness = Harness(tmp_path, agent(_losing_step_by_step), Planted(edit))
        return harness, harness.optimize(samples)

    harness, first = optimized(edits[0], samples[0])
    apply_report(harness.store, TEMPLATE, first)
    held = harness.store.resolve(ns="agent", prompt_key="sum", tag="stable")
    assert held is not None
    assert held.approved_version == 0
    assert approved_prompt(TEMPLATE, held) == TEMPLATE.descriptor
    harness, second = optimized(edits[1], samples[1])
    assert [one.reason for one in second.rejected] == [RejectReason.DRIFTED]
    assert "against the approved version" in second.rejected[0].detail
    # A human who approves what was applied moves the point that the margin is kept against.
    harness.store.delete(ns="agent", prompt_key="sum", tag="stable")
    apply_report(harness.store, TEMPLATE, first, approved_by="Ada")
    assert optimized(edits[1], samples[1])[1].has_modifications


def test_a_plain_function_is_an_evaluator() -> None:
    half = as_evaluator(lambda output, expected: (0.4 if output == expected else 0.9, "because"))
    assert half("a", "a") == Score(passed=False, value=0.4, reason="because")
    assert half("a", "b").passed
    assert as_evaluator(lambda *_: True)("x", "y").passed
    with raises_code("invalid_evaluator", match="return a Score"):
        as_evaluator(lambda *_: "good")("x", "y")
    with raises_code("invalid_evaluator", match="pass an evaluator"):
        FunctionEvaluator(3)
    one, other = (as_evaluator(lambda output, _, limit=limit: len(output) < limit) for limit in (1, 2))
    assert one.evaluator_id != other.evaluator_id
    rows = [{"a": n, "b": 1, "expected": n + 1} for n in range(60)]
    report = optimize(
        "In order to win, add.\n\nAdd ${a} and ${b}.",
        rows,
        agent(),
        evaluator=lambda output, expected: int(output) == expected,
    )
    assert report.has_modifications


def test_sessions_are_graded_by_what_happened_in_them() -> None:
    session = SessionFacts(tools_called=("calendar",), usage=TokenUsage(output_tokens=9))
    cut = SessionFacts(truncated=True)

    def graded(evaluator: Any, facts: SessionFacts = session, output: str = "ok") -> bool:
        return graded_session(evaluator, output, None, facts).passed

    assert graded(ToolCalled("calendar"))
    assert not graded(ToolCalled("calendar", never=True))
    assert not graded(ToolCalled("mail"))
    assert (graded(TokensUnder(9)), graded(TokensUnder(8)), graded(TokensUnder(9), cut)) == (
        True,
        False,
        False,
    )
    assert graded(AllOf(ToolCalled("calendar"), lambda output, _: output == "ok"))
    assert not graded(NoRefusal(), output="I'm sorry, but I can't do that.")
    assert not graded(NoRefusal(), output="Ich kann das leider nicht sagen.")
    assert graded(NoRefusal(), output="The answer is 4.")


def test_a_lost_sample_that_must_pass_is_the_reason_on_held_out_samples_too(tmp_path: Path) -> None:
    _, confirm = dataset(100).split(GateSettings().held_out_share)
    lost = confirm.samples[0].id
    needs = lambda number, prompt, _repeat: f"s{number}" != lost or "proud" in prompt  # noqa: E731
    rows = [
        {"id": one.id, **one.input, "expected": one.expected, "must_pass": one.id == lost}
        for one in dataset(100)
    ]
    edit = ("role", "You are a calculator.")
    report = Harness(tmp_path, agent(needs), Planted(edit)).optimize(Dataset.of(rows))
    [rejected] = report.rejected

    assert rejected.reason is RejectReason.REGRESSED
    assert rejected.detail == f"on held-out samples: lost samples that must pass: {lost}"
    assert summary_lines(report)[-1] == "what was tried loses a sample that must pass, which decides alone"


def test_answers_that_were_cut_off_are_told_apart_in_the_report(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> ModelReply:
        cut = "proud" not in request.prompt
        answer = agent().complete(request)
        return ModelReply(text="1" if cut else answer.text, model="m", stopped="length" if cut else "stop")

    report = Harness(tmp_path, ScriptedProvider(script), Planted(("role", "You are a calculator."))).optimize(
        dataset(100)
    )
    [rejected] = report.rejected

    assert (report.baseline_truncated, report.candidate_truncated) == (0, 0)
    assert report.truncated_answers > 0
    assert "0 of the baseline" in str(report)
    assert rejected.lost[0].candidate_truncated
    assert not rejected.lost[0].baseline_truncated
    assert "became '1' (cut off)" in str(report)
    assert "1 (cut off)" in html_report(report)
