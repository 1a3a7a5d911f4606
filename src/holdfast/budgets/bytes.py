"""What a step costs in bytes, to the byte: the two byte models, and the shallow delta that a MERGE stores.

    WRITE   len(json(observation)) + len(json(metadata)) + 32        spec-v0
            the same + 16 for the index entry                        indexed-v0
    MERGE   len(json(delta)) + 16                                    both

``json`` is Python's own with its default separators and escapes, as the benchmark's document writes it, so that anybody
can check a price with one line. Nothing of this is hashed; hashed bytes come from ``canon``.
"""

import json
from enum import StrEnum
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidValue
from holdfast.limits import MAX_PRICED_STEPS
from holdfast.vocabulary import Step

HEADER_BYTES: Final = 32
INDEX_BYTES: Final = 16
MERGE_BYTES: Final = 16
API: Final = "api"

# NaN is no JSON, and every NaN differs from itself, so that a delta could never be checked.
_encode: Final = json.JSONEncoder(allow_nan=False).encode


class ByteModel(StrEnum):
    """How a WRITE is priced. Results name their model, because figures of two models can't be compared."""

    SPEC = "spec-v0"
    INDEXED = "indexed-v0"


FIXED_BYTES: Final = {
    ByteModel.SPEC: HEADER_BYTES,
    ByteModel.INDEXED: HEADER_BYTES + INDEX_BYTES,
}
assert set(FIXED_BYTES) == set(ByteModel)


def json_bytes(value: object) -> int:
    """The length of a value's JSON text."""
    try:
        return len(_encode(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            what="Step", problem=f"it can't be priced, because it is no JSON: {error}"
        ) from None


def estimate_bytes(step: Step, model: ByteModel = ByteModel.SPEC) -> int:
    """What a WRITE of this step costs."""
    return json_bytes(step.observation) + json_bytes(step.metadata) + FIXED_BYTES[model]


def endpoint_of(observation: object) -> str | None:
    """Which endpoint an observation is of: its ``api`` if that is text. Others can't be merged."""
    api = observation.get(API) if isinstance(observation, dict) else None
    return api if isinstance(api, str) else None


def canonical_delta(base: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The fields of ``new`` that ``base`` lacks or has otherwise, without the endpoint's name.

    A key that is missing from the base is a change even where the new value is null.
    """
    return {
        key: value for key, value in new.items() if key != API and (key not in base or value != base[key])
    }


class Delta(msgspec.Struct, frozen=True):
    """What a MERGE would store, and what that costs. An empty patch is a no-op, which no store accepts."""

    patch: dict[str, Any]
    byte_cost: int


class Prices:
    """Prices of steps and deltas, worked out once each.

    A policy asks what a step costs, then the store charges it, and a benchmark runs many policies over the same steps; so
    each answer is kept. An answer belongs to one step object: another object at the same timestep is priced anew.
    """

    def __init__(self, model: ByteModel = ByteModel.SPEC) -> None:
        self.model = model
        self._steps: dict[int, tuple[Step, int]] = {}
        self._deltas: dict[tuple[int, int], tuple[Step, Step, Delta]] = {}

    def of(self, step: Step) -> int:
        """What a WRITE of this step costs."""
        known = self._steps.get(step.t)
        if known is not None and known[0] is step:
            return known[1]
        if len(self._steps) >= MAX_PRICED_STEPS:
            self._steps.clear()
        cost = estimate_bytes(step, self.model)
        self._steps[step.t] = (step, cost)
        return cost

    def delta(self, base: Step, step: Step) -> Delta:
        """What storing ``step`` as a change of ``base`` would hold and cost; both observations must be objects."""
        key = (base.t, step.t)
        known = self._deltas.get(key)
        if known is not None and known[0] is base and known[1] is step:
            return known[2]
        if len(self._deltas) >= MAX_PRICED_STEPS:
            self._deltas.clear()
        patch = canonical_delta(base.observation, step.observation)
        delta = Delta(patch, json_bytes(patch) + MERGE_BYTES)
        self._deltas[key] = (base, step, delta)
        return delta
