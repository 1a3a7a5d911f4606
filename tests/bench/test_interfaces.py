"""Interfaces of every format are compared by one rule, along any git history; conversations become episodes,
too.
"""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from standfast.bench import conversation_episode
from standfast.bench.sources import git_history
from standfast.bench.sources.conversations import SpokenMessage, kind_of_message
from standfast.bench.sources.descriptions import read_asyncapi, read_json_schema
from standfast.bench.sources.idl import read_graphql, read_protobuf
from standfast.bench.sources.interfaces import ReadInterface, operation_changes
from standfast.cli import main
from standfast.errors import BadFile

GRAPHQL = '''
"""Text with type Fake { not: Read }"""
schema { query: Query }
scalar Date @specifiedBy(url: "https://example.com")
directive @mark(on: String = "x") repeatable on FIELD_DEFINITION | ENUM
type Query { user(id: ID!, first: Int = 10, after: [String!] = ["a"]): User! "trailing" users: [User!]! }
interface Node { id: ID! }
type User implements Node & Other @mark(on: "y") {
  # A comment with type Other { }
  id: ID!
  name: String @deprecated(reason: "Use { fullName }")
  age: Int
}
input NewUser { name: String!, age: Int = 3 }
enum Role { ADMIN USER @deprecated }
union Found = | User | Role
extend type User { extra: Int }
'''
PROTO = """
syntax = "proto3"; // message Fake { }
package shop.v1;
import "google/protobuf/any.proto";
option go_package = "x;y";
/* enum Fake { A = 0; } */
message Order {
  option (custom) = { a: 1 };
  reserved 4, 6 to 8; reserved "old";
  string id = 1;
  repeated Item items = 2 [deprecated = true, json_name = "things"];
  map<string, int32> counts = 3;
  oneof pay { string card = 10; Cash cash = 11; }
  message Item { required string sku = 1; }
  enum State { option allow_alias = true; NEW = 0; DONE = 1; }
}
service Orders { rpc Get (GetRequest) returns (stream Order) { option deprecated = true; } rpc Put(Order) returns (Order); }
extend google.protobuf.FieldOptions { string mine = 50000; }
"""  # noqa: E501  # A text as a whole.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "size": {"enum": ["S", "L"]},
        "box": {"type": "object", "properties": {"w": {"type": "integer"}}},
    },
    "$defs": {"part": {"properties": {"id": {"type": ["string", "integer"]}}}},
}


def _asyncapi(payload: dict[str, Any], *, version: str = "3.0.0") -> bytes:
    message = {"payload": payload}
    if version.startswith("2"):
        channels: dict[str, Any] = {"orders": {"publish": {"message": {"oneOf": [message]}}}}
        return json.dumps({"asyncapi": version, "channels": channels}).encode()
    channels = {"orders": {"address": "shop/orders", "messages": {"made": message}}}
    operations = {"send": {"action": "send", "channel": {"$ref": "#/channels/orders"}}}
    return json.dumps({"asyncapi": version, "channels": channels, "operations": operations}).encode()


def _kinds(read: ReadInterface, old: bytes, new: bytes) -> dict[str, set[str]]:
    changes = operation_changes(read(old, "old", "x"), read(new, "new", "x"))
    return {name.removeprefix("x:"): set(kinds) for name, kinds in changes.items()}


def test_a_graphql_schema_is_read_whole() -> None:
    found = {name.removeprefix("x:"): one for name, one in read_graphql(GRAPHQL.encode(), "s", "x").items()}

    assert set(found) == {"Query", "Query.user", "Node", "User", "NewUser", "Role", "Found"}
    assert found["Query.user"].required == {"id"}
    assert found["Query.user"].params == {"id", "first", "after"}
    assert found["NewUser"].required == {"name"}
    assert found["User"].deprecated_params == {"name"}
    assert found["User"].params == {"id", "name", "age", "extra"}
    assert found["Role"].deprecated_params == {"USER"}
    assert found["Found"].params == {"User", "Role"}


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("  age: Int\n", "", {"User": {"params_removed"}}),
        ("  age: Int\n", "  age: Float\n", {"User": {"type_changed"}}),
        ("  age: Int\n", "  age: Int!\n", {}),
        ("age: Int = 3", "age: Int!", {"NewUser": {"param_made_required"}}),
        ("first: Int = 10", "first: Int = 10, last: Int", {"Query.user": {"optional_params_added"}}),
        ("ADMIN USER", "ADMIN @deprecated USER", {"Role": {"deprecated_on"}}),
        ("  age: Int\n", "  age: Int @deprecated\n", {"User": {"deprecated_on"}}),
        ("| User | Role", "| User", {"Found": {"params_removed"}}),
    ],
)
def test_what_changed_in_a_graphql_type(old: str, new: str, kinds: dict[str, set[str]]) -> None:
    assert old in GRAPHQL
    assert _kinds(read_graphql, GRAPHQL.encode(), GRAPHQL.replace(old, new, 1).encode()) == kinds


def test_a_protobuf_file_is_read_whole() -> None:
    found = {
        name.removeprefix("x:shop.v1."): one for name, one in read_protobuf(PROTO.encode(), "s", "x").items()
    }

    assert set(found) == {"Order", "Order.Item", "Order.State", "Orders/Get", "Orders/Put"}
    assert found["Order"].params == {"id", "items", "counts", "card", "cash"}
    assert found["Order"].types["counts"] == "map <string,int32> = 3"
    assert found["Order"].deprecated_params == {"items"}
    assert found["Order.Item"].required == {"sku"}
    assert found["Order.State"].params == {"NEW", "DONE"}
    assert found["Orders/Get"].types == {"request": "GetRequest", "response": "stream Order"}
    assert found["Orders/Get"].deprecated
    assert not found["Orders/Put"].deprecated


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("string id = 1;", "string id = 9;", {"Order": {"type_changed"}}),
        ("string id = 1;", "int64 id = 1;", {"Order": {"type_changed"}}),
        ("string id = 1;", "optional string id = 1;", {}),
        ("string id = 1;", "string id = 1; string note = 12;", {"Order": {"optional_params_added"}}),
        ("DONE = 1;", "", {"Order.State": {"params_removed"}}),
        ("rpc Put(Order) returns (Order);", "", {"Orders/Put": {"endpoint_removed"}}),
        ("rpc Put(Order)", "rpc Put(stream Order)", {"Orders/Put": {"type_changed"}}),
    ],
)
def test_what_changed_in_a_protobuf_message(old: str, new: str, kinds: dict[str, set[str]]) -> None:
    assert old in PROTO
    found = _kinds(read_protobuf, PROTO.encode(), PROTO.replace(old, new, 1).encode())

    assert {name.removeprefix("shop.v1."): own for name, own in found.items()} == kinds


def test_objects_of_a_json_schema_are_compared_at_every_depth() -> None:
    new = json.loads(json.dumps(SCHEMA))
    new["properties"]["box"]["properties"]["w"]["type"] = "number"
    new["properties"]["size"]["enum"] = ["S"]
    new["properties"]["name"]["type"] = ["string", "null"]
    new["$defs"]["part"]["required"] = ["id"]
    found = _kinds(read_json_schema, json.dumps(SCHEMA).encode(), json.dumps(new).encode())

    assert found == {
        "#": {"request_enum_removed", "type_widened"},
        "#/box": {"type_changed"},
        "#$defs/part": {"param_made_required"},
    }


@pytest.mark.parametrize(("version", "name"), [("2.6.0", "publish orders"), ("3.0.0", "send shop/orders")])
def test_payloads_of_asyncapi_messages_are_compared(version: str, name: str) -> None:
    old = _asyncapi({"properties": {"id": {}, "total": {}}}, version=version)
    new = _asyncapi({"properties": {"id": {}}, "required": ["id"]}, version=version)

    assert _kinds(read_asyncapi, old, new) == {name: {"params_removed", "param_made_required"}}


@pytest.mark.parametrize(
    ("read", "content"),
    [
        (read_graphql, b"scalar Date"),
        (read_graphql, b"type User { name String }"),
        (read_graphql, b"type User {"),
        (read_protobuf, b"message { string id = 1; }"),
        (read_protobuf, b"struct Order { }"),
        (read_json_schema, b'{"type": "string"}'),
        (read_json_schema, b"[]"),
        (read_asyncapi, b'{"asyncapi": "3.0.0"}'),
    ],
)
def test_an_invalid_file_is_refused_with_its_name(read: ReadInterface, content: bytes) -> None:
    with pytest.raises(BadFile, match="bad-file"):
        read(content, "bad-file", "x")


def _commit(folder: Path, day: int, files: dict[str, str | None]) -> None:
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@example.com"]
    if not (folder / ".git").exists():
        subprocess.run([*git, "init", "-q"], check=True)
    for name, text in files.items():
        path = folder / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    subprocess.run([*git, "add", "-A"], check=True)
    stamp = f"2026-01-{day:02}T12:00:00Z"
    environment = {
        "GIT_AUTHOR_DATE": stamp,
        "GIT_COMMITTER_DATE": stamp,
        "PATH": "/usr/bin:/bin:/usr/local/bin",
    }
    subprocess.run([*git, "commit", "-qm", "x"], check=True, env=environment)


def _import(*arguments: str) -> dict[str, Any]:
    run = CliRunner().invoke(main, ["bench", "import", *arguments, "--json"])
    assert run.exit_code == 0, run.output
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def test_any_repository_gives_episodes_of_every_format(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    schema = json.dumps(SCHEMA)
    _commit(
        repository,
        1,
        {
            "api/order.proto": PROTO,
            "schema.graphql": GRAPHQL,
            "shape.json": schema,
            "events.json": _asyncapi({"properties": {"id": {}}}).decode(),
            "docs/page.md": f"# Use\n`run` {'first words ' * 20}\n",
            "CHANGELOG.md": "- a note before\n\n## 1.0.0\n- Added a thing\n",
        },
    )
    _commit(
        repository,
        2,
        {
            "api/order.proto": PROTO.replace("string id = 1;", ""),
            "api/broken.proto": "struct",
            "schema.graphql": GRAPHQL.replace("  age: Int\n", ""),
            "shape.json": schema.replace('"required": ["name"]', '"required": []'),
            "events.json": _asyncapi({"properties": {}}).decode(),
            "docs/page.md": f"# Use\n{'quite another text ' * 20}\n",
            "CHANGELOG.md": "- a note before\n\n## 1.0.0\n- Removed a thing\n",
        },
    )
    out = str(tmp_path / "episode.jsonl")
    git = ["--git", str(repository), "--out", out]

    assert _import("graphql", *git, "--path", "schema.graphql")["critical"] == 1
    assert _import("json-schema", *git, "--path", "shape.json")["critical"] == 0
    assert _import("asyncapi", *git, "--path", "events.json")["critical"] == 1
    assert _import("docs", *git, "--path", "docs")["critical"] == 1
    changelog = _import("changelog", *git, "--path", "CHANGELOG.md")
    assert (changelog["critical"], changelog["skipped"][0]["what"]) == (1, "CHANGELOG.md")
    protobuf = _import("protobuf", *git, "--path", "api")
    assert (protobuf["critical"], [one["what"] for one in protobuf["skipped"]]) == (
        1,
        ["2026-01-02 api/broken.proto"],
    )


def test_versions_are_chosen_evenly_and_files_too_large_count_as_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in range(1, 6):
        _commit(tmp_path, day, {"a.proto": PROTO + " " * (1_000 if day == 3 else day)})
    monkeypatch.setattr(git_history, "MAX_SOURCE_BYTES", len(PROTO) + 100)
    seen: list[tuple[int, int]] = []
    found = list(
        git_history.git_versions(
            str(tmp_path), "a.proto", most=3, progress=lambda done, total: seen.append((done, total))
        )
    )

    assert [version.label for version in found] == ["2026-01-01", "2026-01-03", "2026-01-05"]
    assert [sorted(version.unreadable) for version in found] == [[], ["a.proto"], []]
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def _talk(*messages: str) -> Sequence[dict[str, str]]:
    return [
        {"role": ("user", "assistant")[number % 2], "content": text} for number, text in enumerate(messages)
    ]


def test_a_conversation_becomes_an_episode_and_evidence_is_critical() -> None:
    skipped: list[str] = []
    content = json.dumps(
        [
            {
                "id": "one",
                "messages": [
                    *_talk("I am allergic to nuts.", "Noted.", "Thanks!", "The weather is mild."),
                    {"role": "user"},
                ],
                "questions": [{"question": "Weather?", "evidence": [3]}],
            },
            {"id": "two", "utterances": [{"speaker": "USER", "text": "Actually, make it Friday."}]},
            {"id": "three"},
        ]
    ).encode()
    episode = conversation_episode(
        content, source="chat", name="talk.json", skipped=lambda what, _: skipped.append(what)
    )

    assert list(episode.labels.raw["event_kinds"].values()) == [
        ["stated"],
        ["said"],
        ["acknowledged"],
        ["cited"],
        ["corrected"],
    ]
    assert episode.labels.critical_steps == {0, 3, 4}
    assert [step.observation["api"] for step in episode.steps][-2:] == ["chat:one#assistant", "chat:two#user"]
    assert skipped == ["conversation one, message 4", "conversation three"]


def test_a_plain_list_of_messages_and_json_lines_are_conversations() -> None:
    messages = _talk("I live in Rome.", "Which street?", "I live in Rome.")
    lines = "\n".join(map(json.dumps, messages)).encode()
    episodes = [
        conversation_episode(content, source="c", name="n")
        for content in (json.dumps(messages).encode(), lines)
    ]

    for episode in episodes:
        assert list(episode.labels.raw["event_kinds"].values()) == [["stated"], ["asked"], ["duplicate"]]
    for content in (b"{", b"[]", b"\xff"):
        with pytest.raises(BadFile):
            conversation_episode(content, source="c", name="n")


def test_every_kind_of_message_is_found_by_its_words() -> None:
    def kind(text: str) -> str:
        return kind_of_message(SpokenMessage(conversation="1", position=0, speaker="user", text=text))

    assert kind("Yes, that sounds good.") == "acknowledged"
    assert kind("What time is it?") == "asked"
    assert kind("The red one has leather seats.") == "said"


def test_a_clone_without_all_objects_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    _commit(
        repository, 1, {"docs/a.md": "# A\n\nfirst words of it\n", "docs/b.md": "# B\n\nother words of it\n"}
    )
    _commit(
        repository, 2, {"docs/a.md": "# A\n\nsecond words of it\n", "docs/b.md": "# B\n\nmore words of it\n"}
    )
    asked = ["git", "-C", str(repository), "rev-parse", "HEAD:docs/a.md"]
    blob = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    found = _import("docs", "--git", str(repository), "--path", "docs", "--out", str(tmp_path / "e.jsonl"))

    assert any("missing from this clone" in one["why"] for one in found["skipped"])
    assert found["steps"] >= 1
