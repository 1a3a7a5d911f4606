"""Strategies propose what is shorter and loses nothing that is protected; ablation finds what is not needed."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from standfast.errors import ProviderRefused
from standfast.optimize.evals.results import InMemoryResultCache
from standfast.optimize.loops import strategies
from standfast.optimize.loops.meaning import protected
from standfast.optimize.loops.proposals import (
    SectionEdit,
    Strategies,
    StrategySession,
    compact_markdown,
    compact_whitespace,
    minify_json,
    plain_words,
    rewriting_strategies,
    units_of,
)
from standfast.optimize.loops.strategies import (
    Ablation,
    DuplicateRemoval,
    LLMCompressStrategy,
    Place,
    RecallBudget,
    largest_removal,
)
from standfast.optimize.prompts.template import PromptDescriptor, PromptTemplate, Section, memory_section
from standfast.optimize.providers.adapter import ScriptedProvider
from tests.optimize.loops.harness import COUNTER, TEMPLATE

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
    rest = "of the purchase when they ask for it in writing and send the parcel back to the address on the label of the box that it came in"
    prompt = _prompt(
        f"Refund every customer within 14 days {rest}.\n\nRefund every customer within 30 days {rest}.",
        f"We always tell customers about the delay {rest}.\n\nWe never tell customers about the delay {rest}.",
        f"Please thank every customer within a day {rest}.\n\nKindly thank every customer within a day {rest}.",
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
