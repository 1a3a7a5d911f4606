"""Operations of OpenAPI and AsyncAPI descriptions, and objects of a JSON Schema; as JSON or YAML.

OpenAPI 3 and Swagger 2: of each operation, what a caller depends on: the names of query and cookie
parameters and of the top-level properties of the body, which of them are required, whether the operation is
deprecated, and the values of enumerated fields in the request and in the first successful response (there
also one level inside a list). Path and header parameters are ignored. A body with alternatives (``oneOf``,
``anyOf``) has the properties of all of them; required is what every alternative requires, and a field is
enumerated if it is in every alternative that has it.

AsyncAPI 2 and 3: each channel that is published or subscribed to (2), and each operation (3), is one; its
parameters are the top fields of the messages' payloads. JSON Schema: each object with properties is one, by
its place in the document; its parameters are its properties, with their types.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from standfast.bench.sources.interfaces import ApiOperation
from standfast.errors import BadFile, MissingExtra

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
IN_NAME: Final = frozenset(("query", "cookie", "formData"))
_PLACEHOLDER: Final = re.compile(r"\{[^}]*\}")
MAX_REF_HOPS: Final = 20


def parse_document(content: bytes, name: str) -> dict[str, Any]:
    """Parse an object: JSON if it starts with a brace, otherwise YAML."""
    try:
        document = json.loads(content) if content.lstrip()[:1] == b"{" else _yaml(content)
    except (ValueError, RecursionError) as error:
        raise BadFile(file=name, problem=f"it can't be read: {error}") from None
    if not isinstance(document, dict):
        raise BadFile(file=name, problem="it is not an object")
    return document


def parse_description(content: bytes, name: str) -> dict[str, Any]:
    """Parse an OpenAPI description."""
    document = parse_document(content, name)
    if not isinstance(document.get("paths"), dict):
        raise BadFile(file=name, problem='it is not an OpenAPI description: it has no "paths"')
    return document


def read_openapi(content: bytes, path: str, prefix: str) -> dict[str, ApiOperation]:
    """Return the operations of a description by identity."""
    return operations(parse_description(content, path), source=prefix)


def read_openapi_with_host(content: bytes, path: str, prefix: str) -> dict[str, ApiOperation]:
    """Return the operations of a description by identity; the server's host is part of their names."""
    return operations(parse_description(content, path), source=prefix, with_host=True)


def operations(document: dict[str, Any], *, source: str, with_host: bool = False) -> dict[str, ApiOperation]:
    """Return all operations of a description by an identity that ignores the names of placeholders."""
    reader = DescriptionReader(document)
    host = _host(document) if with_host else ""
    found = {}
    for path, item in document["paths"].items():
        shared = reader.resolve(item)
        for method in METHODS:
            operation = shared.get(method)
            if isinstance(operation, dict):
                name = f"{source}:{method.upper()} {host}{path}"
                found[_PLACEHOLDER.sub("{}", name)] = reader.operation(name, shared, operation)
    return found


def _host(document: dict[str, Any]) -> str:
    servers = document.get("servers")
    if isinstance(servers, list) and servers and isinstance(servers[0], dict):
        parts = urlsplit(str(servers[0].get("url", "")))
        return (parts.netloc + parts.path).rstrip("/")
    return f"{document.get('host', '')}{document.get('basePath', '')}".rstrip("/")


def _yaml(content: bytes) -> Any:
    try:
        import yaml  # noqa: PLC0415  # Only YAML descriptions need it.
    except ImportError:
        raise MissingExtra(feature="Reading YAML", extra="bench") from None
    try:
        return yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # Both are safe.
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


class SchemaFields(NamedTuple):
    """The fields of a body: their names, which are required, and the values of those that are enumerated."""

    params: set[str]
    required: set[str]
    enums: dict[str, frozenset[str]]

    def add(self, other: "SchemaFields") -> None:
        """Add the fields of another part of the same body."""
        self.params.update(other.params)
        self.required.update(other.required)
        self.enums.update(other.enums)


def _either(alternatives: Sequence[SchemaFields]) -> SchemaFields:
    """Return the fields of a body that is one of these."""
    params = set[str]().union(*(one.params for one in alternatives))
    required = alternatives[0].required.intersection(*(one.required for one in alternatives))
    enums = {}
    for field in sorted(params):
        having = [one for one in alternatives if field in one.params]
        if all(field in one.enums for one in having):
            enums[field] = frozenset[str]().union(*(one.enums[field] for one in having))
    return SchemaFields(params, required, enums)


class DescriptionReader:
    """Reads a description and follows its references."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def resolve(self, node: Any) -> dict[str, Any]:
        """Return what a node refers to; an empty object if that is missing or circular."""
        for _ in range(MAX_REF_HOPS):
            if not isinstance(node, dict):
                return {}
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self._target(reference)
        return {}

    def operation(self, name: str, shared: dict[str, Any], operation: dict[str, Any]) -> ApiOperation:
        """Read an operation; ``shared`` is the path that it belongs to."""
        params: set[str] = set()
        required: set[str] = set()
        enums: dict[str, frozenset[str]] = {}
        for entry in [*_list(shared.get("parameters")), *_list(operation.get("parameters"))]:
            parameter = self.resolve(entry)
            if parameter.get("in") == "body":
                self._body(self.resolve(parameter.get("schema")), params, required, enums)
            elif parameter.get("in") in IN_NAME and isinstance(parameter.get("name"), str):
                field = parameter["name"]
                params.add(field)
                if parameter.get("required") is True:
                    required.add(field)
                # Swagger 2 has the schema in the parameter itself.
                self._enum(f"in.{field}", self.resolve(parameter.get("schema", parameter)), enums)
        self._body(self._content(operation.get("requestBody")), params, required, enums)
        self._answer(operation, enums)
        return ApiOperation(
            name=name,
            params=frozenset(params),
            required=frozenset(required & params),
            deprecated=operation.get("deprecated") is True,
            enums=enums,
        )

    def _body(
        self, schema: dict[str, Any], params: set[str], required: set[str], enums: dict[str, frozenset[str]]
    ) -> None:
        fields = self.fields(schema)
        params |= fields.params
        required |= fields.required
        enums.update({f"in.{field}": values for field, values in fields.enums.items()})

    def fields(self, schema: dict[str, Any], depth: int = 0) -> "SchemaFields":
        """Return the fields of a schema, of all parts of its ``allOf``, and of its alternatives."""
        found: dict[str, frozenset[str]] = {}
        properties = _dict(schema.get("properties"))
        for field, inner in properties.items():
            self._enum(field, self.resolve(inner), found)
        required = {field for field in _list(schema.get("required")) if isinstance(field, str)}
        fields = SchemaFields(set(properties), required, found)
        if depth < MAX_REF_HOPS:
            for part in _list(schema.get("allOf")):
                fields.add(self.fields(self.resolve(part), depth + 1))
            for name in ("oneOf", "anyOf"):
                alternatives = [self.fields(self.resolve(one), depth + 1) for one in _list(schema.get(name))]
                if alternatives:
                    fields.add(_either(alternatives))
        return fields

    def _answer(self, operation: dict[str, Any], enums: dict[str, frozenset[str]]) -> None:
        # YAML reads status codes as numbers.
        responses = {str(code): answer for code, answer in _dict(operation.get("responses")).items()}
        success = min((code for code in responses if code.startswith("2")), default=None)
        if success is None:
            return
        answer = self.resolve(responses[success])
        schema = self.resolve(answer["schema"]) if "schema" in answer else self._content(answer)
        for part in self._parts(schema):
            for field, schema_or_ref in _dict(part.get("properties")).items():
                inner = self.resolve(schema_or_ref)
                self._enum(f"out.{field}", inner, enums)
                for element in self._parts(self.resolve(inner.get("items"))):
                    for deeper, value in _dict(element.get("properties")).items():
                        self._enum(f"out.{field}[].{deeper}", self.resolve(value), enums)

    def _content(self, node: Any) -> dict[str, Any]:
        """Return the schema of the first content type, JSON before others."""
        content = _dict(self.resolve(node).get("content"))
        for kind in sorted(content, key=lambda kind: ("json" not in kind, kind)):
            return self.resolve(self.resolve(content[kind]).get("schema"))
        return {}

    def _parts(self, schema: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
        """Yield a schema and all parts of its ``allOf``."""
        yield schema
        if depth < MAX_REF_HOPS:
            for part in _list(schema.get("allOf")):
                yield from self._parts(self.resolve(part), depth + 1)

    def _enum(self, field: str, schema: dict[str, Any], enums: dict[str, frozenset[str]]) -> None:
        values = schema.get("enum")
        if not isinstance(values, list):
            values = self.resolve(schema.get("items")).get("enum")
        if isinstance(values, list):
            enums[field] = frozenset(str(value).lower() for value in values)

    def _target(self, reference: str) -> Any:
        node: Any = self.document
        if not reference.startswith("#/"):
            return {}
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            node = node.get(key) if isinstance(node, dict) else None
        return node


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


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
    for name, item in _dict(document.get("operations")).items():
        operation = reader.resolve(item)
        channel = reader.resolve(operation.get("channel"))
        messages = operation.get("messages")
        if not isinstance(messages, list):
            messages = list(_dict(channel.get("messages")).values())
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
    """Yield all objects with properties in a schema, definitions included, references not followed."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return
    if isinstance(schema.get("properties"), dict):
        yield place, schema
        for name, inner in schema["properties"].items():
            yield from _objects(inner, f"{place}/{name}", depth + 1)
    for key in _DEFINITIONS:
        for name, inner in _dict(schema.get(key)).items():
            yield from _objects(inner, f"{place}{key}/{name}", depth + 1)
    for key in ("items", "additionalProperties"):
        yield from _objects(schema.get(key), f"{place}/{key}", depth + 1)
    for pattern, inner in _dict(schema.get("patternProperties")).items():
        yield from _objects(inner, f"{place}/{pattern}", depth + 1)
    for key in ("allOf", "anyOf", "oneOf"):
        for number, inner in enumerate(_list(schema.get(key))):
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
    names = set[str]()
    for part in (schema, *_list(schema.get("oneOf")), *_list(schema.get("anyOf"))):
        said = _dict(part).get("type")
        names.update(map(str, _list(said)) if not isinstance(said, str) else [said])
    return " | ".join(sorted(names))
