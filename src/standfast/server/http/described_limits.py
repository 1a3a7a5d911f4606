"""What the server demands of requests and their Python types do not say, in the words of JSON Schema.

Names, scopes and times have patterns, numbers have bounds, a message has a role, and forgetting names one
thing. What JSON Schema has no word for stays out: that characters beyond ASCII are printable and in NFC, and
what depends on the content of the store.
"""

from typing import Any, Final

from standfast.limits import MAX_NAME_CHARS, SAFE_INTEGER

JSON_VALUE: Final = "JsonValue"
"""The schema of any JSON whose numbers are exact."""
_NAME: Final = {"minLength": 1, "maxLength": MAX_NAME_CHARS, "pattern": r"^[^\x00-\x1f\x7f-\xa0]+$"}
_PRINTABLE: Final = {"not": {"pattern": r"[\x00-\x1f\x7f-\xa0]"}}
_TIME: Final = {"anyOf": [{"type": "string", "format": one} for one in ("date", "date-time")]}
_NAMED: Final = frozenset(
    {"subject", "memory_id", "session", "speaker", "user", "workflow", "controller", "tag", "source_kind"}
    | {"subject_prefix", "supersedes", "name", "namespaces", "hold"}
)
_TIMES: Final = frozenset({"time", "valid_from", "valid_until", "after", "before", "now_utc"})
_SCOPES: Final = frozenset({"scope", "scopes"})
_ROLES: Final = ("user", "assistant", "system", "developer", "tool")
_MESSAGE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["role", "content"],
    "properties": {"role": {"enum": list(_ROLES)}, "content": {"type": "string"}},
    "additionalProperties": {"$ref": f"#/components/schemas/{JSON_VALUE}"},
}
_SOURCE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["kind", "id"],
    "properties": {"kind": {"type": "string", **_NAME}, "id": {"type": "string", **_NAME}},
    "additionalProperties": False,
}
_GIVEN: Final = {"not": {"type": "null"}}
_FORGET: Final[list[dict[str, Any]]] = [
    {
        "anyOf": [
            {"required": ["reason"], "properties": {"reason": {"pattern": r"\S"}}},
            {"required": ["rehearse"], "properties": {"rehearse": {"const": True}}},
        ]
    },
    {
        "oneOf": [
            {
                "required": [named],
                "properties": {named: _GIVEN, **{other: {"type": "null"} for other in others}},
            }
            for named, *others in (
                ("subject", "memory_id", "source"),
                ("memory_id", "subject", "source"),
                ("source", "subject", "memory_id"),
                ("scope", "subject", "memory_id", "source"),
            )
        ]
    },
]
"""It has a reason, unless it is a rehearsal; and names a subject, an id or a source, or only a scope."""


def with_limits(components: dict[str, Any], requests: set[str]) -> dict[str, Any]:
    """The schemas with what the types of requests do not say.

    Args:
        components: All schemas, by name.
        requests: The names of those that are sent to the server.
    """
    limited = {name: _limited(schema) if name in requests else schema for name, schema in components.items()}
    for name in requests & {"ForgetRequest"}:
        limited[name] = {**limited[name], "allOf": _FORGET}
    number = {"type": "number", "minimum": -SAFE_INTEGER, "maximum": SAFE_INTEGER}
    reference = {"$ref": f"#/components/schemas/{JSON_VALUE}"}
    limited[JSON_VALUE] = {
        "description": f"Any JSON; numbers are between -{SAFE_INTEGER} and {SAFE_INTEGER}.",
        "anyOf": [
            *({"type": one} for one in ("null", "boolean", "string")),
            number,
            {"type": "array", "items": reference},
            {"type": "object", "additionalProperties": reference},
        ],
    }
    return limited


def _limited(schema: Any, field: str = "") -> Any:
    """A schema with limits in all of its parts. ``field`` is the name of the field that it describes."""
    if isinstance(schema, list):
        return [_limited(one, field) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    if kind == "string" and "enum" not in schema:
        return _limited_text(schema, field)
    if kind in ("integer", "number"):
        return {"minimum": -SAFE_INTEGER, "maximum": SAFE_INTEGER, **schema}
    if field == "messages" and kind == "object":
        return _MESSAGE
    if field == "source" and kind == "object":
        return {**schema, **_SOURCE}
    if field == "metadata" and kind == "object":
        schema = {**schema, "propertyNames": _NAME}
    parts = {name: _limited(one, field) for name, one in schema.items() if name != "properties"}
    if "properties" in schema:
        parts["properties"] = {name: _limited(one, name) for name, one in schema["properties"].items()}
    if parts.get("additionalProperties") is True:
        parts["additionalProperties"] = {"$ref": f"#/components/schemas/{JSON_VALUE}"}
    return parts


def _limited_text(schema: dict[str, Any], field: str) -> dict[str, Any]:
    if field in _TIMES:
        return {name: one for name, one in schema.items() if name == "description"} | _TIME
    if field in _SCOPES:
        return {**schema, "not": {"anyOf": [schema["not"], _PRINTABLE["not"]]}}
    return {**_NAME, **schema} if field in _NAMED else schema
