"""The table of endpoints as an OpenAPI 3.1 document."""

from functools import cache
from typing import Any, Final

from standfast.limits import MAX_NAME_CHARS, SAFE_INTEGER
from standfast.server.edge.event_streams import EVENT_STREAM, EVENTS_PATH, LAST_ID_HEADER
from standfast.server.edge.problems import CONTENT_TYPE, STATUS_OF_CODE, Problem
from standfast.server.http.described_limits import with_limits
from standfast.server.http.endpoints import ENDPOINTS, REQUEST_KEY_HEADER, VERSION_HEADER, Endpoint
from standfast.server.http.examples import field_examples
from standfast.server.operations.event_operations import ServerEvent
from standfast.server.operations.schemas import component_schemas, struct_names
from standfast.server.operations.telemetry import VERSION

# Any endpoint can return these: the statuses of our errors, and those of HTTP itself (method, timeout, media
# type, host, headers).
PROBLEM_STATUSES: Final = sorted({*STATUS_OF_CODE.values(), 405, 408, 415, 421, 431})
_REF: Final = "#/components/schemas/{name}"
_VERSION: Final = {"type": "string", "pattern": '^"(0|[1-9][0-9]{0,14})"$'}


@cache
def openapi_document() -> dict[str, Any]:
    """The whole document, generated from the table of endpoints."""
    components = component_schemas(
        [one.request for one in ENDPOINTS],
        [Problem, ServerEvent, *(one.response for one in ENDPOINTS)],
        ref_template=_REF,
    )
    sent = struct_names([one.request for one in ENDPOINTS])
    components = with_limits(components, sent)
    for name in sent:
        for field, described in components[name].get("properties", {}).items():
            described["examples"] = field_examples(name, field)
            if field == "type" and (tag := described.get("enum")):
                # One of several forms; its only value tells which.
                described |= {"description": "Which form it is.", "examples": tag}
    paths: dict[str, dict[str, Any]] = {}
    for one in ENDPOINTS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, components)
    problems = {str(status): _problem() for status in PROBLEM_STATUSES}
    paths[EVENTS_PATH] = {"get": events_operation(problems)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Standfast",
            "version": VERSION,
            "description": "Governed memory for AI agents. Errors are problem+json with a stable `code`.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
        "tags": [{"name": name} for name in dict.fromkeys(one.tag for one in ENDPOINTS)],
    }


def _operation(one: Endpoint, components: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": one.name,
        "tags": [one.tag],
        "summary": one.summary,
        "parameters": [*_in_path(one), *_in_query(one, components), *_in_headers(one)],
        "responses": {
            str(one.status): _response(one),
            **{str(status): _problem() for status in PROBLEM_STATUSES},
        },
    }
    if one.has_body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": _content(one)},
        }
    return operation


def _content(one: Endpoint) -> dict[str, Any]:
    return {"schema": _ref(one.request), "example": one.example}


def _in_path(one: Endpoint) -> list[dict[str, Any]]:
    names = [part[1:-1] for part in one.path.split("/") if part.startswith("{")]
    schema = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS, "pattern": "^[^/]+$"}
    return [{"name": name, "in": "path", "required": True, "schema": schema} for name in names]


def _in_query(one: Endpoint, components: dict[str, Any]) -> list[dict[str, Any]]:
    if "query" not in one.parameters:
        return []
    schema = components[one.request.__name__]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "description": field.get("description", ""),
            "schema": {**_without_null(field), "examples": field["examples"]},
        }
        for name, field in schema["properties"].items()
    ]


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without null: a query leaves out what it does not set."""
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    return options[0] if len(options) == 1 else schema


def _in_headers(one: Endpoint) -> list[dict[str, Any]]:
    headers = []
    if one.takes_request_key:
        schema = {"type": "string", "pattern": "^[!-~]+$", "maxLength": MAX_NAME_CHARS}
        description = "Repeating a request with the same key has one effect and returns the same response."
        headers.append(_header(REQUEST_KEY_HEADER, schema, description, required=False))
    if one.takes_version:
        description = 'The version to change, as in its ETag; `"0"` if there is none yet.'
        headers.append(_header(VERSION_HEADER, _VERSION, description, required=True))
    return headers


def _header(name: str, schema: dict[str, Any], description: str, *, required: bool) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": required, "schema": schema, "description": description}


def _response(one: Endpoint) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": "Success.",
        "content": {"application/json": {"schema": _ref(one.response)}},
    }
    if one.has_version:
        response["headers"] = {
            "ETag": {"schema": _VERSION, "description": "The version, in quotation marks."}
        }
    return response


def _problem() -> dict[str, Any]:
    return {
        "description": "The request was refused, or it failed.",
        "content": {CONTENT_TYPE: {"schema": _ref(Problem)}},
    }


def _ref(kind: type) -> dict[str, str]:
    return {"$ref": _REF.format(name=kind.__name__)}


def events_operation(problems: dict[str, Any]) -> dict[str, Any]:
    """The endpoint in the OpenAPI document. ``problems`` are the responses of every operation."""
    number = {"type": "integer", "minimum": 0, "maximum": SAFE_INTEGER}
    description = "The id of the last event that was received; without it, only later events are sent."
    return {
        "operationId": "events",
        "tags": ["Ledger"],
        "summary": "Follow commits, proposals and refusals as server-sent events.",
        "parameters": [
            {
                "name": LAST_ID_HEADER,
                "in": "header",
                "required": False,
                "schema": number,
                "description": description,
            },
            {"name": "after", "in": "query", "required": False, "schema": number, "description": description},
        ],
        "responses": {
            "200": {
                "description": "A stream that does not end. The data of each event is a ServerEvent.",
                "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
            },
            **problems,
        },
    }
