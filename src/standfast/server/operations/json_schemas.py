"""JSON Schemas of requests and responses, exact enough to generate clients from them."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import msgspec.inspect

from standfast.vocabulary import Value

_DEFINITION: Final = "#/$defs/{name}"


def component_schemas(
    requests: Iterable[type[Value]], responses: Iterable[type[Value]], *, ref_template: str = _DEFINITION
) -> dict[str, Any]:
    """The schemas of classes and of all that they refer to, by name.

    msgspec takes a field with a default for optional. A response has all of its fields, so they are required there. An object
    without described fields may have any.
    """
    asked, sent = set(requests), set(responses)
    _, schemas = msgspec.json.schema_components(
        sorted(asked | sent, key=lambda kind: kind.__name__), ref_template=ref_template
    )
    for kind in _structs(sent) - _structs(asked):
        if not kind.__struct_config__.omit_defaults:
            schemas[kind.__name__]["required"] = list(schemas[kind.__name__]["properties"])
    _open_objects(schemas)
    return schemas


def response_schema(kind: type[Value]) -> dict[str, Any]:
    """The schema of one response, complete in itself."""
    schemas = component_schemas([], [kind])
    own = schemas.pop(kind.__name__)
    return {**own, "$defs": schemas} if schemas else own


def _structs(kinds: set[type[Value]]) -> set[type[msgspec.Struct]]:
    """All struct classes that these ones refer to."""
    found: set[type[msgspec.Struct]] = set()
    seen: set[int] = set()
    parts: list[Any] = list(msgspec.inspect.multi_type_info(kinds))
    while parts:
        part = parts.pop()
        if isinstance(part, list | tuple):
            parts += part
        elif isinstance(part, msgspec.Struct) and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, msgspec.inspect.StructType):
                found.add(part.cls)
            parts += [getattr(part, name) for name in part.__struct_fields__]
    return found


def _open_objects(schema: Any) -> None:
    if isinstance(schema, list):
        for one in schema:
            _open_objects(one)
    elif isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" not in schema:
            schema.setdefault("additionalProperties", True)
        for one in schema.values():
            _open_objects(one)
