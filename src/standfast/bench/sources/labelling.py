"""How steps are labelled: one mechanical rule for generated and imported streams.

Each step has the kinds of change that it shows. The highest class among them is the step's class, which
determines its utility, whether it is critical, and whether it counts as drift. A state that a later step of
the same endpoint replaces has half the utility. ``priority`` is half the utility (scaled to 0 to 1) and half
a hash of the step's position, so that it is only a hint; only the privileged track sees it.

How far the rule agrees with a hand is measured on a sample that ships as ids and labels, without texts
(``data/hand_labels.jsonl``). An id is the start of the fingerprint of a step's observation. Each row has the
hand's label, those of a second and of a blind pass where there were, what the rule said when the sample was
drawn (``rule_before``), and what it said after it was mended on the development half (``rule``).
``docs/bench-labels.md`` has the guideline and how to make the episodes again, from which the rule's answers
can be computed anew.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from importlib.resources import files
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from standfast.bench.episodes import Episode, iter_jsonl
from standfast.govern.judge.tables import parse_sections
from standfast.policies.byte_model import endpoint_of
from standfast.records.canon import fingerprint
from standfast.records.conversion import decoded
from standfast.records.vocabulary import Step


class DriftClass(StrEnum):
    """How much a change matters, the most important first."""

    BREAKING = "breaking"
    DEPRECATION = "deprecation"
    SECURITY = "security"
    REWRITE = "rewrite"
    FACT = "fact"
    ADDITIVE = "additive"
    MINOR = "minor"
    BASELINE = "baseline"
    NOISE = "noise"
    REDUNDANT = "redundant"


# The utility of each class, and the kinds of change that are of it: those of interfaces, then of changelogs,
# documentation and conversations. The modules of the sources say what each kind is.
_CLASSES: Final = {
    DriftClass.BREAKING: (
        6.0,
        (
            "endpoint_removed, params_removed, param_made_required, required_param_added, type_changed,"
            " request_enum_removed, breaking, removal, renamed, behaviour, section_removed, corrected,"
            " migration_announced"
        ),
    ),
    DriftClass.DEPRECATION: (5.0, "deprecated_on, deprecation, warning_added"),
    DriftClass.SECURITY: (4.0, "security"),
    DriftClass.REWRITE: (4.0, "rewritten"),
    DriftClass.FACT: (4.0, "cited, stated"),
    DriftClass.ADDITIVE: (
        2.0,
        (
            "endpoint_added, optional_params_added, request_enum_added, response_enum_added, type_widened,"
            " response_enum_removed, added, changed, section_added, edited_major"
        ),
    ),
    DriftClass.MINOR: (1.0, "required_relaxed, deprecated_off, fix, relaxed, other, edited, asked, said"),
    DriftClass.BASELINE: (1.0, "baseline"),
    DriftClass.NOISE: (0.5, "internal, internal use, docs, formatted, acknowledged"),
    DriftClass.REDUNDANT: (0.25, "duplicate, unchanged"),
}
assert set(_CLASSES) == set(DriftClass)
UTILITY: Final = {drift: utility for drift, (utility, _) in _CLASSES.items()}
CLASS_OF_KIND: Final = {kind: drift for drift, (_, kinds) in _CLASSES.items() for kind in kinds.split(", ")}
CRITICAL: Final = frozenset(list(DriftClass)[:5])
DRIFT: Final = frozenset(list(DriftClass)[:7])
_RANK: Final = {drift: rank for rank, drift in enumerate(DriftClass)}

# In these nothing is replaced: a note or a message stays true when another follows.
NOTHING_REPLACED: Final = frozenset(("changelog", "conversation"))


ReportSkipped = Callable[[str, str], None]
"""Receives what an importer left out, and why."""


def ignore_skipped(what: str, why: str) -> None:
    """Report nothing."""


def forms_of(name: str) -> dict[str, re.Pattern[str]]:
    """Return the expressions of a file in ``data/``, by the titles of its sections."""
    text = files("standfast.bench").joinpath("data", name).read_text("utf-8")
    return {title: re.compile("|".join(lines), re.IGNORECASE) for title, lines in parse_sections(text, name)}


class DriftEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An observation, the kinds of change in it, and the versions since its endpoint was last observed."""

    observation: dict[str, Any]
    kinds: tuple[str, ...]
    version_distance: int = 0
    date: str | None = None

    @property
    def drift_class(self) -> DriftClass:
        """The highest class among the kinds."""
        return min((CLASS_OF_KIND[kind] for kind in self.kinds), key=_RANK.__getitem__)


def label_episode(
    events: Sequence[DriftEvent], *, source: str, mode: str, episode_id: int | str, halve_superseded: bool
) -> Episode:
    """Return an episode of these events, in their order, with labels."""
    classes = [event.drift_class for event in events]
    utilities = [UTILITY[drift] for drift in classes]
    if halve_superseded:
        superseded = _superseded(event.observation for event in events)
        utilities = [utility / 2 if t in superseded else utility for t, utility in enumerate(utilities)]
    steps = tuple(
        Step(
            t=t,
            observation=event.observation,
            metadata=metadata_of(event, source=source, mode=mode, episode_id=episode_id, t=t),
        )
        for t, event in enumerate(events)
    )
    labels: dict[str, Any] = {
        "episode_id": episode_id,
        "source": source,
        "mode": mode,
        "critical_steps": [t for t, drift in enumerate(classes) if drift in CRITICAL],
        "breaking_changes": [t for t, drift in enumerate(classes) if drift is DriftClass.BREAKING],
        "deprecated_apis": sum(bool(event.observation.get("deprecated")) for event in events),
        "total_drift_events": sum(drift in DRIFT for drift in classes),
        "utility_by_step": {str(t): utility for t, utility in enumerate(utilities)},
        "max_utility": sum(utilities),
        "event_kinds": {str(t): list(event.kinds) for t, event in enumerate(events)},
    }
    dates = {str(t): event.date for t, event in enumerate(events) if event.date is not None}
    if dates:
        labels["date_by_step"] = dates
    return Episode(steps, labels)


WINDOWS: Final = 20
LEAST_WINDOW, MOST_WINDOW = 25, 100


def windows_of(episode: Episode, steps: int | None = None) -> list[Episode]:
    """Return the windows of an imported history as episodes that say which history they are of.

    Each window is labelled on its own, as if the history began and ended with it. A rest of less than half a
    window belongs to the last one.

    Args:
        episode: The whole history.
        steps: The length of a window; by default so long that there are twenty, but 25 to 100 steps.
    """
    count = len(episode.steps)
    size = steps or min(max(count // WINDOWS, LEAST_WINDOW), MOST_WINDOW)
    labels = episode.labels.raw
    kinds, dates = labels["event_kinds"], labels.get("date_by_step", {})
    events = [
        DriftEvent(
            observation=step.observation,
            kinds=tuple(kinds[str(step.t)]),
            version_distance=step.metadata["version_distance"],
            date=dates.get(str(step.t)),
        )
        for step in episode.steps
    ]
    starts = [start for start in range(0, count, size) if start == 0 or count - start >= size / 2]
    found = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else count
        window = label_episode(
            events[start:end],
            source=labels["source"],
            mode=labels["mode"],
            episode_id=f"{labels['episode_id']} {number + 1}/{len(starts)}",
            halve_superseded=labels["mode"] not in NOTHING_REPLACED,
        )
        history = f"{labels['mode']} {labels['source']}"
        found.append(Episode(window.steps, {**window.labels.raw, "history": history}))
    return found


def metadata_of(
    event: DriftEvent, *, source: str, mode: str, episode_id: int | str, t: int
) -> dict[str, Any]:
    """Return the metadata of a step. Only ``priority`` is derived from labels."""
    hint = UTILITY[event.drift_class] / 12 + _hash(source, episode_id, t) / 2
    return {
        "mode": mode,
        "source": source,
        "version_distance": event.version_distance,
        "priority": round(hint, 3),
    }


def _superseded(observations: Iterable[dict[str, Any]]) -> set[int]:
    """Return the timesteps whose state is replaced by a later step of the same endpoint."""
    last: dict[str, dict[str, Any]] = {}
    seen: dict[str, list[int]] = {}
    superseded: set[int] = set()
    for t, observation in enumerate(observations):
        api = endpoint_of(observation)
        if api is None:
            continue
        if api in last and last[api] != observation:
            superseded.update(seen.pop(api, ()))
        last[api] = observation
        seen.setdefault(api, []).append(t)
    return superseded


def _hash(source: str, episode_id: int | str, t: int) -> float:
    """Return a number from 0 to 1 that depends on a step's position only."""
    return int(fingerprint([source, episode_id, t])[:13], 16) / 16**13


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
    blind: DriftClass | None
    rule: DriftClass
    rule_before: DriftClass


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far two labellings agree.

    Precision, recall and kappa are those of *critical*; intervals are 95 % bootstraps over steps.
    """

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
    return [decoded(line, HandLabel) for line in lines]


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
    """Return the agreement of the rule with the hand: for all, by half, by format; and of the hand's passes.

    Args:
        sample: The hand's labels.
        answers: The rule's answers by id; steps without one are left out. By default the sample's own.
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
    passes = {
        "second pass": [(one.label, one.second) for one in sample if one.second is not None],
        "blind pass": [(one.label, one.blind) for one in sample if one.blind is not None],
    }
    return report | {name: agreement(pairs) for name, pairs in passes.items() if pairs}
