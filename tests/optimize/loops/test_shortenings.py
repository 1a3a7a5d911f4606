"""Sentences that say the opposite are refused or listed, and honest shortenings pass, in four languages.

``shortenings.json`` has four sets of 28 flips and 20 honest shortenings. The rules were made with "tuned" and
"who acts"; "unseen" and "fresh" were first run when the rules were done.
"""

import json
from pathlib import Path

import pytest

from standfast.optimize.loops.meaning import reworded_sentences, static_objection, without_sentence
from standfast.optimize.loops.sentences import dropped, meaning_change, reworded, sentences_of
from standfast.optimize.prompts.template import PromptDescriptor, PromptTemplate, Section
from tests.figures import Figures
from tests.optimize.loops.harness import COUNTER

SETS = json.loads(Path(__file__).with_name("shortenings.json").read_text("utf-8"))
WORDY, PLAIN = "In order to help, you are able to think for a while.", "To help, you can think for a while."


def _prompt(*paragraphs: str) -> PromptDescriptor:
    body = "\n\n".join(paragraphs)
    return PromptTemplate(ns="n", key="k", sections=(Section(key="s", body=body),)).descriptor


def _passes(before: str, after: str) -> bool:
    """Whether a shorter prompt with this change is accepted without a sample or a person."""
    old, new = _prompt(WORDY, before), _prompt(PLAIN, after)
    return static_objection(old, new, counter=COUNTER) is None and not reworded_sentences(old, new)


@pytest.mark.parametrize("name", SETS)
def test_flips_are_refused_or_listed_and_honest_shortenings_pass(name: str, figures: Figures) -> None:
    flips, honest = SETS[name]["flips"], SETS[name]["honest"]
    stopped = sum(not _passes(*pair) for pair in flips)
    passed = sum(_passes(*pair) for pair in honest)
    figures(f"shortenings, {name} set", flips_stopped=stopped, honest_passed=passed)

    assert (len(flips), len(honest)) == (28, 20)
    assert stopped >= 26
    assert passed >= 16


def test_an_opposite_is_refused_and_another_word_is_only_listed() -> None:
    old = sentences_of("Hide the phone number.")
    opposite, other = sentences_of("Show the phone number."), sentences_of("Bury the phone number.")

    assert meaning_change(old, opposite) is not None
    assert meaning_change(old, other) is None
    assert reworded(old, other) == [("Hide the phone number.", "Bury the phone number.")]


def test_a_sentence_that_comes_from_nowhere_is_listed_without_a_source() -> None:
    assert reworded(sentences_of("Be kind."), sentences_of("Be kind. Sing loudly.")) == [("", "Sing loudly.")]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The user decides and the agent confirms.", "The agent decides and the user confirms."),
        ("Move files from drafts to archive.", "Move files from archive to drafts."),
        ("Answer all questions.", "Answer some questions."),
        ("Use their name.", "Use your name."),
        ("You may answer.", "Answer."),
        ("You should answer.", "You must answer."),
        ("Do not share keys, share names.", "Share keys, do not share names."),
        ("Turn it on.", "Turn it off."),
    ],
)
def test_a_change_among_what_stays_is_refused(before: str, after: str) -> None:
    assert meaning_change(sentences_of(before), sentences_of(after)) is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("You must answer.", "Answer."),
        ("Answer all of the questions.", "Answer the questions."),
        ("If it rains, take the bus.", "Take the bus if it rains."),
        ("Under no circumstances should you guess.", "Never guess."),
        ("Utilize the table.", "Use the table."),
    ],
)
def test_what_an_imperative_says_anyway_may_go(before: str, after: str) -> None:
    old, new = sentences_of(before), sentences_of(after)

    assert meaning_change(old, new) is None
    assert reworded(old, new) == []
    assert dropped(old, new) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ask the manager to approve it.", "Approve it."),
        ("The manager must approve it.", "Approve it."),
        ("If it is late, tell the driver to wait.", "If it is late, wait."),
    ],
)
def test_a_sentence_without_who_acts_is_listed(before: str, after: str) -> None:
    assert reworded(sentences_of(before), sentences_of(after)) == [(before, after)]


def test_who_reads_the_prompt_needs_no_mention() -> None:
    assert reworded(sentences_of("The assistant must approve it."), sentences_of("Approve it.")) == []


def test_a_prompt_without_a_sentence_keeps_its_placeholders() -> None:
    prompt = _prompt("Be kind. Answer\n${question} now.")
    without = without_sentence(prompt, ("s",), "Answer ${question} now.")

    assert without.sections[0].body == "Be kind. ${question}"
    assert without_sentence(prompt, ("s",), "") is prompt
