"""How far the labelling rule agrees with a sample that was labelled by hand.

The sample ships as ids and labels, without texts (``data/hand_labels.jsonl``). An id is the start of the fingerprint of a step's
observation. Each row has the hand's label, that of a second pass where there was one, what the rule said when the sample was drawn
(``rule_before``), and what it said after it was mended on the development half (``rule``). ``docs/bench-labels.md`` has the
guideline and how to make the episodes again, from which the rule's answers can be computed anew.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from standfast.bench.episodes import iter_jsonl
from standfast.bench.sources.labelling import CRITICAL, DriftClass, DriftEvent
from standfast.canon import fingerprint

SAMPLE: Final = "data/hand_labels.jsonl"
ID_CHARS: Final = 16
RESAMPLES: Final = 1_000
SEED: Final = 0
HALVES: Final = ("development", "held_out")


class HandLabel(msgspec.Struct, frozen=True, kw_only=True):
    """A step that was labelled by hand."""

    id: str
    source: str
    format: str
    half: str
    label: DriftClass
    second: DriftClass | None
    rule: DriftClass
    rule_before: DriftClass


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far two labellings agree. Precision, recall and kappa are those of *critical*; intervals are 95 % bootstraps over steps."""

    steps: int
    critical: int
    precision: float
    recall: float
    kappa: float
    kappa_interval: tuple[float, float]
    class_kappa: float


def hand_labels() -> list[HandLabel]:
    """Return the sample, by format, source and id."""
    lines = (files("standfast.bench") / SAMPLE).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=HandLabel) for line in lines]


def step_id(observation: object) -> str:
    """Return the id of a step in the sample."""
    return fingerprint(observation)[:ID_CHARS]


def rule_answers(episode_files: Iterable[str | os.PathLike[str]]) -> dict[str, DriftClass]:
    """Return the class that the rule gave each step of imported episodes, by the step's id."""
    found = {}
    for file in episode_files:
        for episode in iter_jsonl(file):
            kinds = episode.labels.raw.get("event_kinds", {})
            for step in episode.steps:
                own = tuple(kinds.get(str(step.t), ()))
                if own:
                    event = DriftEvent(observation={}, kinds=own)
                    found[step_id(step.observation)] = event.drift_class
    return found


def agreement(pairs: Sequence[tuple[DriftClass, DriftClass]]) -> Agreement:
    """Compare labels with answers, in that order. What is empty is 0; agreement on one single class is 1."""
    by_hand = np.array([label in CRITICAL for label, _ in pairs], dtype=bool)
    answered = np.array([answer in CRITICAL for _, answer in pairs], dtype=bool)
    both = int((by_hand & answered).sum())
    draws = np.random.default_rng(SEED).integers(0, len(pairs), (RESAMPLES, len(pairs)))
    kappas = np.sort(_binary_kappas(by_hand[draws], answered[draws]))
    order = {drift: number for number, drift in enumerate(DriftClass)}
    classes = np.array([(order[label], order[answer]) for label, answer in pairs])
    return Agreement(
        steps=len(pairs),
        critical=int(by_hand.sum()),
        precision=both / max(int(answered.sum()), 1),
        recall=both / max(int(by_hand.sum()), 1),
        kappa=_kappa(by_hand, answered),
        kappa_interval=(float(kappas[RESAMPLES * 25 // 1_000]), float(kappas[RESAMPLES * 975 // 1_000 - 1])),
        class_kappa=_kappa(classes[:, 0], classes[:, 1]),
    )


def _kappa(left: npt.NDArray[np.generic], right: npt.NDArray[np.generic]) -> float:
    """Return Cohen's kappa."""
    observed = float((left == right).mean())
    values = np.union1d(left, right)
    expected = float(sum((left == value).mean() * (right == value).mean() for value in values))
    return 1.0 if expected >= 1.0 else (observed - expected) / (1.0 - expected)


def _binary_kappas(left: npt.NDArray[np.bool_], right: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return Cohen's kappa of each row."""
    observed = (left == right).mean(axis=1)
    ours, theirs = left.mean(axis=1), right.mean(axis=1)
    expected = ours * theirs + (1.0 - ours) * (1.0 - theirs)
    possible = 1.0 - expected
    return np.where(possible > 0.0, (observed - expected) / np.where(possible > 0.0, possible, 1.0), 1.0)


def label_report(
    sample: Sequence[HandLabel], answers: Mapping[str, DriftClass] | None = None, *, before: bool = False
) -> dict[str, Agreement]:
    """Return the agreement of the rule with the hand: for all, by half, by format; and of the two passes of the hand.

    Args:
        sample: The hand's labels.
        answers: The rule's answers by id; steps without one are left out. Without it, the answers that the sample has.
        before: With the sample's own answers, those before the rule was mended.
    """
    rule = {one.id: one.rule_before if before else one.rule for one in sample} if answers is None else answers
    own = [one for one in sample if one.id in rule]
    parts = {"all": own}
    parts |= {half: [one for one in own if one.half == half] for half in HALVES}
    parts |= {
        name: [one for one in own if one.format == name] for name in sorted({one.format for one in own})
    }
    report = {
        name: agreement([(one.label, rule[one.id]) for one in some]) for name, some in parts.items() if some
    }
    twice = [(one.label, one.second) for one in sample if one.second is not None]
    return {**report, "second pass": agreement(twice)}
