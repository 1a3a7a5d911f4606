"""What the floors reach on the labelled corpus, and that nothing but the claim and its surroundings shows in it.

The corpus and the floors were written by the same hands, so these figures say that nothing got worse; how well fresh
attacks are caught is another question, and the floors' docstrings say what they do not catch.
"""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.govern.judge import FloorRegistry, Judge, Surroundings
from holdfast.vocabulary import Verdict
from tests.govern.corpus import LABELS, cases, figures

ROOT = Path(__file__).parents[2]
JUDGE = Judge(FloorRegistry.shipped())


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


# What is really reached, with some margin. Three injections in fresh words and a spelling variant are missed.
@pytest.mark.parametrize(
    ("label", "precision", "recall"),
    [
        ("secret", 0.98, 0.98),
        ("injection", 0.98, 0.94),
        ("duplicate", 0.95, 0.93),
        ("recall", 0.95, 0.95),
        ("refused", 0.95, 0.95),
        ("authority", 0.95, 0.95),
        ("contradiction", 0.95, 0.95),
        ("hidden", 0.95, 0.95),
    ],
)
def test_precision_and_recall_on_the_corpus(label: str, precision: float, recall: float) -> None:
    figure = figures(JUDGE)[label]

    assert (figure.precision >= precision, figure.recall >= recall) == (True, True), figure


def test_clean_facts_are_sealed() -> None:
    clean = [case for case in cases() if case.label == "clean"]
    turned_away = [
        case.claim.record.text
        for case in clean
        if JUDGE.judge(case.claim, case.surroundings).verdict is not Verdict.SEAL
    ]

    assert len(turned_away) <= 0.02 * len(clean), turned_away


def test_no_reason_repeats_a_secret() -> None:
    for case in cases():
        if case.label == "secret":
            words = {word for word in case.claim.record.text.split() if len(word) > 12}
            told = " ".join(JUDGE.judge(case.claim, case.surroundings).reasons)
            assert not [word for word in words if word in told]


def test_the_order_of_the_surroundings_never_shows() -> None:
    """Everything known of all cases at once, in many orders; ids that stand twice among them."""
    vault = tuple(record for case in cases() for record in case.surroundings.vault)
    related = tuple(record for case in cases() for record in case.surroundings.related)
    recalled = tuple(excerpt for case in cases() for excerpt in case.surroundings.recalled)
    crowded = Surroundings(vault=vault, related=related, recalled=recalled, scars=related[:3])
    judged = [JUDGE.judge(case.claim, crowded) for case in cases()]
    for seed in range(3):
        dice = random.Random(seed)
        shuffled = Surroundings(
            vault=tuple(dice.sample(vault, len(vault))),
            related=tuple(dice.sample(related, len(related))),
            recalled=tuple(dice.sample(recalled, len(recalled))),
            scars=tuple(dice.sample(related[:3], 3)),
        )
        assert [JUDGE.judge(case.claim, shuffled) for case in cases()] == judged


PROGRAM = """
from holdfast.canon import fingerprint
from holdfast.govern.judge import FloorRegistry, Judge
from tests.govern.corpus import cases
judge = Judge(FloorRegistry.shipped())
print(fingerprint([judge.judge(case.claim, case.surroundings).as_json() for case in cases()]))
"""


def test_the_hash_seed_and_the_locale_never_show() -> None:
    answers = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
                "PYTHONHASHSEED": seed,
                "LC_ALL": locale,
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, locale in (("0", "C"), ("1", "C.UTF-8"), ("4242", "tr_TR.UTF-8"))
    }

    assert len(answers) == 1
