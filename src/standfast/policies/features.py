"""What a policy can tell about a step by looking at it: the kind of observation, and how it differs from the last one."""

from collections import OrderedDict
from enum import StrEnum
from typing import Any

from standfast.limits import MAX_SEEN_ENDPOINTS
from standfast.policies.bytes import canonical_delta, endpoint_of
from standfast.vocabulary import Step


class ObservationKind(StrEnum):
    """The document's three observation types, and whatever else a stream may hold."""

    API_SCHEMA = "api_schema"
    DOCUMENTATION = "documentation"
    MIGRATION_GUIDE = "migration_guide"
    OTHER = "other"


def kind_of(observation: object) -> ObservationKind:
    """Which type an observation is of, by the fields that only that type has."""
    if not isinstance(observation, dict):
        return ObservationKind.OTHER
    if "old_api" in observation or "new_api" in observation:
        return ObservationKind.MIGRATION_GUIDE
    if "content" in observation or "section" in observation:
        return ObservationKind.DOCUMENTATION
    if "params" in observation or "endpoint" in observation:
        return ObservationKind.API_SCHEMA
    return ObservationKind.OTHER


class Novelty(StrEnum):
    """How a step relates to the last one seen of its endpoint."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"


class LastSeen:
    """The last observation of each endpoint, in constant time.

    This is what a policy knows beside the store, and no part of the budget; it is bounded, the endpoint that was seen
    longest ago being forgotten first.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def before(self, step: Step) -> dict[str, Any] | None:
        """What was last seen of the step's endpoint, before this step."""
        api = endpoint_of(step.observation)
        return self._seen.get(api) if api is not None else None

    def note(self, step: Step) -> None:
        """Remember the step as its endpoint's last."""
        api = endpoint_of(step.observation)
        if api is not None:
            self._seen[api] = step.observation
            self._seen.move_to_end(api)
            if len(self._seen) > MAX_SEEN_ENDPOINTS:
                self._seen.popitem(last=False)


def novelty(step: Step, before: dict[str, Any] | None) -> Novelty:
    """Whether a step is its endpoint's first, a change, or the same again."""
    if before is None:
        return Novelty.NEW
    return Novelty.CHANGED if canonical_delta(before, step.observation) else Novelty.SAME
