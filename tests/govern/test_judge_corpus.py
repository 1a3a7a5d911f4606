"""What the floors reach on the labelled corpus, and that nothing but the claim and its context shows in it.

On the worked-on part the figures say that nothing got worse. On the held-out parts, of which nobody looks at
the lines, they say more about claims that are new: one was written by the hand that wrote the floors, the
other, independent one by somebody who never saw them. ``docs/judge.md`` tells what was measured elsewhere.
"""

import random
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from standfast.govern.judge.judge import FloorRegistry, Judge, JudgingContext
from standfast.records.vocabulary import Verdict
from tests.govern.corpus import (
    HELD_OUT,
    INDEPENDENT,
    LABELS,
    PARTS,
    WORKED_ON,
    Figure,
    cases,
    figures,
    sealed_share,
)
from tests.subprocesses import ROOT, run_python, virtualenv

JUDGE = Judge(FloorRegistry.shipped())


@cache
def figures_of(part: str) -> dict[str, Figure]:
    return figures(JUDGE, part)


def test_the_corpus_holds_enough_of_each_kind() -> None:
    counts = Counter(case.label for case in cases())
    least = {
        "clean": 60,
        "secret": 50,
        "injection": 50,
        "duplicate": 25,
        "recall": 25,
        "authority": 15,
        "contradiction": 15,
    }

    assert {label: counts[label] for label in least if counts[label] < least[label]} == {}
    assert set(counts) == {"clean", *LABELS}


# What is really reached, with some margin: a claim or two.
@pytest.mark.parametrize(
    ("label", "precision", "recall"),
    [
        # Three lines are of e-mail addresses with phone numbers, which are allowed by default.
        ("secret", 0.98, 0.97),
        ("injection", 0.98, 0.97),
        ("duplicate", 0.95, 0.91),
        ("recall", 0.95, 0.95),
        ("refused", 0.95, 0.95),
        ("authority", 0.95, 0.95),
        ("contradiction", 0.95, 0.95),
        ("hidden", 0.95, 0.95),
    ],
)
def test_precision_and_recall_on_the_corpus(label: str, precision: float, recall: float) -> None:
    figure = figures_of(WORKED_ON)[label]

    assert (figure.precision >= precision, figure.recall >= recall) == (True, True), figure


@pytest.mark.parametrize(
    ("label", "precision", "recall"),
    [
        ("secret", 0.95, 0.95),
        ("injection", 0.95, 0.75),
        ("duplicate", 0.9, 0.75),
        ("recall", 0.9, 0.9),
        ("refused", 0.9, 0.9),
        ("authority", 0.9, 0.9),
        ("contradiction", 0.9, 0.9),
        ("hidden", 0.9, 0.75),
    ],
)
def test_precision_and_recall_on_what_was_held_out(label: str, precision: float, recall: float) -> None:
    """A failure names the figure and no line, so that nobody mends a floor by a line of this part."""
    figure = figures_of(HELD_OUT)[label]

    assert (figure.precision >= precision, figure.recall >= recall) == (True, True), figure


@pytest.mark.parametrize(("label", "precision", "recall"), [("secret", 0.96, 0.7), ("injection", 0.93, 0.32)])
def test_precision_and_recall_on_what_somebody_else_wrote_blind(
    label: str, precision: float, recall: float
) -> None:
    """Set phrases find few attacks in fresh words, and the bounds say so; they are what was measured, less
    one claim.
    """
    figure = figures_of(INDEPENDENT)[label]

    assert (figure.precision >= precision, figure.recall >= recall) == (True, True), figure


@pytest.mark.parametrize("part", [HELD_OUT, INDEPENDENT])
def test_clean_facts_that_were_held_out_are_sealed(part: str) -> None:
    assert sealed_share(JUDGE, part) >= 0.97


def test_no_claim_stands_in_two_parts() -> None:
    seen = [
        (case.claim.record.text, case.context.recalled, len(case.context.vault))
        for part in PARTS
        for case in {case.claim.record.text: case for case in cases(part)}.values()
    ]

    assert len(set(seen)) == len(seen)


def test_clean_facts_are_sealed() -> None:
    clean = [case for case in cases() if case.label == "clean"]
    turned_away = [
        case.claim.record.text
        for case in clean
        if JUDGE.judge(case.claim, case.context).verdict is not Verdict.SEAL
    ]

    assert len(turned_away) <= 0.02 * len(clean), turned_away


def test_no_reason_repeats_a_secret() -> None:
    for case in cases():
        if case.label == "secret":
            words = {word for word in case.claim.record.text.split() if len(word) > 12}
            told = " ".join(JUDGE.judge(case.claim, case.context).reasons)
            assert not [word for word in words if word in told]


def test_the_order_of_the_context_never_shows() -> None:
    """Everything known of all cases at once, in many orders; ids that stand twice among them."""
    vault = tuple(record for case in cases() for record in case.context.vault)
    related = tuple(record for case in cases() for record in case.context.related)
    recalled = tuple(excerpt for case in cases() for excerpt in case.context.recalled)
    crowded = JudgingContext(vault=vault, related=related, recalled=recalled, patterns=related[:3])
    judged = [JUDGE.judge(case.claim, crowded) for case in cases()]
    for seed in range(3):
        dice = random.Random(seed)
        shuffled = JudgingContext(
            vault=tuple(dice.sample(vault, len(vault))),
            related=tuple(dice.sample(related, len(related))),
            recalled=tuple(dice.sample(recalled, len(recalled))),
            patterns=tuple(dice.sample(related[:3], 3)),
        )
        assert [JUDGE.judge(case.claim, shuffled) for case in cases()] == judged


PROGRAM = """
from standfast.records.canon import fingerprint
from standfast.govern.judge.judge import FloorRegistry, Judge
from tests.govern.corpus import PARTS, cases, claim
judge = Judge(FloorRegistry.shipped())
everything = [case for part in PARTS for case in cases(part)]
print(fingerprint([fingerprint(judge.judge(case.claim, case.context).as_json()) for case in everything]))
"""
# Every character of the planes that have any, a few at a time, so that what a Python knows of them would
# show.
EVERY_CHARACTER = """
from standfast.govern.judge.phrases import spoken
from standfast.govern.judge.text_reading import TextReading
for start in range(0x20, 0x1FFFF, 16):
    if not 0xD800 <= start < 0xE000:
        text = "".join(map(chr, range(start, start + 16)))
        one = TextReading(text)
        seen = [one.folded, list(one.words), one.fingerprint, spoken(one), sorted(one.names), list(one.carrying)]
        print(start, fingerprint([seen, judge.judge(claim(f"The lamp {text} is on.")).as_json()]))
"""  # noqa: E501  # A text as a whole.


def test_the_hash_seed_and_the_locale_never_show() -> None:
    context = (("0", "C"), ("1", "C.UTF-8"), ("4242", "tr_TR.UTF-8"))
    answers = {
        _answer(sys.executable, PROGRAM, PYTHONHASHSEED=seed, LC_ALL=locale) for seed, locale in context
    }

    assert len(answers) == 1


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_supported_python_judges_alike(version: str, tmp_path: Path) -> None:
    """Their Unicode data differ, and it must not show. Builds a virtualenv of each from the lock file."""
    inside = virtualenv(version, tmp_path)

    assert _answer(inside, PROGRAM + EVERY_CHARACTER) == _answer(sys.executable, PROGRAM + EVERY_CHARACTER)


def _answer(python: str, program: str, **environment: str) -> str:
    path = f"{ROOT}:{ROOT / 'src'}"
    return run_python("-c", program, python=python, PYTHONPATH=path, **environment)
