"""A verb's fields stand in one class: every interface is made from it, with the same defaults."""

import inspect
from collections.abc import Callable
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from standfast.cli import main
from standfast.cli.request_options import request_options
from standfast.client import AsyncClient, Client, RemoteRun, RemoteSnapshot
from standfast.errors import InvalidValue
from standfast.memory import AsyncMemory, Memory, Run
from standfast.memory.snapshot_view import SnapshotView
from standfast.records import requests
from standfast.records.requests import (
    REQUESTS,
    AddRequest,
    ForgetRequest,
    Name,
    RecallRequest,
    RememberFields,
    RememberRequest,
    defaults_of,
    descriptions_of,
    fields_of,
    local_fields,
    takes_fields_of,
)
from standfast.records.vocabulary import Value
from standfast.server.access.permissions import Permission
from standfast.server.http.endpoints import ENDPOINTS
from standfast.server.mcp.server import ALL_TOOLS
from standfast.server.mcp.tools import Place, Reply, tool
from standfast.server.operations.schemas import field_schemas
from standfast.traces.replay import ReplayedRun
from tests.project.cli_reference import contexts

VERBS: dict[type[Value], tuple[str, str, list[Callable[..., Any]]]] = {
    RememberRequest: (
        "remember",
        "memory_remember",
        [
            *(Run.remember, Memory.remember, AsyncMemory.remember, Client.remember, AsyncClient.remember),
            *(RemoteRun.remember, ReplayedRun.remember),
        ],
    ),
    AddRequest: ("add", "memory_add", [Memory.add, AsyncMemory.add, Client.add, AsyncClient.add]),
    RecallRequest: (
        "recall",
        "memory_read",
        [
            *(Run.recall, Memory.recall, SnapshotView.recall, SnapshotView.explain, AsyncMemory.recall),
            *(Client.recall, AsyncClient.recall, RemoteRun.recall, RemoteSnapshot.recall, ReplayedRun.recall),
        ],
    ),
    ForgetRequest: (
        "forget",
        "memory_forget",
        [Memory.forget, AsyncMemory.forget, Client.forget, AsyncClient.forget],
    ),
}


def as_json(value: object) -> Any:
    """A value as a reader of JSON sees it."""
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("request_class", VERBS, ids=lambda one: one.__name__)
def test_every_interface_has_the_fields_and_the_defaults_of_the_request(request_class: type[Value]) -> None:
    verb, tool_name, methods = VERBS[request_class]
    defaults = defaults_of(request_class)
    plain = {
        name: as_json(one)
        for name, one in defaults.items()
        if one is not inspect.Parameter.empty and name not in local_fields(request_class)
    }
    (command,) = [
        one.command for one in contexts(main, "standfast") if one.command_path == f"standfast {verb}"
    ]
    options = command.make_context(verb, [], resilient_parsing=True).params
    (endpoint,) = [one for one in ENDPOINTS if one.name == verb]
    (offered,) = [one for one in ALL_TOOLS if one.name == tool_name]

    for method in methods:
        parameters = inspect.signature(method).parameters
        assert {name: parameters[name].default for name in REQUESTS[request_class].__annotations__} == {
            name: defaults[name] for name in REQUESTS[request_class].__annotations__
        }, method
    assert issubclass(endpoint.request, request_class), "the body is the request"
    schemas = field_schemas(endpoint.request)
    assert {name: as_json(schemas[name]["default"]) for name in plain} == plain
    arguments = offered.signature().parameters
    assert {name: as_json(arguments[name].default) for name in plain} == plain
    for name, default in options.items():
        # An option that is not given is left to the request.
        assert name not in plain or default in (None, (), False, plain[name])


def test_a_recall_has_one_budget_everywhere() -> None:
    (command,) = [
        one.command for one in contexts(main, "standfast") if one.command_path == "standfast recall"
    ]
    (tokens,) = [one.default for one in command.params if one.name == "tokens"]
    (reading,) = [one for one in ALL_TOOLS if one.name == "memory_read"]

    assert tokens == 1_000
    assert inspect.signature(Memory.recall).parameters["tokens"].default == 1_000
    assert reading.signature().parameters["tokens"].default == 1_000
    assert field_schemas(RecallRequest)["tokens"]["default"] == 1_000


class ColouredFields(RememberFields, total=False):
    """Those of a text, and its colour."""

    colour: str | None


class ColouredRequest(RememberRequest, frozen=True, kw_only=True):
    """A text with a colour.

    Args:
        colour: The colour of
            the text.
    """

    colour: Name | None = None


def test_a_field_that_is_added_to_a_request_shows_at_every_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    with_colour: dict[type[Value], type] = {ColouredRequest: ColouredFields, **REQUESTS}
    monkeypatch.setattr(requests, "REQUESTS", with_colour)
    given: list[dict[str, Any]] = []

    @takes_fields_of(ColouredRequest)
    def remember(text: str, **fields: Any) -> ColouredRequest:
        return ColouredRequest(text=text, **fields)

    @tool("Remember", Permission.REMEMBER)
    def memory_remember(_: Place, request: ColouredRequest) -> Reply:
        return Reply("", request)

    @click.command()
    @click.argument("text")
    @request_options(ColouredRequest, but=("text",))
    def remember_command(text: str, fields: dict[str, Any]) -> None:
        given.append(ColouredRequest.from_json({"text": text, **fields}).as_json())

    asked = remember("Grass.", colour="green")
    command = CliRunner().invoke(remember_command, ["Grass.", "--colour", "green"])

    assert inspect.signature(remember).parameters["colour"].default is None, "library, inspect and help"
    assert inspect.signature(remember).parameters["colour"].annotation == str | None
    assert asked.as_json() == {"text": "Grass.", "colour": "green"}, "client"
    assert asked.as_recorded() == {"text": "Grass.", "role": "agent", "colour": "green"}, "traces"
    assert ColouredRequest.from_json(asked.as_json()) == asked, "HTTP, and journals of runs"
    assert fields_of(asked)["colour"] == "green", "operations"
    assert field_schemas(ColouredRequest)["colour"] == {
        "anyOf": [{"type": "string", "minLength": 1, "maxLength": 256}, {"type": "null"}],
        "default": None,
        "description": "The colour of the text.",
    }, "OpenAPI"
    assert "colour" in memory_remember.signature().parameters, "MCP"
    assert command.exit_code == 0, command.output
    assert given == [asked.as_json()], "command"
    assert "The colour of the text." in CliRunner().invoke(remember_command, ["--help"]).output


def test_every_field_is_described() -> None:
    for request in REQUESTS:
        assert list(descriptions_of(request)) == list(request.__struct_fields__)


def test_what_a_key_decides_can_not_be_said_over_a_wire() -> None:
    assert local_fields(RememberRequest) == {"role"}
    assert "role" not in field_schemas(RememberRequest)
    with pytest.raises(InvalidValue, match="shrt"):
        RecallRequest.from_json({"query": "q", "shrt": True})
