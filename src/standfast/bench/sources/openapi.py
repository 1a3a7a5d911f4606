"""What an OpenAPI description says about each operation, boiled down to what a caller can break on.

Understands OpenAPI 3 and Swagger 2, JSON and YAML. For an operation that is: the names of its query and cookie parameters and
of the top-level properties of its body; which of them are required; whether it is deprecated; and which values its enumerated
fields allow, in what is sent and in the first successful answer (there also one level inside a list). Path and header
parameters are left out, because they come with the path and with the protocol.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from standfast.errors import BadFile, MissingExtra
from standfast.limits import MAX_SOURCE_BYTES

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
IN_NAME: Final = frozenset(("query", "cookie", "formData"))
_PLACEHOLDER: Final = re.compile(r"\{[^}]*\}")
MAX_REF_HOPS: Final = 20
MAX_ENUM_FIELDS: Final = 6
MAX_ENUM_VALUES: Final = 8


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation, as far as its callers depend on it."""

    name: str
    params: frozenset[str]
    required: frozenset[str]
    deprecated: bool
    enums: dict[str, frozenset[str]]
    """Allowed values by field, ``in.`` for what is sent and ``out.`` for what is answered, in lower case."""


def load_description(file: str) -> dict[str, Any]:
    """The description in a file."""
    path = Path(file)
    try:
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            raise BadFile(file=file, problem=f"it is larger than {MAX_SOURCE_BYTES} bytes")
        return parse_description(path.read_bytes(), file)
    except OSError as error:
        raise BadFile(file=file, problem=str(error.strerror)) from None


def parse_description(content: bytes, name: str) -> dict[str, Any]:
    """The description in a text: JSON if it begins like it, YAML otherwise."""
    try:
        document = json.loads(content) if content.lstrip()[:1] == b"{" else _yaml(content)
    except (ValueError, RecursionError) as error:
        raise BadFile(file=name, problem=f"it can't be read: {error}") from None
    if not (isinstance(document, dict) and isinstance(document.get("paths"), dict)):
        raise BadFile(file=name, problem='it is no OpenAPI description: it has no "paths"')
    return document


def operations(document: dict[str, Any], *, source: str, with_host: bool = False) -> dict[str, Operation]:
    """All operations of a description by an identity in which the names of placeholders do not matter."""
    reader = _Reader(document)
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


def observation_of(operation: Operation | None, name: str, version: str) -> dict[str, Any]:
    """The state of an operation, as a step shows it; one that is gone has nothing left."""
    if operation is None:
        return {
            "api": name,
            "params": [],
            "required": [],
            "deprecated": True,
            "enums": {},
            "status": "removed",
            "version": version,
        }
    fields = sorted(operation.enums)[:MAX_ENUM_FIELDS]
    return {
        "api": name,
        "params": sorted(operation.params),
        "required": sorted(operation.required),
        "deprecated": operation.deprecated,
        "enums": {field: _shortened(sorted(operation.enums[field])) for field in fields},
        "status": "active",
        "version": version,
    }


def _shortened(values: list[str]) -> list[str]:
    return values if len(values) <= MAX_ENUM_VALUES else [*values[:6], f"+{len(values) - 6} more"]


def _host(document: dict[str, Any]) -> str:
    servers = document.get("servers")
    if isinstance(servers, list) and servers and isinstance(servers[0], dict):
        parts = urlsplit(str(servers[0].get("url", "")))
        return (parts.netloc + parts.path).rstrip("/")
    return f"{document.get('host', '')}{document.get('basePath', '')}".rstrip("/")


def _yaml(content: bytes) -> Any:
    try:
        import yaml  # noqa: PLC0415  # An extra, and only YAML descriptions need it.
    except ImportError:
        raise MissingExtra(feature="Reading YAML", extra="bench") from None
    try:
        return yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # Both are safe.
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


class _Reader:
    """Reads a description, following its references."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def resolve(self, node: Any) -> dict[str, Any]:
        """What a node refers to; nothing if that is not there or goes in circles."""
        for _ in range(MAX_REF_HOPS):
            if not isinstance(node, dict):
                return {}
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self._target(reference)
        return {}

    def operation(self, name: str, shared: dict[str, Any], operation: dict[str, Any]) -> Operation:
        params: set[str] = set()
        required: set[str] = set()
        enums: dict[str, frozenset[str]] = {}
        for given in [*_list(shared.get("parameters")), *_list(operation.get("parameters"))]:
            parameter = self.resolve(given)
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
        return Operation(
            name=name,
            params=frozenset(params),
            required=frozenset(required & params),
            deprecated=operation.get("deprecated") is True,
            enums=enums,
        )

    def _body(
        self, schema: dict[str, Any], params: set[str], required: set[str], enums: dict[str, frozenset[str]]
    ) -> None:
        for part in self._parts(schema):
            for field, inner in _dict(part.get("properties")).items():
                params.add(field)
                self._enum(f"in.{field}", self.resolve(inner), enums)
            required.update(field for field in _list(part.get("required")) if isinstance(field, str))

    def _answer(self, operation: dict[str, Any], enums: dict[str, frozenset[str]]) -> None:
        responses = _dict(operation.get("responses"))
        good = sorted(code for code in map(str, responses) if code.startswith("2"))
        if not good:
            return
        answer = self.resolve(responses.get(good[0], responses.get(_number(good[0]))))
        schema = self.resolve(answer["schema"]) if "schema" in answer else self._content(answer)
        for part in self._parts(schema):
            for field, given in _dict(part.get("properties")).items():
                inner = self.resolve(given)
                self._enum(f"out.{field}", inner, enums)
                for element in self._parts(self.resolve(inner.get("items"))):
                    for deeper, value in _dict(element.get("properties")).items():
                        self._enum(f"out.{field}[].{deeper}", self.resolve(value), enums)

    def _content(self, node: Any) -> dict[str, Any]:
        """The schema of the first kind of content, JSON before others."""
        content = _dict(self.resolve(node).get("content"))
        for kind in sorted(content, key=lambda kind: ("json" not in kind, kind)):
            return self.resolve(self.resolve(content[kind]).get("schema"))
        return {}

    def _parts(self, schema: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
        """A schema and all that it is composed of with ``allOf``."""
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


def _number(text: str) -> Any:
    return int(text) if text.isdigit() else text
