"""Examples of requests, for the OpenAPI document and the page at /docs: a whole body of each operation, and a
value of each field.
"""

from typing import Any, Final

_DIGEST: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_FACT: Final = {
    "text": "Ada prefers answers in German.",
    "scope": "user/ada",
    "source": {"kind": "user", "id": "ada"},
}
_QUESTION: Final = {"query": "How should I answer Ada?", "scopes": ["user/ada"], "tokens": 500}
_ONE_SUBJECT: Final = {"subject": "preference/language", "reason": "asked to", "scope": "user/ada"}
_CRM: Final = {"kind": "tool", "id": "crm"}
_SECTION: Final = {"key": "role", "title": "Role", "body": "Answer in ${language}, please."}
_PROMPT: Final = {"ns": "agent", "key": "support", "sections": [_SECTION]}
_OVERRIDE: Final = {"path": ["role"], "expected_hash": _DIGEST, "body": "Answer in ${language}."}
_MODEL: Final = {"provider_name": "openai", "model_name": "gpt-4.1", "temperature": 0, "seed": 7}
_TOOL: Final = {
    "profile": {"tool_name": "search", "tool_profile_version": "1"},
    "args": {"query": "refunds"},
    "result": {"hits": 3},
}
_STATEMENT: Final = {
    "proposal_id": _DIGEST,
    "payload_fingerprint": _DIGEST,
    "decision": "approve",
    "policy_set_id": "policy-set",
    "memory_snapshot_id": 41,
    "expires_at": "2026-11-18T10:30:00.000000Z",
    "nonce": "00112233445566778899aabbccddeeff",
    "text": "Refunds above 500 euros need a second look.",
}
_SIGNATURE: Final = "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n"
BODIES: Final[dict[str, dict[str, Any]]] = {
    "remember": _FACT,
    "remember_in_run": _FACT,
    "remember_batch": {"items": [_FACT]},
    "recall": _QUESTION,
    "recall_in_run": _QUESTION,
    "recall_batch": {"items": [_QUESTION]},
    "add": {
        "messages": [{"role": "user", "content": "I moved to Cork."}],
        "scope": "user/ada",
        "session": "2026-11-18",
    },
    "forget": _ONE_SUBJECT,
    "forget_in_run": _ONE_SUBJECT,
    "settle": {"all": True, "reason": "what was said last holds", "scope": "user/ada", "rehearse": True},
    "investigate": {"source": _CRM},
    "quarantine": {"source": _CRM, "rehearse": True},
    "release": {"act_id": "quarantine-4", "reason": "the source was right"},
    "revert": {"since_snapshot": 0, "rehearse": True},
    "open_run": {"workflow": "triage", "mode": "buffered_write", "scope": "user/ada", "model": _MODEL},
    "record_in_run": {"output": {"type": "text", "sections": []}},
    "create_key": {"name": "triage-bot", "role": "agent", "namespaces": ["default"]},
    "decide": {"statement": _STATEMENT, "signature": _SIGNATURE},
    "lift_refusal": {"refusal": "web:example.com", "reason": "the site is ours"},
    "put_prompt": {"prompt": _PROMPT, "overrides": [_OVERRIDE]},
    "roll_back_prompt": {"prompt": _PROMPT},
}
"""A body of each operation that takes one, by the operation's name."""

_OF_NAME: Final[dict[str, Any]] = {
    "act_id": "quarantine-4",
    "after": "2026-11-01",
    "agent": "triage-bot",
    "all": True,
    "args": {"query": "refunds"},
    "at": 41,
    "background": True,
    "band": "LEDGER",
    "bands": ["VAULT", "LEDGER"],
    "before": "2026-12-01",
    "begin": {"role": "agent", "interceptor": "on_answer"},
    "body": "Answer in ${language}, please.",
    "budget_bytes": 10_240,
    "children": [],
    "code": "no_stream",
    "conflict_id": "c-5f2d",
    "controller": "hybrid-v1",
    "days": 90,
    "decided": True,
    "decision": "approve",
    "decision_type": "answer",
    "descendants": True,
    "deterministic_runtime": False,
    "end": {"decision_type": "answer"},
    "error": "TimeoutError",
    "expected_hash": _DIGEST,
    "extract": True,
    "expires_at": "2026-11-18T10:30:00.000000Z",
    "explain": True,
    "frequency_penalty": 0,
    "gap": {"code": "no_stream", "problem": "the provider's stream broke off"},
    "guardrail": "no-personal-data",
    "hold": "ask the legal team",
    "include_unreviewed": True,
    "interceptor": "on_answer",
    "keep": "both",
    "keeps_result": True,
    "key": "support",
    "least_origin": "ordinary",
    "left": "run-a",
    "limit": 50,
    "max_items": 20,
    "max_tokens": 800,
    "memory_id": "m-4c1d",
    "memory_snapshot_id": 41,
    "message": "no answer within 30 seconds",
    "messages": [{"role": "user", "content": "I moved to Cork."}],
    "metadata": {"plan": "gold"},
    "minutes": 10,
    "mode": "buffered_write",
    "model": _MODEL,
    "model_name": "gpt-4.1",
    "model_revision": "2026-04-14",
    "name": "triage-bot",
    "namespaces": ["default"],
    "new": 41,
    "nonce": "00112233445566778899aabbccddeeff",
    "normalized_args_fields": ["query"],
    "now_utc": "2026-11-18T09:30:00Z",
    "ns": "agent",
    "offered": {"tool_name": "search", "tool_profile_version": "1"},
    "old": 36,
    "origin": "ordinary",
    "other_params": {"reasoning_effort": "low"},
    "output": {"type": "text", "sections": []},
    "overrides": [_OVERRIDE],
    "package_hash": _DIGEST,
    "path": ["role"],
    "payload_fingerprint": _DIGEST,
    "pin": True,
    "policy_set_id": "policy-set",
    "position": 0,
    "presence_penalty": 0,
    "problem": "the provider's stream broke off",
    "profile": {"tool_name": "search", "tool_profile_version": "1"},
    "prompt": _PROMPT,
    "proposal_id": _DIGEST,
    "propose": True,
    "protected": True,
    "provider_name": "openai",
    "query": "How should I answer Ada?",
    "reason": "asked to",
    "recall_tokens": 800,
    "refs": [{"kind": "doc", "id": "handbook#7"}],
    "refusal": "web:example.com",
    "rehearse": True,
    "replaces": _DIGEST,
    "result": {"hits": 3},
    "result_fingerprint": _DIGEST,
    "right": "run-b",
    "role": "agent",
    "run_id": "run-a",
    "scope": "user/ada",
    "scopes": ["user/ada", "shared"],
    "sections": [_SECTION],
    "seed": 7,
    "session": "2026-11-18",
    "several": True,
    "side_effect_fields": ["ticket_id"],
    "side_effects": {"ticket_id": "T-17"},
    "side_effects_fingerprint": _DIGEST,
    "signature": _SIGNATURE,
    "signed_list": [_DIGEST],
    "since": "2026-11-01",
    "since_snapshot": 36,
    "source": {"kind": "doc", "id": "handbook#4"},
    "source_kind": "doc",
    "speaker": "Ada",
    "statement": _STATEMENT,
    "stochastic_unseeded": False,
    "subject": "preference/language",
    "subject_prefix": "preference/",
    "supersedes": ["m-4c1d"],
    "tag": "billing",
    "tags": ["billing"],
    "temperature": 0,
    "text": "Ada prefers answers in German.",
    "time": "2026-11-18T09:30:00Z",
    "title": "Role",
    "to_version": 3,
    "tokens": 500,
    "tool": _TOOL,
    "tool_name": "search",
    "tool_profile_version": "1",
    "tool_result_fields": ["hits"],
    "top_p": 1,
    "until": "2026-12-01",
    "user": "Ada",
    "valid_from": "2026-05-01",
    "valid_until": "2026-12-31",
    "where": {"tag": "billing"},
    "workflow": "triage",
}
"""A value by the name of its field, which mostly means the same everywhere."""
_OF_FIELD: Final[dict[str, Any]] = {
    "ForgetRequest.source": {"kind": "doc", "id": "handbook"},
    "KeysQuery.cursor": "6b2d34",
    "PageQuery.cursor": "1024",
    "ProposalsQuery.cursor": "6b2d34",
    "PromptQuery.tag": "stable",
    "PutPromptBody.tag": "stable",
    "RecallBatchBody.items": [_QUESTION],
    "RecordsQuery.where": '{"tag": "billing"}',
    "RememberBatchBody.items": [_FACT],
    "RollbackBody.tag": "stable",
    "Section.key": "role",
    "TracesQuery.cursor": "72756e2d61",
}
"""A value of a field whose name means something else elsewhere."""
_PLACE_CURSOR: Final = "41-6d2d34"


def field_examples(schema: str, field: str) -> list[Any]:
    """A value of a field of a request, if there is one. A test demands it; the server does not need it.

    Args:
        schema: The name of the request's class.
    """
    if (own := f"{schema}.{field}") in _OF_FIELD:
        return [_OF_FIELD[own]]
    if field == "cursor":
        return [_PLACE_CURSOR]
    return [_OF_NAME[field]] if field in _OF_NAME else []
