"""How steps are labelled: one mechanical rule for generated and for imported streams.

Each step carries the kinds of change that it shows. The highest class among them is the step's class, and the class says
what the step is worth, whether it had to be remembered, and whether it is drift at all. A state that a later step of the
same endpoint replaces is worth half. ``priority`` is half the class's worth and half a hash of the step's place, so that
it hints and does not tell; only the privileged track sees it.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.canon import fingerprint
from standfast.policies.bytes import endpoint_of
from standfast.vocabulary import Step


class DriftClass(StrEnum):
    """How much a change matters, the most first."""

    BREAKING = "breaking"
    DEPRECATION = "deprecation"
    SECURITY = "security"
    REWRITE = "rewrite"
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
    DriftClass.ADDITIVE: 2.0,
    DriftClass.MINOR: 1.0,
    DriftClass.BASELINE: 1.0,
    DriftClass.NOISE: 0.5,
    DriftClass.REDUNDANT: 0.25,
}
assert set(UTILITY) == set(DriftClass)
CRITICAL: Final = frozenset(list(DriftClass)[:4])
DRIFT: Final = frozenset(list(DriftClass)[:6])
_RANK: Final = {drift: rank for rank, drift in enumerate(DriftClass)}

CLASS_OF_KIND: Final = {
    # OpenAPI descriptions.
    "endpoint_removed": DriftClass.BREAKING,
    "params_removed": DriftClass.BREAKING,
    "param_made_required": DriftClass.BREAKING,
    "required_param_added": DriftClass.BREAKING,
    "request_enum_removed": DriftClass.BREAKING,
    "deprecated_on": DriftClass.DEPRECATION,
    "endpoint_added": DriftClass.ADDITIVE,
    "optional_params_added": DriftClass.ADDITIVE,
    "request_enum_added": DriftClass.ADDITIVE,
    "response_enum_added": DriftClass.ADDITIVE,
    "response_enum_removed": DriftClass.ADDITIVE,
    "required_relaxed": DriftClass.MINOR,
    "deprecated_off": DriftClass.MINOR,
    # Changelogs.
    "breaking": DriftClass.BREAKING,
    "removal": DriftClass.BREAKING,
    "security": DriftClass.SECURITY,
    "deprecation": DriftClass.DEPRECATION,
    "added": DriftClass.ADDITIVE,
    "changed": DriftClass.ADDITIVE,
    "fix": DriftClass.MINOR,
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
    # Streams.
    "migration_announced": DriftClass.BREAKING,
    "baseline": DriftClass.BASELINE,
    "unchanged": DriftClass.REDUNDANT,
}


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a source shows: an observation, the kinds of change in it, and its distance in versions."""

    observation: dict[str, Any]
    kinds: tuple[str, ...]
    version_distance: int = 0
    date: str | None = None

    @property
    def drift_class(self) -> DriftClass:
        """The highest class among the kinds."""
        return min((CLASS_OF_KIND[kind] for kind in self.kinds), key=_RANK.__getitem__)


def labelled(
    touches: Sequence[Touch], *, source: str, mode: str, episode_id: int | str, halve_superseded: bool
) -> Episode:
    """An episode of these touches, in their order, with labels by the rule above."""
    classes = [touch.drift_class for touch in touches]
    utilities = [UTILITY[drift] for drift in classes]
    if halve_superseded:
        superseded = _superseded(touch.observation for touch in touches)
        utilities = [utility / 2 if t in superseded else utility for t, utility in enumerate(utilities)]
    steps = tuple(
        Step(
            t=t,
            observation=touch.observation,
            metadata=metadata_of(touch, source=source, mode=mode, episode_id=episode_id, t=t),
        )
        for t, touch in enumerate(touches)
    )
    labels: dict[str, Any] = {
        "episode_id": episode_id,
        "source": source,
        "mode": mode,
        "critical_steps": [t for t, drift in enumerate(classes) if drift in CRITICAL],
        "breaking_changes": [t for t, drift in enumerate(classes) if drift is DriftClass.BREAKING],
        "deprecated_apis": sum(bool(touch.observation.get("deprecated")) for touch in touches),
        "total_drift_events": sum(drift in DRIFT for drift in classes),
        "utility_by_step": {str(t): utility for t, utility in enumerate(utilities)},
        "max_utility": sum(utilities),
        "event_kinds": {str(t): list(touch.kinds) for t, touch in enumerate(touches)},
    }
    dates = {str(t): touch.date for t, touch in enumerate(touches) if touch.date is not None}
    if dates:
        labels["date_by_step"] = dates
    return Episode(steps, labels)


def metadata_of(touch: Touch, *, source: str, mode: str, episode_id: int | str, t: int) -> dict[str, Any]:
    """What stands beside an observation. All but ``priority`` is told by the source."""
    hint = UTILITY[touch.drift_class] / 12 + _hash(source, episode_id, t) / 2
    return {
        "mode": mode,
        "source": source,
        "version_distance": touch.version_distance,
        "priority": round(hint, 3),
    }


def _superseded(observations: Iterable[dict[str, Any]]) -> set[int]:
    """The timesteps after which another state of the same endpoint is shown."""
    last: dict[str, dict[str, Any]] = {}
    seen: dict[str, list[int]] = {}
    over: set[int] = set()
    for t, observation in enumerate(observations):
        api = endpoint_of(observation)
        if api is None:
            continue
        if api in last and last[api] != observation:
            over.update(seen.pop(api, ()))
        last[api] = observation
        seen.setdefault(api, []).append(t)
    return over


def _hash(source: str, episode_id: int | str, t: int) -> float:
    """A number from 0 to 1 that a step's place determines, and that tells nothing about the step."""
    return int(fingerprint([source, episode_id, t])[:13], 16) / 16**13
