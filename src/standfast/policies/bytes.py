"""What a step costs in bytes, to the byte: the two byte models, and the shallow delta that a MERGE holds.

    WRITE   len(json(observation)) + len(json(metadata)) + 32        spec-v0
            the same + 16 for the index entry                        indexed-v0
    MERGE   len(json(delta)) + 16                                    both

``json`` is Python's own with its default separators and escapes, as the benchmark's document writes it, so that anybody
can check a price with one line. Nothing of this is hashed; hashed bytes come from ``canon``.
"""

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final

from standfast.errors import InvalidValue
from standfast.vocabulary import Step

HEADER_BYTES: Final = 32
INDEX_BYTES: Final = 16
MERGE_BYTES: Final = 16
API: Final = "api"

# NaN is no JSON, and every NaN differs from itself, so that a delta could never be checked.
_JSON: Final = json.JSONEncoder(allow_nan=False)


def _chunks() -> Callable[[object, int], Sequence[str]]:
    """Python's own encoder, made once: ``json.dumps`` makes one for each call, which takes longer than a short text."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, _: (_JSON.encode(value),)
    text = json.encoder.encode_basestring_ascii
    encoder: Callable[[object, int], Sequence[str]] = make(
        None, _JSON.default, text, None, _JSON.key_separator, _JSON.item_separator, False, False, False
    )
    return encoder


_encode: Final = _chunks()


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
        chunks = _encode(value, 0)
        return len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
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
