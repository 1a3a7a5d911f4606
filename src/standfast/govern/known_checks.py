"""Floor checks that evidence was made of before, and evidence itself: each is checked, and written as text, once.

A judge hands out the same frozen checks again and again, and evidence is asked about right after it was made. They are
known by identity, because equality is not enough: True equals 1.0, and only one of the two is a score.
"""

import json
from collections.abc import Iterable
from json.encoder import encode_basestring_ascii
from types import NoneType
from typing import Any, Final, NamedTuple

import msgspec

from standfast.canon import normal_string
from standfast.limits import FLOAT_DECIMALS, MAX_KNOWN_CHECKS, MAX_KNOWN_EVIDENCE
from standfast.vocabulary import Evidence, FloorCheck

_ENCODER: Final = json.JSONEncoder(sort_keys=True)


class KnownCheck(NamedTuple):
    """A check that is sound, the same as json-v1 gives it back, and its own text as the evidence hash covers it."""

    check: FloorCheck
    stored: FloorCheck
    text: str


_known: Final[dict[int, KnownCheck]] = {}
_made: Final[dict[int, tuple[Evidence, str]]] = {}


def known_check(check: FloorCheck) -> KnownCheck:
    """The check as json-v1 gives it back: rounded numbers, NFC text, checked types. KnownText from then on."""
    # As long as it is known it is held, so that nothing else can have its identity.
    found = _known.get(id(check))
    if found is None:
        found = _kept(check)
    return found if found.check is found.stored else known_check(found.stored)


def sound(check: FloorCheck) -> FloorCheck:
    """A check that json-v1 is sure to give back as it is, by who made it. KnownText from then on."""
    _keep(check)
    return check


def _kept(check: FloorCheck) -> KnownCheck:
    stored = _as_stored(check)
    kept = _keep(stored)
    if isinstance(check, FloorCheck) and check is not stored:
        _known[id(check)] = KnownCheck(check, stored, _ENCODER.encode(set_fields(check)))
    return kept


def _keep(stored: FloorCheck) -> KnownCheck:
    if len(_known) >= MAX_KNOWN_CHECKS:
        _known.clear()
    kept = _known[id(stored)] = KnownCheck(stored, stored, _text(stored))
    return kept


def known_texts(checks: Iterable[FloorCheck]) -> list[str] | None:
    """The texts of these checks, if all of them are known."""
    texts = []
    for check in checks:
        if (found := _known.get(id(check))) is None:
            return None
        texts.append(found.text)
    return texts


def made(evidence: Evidence, text: str) -> Evidence:
    """Evidence that was just made of known checks, and whose hash is that of this text. KnownText from then on."""
    if len(_made) >= MAX_KNOWN_EVIDENCE:
        _made.clear()
    _made[id(evidence)] = evidence, text
    return evidence


def text_of(evidence: Evidence) -> str | None:
    """The text that this evidence was made of, if it is known."""
    found = _made.get(id(evidence))
    return None if found is None else found[1]


def set_fields(value: msgspec.Struct) -> dict[str, Any]:
    """What is set in a value of the vocabulary, unchecked, as it may have been built from anything."""
    return {name: member for name, member in msgspec.structs.asdict(value).items() if member is not None}


def _text(check: FloorCheck) -> str:
    """What ``json.dumps(..., sort_keys=True)`` makes of what is set in a stored check, in a third of the time."""
    hard = "" if check.hard is None else f'"hard": {"true" if check.hard else "false"}, '
    passed = "true" if check.passed else "false"
    reason = "" if check.reason is None else f'"reason": {encode_basestring_ascii(check.reason)}, '
    threshold = "" if check.threshold is None else f', "threshold": {check.threshold!r}'
    floor = encode_basestring_ascii(check.floor)
    return f'{{"floor": {floor}, {hard}"passed": {passed}, {reason}"score": {check.score!r}{threshold}}}'


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
