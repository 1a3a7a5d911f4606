"""Strategies propose what is shorter and loses nothing that is protected; ablation finds what is not
needed.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from standfast.optimize.errors import ProviderRefused
from standfast.optimize.evals.results import InMemoryResultCache
from standfast.optimize.loops import strategies
from standfast.optimize.loops.gate import GateSettings, MoreRuns, RejectReason, decide
from standfast.optimize.loops.meaning import protected
from standfast.optimize.loops.proposals import (
    SectionEdit,
    Strategies,
    StrategySession,
    compact_markdown,
    compact_whitespace,
    edit_of,
    minify_json,
    plain_words,
    rewriting_strategies,
    units_of,
)
from standfast.optimize.loops.report import summary_lines
from standfast.optimize.loops.strategies import (
    Ablation,
    DuplicateRemoval,
    FewShot,
    LLMCompressStrategy,
    Place,
    RecallBudget,
    Reflection,
    largest_removal,
)
from standfast.optimize.prompts.template import PromptDescriptor, PromptTemplate, Section, memory_section
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from tests.optimize.loops.harness import COUNTER, TEMPLATE, Harness, agent, dataset

SESSION = StrategySession(counter=COUNTER)
PIECES = st.sampled_from(
    [
        "Please note that you are kind.",
        "In order to answer, do NOT guess.",
        "- never say `x  y`\n",
        "* **bold**   words\n",
        "---\n",
        "1. first\n\n2. second\n",
        '```json\n{"a": [1,  2.50],\n "b": null}\n```\n',
        "```\ncode   stays\n\n\n\nas it is\n```\n",
        "See https://example.org/a  now,   ${name}!\n",
        "\n\n\n",
        "   ",
        "You MUST answer within 14 days.",
        "due to the fact that it's so",
        "`a` * b * `c`",
        "$${not} a placeholder",
    ]
)
BODIES = st.lists(PIECES, max_size=8).map("".join)


def _prompt(*bodies: str) -> PromptDescriptor:
    sections = tuple(Section(key=f"k{n}", title="T", body=body) for n, body in enumerate(bodies))
    return PromptTemplate(ns="n", key="k", sections=sections).descriptor


@pytest.mark.parametrize(
    ("rewrite", "before", "after"),
    [
        (compact_whitespace, "a   b  \n\n\n\nc `x  y` d", "a b\n\nc `x  y` d"),
        (compact_whitespace, "use `x` now", "use `x` now"),
        (compact_markdown, "**Bold** and __bold__\n\n---\n* one\n\n* two", "Bold and bold\n\n- one\n- two"),
        (compact_markdown, "`a` * b", "`a` * b"),
        (minify_json, '```json\n{\n  "a": [1, 2.50]\n}\n```', '```json\n{"a":[1,2.50]}\n```'),
        (minify_json, "```json\n{broken}\n```", "```json\n{broken}\n```"),
        (minify_json, '```json\n{"a": "${b}"}\n```', '```json\n{"a": "${b}"}\n```'),
        (plain_words, "In order to win, please play.", "To win, play."),
        (plain_words, "Please answer. Basically, it works.", "Answer. It works."),
        (plain_words, "Do not answer in order to win", "Do not answer to win"),
    ],
)
def test_rewritings(rewrite: object, before: str, after: str) -> None:
    assert callable(rewrite)
    assert rewrite(before) == after


@settings(max_examples=60)
@given(BODIES)
@example('```json\n{"a": [1, 2]}\n``` and `1,  2`')
def test_no_rewriting_loses_what_is_protected(body: str) -> None:
    for rewrite in (compact_whitespace, compact_markdown, minify_json, plain_words):
        assert protected(rewrite(body)) >= protected(body), rewrite


@settings(max_examples=60)
@given(BODIES)
def test_every_rewriting_done_twice_is_done_once(body: str) -> None:
    for rewrite in (compact_whitespace, minify_json):
        assert rewrite(rewrite(body)) == rewrite(body)


@settings(max_examples=60)
@given(BODIES)
def test_units_are_the_text_in_pieces(body: str) -> None:
    assert "".join(unit.text for unit in units_of(body)) == body


def test_minified_json_says_the_same() -> None:
    value = {"a": [1, {"b": "x  y"}, None, True], "ä": 1.5}
    text = f"```json\n{json.dumps(value, indent=4, ensure_ascii=False)}\n```"

    assert json.loads(minify_json(text).split("\n")[1]) == value


def test_only_what_gets_shorter_is_proposed() -> None:
    strategies = Strategies(*rewriting_strategies())
    edits = strategies.propose(
        _prompt("Please   note that   it works.", "Short."), adapter=None, session=SESSION
    )

    assert edits
    assert {edit.path for edit in edits} == {("k0",)}
    assert all(edit.proposed_tokens < edit.original_tokens for edit in edits)


def test_what_is_said_twice_stays_once_across_sections() -> None:
    prompt = _prompt(
        "Always be polite to every customer.\n\nSay hello first.",
        "Work quickly.\n\nAlways be  polite to every customer!\n\n- Say hello first",
    )
    edits = DuplicateRemoval().propose(prompt, adapter=None, session=SESSION)

    assert [(edit.path, edit.proposed_body) for edit in edits] == [
        (("k1",), "Work quickly.\n\n- Say hello first")
    ]


def test_what_differs_in_a_number_or_a_negation_is_no_duplicate() -> None:
    rest = (
        "of the purchase when they ask for it in writing and send the parcel back to the address on the label"
        " of the box that it came in"
    )
    prompt = _prompt(
        f"Refund every customer within 14 days {rest}.\n\nRefund every customer within 30 days {rest}.",
        f"We always tell customers about the delay {rest}.\n\nWe never tell customers about the delay"
        f" {rest}.",
        f"Please thank every customer within a day {rest}.\n\nKindly thank every customer within a day"
        f" {rest}.",
    )
    edits = DuplicateRemoval().propose(prompt, adapter=None, session=SESSION)

    assert [edit.path for edit in edits] == [("k2",)]


def test_ablation_takes_out_all_that_is_not_needed() -> None:
    needed = ("sum alone", "One and one")
    screened: list[int] = []

    def survives(prompts: Sequence[PromptDescriptor]) -> list[bool]:
        screened.append(len(prompts))
        texts = ["".join(section.body for section in prompt.sections) for prompt in prompts]
        return [all(word in text for word in needed) for text in texts]

    session = StrategySession(counter=COUNTER, survives=survives)
    edits = Ablation().propose(TEMPLATE.descriptor, adapter=None, session=session)

    assert {edit.path[0]: edit.proposed_body for edit in edits} == {
        "role": "",
        "examples": "One and one make two.",
    }
    assert sum(screened) < 25


def test_ablation_without_evals_proposes_nothing() -> None:
    assert Ablation().propose(TEMPLATE.descriptor, adapter=None, session=SESSION) == []


@settings(max_examples=40)
@given(st.sets(st.integers(0, 15), max_size=6), st.integers(0, 16))
def test_ablation_removes_exactly_what_no_one_needs(needed: set[int], count: int) -> None:
    places: list[Place] = [(("s",), number) for number in range(count)]

    def survive(removals: Sequence[frozenset[Place]]) -> list[bool]:
        return [not any(number in needed for _, number in removal) for removal in removals]

    gone = {number for _, number in largest_removal(places, survive)}
    assert gone == set(range(count)) - needed


def test_removals_that_only_fail_together_are_taken_one_by_one() -> None:
    """Either of the first two may go, but not both."""
    places: list[Place] = [(("s",), number) for number in range(4)]

    def survive(removals: Sequence[frozenset[Place]]) -> list[bool]:
        return [not {(("s",), 0), (("s",), 1)} <= removal for removal in removals]

    assert len(largest_removal(places, survive)) == 3


def test_smaller_recall_budgets_are_rivals() -> None:
    prompt = PromptTemplate(ns="n", key="k", sections=(memory_section(tokens=800),)).descriptor
    edits = RecallBudget().propose(prompt, adapter=None, session=SESSION)

    assert [edit.recall_tokens for edit in edits] == [100, 200, 400, 600]
    assert [edit.original_tokens - edit.proposed_tokens for edit in edits] == [700, 600, 400, 200]


def _compressed(body: str, reply: str) -> Sequence[SectionEdit]:
    strategy = LLMCompressStrategy(ScriptedProvider(lambda _: reply))
    return strategy.propose(_prompt(body), adapter=None, session=SESSION)


def test_a_model_is_asked_to_shorten_and_not_trusted() -> None:
    long = "You are a very helpful calculator, who always adds ${a} and ${b} for everybody who asks you to."
    replies = {
        "good": f"<shortened>Add {'${a}'} and {'${b}'}.</shortened>",
        "lost": "<shortened>Add.</shortened>",
        "none": "No.",
    }
    proposed = {name: _compressed(long, reply) for name, reply in replies.items()}

    assert [edit.proposed_body for edit in proposed["good"]] == ["Add ${a} and ${b}."]
    assert proposed["lost"] == proposed["none"] == []
    with pytest.raises(ProviderRefused):
        LLMCompressStrategy().propose(_prompt(long), adapter=None, session=SESSION)


def test_what_a_model_proposed_is_kept_by_model_section_and_instruction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bodies = [
        f"You are a very helpful calculator, who always adds {n} to ${{a}} for everybody." for n in (1, 2)
    ]
    cache = InMemoryResultCache()

    def calls(body: str, *, seed: int = 0) -> int:
        provider = ScriptedProvider(lambda _: "<shortened>Add ${a}.</shortened>", seed=seed)
        strategy = LLMCompressStrategy(provider, least_tokens=5, cache=cache)
        assert len(strategy.propose(_prompt(body), adapter=None, session=SESSION)) == 1
        return provider.calls

    assert [calls(bodies[0]), calls(bodies[0]), calls(bodies[1]), calls(bodies[0], seed=1)] == [1, 0, 1, 1]
    monkeypatch.setattr(strategies, "_REQUEST", f"Shorter! {strategies._REQUEST}")
    assert [calls(bodies[0]), calls(bodies[0])] == [1, 0]


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
    looks = settings.confirming(1, varies=True)
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
