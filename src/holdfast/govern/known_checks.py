"""Floor checks that evidence was made of before: each is checked, and written as text, once.

A judge hands out the same frozen checks again and again. They are known by identity, because equality is not enough:
True equals 1.0, and only one of the two is a score.
"""

import json
from collections.abc import Iterable
from types import NoneType
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.canon import normal_string
from holdfast.limits import FLOAT_DECIMALS, MAX_KNOWN_CHECKS
from holdfast.vocabulary import FloorCheck

_ENCODER: Final = json.JSONEncoder(sort_keys=True)


class KnownCheck(NamedTuple):
    """A check that is sound, the same as json-v1 gives it back, and its own text as the evidence hash covers it."""

    check: FloorCheck
    stored: FloorCheck
    text: str


_known: Final[dict[int, KnownCheck]] = {}


def stored_check(check: FloorCheck) -> FloorCheck:
    """The check as json-v1 gives it back: rounded numbers, NFC text, checked types. Known from then on."""
    # As long as it is known it is held, so that nothing else can have its identity.
    if (found := _known.get(id(check))) is not None:
        return found.stored
    stored = _as_stored(check)
    if len(_known) >= MAX_KNOWN_CHECKS:
        _known.clear()
    _known[id(stored)] = KnownCheck(stored, stored, _ENCODER.encode(set_fields(stored)))
    if isinstance(check, FloorCheck) and check is not stored:
        _known[id(check)] = KnownCheck(check, stored, _ENCODER.encode(set_fields(check)))
    return stored


def known_texts(checks: Iterable[FloorCheck]) -> list[str] | None:
    """The texts of these checks, if all of them are known."""
    texts = []
    for check in checks:
        if (found := _known.get(id(check))) is None:
            return None
        texts.append(found.text)
    return texts


def set_fields(value: msgspec.Struct) -> dict[str, Any]:
    """What is set in a value of the vocabulary, unchecked, as it may have been built from anything."""
    return {name: member for name, member in msgspec.structs.asdict(value).items() if member is not None}


def _as_stored(check: FloorCheck) -> FloorCheck:
    read = (
        check
        if _is_typed(check)
        else FloorCheck.from_json(set_fields(check) if isinstance(check, FloorCheck) else check)
    )
    score, reason = _rounded(read.score), None if read.reason is None else normal_string(read.reason)
    threshold = None if read.threshold is None else _rounded(read.threshold)
    settled = (score, threshold, reason)
    if settled == (read.score, read.threshold, read.reason) and 0 not in settled:
        return read
    # A zero is replaced always: it may have been -0.0, which is equal.
    return msgspec.structs.replace(read, score=score, threshold=threshold, reason=reason)


def _is_typed(check: object) -> bool:
    """Whether every field has the very type it should have; its values were checked when it was built."""
    return (
        type(check) is FloorCheck
        and type(check.floor) is str
        and type(check.score) is float
        and type(check.passed) is bool
        and type(check.threshold) in (float, NoneType)
        and type(check.hard) in (bool, NoneType)
        and type(check.reason) in (str, NoneType)
    )


def _rounded(number: float) -> float:
    # Adding zero turns -0.0, which json-v1 does not have, into 0.0.
    return round(float(number), FLOAT_DECIMALS) + 0.0
