"""JSON to typed values, by msgspec, in any number of threads.

msgspec looks at a type when it first converts to it, and two threads that do so at the same time can crash
the interpreter. Here each type is looked at once, in one thread; lint bans msgspec's own functions elsewhere.
A ``Decoder`` that a module makes when it is imported is looked at there, and needs none of this.
"""

import re
import threading
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, Final, TypeVar

import msgspec

from standfast.errors import InvalidValue

_T = TypeVar("_T")
_S = TypeVar("_S", bound=msgspec.Struct)
_READY: Final[set[Any]] = set()
_LOOKING: Final = threading.Lock()
_MISSING: Final = re.compile("Object missing required field `(.*)`")
_UNKNOWN: Final = re.compile("Object contains unknown field `(.*)`")
# What other memories call it. The first that a call takes is named.
_CALLED_ELSEWHERE: Final = {
    **dict.fromkeys(("user_id", "user", "user_name"), ("scope='user/…'",)),
    **dict.fromkeys(("agent_id", "group_id", "container_tag"), ("scope='agent/…'",)),
    **dict.fromkeys(("session_id", "thread_id", "conversation_id"), ("session=", "where={'session': …}")),
    **dict.fromkeys(("k", "n", "limit", "top_k", "num_results"), ("max_items=",)),
    **dict.fromkeys(("budget", "max_tokens", "token_budget"), ("tokens=",)),
    **dict.fromkeys(("filter", "filters"), ("where=",)),
    **dict.fromkeys(("timestamp", "created_at", "date"), ("time=",)),
    **dict.fromkeys(("id", "key"), ("subject=", "memory_id=")),
}


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


def built(kind: type[_S], **fields: Any) -> _S:
    """A request from what a caller gave by name.

    Raises:
        TypeError: It has no such field. The error names the one that is probably meant.
    """
    try:
        return kind(**fields)
    except TypeError:
        known = [field.name for field in msgspec.structs.fields(kind)]
        unknown = [name for name in fields if name not in known]
        if not unknown:
            raise
        near = get_close_matches(unknown[0], known, n=1)
        meant = [one for one in _CALLED_ELSEWHERE.get(unknown[0], ()) if one.partition("=")[0] in known]
        advice = [*meant, *(f"{name}=" for name in near)]
        hint = f"did you mean {advice[0]}?" if advice else f"it takes {', '.join(known)}"
        raise TypeError(f"there is no argument {unknown[0]}=; {hint}") from None


def invalid_argument(error: msgspec.ValidationError, *, kind: type[msgspec.Struct]) -> InvalidValue:
    """What msgspec found wrong with a request, in words for whoever sent it: the argument, then the problem.

    Args:
        kind: The type of the request, which is named if no argument is.
    """
    what = kind.__name__
    problem, _, place = str(error).partition(" - at `$")
    missing = _MISSING.fullmatch(problem)
    unknown = _UNKNOWN.fullmatch(problem)
    inside = place.rstrip("`").lstrip(".")
    if missing:
        return InvalidValue(what=f"{inside}.{missing[1]}".lstrip("."), problem="it is missing")
    if unknown:
        # Of a value inside of the request, the type is not known here.
        known = [] if inside else [field.encode_name for field in msgspec.structs.fields(kind)]
        near = get_close_matches(unknown[1], known, n=1)
        fields = ", ".join(known)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {fields}" if known else ""
        return InvalidValue(what=inside or what, problem=f"there is no field {unknown[1]}{hint}")
    plain = problem.replace("Expected `str` of length >= 1", "it must not be empty")
    plain = plain.replace("Expected ", "it must be ").replace(", got ", ", not ")
    return InvalidValue(what=inside or what, problem=plain)
