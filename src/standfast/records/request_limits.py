"""The limits of a request's fields, checked for callers who build a request instead of sending one."""

from functools import cache
from typing import Any, Final

from msgspec import inspect as types

from standfast.errors import InvalidValue
from standfast.limits import SAFE_INTEGER
from standfast.records.vocabulary import Value

_LISTS: Final = (list, tuple, set, frozenset)


@cache
def _limits_of(request: type[Value]) -> tuple[tuple[str, Any], ...]:
    """The fields of a request that have a limit, each with its type."""
    info = types.type_info(request)
    assert isinstance(info, types.StructType)
    kinds = ((field.name, _limited(field.type)) for field in info.fields)
    return tuple((name, kind) for name, kind in kinds if kind is not None)


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
    for name, kind in _limits_of(type(request)):
        given = getattr(request, name)
        if given is None:
            continue
        if isinstance(kind, types.IntType):
            least, most = 0 if kind.ge is None else kind.ge, SAFE_INTEGER if kind.le is None else kind.le
            if type(given) is not int or not least <= given <= most:
                problem = f"it must be a whole number from {least:,} to {most:,}, not {given!r:.40}"
                raise InvalidValue(what=name, problem=problem)
        elif isinstance(kind, types.StrType):
            _check_length(name, given, kind)
        elif isinstance(given, _LISTS):
            if not (kind.min_length or 0) <= len(given) <= (kind.max_length or SAFE_INTEGER):
                least, most = kind.min_length or 0, kind.max_length or SAFE_INTEGER
                problem = f"it must have {least:,} to {most:,} items, not {len(given):,}"
                raise InvalidValue(what=name, problem=problem)
            for one in given:
                _check_length(name, one, _plain_item(kind))


def _plain_item(kind: Any) -> Any:
    item = getattr(kind, "item_type", None)
    return item.type if isinstance(item, types.Metadata) else item


def _check_length(name: str, given: object, kind: Any) -> None:
    """Refuse a text that is too long. What is no text is refused elsewhere, with an example."""
    most = getattr(kind, "max_length", None)
    if isinstance(given, str) and most is not None and len(given) > most:
        problem = f"it has {len(given):,} characters; give at most {most:,}"
        raise InvalidValue(what=name, problem=problem)
