"""Operations of an AsyncAPI description, and objects of a JSON Schema.

AsyncAPI 2 and 3: each channel that is published or subscribed to (2), and each operation (3), is one; its parameters are the top
fields of the messages' payloads. JSON Schema: each object with properties is one, by its place in the document; its parameters
are its properties, with their types.
"""

from collections.abc import Iterator
from typing import Any, Final

from standfast.bench.sources.interfaces import ApiOperation
from standfast.bench.sources.openapi import DescriptionReader, SchemaFields, parse_document
from standfast.errors import BadFile

MAX_DEPTH: Final = 8
_DEFINITIONS: Final = ("$defs", "definitions")


def read_asyncapi(content: bytes, path: str, prefix: str) -> dict[str, ApiOperation]:
    """Return the operations of an AsyncAPI description."""
    document = parse_document(content, path)
    if not (isinstance(document.get("asyncapi"), str) and isinstance(document.get("channels"), dict)):
        problem = 'it is not an AsyncAPI description: it has no "asyncapi" and "channels"'
        raise BadFile(file=path, problem=problem)
    reader = DescriptionReader(document)
    found = _old_operations if document["asyncapi"].startswith(("1.", "2.")) else _new_operations
    return {
        f"{prefix}:{name}": _message_operation(reader, f"{prefix}:{name}", operation, messages)
        for name, operation, messages in found(reader, document)
    }


def _old_operations(
    reader: DescriptionReader, document: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    for channel, item in document["channels"].items():
        shown = reader.resolve(item)
        for verb in ("publish", "subscribe"):
            operation = shown.get(verb)
            if isinstance(operation, dict):
                message = reader.resolve(operation.get("message"))
                several = message.get("oneOf")
                yield f"{verb} {channel}", operation, several if isinstance(several, list) else [message]


def _new_operations(
    reader: DescriptionReader, document: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any], list[Any]]]:
    operations = document.get("operations")
    for name, item in (operations if isinstance(operations, dict) else {}).items():
        operation = reader.resolve(item)
        channel = reader.resolve(operation.get("channel"))
        messages = operation.get("messages")
        if not isinstance(messages, list):
            of_channel = channel.get("messages")
            messages = list(of_channel.values()) if isinstance(of_channel, dict) else []
        yield f"{operation.get('action', 'use')} {channel.get('address') or name}", operation, messages


def _message_operation(
    reader: DescriptionReader, name: str, operation: dict[str, Any], messages: list[Any]
) -> ApiOperation:
    payloads = [reader.resolve(reader.resolve(message).get("payload")) for message in messages]
    fields = reader.fields({"oneOf": payloads}) if payloads else SchemaFields(set(), set(), {})
    return ApiOperation(
        name=name,
        params=frozenset(fields.params),
        required=frozenset(fields.required & fields.params),
        deprecated=operation.get("deprecated") is True,
        enums={f"in.{field}": values for field, values in fields.enums.items()},
    )


def read_json_schema(content: bytes, path: str, prefix: str) -> dict[str, ApiOperation]:
    """Return the objects of a JSON Schema by their place in it."""
    document = parse_document(content, path)
    reader = DescriptionReader(document)
    found = {
        f"{prefix}:{place}": _object(reader, f"{prefix}:{place}", schema)
        for place, schema in _objects(document, "#", 0)
    }
    if not found:
        raise BadFile(file=path, problem="it is not a JSON Schema: it has no object with properties")
    return found


def _objects(schema: Any, place: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all objects with properties inside a schema, definitions included. References are not followed."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return
    if isinstance(schema.get("properties"), dict):
        yield place, schema
        for name, inner in schema["properties"].items():
            yield from _objects(inner, f"{place}/{name}", depth + 1)
    for key in _DEFINITIONS:
        definitions = schema.get(key)
        for name, inner in definitions.items() if isinstance(definitions, dict) else ():
            yield from _objects(inner, f"{place}{key}/{name}", depth + 1)
    for key in ("items", "additionalProperties"):
        yield from _objects(schema.get(key), f"{place}/{key}", depth + 1)
    patterns = schema.get("patternProperties")
    for pattern, inner in patterns.items() if isinstance(patterns, dict) else ():
        yield from _objects(inner, f"{place}/{pattern}", depth + 1)
    for key in ("allOf", "anyOf", "oneOf"):
        parts = schema.get(key)
        for number, inner in enumerate(parts if isinstance(parts, list) else ()):
            yield from _objects(inner, f"{place}/{key}{number}", depth + 1)


def _object(reader: DescriptionReader, name: str, schema: dict[str, Any]) -> ApiOperation:
    fields = reader.fields({key: schema[key] for key in ("properties", "required") if key in schema})
    properties = {field: reader.resolve(inner) for field, inner in schema["properties"].items()}
    types = {field: said for field, inner in properties.items() if (said := _type(inner))}
    return ApiOperation(
        name=name,
        params=frozenset(fields.params),
        required=frozenset(fields.required & fields.params),
        deprecated=schema.get("deprecated") is True,
        enums={f"in.{field}": values for field, values in fields.enums.items()},
        types=types,
        deprecated_params=frozenset(
            field for field, inner in properties.items() if inner.get("deprecated") is True
        ),
    )


def _type(schema: dict[str, Any]) -> str:
    """Return the types that a property accepts, as one word; empty if the schema does not say."""
    said = schema.get("type")
    names = set(said if isinstance(said, list) else [said] if isinstance(said, str) else [])
    for key in ("oneOf", "anyOf"):
        parts = schema.get(key)
        for part in parts if isinstance(parts, list) else ():
            inner = part.get("type") if isinstance(part, dict) else None
            names.update(inner if isinstance(inner, list) else [inner] if isinstance(inner, str) else [])
    return " | ".join(sorted(map(str, names)))
