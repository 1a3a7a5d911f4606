"""mem0's filters: the ids in them, and conditions on metadata with mem0's operators."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from standfast.entity_ids import ENTITY_IDS, EntityIds
from standfast.errors import InvalidValue

_LOGICAL: Final = ("AND", "OR", "NOT")
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], object]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "in": lambda value, other: value in other,
    "nin": lambda value, other: value not in other,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "contains": operator.contains,
    "icontains": lambda value, other: str(other).lower() in str(value).lower(),
}


def ids_and_conditions(filters: Mapping[str, Any] | None, **ids: object) -> tuple[EntityIds, dict[str, Any]]:
    """The ids, and the other conditions of a filter. The ids may stand in the filter, or in its AND."""
    conditions = dict(filters or {})
    for part in conditions.get("AND") or ():
        for name in ENTITY_IDS:
            if isinstance(part, Mapping) and isinstance(part.get(name), str | int):
                conditions.setdefault(name, part[name])
    for name in ENTITY_IDS:
        given = conditions.pop(name, None)
        if ids[name] is not None and given is not None and str(ids[name]) != str(given):
            raise InvalidValue(what="filters", problem=f"{name} is given twice, with two values")
        ids[name] = given if ids[name] is None else ids[name]
    return EntityIds.of(**ids), conditions


def meets(metadata: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Whether metadata meets every condition of a filter, in mem0's form."""
    for name, wanted in conditions.items():
        if name in _LOGICAL:
            met = [meets(metadata, part) for part in wanted]
            if not {"AND": all(met), "OR": any(met), "NOT": not any(met)}[name]:
                return False
        elif isinstance(wanted, Mapping):
            if not all(_holds(metadata.get(name), *condition) for condition in wanted.items()):
                return False
        elif wanted == "*":
            if name not in metadata:
                return False
        elif metadata.get(name) != wanted:
            return False
    return True


def _holds(value: Any, name: str, other: Any) -> bool:
    if name not in _OPERATORS:
        raise InvalidValue(what="filters", problem=f"{name!r:.40} is not an operator")
    try:
        return bool(_OPERATORS[name](value, other))
    except TypeError:
        # A field that is not there, or of another kind, is neither greater nor smaller.
        return False
