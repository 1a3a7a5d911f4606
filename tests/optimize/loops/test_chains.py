"""Optimising and applying again and again, with fresh samples each time, never loses more than the margin
against the version that a human approved.
"""

import random
from pathlib import Path
from typing import Any

import pytest

from standfast.optimize import Dataset, GateSettings, apply_report
from standfast.optimize.prompts.prompt import Fallback, Prompt
from standfast.optimize.prompts.template import PromptDescriptor, PromptTemplate, Section
from tests.figures import Figures
from tests.optimize.loops.harness import Harness, Planted, agent

HABITS = ("You like the sea.", "You like the hills.", "You like the rain.", "You like the sun.")
PARTS = (*HABITS, "You like long walks.", "You like old songs.")
TEMPLATE = PromptTemplate(
    ns="agent",
    key="sum",
    sections=(
        Section(key="role", body="\n\n".join(("You are a calculator.", *PARTS))),
        Section(key="task", body="Add ${a} and ${b}."),
    ),
)
SAMPLES, MEASURED = 200, 5_000
GATE = GateSettings(remove_untested=True, max_rounds=1)


def _fresh(begin: int) -> Dataset[Any, Any]:
    return Dataset.of(
        [
            {"id": f"s{number}", "a": number, "b": 1, "expected": str(number + 1)}
            for number in range(begin, begin + SAMPLES)
        ]
    )


class _Sums:
    """A model at temperature 0 that needs each part for a share of all sums; nobody knows which."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(f"chain/{seed}")
        self._seed = seed
        self._losses = {part: chance.choice((0.0, 0.02, 0.03, 0.05)) for part in PARTS}

    def passes(self, number: int, prompt: str, _repeat: int = 0) -> bool:
        """Whether the sum of this number succeeds with this prompt."""
        return all(
            part in prompt or random.Random(f"{self._seed}/{part}/{number}").random() >= loss
            for part, loss in self._losses.items()
        )

    def lost(self, prompt: PromptDescriptor) -> float:
        """The share of all sums that a prompt really loses against the source, which loses none."""
        text = prompt.sections[0].body
        return sum(not self.passes(number, text) for number in range(MEASURED)) / MEASURED


def _chain(folder: Path, seed: int, rounds: int) -> tuple[int, float]:
    """Return how many changes were applied, and what the last version really loses."""
    model = _Sums(seed)
    harness = Harness(folder, agent(model.passes), Planted(), gate=GATE, template=TEMPLATE)
    applied = 0

    def current() -> PromptDescriptor:
        prompt = Prompt(TEMPLATE, overrides_tag="stable", fallback=Fallback.TEMPLATE)
        return prompt.resolve(harness.store).descriptor

    for number, part in enumerate(PARTS[:rounds]):
        shorter = current().sections[0].body.replace(f"\n\n{part}", "")
        harness.strategy = Planted(("role", shorter))
        report = harness.optimize(_fresh(1 + number * SAMPLES), request_id=f"{seed}-{number}")
        if report.has_modifications:
            apply_report(harness.store, TEMPLATE, report)
            applied += 1
    return applied, model.lost(current())


def _assert_chains_keep_the_margin(folder: Path, figures: Figures, *, chains: int, rounds: int) -> None:
    outcomes = [_chain(folder / str(seed), seed, rounds) for seed in range(chains)]
    worst = max(lost for _, lost in outcomes)
    figures(
        f"{chains} chains of {rounds} rounds",
        applied=sum(applied for applied, _ in outcomes),
        worst_loss_permille=round(worst * 1000),
    )

    assert sum(applied for applied, _ in outcomes) > chains, "something is accepted"
    assert worst <= GATE.margin


def test_a_few_chains_of_changes_keep_the_margin(tmp_path: Path, figures: Figures) -> None:
    _assert_chains_keep_the_margin(tmp_path, figures, chains=2, rounds=4)


@pytest.mark.slow
def test_twenty_chains_of_six_changes_keep_the_margin(tmp_path: Path, figures: Figures) -> None:
    _assert_chains_keep_the_margin(tmp_path, figures, chains=20, rounds=6)
