"""The committed fixtures of equivalence: one artifact, and a changed copy for every rule, passing and
failing.

``make schemas`` writes them, a test compares them with this file, and other implementations can check
themselves by them.
"""

import json
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from standfast.records.canon import fingerprint
from standfast.traces.artifact import ModelConfig, ToolProfile, artifact_hash, model_config_id
from standfast.traces.equivalence import ReasonCode, ShortfallCode
from tests.traces.scripted import recorded

FOLDER = Path(__file__).parent / "fixtures"
Document = dict[str, Any]
Mutation = Callable[[Document], None]


def base() -> Document:
    """The artifact that all fixtures are compared with."""
    document: Document = json.loads(_recorded_text())
    return document


@cache
def _recorded_text() -> bytes:
    return recorded().as_bytes()


def changed(mutate: Mutation, document: Document | None = None) -> Document:
    """A copy of the artifact with one change, and the hash that fits it."""
    copy = deepcopy(document or base())
    mutate(copy)
    copy["artifact_hash"] = artifact_hash(copy)
    return copy


def put(path: str, value: Any) -> Mutation:
    """Set the member at a path, such as ``events.1.role``."""

    def mutate(document: Document) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        node: Any = document
        for step in steps:
            node = node[step]
        node[last] = value

    return mutate


def drop(path: str) -> Mutation:
    """Take the member at a path out."""

    def mutate(document: Document) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        node: Any = document
        for step in steps:
            node = node[step]
        del node[last]

    return mutate


def both(*mutations: Mutation) -> Mutation:
    """One change after the other."""

    def mutate(document: Document) -> None:
        for mutation in mutations:
            mutation(document)

    return mutate


def identify(document: Document) -> None:
    """Make ``model_config_id`` fit again."""
    model = ModelConfig.from_json(document["model_config"])
    profiles = [ToolProfile.from_json(profile) for profile in document["tool_profiles"]]
    document["model_config_id"] = model_config_id(model, profiles)


def rename_events(document: Document) -> None:
    """Give events and retrievals other ids, and keep their links."""
    for event in document["events"]:
        event["event_id"] = f"renamed-{event['index'] * 7}"
    links = {
        read["retrieval_event_id"]: f"read-{number}x" for number, read in enumerate(document["retrievals"])
    }
    for event in document["events"]:
        event["retrieval_event_ids"] = [links[link] for link in event["retrieval_event_ids"]]
    for read in document["retrievals"]:
        read["event_id"] = f"renamed-{int(read['event_id'].removeprefix('event-')) * 7}"
        read["retrieval_event_id"] = links[read["retrieval_event_id"]]


def swap_ranks(document: Document) -> None:
    """Let two records change places; the one that is first now has the higher score."""
    records = document["retrievals"][0]["selected_records"]
    first, second = records[1], records[2]
    records[1], records[2] = {**second, "rank": 2}, {**first, "rank": 3, "score": first["score"] / 2}


def swap_ties(document: Document) -> None:
    """Let two records with the same score change places, against the order of their ids."""
    records = document["retrievals"][0]["selected_records"]
    records[1], records[2] = {**records[2], "rank": 2}, {**records[1], "rank": 3}


def reshape(document: Document) -> None:
    """Put out another shape of the same type."""
    shape = {"type": "text", "sections": ["body"]}
    document["output"] |= {"output_shape": shape, "output_shape_hash": fingerprint(shape)}


def retype(document: Document) -> None:
    """Put out something of another type."""
    shape = {"type": "refusal", "reason_code": "unsafe"}
    document["output"] |= {
        "output_type": "refusal",
        "output_shape": shape,
        "output_shape_hash": fingerprint(shape),
    }


def read_again(document: Document) -> None:
    """Read memory once more in the first event."""
    document["retrievals"].append({**document["retrievals"][0], "retrieval_event_id": "retrieval-1"})
    document["events"][0]["retrieval_event_ids"].append("retrieval-1")


def end_early(document: Document) -> None:
    """End one event earlier."""
    document["events"].pop()


DIGEST = fingerprint("something else")
READ, CALL, MAIL = "retrievals.0", "events.1.tool_calls.0", "events.1.tool_calls.1"

EQUIVALENT: dict[str, Mutation] = {
    "event_ids": rename_events,
    "run_id": both(put("run_id", "another-run"), put("retrievals.0.run_id", "another-run")),
    "times": put("metadata.finished_at", "2031-05-06T07:08:09.000010Z"),
    "scores": put("retrievals.0.selected_records.0.score", 0.77),
    "candidate_count": put("retrievals.0.candidate_count", 900),
    "visibility_mode": put("visibility_mode", "read_only"),
    "store_identity": both(
        put("retrievals.0.store_id", "store-2"), put("retrievals.0.branch_id", "branch-7")
    ),
    "package_hash": put("retrievals.0.package_hash", fingerprint("something else")),
    "erased_elsewhere": put("retrievals.0.erased_since", {"records": 1, "memory_snapshot_id": 43}),
    "kept_results": both(drop(f"{CALL}.result"), put(f"{CALL}.result_omitted", "size")),
    "guardrail_repeated": put("events.1.guardrails_triggered", ["pii-masked", "pii-masked"]),
}
DIFFERENT: dict[ReasonCode, Mutation] = {
    ReasonCode.WORKFLOW_ID: put("workflow_id", "billing"),
    ReasonCode.MODEL_CONFIG_ID: both(put("model_config.temperature", 0.3), identify),
    ReasonCode.POLICY_SET_ID: put("policy_set_id", "policies-v2"),
    ReasonCode.MEMORY_SNAPSHOT_ID: put("memory_snapshot_id", 42),
    ReasonCode.EVENT_COUNT: end_early,
    ReasonCode.ROLE: put("events.2.role", "reviewer"),
    ReasonCode.INTERCEPTOR: put("events.2.interceptor", "cache"),
    ReasonCode.DECISION_TYPE: put("events.1.decision_type", "give_up"),
    ReasonCode.RETRIEVAL_COUNT: read_again,
    ReasonCode.RETRIEVAL_POLICY_ID: put(f"{READ}.policy_id", "vector.read"),
    ReasonCode.RETRIEVAL_POLICY_VERSION: put(f"{READ}.policy_version", "phase7-v1"),
    ReasonCode.QUERY_FINGERPRINT: put(f"{READ}.query_fingerprint", DIGEST),
    ReasonCode.QUERY_NORMALIZATION_VERSION: put(f"{READ}.query_normalization_version", "query-v2"),
    ReasonCode.RETRIEVAL_MODE: put(f"{READ}.retrieval_mode", "text_to_vector"),
    ReasonCode.NAMESPACE: put(f"{READ}.namespace", "billing"),
    ReasonCode.SCOPES: put(f"{READ}.scopes", ["user/ada"]),
    ReasonCode.FILTERS: put(f"{READ}.filters", {"bands": ["VAULT"]}),
    ReasonCode.BUDGET: put(f"{READ}.budget.tokens", 900),
    ReasonCode.ERASED_SINCE: both(
        drop(f"{READ}.selected_records.2"),
        put(f"{READ}.erased_since", {"records": 2, "memory_snapshot_id": 44}),
    ),
    ReasonCode.RECORD_HASH: put(f"{READ}.selected_records.1.record_hash", DIGEST),
    ReasonCode.SELECTED_RECORDS: put(f"{READ}.selected_records.0.record_id", "eu-returns"),
    ReasonCode.RANK_ORDER: swap_ranks,
    ReasonCode.TOOL_CALL_COUNT: drop(MAIL),
    ReasonCode.TOOL_NAME: both(
        put(f"{CALL}.tool_name", "weather"),
        put(f"{CALL}.tool_profile_version", "whole-v1"),
        put(f"{CALL}.result", "rain"),
        put(f"{CALL}.tool_result_fingerprint", fingerprint("rain")),
    ),
    ReasonCode.TOOL_PROFILE_VERSION: both(
        put(f"{CALL}.tool_profile_version", "search-v2"),
        put("tool_profiles.0.tool_profile_version", "search-v2"),
        identify,
    ),
    ReasonCode.NORMALIZED_ARGS: put(f"{CALL}.normalized_args", {"query": "parcel position"}),
    ReasonCode.TOOL_OUTCOME: both(
        put(f"{CALL}.outcome", "raised"),
        put(f"{CALL}.result", {"error": "TimeoutError", "message": "too slow"}),
        put(f"{CALL}.tool_result_fingerprint", fingerprint({"error": "TimeoutError"})),
    ),
    ReasonCode.TOOL_RESULT: both(
        put(f"{CALL}.result", {"hits": ["lost"]}),
        put(f"{CALL}.tool_result_fingerprint", fingerprint({"hits": ["lost"]})),
    ),
    ReasonCode.SIDE_EFFECT: put(f"{MAIL}.side_effect_fingerprint", DIGEST),
    ReasonCode.GUARDRAILS: put("events.1.guardrails_triggered", ["pii-masked", "spend-limit"]),
    ReasonCode.OUTPUT_TYPE: retype,
    ReasonCode.OUTPUT_SHAPE: reshape,
}
assert set(DIFFERENT) == set(ReasonCode)

REJECTED: dict[ShortfallCode, Mutation] = {
    ShortfallCode.MISSING_FIELD: drop("policy_set_id"),
    ShortfallCode.INVALID_FIELD: put("events.0.index", "first"),
    ShortfallCode.SCHEMA_VERSION: put("determinism_trace_schema_version", "memory.determinism_trace.v2"),
    ShortfallCode.LIVE_READ_WRITE: put("visibility_mode", "live_read_write"),
    ShortfallCode.TRUNCATED: both(
        put("metadata.truncated", value=True),
        put(
            "metadata.truncation",
            {
                "limit_bytes": 10_000_000,
                "dropped_events": 3,
                "dropped_tool_calls": 1,
                "dropped_retrievals": 0,
            },
        ),
    ),
    ShortfallCode.INCOMPLETE: both(
        put("metadata.complete", value=False),
        put("metadata.gap_count", 1),
        put("metadata.gaps", [{"code": "open_event", "event_index": 2, "problem": "the run ended inside"}]),
    ),
    ShortfallCode.STOCHASTIC_MODEL: both(put("model_config.seed", None), identify),
    ShortfallCode.MODEL_CONFIG_MISMATCH: put("model_config.temperature", 0.3),
    ShortfallCode.EVENT_ORDER: put("events.2.index", 7),
    ShortfallCode.TOOL_PROFILE_MISSING: put(f"{CALL}.tool_profile_version", "search-v9"),
    ShortfallCode.TOOL_RESULT_MISMATCH: put(f"{CALL}.result.hits", ["lost"]),
    ShortfallCode.SIDE_EFFECT_MISSING: put(f"{MAIL}.side_effect_fingerprint", None),
    ShortfallCode.RETRIEVAL_LINK: put("events.0.retrieval_event_ids", []),
    ShortfallCode.RANK_ORDER: put(f"{READ}.selected_records.2.score", 0.99),
    ShortfallCode.OUTPUT_SHAPE_MISMATCH: put("output.output_shape.sections", ["intro"]),
}


def texts() -> dict[str, str]:
    """Every fixture's file, under its path."""
    files = {"base.json": _pretty(base())}
    files |= {f"equivalent/{name}.json": _pretty(changed(mutate)) for name, mutate in EQUIVALENT.items()}
    files |= {f"different/{code}.json": _pretty(changed(mutate)) for code, mutate in DIFFERENT.items()}
    files |= {f"rejected/{code}.json": _pretty(changed(mutate)) for code, mutate in REJECTED.items()}
    edited = base()
    edited["workflow_id"] = "edited-by-hand"
    files[f"rejected/{ShortfallCode.DAMAGED}.json"] = _pretty(edited)
    files[f"rejected/{ShortfallCode.UNREADABLE}.json"] = _pretty(base())[:200]
    return files


def _pretty(document: Document) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, text in texts().items():
        file = FOLDER / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
