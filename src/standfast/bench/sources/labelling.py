"""How steps are labelled: one mechanical rule for generated and imported streams.

Each step has the kinds of change that it shows. The highest class among them is the step's class, which determines its utility,
whether it is critical, and whether it counts as drift. A state that a later step of the same endpoint replaces has half the
utility. ``priority`` is half the utility (scaled to 0 to 1) and half a hash of the step's position, so that it is only a hint;
only the privileged track sees it.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.canon import fingerprint
from standfast.policies.byte_model import endpoint_of
from standfast.vocabulary import Step


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


UTILITY: Final = {
    DriftClass.BREAKING: 6.0,
    DriftClass.DEPRECATION: 5.0,
    DriftClass.SECURITY: 4.0,
    DriftClass.REWRITE: 4.0,
    DriftClass.FACT: 4.0,
    DriftClass.ADDITIVE: 2.0,
    DriftClass.MINOR: 1.0,
    DriftClass.BASELINE: 1.0,
    DriftClass.NOISE: 0.5,
    DriftClass.REDUNDANT: 0.25,
}
assert set(UTILITY) == set(DriftClass)
CRITICAL: Final = frozenset(list(DriftClass)[:5])
DRIFT: Final = frozenset(list(DriftClass)[:7])
_RANK: Final = {drift: rank for rank, drift in enumerate(DriftClass)}

CLASS_OF_KIND: Final = {
    # Interfaces: OpenAPI, AsyncAPI, GraphQL, protobuf, JSON Schema.
    "endpoint_removed": DriftClass.BREAKING,
    "params_removed": DriftClass.BREAKING,
    "param_made_required": DriftClass.BREAKING,
    "required_param_added": DriftClass.BREAKING,
    "request_enum_removed": DriftClass.BREAKING,
    "type_changed": DriftClass.BREAKING,
    "deprecated_on": DriftClass.DEPRECATION,
    "endpoint_added": DriftClass.ADDITIVE,
    "optional_params_added": DriftClass.ADDITIVE,
    "request_enum_added": DriftClass.ADDITIVE,
    "response_enum_added": DriftClass.ADDITIVE,
    "response_enum_removed": DriftClass.ADDITIVE,
    "type_widened": DriftClass.ADDITIVE,
    "required_relaxed": DriftClass.MINOR,
    "deprecated_off": DriftClass.MINOR,
    # Changelogs.
    "breaking": DriftClass.BREAKING,
    "removal": DriftClass.BREAKING,
    "renamed": DriftClass.BREAKING,
    "behaviour": DriftClass.BREAKING,
    "security": DriftClass.SECURITY,
    "deprecation": DriftClass.DEPRECATION,
    "added": DriftClass.ADDITIVE,
    "changed": DriftClass.ADDITIVE,
    "fix": DriftClass.MINOR,
    "relaxed": DriftClass.MINOR,
    "other": DriftClass.MINOR,
    "internal": DriftClass.NOISE,
    "docs": DriftClass.NOISE,
    "duplicate": DriftClass.REDUNDANT,
    # Documentation.
    "section_removed": DriftClass.BREAKING,
    "warning_added": DriftClass.DEPRECATION,
    "rewritten": DriftClass.REWRITE,
    "edited_major": DriftClass.ADDITIVE,
    "section_added": DriftClass.ADDITIVE,
    "edited": DriftClass.MINOR,
    "formatted": DriftClass.NOISE,
    # Conversations.
    "corrected": DriftClass.BREAKING,
    "cited": DriftClass.FACT,
    "stated": DriftClass.FACT,
    "asked": DriftClass.MINOR,
    "said": DriftClass.MINOR,
    "acknowledged": DriftClass.NOISE,
    # Streams.
    "migration_announced": DriftClass.BREAKING,
    "baseline": DriftClass.BASELINE,
    "unchanged": DriftClass.REDUNDANT,
}


ReportSkipped = Callable[[str, str], None]
"""Receives what an importer left out, and why."""


def ignore_skipped(what: str, why: str) -> None:
    """Report nothing."""


class DriftEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An observation from a source, the kinds of change in it, and the versions since the endpoint was last observed."""

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
