"""What the fields of a request must be: limits, for callers who build one instead of sending it; reasons,
sources and names that are looked up.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from msgspec import inspect as types
from msgspec.structs import astuple

from standfast.errors import InvalidValue
from standfast.limits import MAX_NAME_CHARS, SAFE_INTEGER
from standfast.records.canon import normal_string
from standfast.records.vocabulary import Value, shown

_LISTS: Final = (list, tuple, set, frozenset)


class _Limits(NamedTuple):
    """The limits of one field: of a number, of the length of a text, or of a list and of its texts."""

    place: int
    """Its number among the fields."""
    name: str
    is_number: bool
    is_text: bool
    least: int
    most: int
    item_most: int


@cache
def _limits_of(request: type[Value]) -> tuple[_Limits, ...]:
    """The limits of those fields of a request that have any."""
    info = types.type_info(request)
    assert isinstance(info, types.StructType)
    kinds = [_limited(field.type) for field in info.fields]
    return tuple(
        _limits(place, info.fields[place].name, kind) for place, kind in enumerate(kinds) if kind is not None
    )


def _limits(place: int, name: str, kind: Any) -> _Limits:
    is_number, is_text = isinstance(kind, types.IntType), isinstance(kind, types.StrType)
    least, most = (kind.ge, kind.le) if is_number else (kind.min_length, kind.max_length)
    item = getattr(kind, "item_type", None)
    item = item.type if isinstance(item, types.Metadata) else item
    of_item = getattr(item, "max_length", None)
    bounds = (
        0 if least is None else least,
        *(SAFE_INTEGER if one is None else one for one in (most, of_item)),
    )
    return _Limits(place, name, is_number, is_text, *bounds)


def _limited(kind: types.Type) -> Any:
    """A type with a limit, without None; None for one that has none."""
    if isinstance(kind, types.Metadata):
        return _limited(kind.type)
    if isinstance(kind, types.UnionType):
        return next((one for one in map(_limited, kind.types) if one is not None), None)
    is_limited = any(
        getattr(kind, name, None) is not None for name in ("ge", "le", "min_length", "max_length")
    )
    return kind if is_limited else None


def check_limits(request: Value) -> None:
    """Refuse what is beyond a limit of its field, in the caller's words."""
    fields = astuple(request)
    for place, name, is_number, is_text, least, most, item_most in _limits_of(type(request)):
        given = fields[place]
        if given is None:
            continue
        if is_number:
            if type(given) is not int or not least <= given <= most:
                problem = f"it must be a whole number from {least:,} to {most:,}, not {given!r:.40}"
                raise InvalidValue(what=name, problem=problem)
        elif is_text:
            _check_length(name, given, most)
        elif isinstance(given, _LISTS):
            if not least <= len(given) <= most:
                problem = f"it must have {least:,} to {most:,} items, not {len(given):,}"
                raise InvalidValue(what=name, problem=problem)
            for one in given:
                _check_length(name, one, item_most)


def _check_length(name: str, given: object, most: int) -> None:
    """Refuse a text that is too long. What is no text is refused elsewhere, with an example."""
    if isinstance(given, str) and len(given) > most:
        problem = f"it has {len(given):,} characters; give at most {most:,}"
        raise InvalidValue(what=name, problem=problem)


def checked_source(source: object) -> dict[str, str]:
    """Kind and id of a source; ``InvalidValue`` for anything else."""
    if not (isinstance(source, Mapping) and {"kind", "id"} <= set(source)):
        problem = f'it must be a mapping such as {{"kind": "doc", "id": "handbook"}}, not {shown(source)}'
        raise InvalidValue(what="source", problem=problem)
    return {"kind": str(source["kind"]), "id": str(source["id"])}


def checked_reason(reason: object, *, rehearse: bool) -> str:
    """A reason as one printable line, because its rows hold no other. Only a rehearsal needs none."""
    if isinstance(reason, str) and len(reason) > MAX_NAME_CHARS:
        problem = f"it may have {MAX_NAME_CHARS} characters, not {len(reason):,}"
        raise InvalidValue(what="reason", problem=problem)
    given = normal_string(reason) if isinstance(reason, str) else ""
    line = " ".join("".join(char if char.isprintable() else " " for char in given).split())
    if not line and not rehearse:
        problem = f"say why (reason=… or --reason); the ledger keeps it. It is {shown(reason)}"
        raise InvalidValue(what="reason", problem=problem)
    return line


def check_looked_up(what: str, name: object) -> None:
    """Raise ``InvalidValue`` unless something can have this name: it is a text, printable and not blank."""
    if not (isinstance(name, str) and name.strip() and name.isprintable()):
        problem = f"it must be a text of printable characters that is not blank, not {shown(name)}"
        raise InvalidValue(what=what, problem=problem)
