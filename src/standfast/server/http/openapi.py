"""The table of routes as an OpenAPI 3.1 document."""

from functools import cache
from typing import Any, Final

import msgspec

from standfast.limits import MAX_NAME_CHARS
from standfast.server.http.problems import CONTENT_TYPE, STATUS_OF_CODE, Problem
from standfast.server.http.routes import OPERATIONS
from standfast.server.http.rows.operation import REQUEST_KEY_HEADER, VERSION_HEADER, Operation
from standfast.server.operations.hall import VERSION

# What any call can be answered with: what our errors say, and HTTP's own: method, slowness, media type, host, headers.
PROBLEM_STATUSES: Final = sorted({*STATUS_OF_CODE.values(), 405, 408, 415, 421, 431})
_REF: Final = "#/components/schemas/{name}"
_VERSION: Final = {"type": "string", "pattern": '^"(0|[1-9][0-9]{0,14})"$'}


@cache
def description() -> dict[str, Any]:
    """The whole document."""
    kinds = {kind for one in OPERATIONS for kind in (one.asks, one.answers)} | {Problem}
    _, components = msgspec.json.schema_components(
        sorted(kinds, key=lambda kind: kind.__name__), ref_template=_REF
    )
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Standfast",
            "version": VERSION,
            "description": "Memory that an AI agent can be held to. Errors are problem+json with a stable `code`.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(one: Operation, components: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.says,
        "parameters": [*_in_path(one), *_in_query(one, components), *_in_headers(one)],
        "responses": {
            str(one.status): _answer(one),
            **{str(status): _problem() for status in PROBLEM_STATUSES},
        },
    }
    if one.has_body:
        told["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(one.asks)}},
        }
    return told


def _in_path(one: Operation) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS, "pattern": "^[^/]+$"}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _in_query(one: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    if one.method in ("POST", "PUT"):
        return []
    shape = components[one.asks.__name__]
    return [
        {"name": name, "in": "query", "required": name in shape["required"], "schema": _without_null(schema)}
        for name, schema in shape["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A query has no null: what is not given is left out."""
    ways = [way for way in schema.get("anyOf", []) if way != {"type": "null"}]
    return ways[0] if len(ways) == 1 else schema


def _in_headers(one: Operation) -> list[dict[str, Any]]:
    told = []
    if one.takes_request_key:
        schema = {"type": "string", "pattern": "^[!-~]+$", "maxLength": MAX_NAME_CHARS}
        says = "The same key with the same request has one effect, and the same answer."
        told.append(_header(REQUEST_KEY_HEADER, schema, says, required=False))
    if one.takes_version:
        says = 'The version that is to be changed, as its ETag says; `"0"` if there is nothing yet.'
        told.append(_header(VERSION_HEADER, _VERSION, says, required=True))
    return told


def _header(name: str, schema: dict[str, Any], says: str, *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": required, "schema": schema, "description": says}


def _answer(one: Operation) -> dict[str, Any]:
    told: dict[str, Any] = {
        "description": "Done.",
        "content": {"application/json": {"schema": _ref(one.answers)}},
    }
    if one.version_of is not None:
        told["headers"] = {"ETag": {"schema": _VERSION, "description": "The version, in quotation marks."}}
    return told


def _problem() -> dict[str, Any]:
    return {"description": "Refused, or failed.", "content": {CONTENT_TYPE: {"schema": _ref(Problem)}}}


def _ref(kind: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}
