"""What the server demands of requests and their Python types do not say, in the words of JSON Schema.

Names, scopes and times have patterns, numbers have bounds, a message has a role, and an act names one thing
and has a reason. What JSON Schema has no word for stays out: that characters beyond ASCII are printable and
in NFC, how two fields compare, and what depends on the content of the store.
"""

from collections.abc import Iterable
from typing import Any, Final

from standfast.govern.approvals.sshsig import ARMOR
from standfast.limits import MAX_NAME_CHARS, MAX_SUMMARY_CHARS, SAFE_INTEGER
from standfast.records.requests import MESSAGE_ID

JSON_VALUE: Final = "JsonValue"
"""The schema of any JSON whose numbers are exact."""
_NAME: Final = {"minLength": 1, "maxLength": MAX_NAME_CHARS, "pattern": r"^[^\x00-\x1f\x7f-\xa0]+$"}
_PRINTABLE: Final = {"not": {"pattern": r"[\x00-\x1f\x7f-\xa0]"}}
_TIME: Final = {
    "anyOf": [{"type": "string", "format": one} for one in ("date", "date-time")],
    "not": {"pattern": "^0000"},
}
"""An instant or a date. Both formats know a year 0, and calendars do not."""
_NAMED: Final = frozenset(
    {"subject", "memory_id", "session", "speaker", "user", "workflow", "controller", "tag", "source_kind"}
    | {"subject_prefix", "supersedes", "name", "namespaces", "hold", "run_id"}
)
_TIMES: Final = frozenset(
    {"time", "valid_from", "valid_until", "after", "before", "now_utc", "since", "until"}
)
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
_NULL: Final = {"type": "null"}
_DIGEST: Final = {"pattern": "^[0-9a-f]{64}$"}
_NOT_BLANK: Final = {"not": {"pattern": r"^[\s\x1c-\x1f\x85]*$"}}
_A_REASON: Final = {"not": {"pattern": r"^[\s\x00-\x1f\x7f-\xa0]*$"}}
"""Characters that are not printable are taken out of it, and something must be left."""
_SAFE_NUMBER: Final = {"minimum": -SAFE_INTEGER, "maximum": SAFE_INTEGER}
_TOKENS: Final = {"minimum": 1}


def _given(*names: str, without: Iterable[str] = (), **others: dict[str, Any]) -> dict[str, Any]:
    """These fields are there, those are not, and others are as given."""
    absent = {name: _NULL for name in without if name not in names}
    return {"required": list(names), "properties": {**dict.fromkeys(names, _GIVEN), **absent, **others}}


def _one_of(*names: str) -> dict[str, Any]:
    """Exactly one of these fields is there."""
    return {"oneOf": [_given(name, without=names) for name in names]}


_REASON: Final[dict[str, Any]] = {
    "anyOf": [
        {"required": ["reason"], "properties": {"reason": _A_REASON}},
        {"required": ["rehearse"], "properties": {"rehearse": {"const": True}}},
    ]
}
"""An act has a reason, unless it is a rehearsal."""
_FORGOTTEN: Final = ("subject", "memory_id", "source")
_INVESTIGATED: Final = ("memory_id", "package_hash", "run_id", "source")
_ONE_PLACE: Final[dict[str, Any]] = {
    "not": {"required": ["scope", "scopes"], "properties": {"scope": _GIVEN, "scopes": _GIVEN}}
}
_DIGESTS: Final = ("result_fingerprint", "side_effects_fingerprint")
_VALUES: Final = ("result", "error")
_NEVER: Final[dict[str, Any]] = {"not": {}}
_EFFECTS: Final = {"required": ["side_effect_fields"], "properties": {"side_effect_fields": {"minItems": 1}}}
_TOOL_ENTRY: Final = {
    "oneOf": [
        {"properties": dict.fromkeys(_DIGESTS, _NULL)},
        _given(_DIGESTS[0], without=(*_DIGESTS, *_VALUES), side_effects=_NEVER, profile={"not": _EFFECTS}),
        _given(*_DIGESTS, without=_VALUES, side_effects=_NEVER, profile=_EFFECTS),
    ]
}
"""A tool call is told with what it returned, or with fingerprints of that."""
_HAS_MEMORY: Final = r"(^|[^$])\$\{memory\}"
_RULES: Final[dict[str, list[dict[str, Any]]]] = {
    "RememberRequest": [
        {"not": {"required": ["several"], "properties": {"several": {"const": True}, "subject": _NULL}}}
    ],
    "RecallRequest": [_ONE_PLACE],
    "RecallBody": [_ONE_PLACE],
    "ForgetRequest": [
        _REASON,
        {"oneOf": [*_one_of(*_FORGOTTEN)["oneOf"], _given("scope", without=_FORGOTTEN)]},
    ],
    "ForgetInRunBody": [_one_of("subject", "memory_id")],
    "InvestigateRequest": [
        {"oneOf": [*_one_of(*_INVESTIGATED)["oneOf"], _given("scope", "since", without=_INVESTIGATED)]}
    ],
    "QuarantineRequest": [_REASON, _one_of("memory_id", "run_id", "source", "agent")],
    "RevertRequest": [_REASON, _one_of("run_id", "since_snapshot")],
    "SettleBody": [
        {
            "oneOf": [
                {
                    "required": ["all"],
                    "properties": {"all": {"const": True}, "conflict_id": _NULL, "keep": _NULL},
                },
                {
                    "required": ["conflict_id", "keep"],
                    "properties": {"all": {"const": False}, "conflict_id": _GIVEN, "keep": _GIVEN},
                },
            ]
        }
    ],
    "ToolEntry": [_TOOL_ENTRY],
    "TraceEntry": [
        _one_of("begin", "end", "tool", "offered", "guardrail", "output", "model_revision", "gap")
    ],
    "Section": [
        {
            "oneOf": [
                {
                    "required": ["recall_tokens", "body"],
                    "properties": {"recall_tokens": _GIVEN, "body": {"pattern": _HAS_MEMORY}},
                },
                {"properties": {"recall_tokens": _NULL, "body": {"not": {"pattern": _HAS_MEMORY}}}},
            ]
        }
    ],
}
"""What the fields of a request must be together, by the name of its schema."""
_FIELDS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "RememberRequest": {
        "text": _NOT_BLANK,
        "hold": _NAME | _NOT_BLANK,
        "subject": {"not": {"pattern": f"^{MESSAGE_ID.pattern}$"}},
    },
    "RecallRequest": {"query": _NOT_BLANK},
    "RecallBody": {"query": _NOT_BLANK},
    "ForgetRequest": dict.fromkeys(("subject", "memory_id"), _NOT_BLANK),
    "ForgetInRunBody": {"reason": _A_REASON, "subject": _NOT_BLANK, "memory_id": _NOT_BLANK},
    "HistoryQuery": {"subject": _NOT_BLANK},
    "RecordQuery": {"memory_id": _NOT_BLANK},
    "SessionQuery": {"session": _NOT_BLANK},
    "InvestigateRequest": dict.fromkeys(("memory_id", "run_id"), _NOT_BLANK),
    "QuarantineRequest": dict.fromkeys(("memory_id", "run_id"), _NOT_BLANK),
    "RevertRequest": {"run_id": _NOT_BLANK},
    "SettleBody": {"reason": _NOT_BLANK},
    "LiftBody": {"reason": _NOT_BLANK},
    "ReleaseBody": {"reason": _A_REASON},
    "Statement": {
        "proposal_id": _DIGEST,
        "payload_fingerprint": _DIGEST,
        "policy_set_id": _NAME,
        "memory_snapshot_id": {"minimum": 0},
        "expires_at": {"format": "date-time", "pattern": r"^[0-9-]{10}T[0-9:]{8}\.[0-9]{6}Z$"},
        "nonce": {"pattern": "^[0-9a-f]{32}$"},
        "replaces": _DIGEST,
        "text": {"maxLength": MAX_SUMMARY_CHARS, "not": {"pattern": r"[\x00-\x09\x0b-\x1f\x7f-\x9f]"}},
    },
    "DecisionBody": {"signature": {"pattern": f"^{ARMOR.pattern}$"}, "signed_list": _DIGEST},
    "PromptTemplate": {"ns": _NAME, "key": _NAME, "sections": {"minItems": 1}},
    "Section": {"key": _NAME, "recall_tokens": _TOKENS},
    "JsonShape": {"structure": {"$ref": f"#/components/schemas/{JSON_VALUE}"}},
    "CustomShape": {"structure": {"$ref": f"#/components/schemas/{JSON_VALUE}"}},
    "SectionOverride": {"path": {"minItems": 1}, "expected_hash": _DIGEST, "recall_tokens": _TOKENS},
}
"""What a field of one schema must be besides what its name says."""


def with_limits(components: dict[str, Any], requests: set[str]) -> dict[str, Any]:
    """The schemas with what the types of requests do not say.

    Args:
        components: All schemas, by name.
        requests: The names of those that are sent to the server.
    """
    limited = dict(components)
    for name in requests:
        described = _limited(components[name])
        for field, limits in _FIELDS.get(name, {}).items():
            described["properties"][field] = _with_more(described["properties"][field], limits)
        rules = _RULES.get(name, [])
        limited[name] = {**described, "allOf": rules} if rules[1:] else {**described, **(rules or [{}])[0]}
    number = {"type": "number", **_SAFE_NUMBER}
    reference = {"$ref": f"#/components/schemas/{JSON_VALUE}"}
    limited[JSON_VALUE] = {
        "description": f"Any JSON; numbers are between -{SAFE_INTEGER} and {SAFE_INTEGER}.",
        "anyOf": [
            *({"type": one} for one in ("null", "boolean", "string")),
            number,
            # As plain "items" this would be a type that openapi-typescript can't write down.
            {"type": "array", "not": {"contains": {"not": reference}}},
            {"type": "object", "additionalProperties": reference},
        ],
    }
    return limited


def _with_more(schema: dict[str, Any], limits: dict[str, Any]) -> dict[str, Any]:
    """A field's schema with more limits: on its value if it is optional, on its items if they are texts."""
    if "anyOf" in schema:
        options = [one if one == _NULL else _with_more(one, limits) for one in schema["anyOf"]]
        return {**schema, "anyOf": options}
    if schema.get("type") == "array" and "minItems" not in limits:
        return {**schema, "items": {**schema["items"], **limits}}
    return {**schema, **limits}


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
        return {**_SAFE_NUMBER, **schema}
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
