"""Additions: examples and instructions that raise the pass rate pass the gate, and nothing else does."""

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from standfast.optimize.evals.results import InMemoryResultCache
from standfast.optimize.loops.gate import GateSettings, MoreRuns, RejectReason, decide
from standfast.optimize.loops.proposals import SectionEdit, StrategySession, edit_of
from standfast.optimize.loops.report import summary_lines
from standfast.optimize.loops.strategies import FewShot, Reflection
from standfast.optimize.prompts.template import PromptDescriptor
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from tests.optimize.loops.harness import TEMPLATE, Harness, agent, dataset

SAMPLES = 100


def _half(number: int) -> bool:
    return number % 2 == 0


class Adding:
    """A strategy that adds a text to the rules."""

    def __init__(self, text: str, *, keeps: bool = True) -> None:
        self._text, self._keeps = text, keeps

    def propose(
        self,
        prompt: PromptDescriptor,
        *,
        adapter: object,  # noqa: ARG002  # Needs no model.
        session: StrategySession,
    ) -> Sequence[SectionEdit]:
        """The rules and the text."""
        section = prompt.section(("rules",))
        assert section is not None
        body = (section.body if self._keeps else "Guess.") + "\n\n" + self._text
        return [edit_of(section, body, session=session, strategy="adding", adds=True)]


def test_examples_that_help_are_accepted(tmp_path: Path) -> None:
    """Without an example of a sum in its prompt, the agent can do half of the sums."""
    provider = agent(lambda number, prompt, _: _half(number) or "answer: " in prompt)
    report = Harness(tmp_path, provider, FewShot(1)).optimize(dataset(SAMPLES))

    [added] = report.modifications
    assert added.section_path == ("examples",)
    assert added.proposed_body.startswith(added.original_body)
    assert added.token_reduction < 0
    assert (report.baseline_pass_rate < 0.7, report.candidate_pass_rate) == (True, 1.0)
    assert any("more tokens (few-shot:1)" in line for line in summary_lines(report))
    assert "show a gain of more than 2.0%" in summary_lines(report)[-1]


def test_examples_come_from_choosing_samples_that_pass(tmp_path: Path) -> None:
    """Never from held-out samples, on which the addition has to prove itself."""
    provider = agent(lambda number, prompt, _: _half(number) or "answer: " in prompt)
    samples = dataset(SAMPLES)
    report = Harness(tmp_path, provider, FewShot(1, 3)).optimize(samples)
    choosing, held_out = samples.split(GateSettings().held_out_share)

    def examples(some: Any) -> list[str]:
        return [f"a: {one.input['a']}\nb: {one.input['b']}\nanswer: {one.expected}" for one in some]

    [added] = report.modifications
    assert any(text in added.proposed_body for text in examples(choosing))
    assert not any(text in added.proposed_body for text in examples(held_out))


def test_an_addition_that_does_not_help_is_rejected(tmp_path: Path) -> None:
    report = Harness(tmp_path, agent(lambda number, *_: _half(number)), Adding("Be nice.")).optimize(
        dataset(SAMPLES)
    )

    assert report.modifications == ()
    assert [one.reason for one in report.rejected] == [RejectReason.NOT_BETTER]
    assert "a gain of more than 2.0% is not shown" in report.rejected[0].detail


def test_an_addition_must_keep_the_text(tmp_path: Path) -> None:
    report = Harness(tmp_path, agent(), Adding("More.", keeps=False)).optimize(dataset(SAMPLES))

    assert [one.reason for one in report.rejected] == [RejectReason.MEANING_CHANGED]


def test_a_model_reflects_on_failures_and_the_instruction_that_helps_is_added(tmp_path: Path) -> None:
    asked: list[str] = []

    def reflect(request: ModelRequest) -> str:
        asked.append(request.prompt)
        return "Thoughts.\n- Be nice.\n- Carry the one.\n- Use ${a}.\n- Carry the one."

    provider = agent(lambda number, prompt, _: _half(number) or "Carry the one." in prompt)
    cache = InMemoryResultCache()

    def report(folder: str) -> Any:
        strategy = Reflection(ScriptedProvider(reflect), cache=cache)
        return Harness(tmp_path / folder, provider, strategy).optimize(dataset(SAMPLES))

    first, again = report("a"), report("b")
    [added] = first.modifications
    assert added.section_path == ("rules",)
    assert added.proposed_body.removeprefix(added.original_body) == "\n\n- Carry the one."
    assert "I do not know" in asked[0]
    assert "expected: " in asked[0]
    assert first.candidate_pass_rate == 1.0
    assert (again.modifications, len(asked)) == (first.modifications, len(set(asked)))


def test_where_nothing_fails_nobody_is_asked(tmp_path: Path) -> None:
    judge = ScriptedProvider(lambda _: "- Be nice.")
    Harness(tmp_path, agent(), Reflection(judge)).optimize(dataset(SAMPLES))

    assert judge.calls == 0


def test_protected_sections_and_placeholders_are_not_added_to() -> None:
    edits = FewShot(1).propose(TEMPLATE.descriptor, adapter=None, session=StrategySession(counter=None))  # type: ignore[arg-type]

    assert edits == []


@pytest.mark.parametrize(("gain", "most", "least"), [(0.0, 0.05, 0.0), (0.02, 0.08, 0.0), (0.25, 1.0, 0.8)])
def test_acceptance_against_the_true_gain(gain: float, most: float, least: float) -> None:
    """At or below the least gain the stated level holds; a real gain is mostly found."""
    chance = Random(7)
    settings = GateSettings()
    looks = settings.confirming(1)
    ids = [f"s{number}" for number in range(60)]
    accepted = 0
    trials = 200
    for _ in range(trials):
        rates = {sample: chance.choice((0.3, 0.5, 0.7)) for sample in ids}
        runs = {
            side: {
                sample: tuple(chance.random() < rates[sample] + extra for _ in range(settings.max_repeats))
                for sample in ids
            }
            for side, extra in (("base", 0.0), ("own", gain))
        }
        done = 0
        while True:
            shown = {
                side: {sample: own[:done] for sample, own in some.items()} for side, some in runs.items()
            }
            answer = decide(
                shown["base"], shown["own"], samples=ids, settings=settings, looks=looks, better=True
            )
            if not isinstance(answer, MoreRuns):
                break
            done = answer.repeats
        accepted += answer.passed

    assert least <= accepted / trials <= most
