"""JSON to typed values, by msgspec, in any number of threads.

msgspec looks at a type when it first converts to it, and two threads that do so at the same time can crash
the interpreter. Here each type is looked at once, in one thread; lint bans msgspec's own functions elsewhere.
A ``Decoder`` that a module makes when it is imported is looked at there, and needs none of this.
"""

import threading
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec

_T = TypeVar("_T")
_READY: Final[set[Any]] = set()
_LOOKING: Final = threading.Lock()


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
