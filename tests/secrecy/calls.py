"""Calls through every door with all of their parameters, and their variants with a secret in one place."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

from standfast.traces.artifact import ModelConfig

SECRET: Final = "AKIA" + "Z7Q4M2X9T5W3K8P6"
"""In the form of an AWS access key id. It is no key: it was made up."""
DOC: Final = {"kind": "doc", "id": "handbook#4", "note": "page four"}
UNIQUE: Final = "UNIQUE"
"""Stands for a name that is new in each call."""
TIME: Final = "2026-01-15T10:00:00Z"
WHERE: Final = {
    "tag": "billing",
    "source_kind": "doc",
    "subject_prefix": "policy/",
    "after": TIME,
    "before": TIME,
    "metadata": {"plan": "gold"},
    "session": "s1",
    "speaker": "ada",
    "least_origin": "ordinary",
}
REMEMBER: Final[dict[str, Any]] = {
    "text": "EU refunds take 14 days.",
    "subject": UNIQUE,
    "source": DOC,
    "several": False,
    "tags": ["billing"],
    "refs": [{"kind": "doc", "id": "terms", "more": ["chapter two"]}],
    "propose": False,
    "role": "agent",
    "hold": "more than 500 euros",
    "scope": "user/ada",
    "metadata": {"plan": "gold"},
    "session": "s1",
    "position": 4,
    "speaker": "ada",
    "valid_from": TIME,
    "valid_until": "2027-01-15T10:00:00Z",
    "supersedes": ["policy/old"],
    "pin": False,
    "time": TIME,
}
MESSAGES: Final = [
    {"role": "user", "content": "I moved to Bonn.", "name": "ada", "time": TIME,
     "metadata": {"mood": "calm"}},
    {"role": "assistant", "content": "Noted.", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"city": "Bonn"}'}}
    ]},
    {"role": "tool", "tool_call_id": "c1", "content": "Bonn has 330,000 people.", "name": "look_up"},
]  # fmt: skip
ADD: Final[dict[str, Any]] = {
    "messages": MESSAGES,
    "scope": "user/ada",
    "session": UNIQUE,
    "position": None,
    "tags": ["chat"],
    "metadata": {"channel": "web"},
    "supersedes": [],
    "user": "ada",
    "extract": False,
    "background": False,
}
RECALL: Final[dict[str, Any]] = {
    "query": "How long do refunds take?",
    "tokens": 200,
    "max_items": 5,
    "scope": None,
    "scopes": ["user/ada", "shared"],
    "where": WHERE,
    "least_origin": "untrusted",
    "include_unreviewed": True,
    "bands": ["VAULT", "LEDGER"],
    "now_utc": TIME,
    "controller": "hybrid-v1",
}
FORGET: Final[dict[str, Any]] = {
    "subject": "policy/eu-refunds",
    "reason": "asked for",
    "scope": "user/ada",
    "memory_id": None,
    "source": None,
    "rehearse": False,
}
MODEL: Final = {
    "provider_name": "openai",
    "model_name": "gpt",
    "model_revision": "two",
    "other_params": {"a": "b"},
}
NAMED: Final = {"workflow": "triage", "agent": "bot", "run_id": UNIQUE, "max_origin": "trusted"}

HTTP_FIELDS: Final[dict[str, Any]] = {
    **{name: value for name, value in {**RECALL, **REMEMBER}.items() if name != "role"},
    "workflow": "triage",
    "mode": "buffered_write",
    "name": "bot",
    "namespaces": ["team"],
    "scopes": ["user/ada"],
    "left": "r1",
    "right": "r2",
    "tag": "live",
    "reason": "asked for",
    "signature": "s",
    "signed_list": ["a"],
    "refusal": "web:evil.example",
}
"""What fields of requests are called, over HTTP and MCP."""
HTTP_NAMES: Final = {
    "namespace": "default",
    "proposal_id": "p-1",
    "key_id": "k-1",
    "seq": "1",
    "ns": "prompts",
    "prompt_key": "greet",
}
"""What stands in paths."""
_WITHOUT_POLICY: Final = {
    name: value for name, value in REMEMBER.items() if name not in ("supersedes", "role")
}
HTTP_BODIES: Final[dict[str, dict[str, Any]]] = {
    "remember": {"supersedes": []},
    "remember_in_run": {"supersedes": []},
    "recall": {"scope": None},
    "recall_in_run": {"scope": None},
    "diff": {"old": 0},
    "get_record": {"memory_id": "m-1"},
    "add": {**{name: value for name, value in ADD.items() if value is not None}, "supersedes": []},
    "create_key": {"role": "agent"},
    "remember_batch": {"items": [_WITHOUT_POLICY]},
    "recall_batch": {"items": [{name: value for name, value in RECALL.items() if value is not None}]},
    "forget": {"source": None},
    "forget_in_run": {"source": None},
}
"""What some endpoints are sent besides, or instead; None for what they are not sent."""
MCP_ARGUMENTS: Final[dict[str, Any]] = {
    "messages": MESSAGES,
    "namespace": "default",
    "request_key": UNIQUE,
    "user": "ada",
    "session": UNIQUE,
    "supersedes": [],
    "content": "Ada likes tea.",
    "entities": [{"name": "Ada", "entityType": "person", "observations": ["likes tea"]}],
    "relations": [{"from": "Ada", "to": "Bonn", "relationType": "lives in"}],
    "observations": [{"entityName": "Ada", "contents": ["likes cake"]}],
    "deletions": [{"entityName": "Ada", "observations": ["likes cake"]}],
    "entityNames": ["Ada"],
    "names": ["Ada"],
    "user_id": "ada",
    "agent_id": "bot",
    "run_id": "r1",
    "filters": {"a": "b"},
    "metadata": {"a": "b"},
    "memory_id": "m-1",
    "position": 0,
}
MCP_TOOLS: Final[dict[str, dict[str, Any]]] = {
    "memory_read": {"scope": None},
    "memory_forget": {"memory_id": None, "source": None},
    "add_memory": {"text": None, "messages": [{"role": "user", "content": "I moved to Bonn."}]},
}
"""What some tools are given besides, or instead."""
CLI_LINES: Final = """
init
remember 'Refunds took 30 days.' --subject policy/old --scope user/ada
remember 'EU refunds take 14 days.' --subject policy/eu --source doc:handbook --tag t --ref doc:terms \
--hold 'too much' --scope user/ada --metadata a=b --session s --position 4 --speaker ada --supersedes \
policy/old --time 2026-01-15T10:00:00Z --run-id UNIQUE
remember 'A law.' --source doc:handbook --tag t --propose --namespace team
add FILE --scope user/ada --session UNIQUE --tag t --metadata a=b --user ada --run-id UNIQUE
recall refunds --scope user/ada --tag t --source-kind doc --subject-prefix policy/ --metadata a=b \
--session s --speaker ada
forget policy/eu --reason 'asked for' --scope user/ada --run-id UNIQUE
forget --memory-id policy/eu --scope user/ada --reason 'asked for'
forget --source doc:handbook --reason 'asked for' --run-id UNIQUE
history policy/eu --scope user/ada
patterns lift web:evil.example --reason 'a test' --scope user/ada
refusals lift web:evil.example --reason 'a test' --scope user/ada
keys create bot --namespace team --scope user/ada
keys revoke k-1
session talk --scope user/ada
judge 'EU refunds take 14 days.' --subject policy/eu --source doc:handbook --tag t --scope user/ada
read refunds --term refunds
approvals show p-1
""".strip().splitlines()


class Variant(NamedTuple):
    """A call's arguments with the secret in one place, and where that is."""

    place: str
    arguments: Any


def variants(arguments: Any, place: str = "") -> Iterator[Variant]:
    """The arguments with the secret instead of each string in turn, and instead of each name of a member."""
    if isinstance(arguments, str):
        yield Variant(place, SECRET)
        yield Variant(f"{place} (within)", f"{arguments} {SECRET}")
    elif isinstance(arguments, Mapping):
        for name, member in arguments.items():
            for one in variants(member, f"{place}.{name}"):
                yield Variant(one.place, {**arguments, name: one.arguments})
            if "." in place:
                yield Variant(
                    f"{place}.{name} (name)",
                    {SECRET if key == name else key: value for key, value in arguments.items()},
                )
    elif isinstance(arguments, list | tuple):
        for number, member in enumerate(arguments):
            for one in variants(member, f"{place}[{number}]"):
                changed = list(arguments)
                changed[number] = one.arguments
                yield Variant(one.place, changed)


_numbers: Final = count()


def fresh(arguments: Any) -> Any:
    """The arguments with a new name in each place of ``UNIQUE``."""
    if isinstance(arguments, str):
        return arguments.replace(UNIQUE, f"u{next(_numbers)}")
    if isinstance(arguments, Mapping):
        return {name: fresh(member) for name, member in arguments.items()}
    return [fresh(one) for one in arguments] if isinstance(arguments, list | tuple) else arguments


def model_of(fields: Mapping[str, Any]) -> ModelConfig:
    """A model's configuration as a run takes it."""
    return ModelConfig(**fields)
