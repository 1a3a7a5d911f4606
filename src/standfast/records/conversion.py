"""JSON to typed values, by msgspec, in any number of threads.

msgspec looks at a type when it first converts to it, and two threads that do so at the same time can crash
the interpreter. Here each type is looked at once, in one thread; lint bans msgspec's own functions elsewhere.
A ``Decoder`` that a module makes when it is imported is looked at there, and needs none of this.
"""

import re
import threading
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

from standfast.errors import InvalidValue

_T = TypeVar("_T")
_READY: Final[set[Any]] = set()
_LOOKING: Final = threading.Lock()
_MISSING: Final = re.compile("Object missing required field `(.*)`")
_UNKNOWN: Final = re.compile("Object contains unknown field `(.*)`")


def converted(plain: object, kind: type[_T], *, strict: bool = True) -> _T:
    """A plain JSON value as a typed one; ``msgspec.ValidationError`` if it is none of the type.

    Args:
        strict: Whether a text is refused where a number is expected.
    """
    _make_ready(kind)
    return msgspec.convert(plain, kind, strict=strict)  # noqa: TID251  # Here it is ready.


def decoded(content: bytes | str, kind: type[_T]) -> _T:
    """JSON text as a typed value; ``msgspec.DecodeError`` if it is none."""
    _make_ready(kind)
    return msgspec.json.decode(content, type=kind)


def _make_ready(kind: Any) -> None:
    if kind in _READY:
        return
    with _LOOKING:
        with suppress(msgspec.ValidationError):
            msgspec.convert(None, kind)  # noqa: TID251  # This is what looks at it.
        _READY.add(kind)


def invalid_argument(error: msgspec.ValidationError, *, what: str) -> InvalidValue:
    """What msgspec found wrong with a request, in words for whoever sent it: the argument, then the problem.

    Args:
        what: What is wrong if no argument is named.
    """
    problem, _, place = str(error).partition(" - at `$")
    missing = _MISSING.fullmatch(problem)
    unknown = _UNKNOWN.fullmatch(problem)
    inside = place.rstrip("`").lstrip(".")
    if missing:
        return InvalidValue(what=f"{inside}.{missing[1]}".lstrip("."), problem="it is missing")
    if unknown:
        return InvalidValue(what=inside or what, problem=f"there is no field {unknown[1]}")
    plain = problem.replace("Expected `str` of length >= 1", "it must not be empty")
    plain = plain.replace("Expected ", "it must be ").replace(", got ", ", not ")
    return InvalidValue(what=inside or what, problem=plain)
