"""Both adapters speak their protocols, try again when it helps, and tell every failure in our words."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import pytest

from standfast.clock import ManualClock
from standfast.errors import InvalidValue
from standfast.optimize.errors import (
    ProviderRefused,
    ProviderUnavailable,
)
from standfast.optimize.providers.adapter import (
    ChatMessage,
    MessageRole,
    ModelRequest,
    ModelToolCall,
    ScriptedProvider,
    TokenUsage,
    ToolSpec,
)
from tests.optimize.providers.protocol_server import CUT, HANG, Answer, ProtocolServer, overloaded
from tests.raising import raises_code
from tests.servers.model import MODEL_NAME, ModelServer

if TYPE_CHECKING:  # Together their libraries take seconds to load.
    from standfast.optimize.providers.vendors import AnthropicProvider, OpenAICompatibleProvider

Provider: TypeAlias = "OpenAICompatibleProvider | AnthropicProvider"
Opener = Callable[..., tuple[Provider, ProtocolServer]]
LOOK_UP = ToolSpec(name="look_up", description="Looks a word up.", parameters={"type": "object"})


@pytest.fixture(params=["openai", "anthropic"])
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens an adapter of each kind, with a server that follows a plan."""
    from standfast.optimize.providers.vendors import AnthropicProvider, OpenAICompatibleProvider

    opened: list[tuple[Provider, ProtocolServer]] = []

    def open_provider(*plan: Answer, **options: Any) -> tuple[Provider, ProtocolServer]:
        server = ProtocolServer(*plan)
        server.__enter__()
        made: Provider
        if request.param == "openai":
            made = OpenAICompatibleProvider(model="m", base_url=server.url + "/v1", api_key="k", **options)
        else:
            made = AnthropicProvider(model="m", base_url=server.url, api_key="k", **options)
        opened.append((made, server))
        return made, server

    yield open_provider
    for provider, server in opened:
        provider.close()
        server.__exit__(None, None, None)


def test_an_answer_comes_with_its_usage_and_model(opener: Opener) -> None:
    provider, server = opener(max_output_tokens=50)
    reply = provider.complete(ModelRequest.of("abc"))

    assert (reply.text, reply.model) == ("cba", "m-2026")
    assert reply.usage == TokenUsage(input_tokens=11, output_tokens=7)
    assert 50 in server.asked[0].values()


def test_a_tool_is_offered_called_and_answered(opener: Opener) -> None:
    provider, server = opener()
    server.tool_call = {"name": "look_up", "arguments": {"word": "standfast"}}
    asked = ChatMessage(role=MessageRole.USER, text="What is a standfast?")
    first = provider.complete(ModelRequest(messages=(asked,), tools=(LOOK_UP,)))
    [call] = first.tool_calls
    turns = (
        asked,
        ChatMessage(role=MessageRole.ASSISTANT, text="", tool_calls=(call,)),
        ChatMessage(role=MessageRole.TOOL, text="roots", call_id=call.call_id),
    )
    second = provider.complete(ModelRequest(messages=turns, tools=(LOOK_UP,)))

    assert call == ModelToolCall(call_id="call-1", name="look_up", arguments={"word": "standfast"})
    assert "look_up" in str(server.asked[0]["tools"])
    assert second.text == "stoor"


def test_the_system_message_goes_where_the_protocol_wants_it(opener: Opener) -> None:
    provider, server = opener()
    reply = provider.complete(ModelRequest.of("abc", system="Be brief."))
    [asked] = server.asked

    assert reply.text == "cba"
    assert asked.get("system") == "Be brief." or asked["messages"][0] == {
        "role": "system",
        "content": "Be brief.",
    }
    assert len(asked["messages"]) == (1 if "system" in asked else 2)


@pytest.mark.parametrize("roles", [["system"], ["user", "system"], []], ids=str)
def test_a_system_message_stands_first_and_not_alone(roles: list[str]) -> None:
    with pytest.raises(InvalidValue):
        ModelRequest(messages=tuple(ChatMessage(role=MessageRole(role), text="x") for role in roles))


def test_an_answer_arrives_in_pieces_and_as_a_whole(opener: Opener) -> None:
    provider, server = opener()
    pieces: list[str] = []
    reply = provider.stream(ModelRequest.of("abc"), pieces.append)

    assert pieces == ["c", "b", "a"]
    assert reply == provider.complete(ModelRequest.of("abc"))
    assert server.asked[0]["stream"] is True


def test_async_calls_give_what_blocking_calls_give(opener: Opener) -> None:
    provider, _ = opener(overloaded(), max_retries=1)
    request = ModelRequest.of("abc")

    assert asyncio.run(provider.complete_async(request)) == provider.complete(request)


def test_an_async_failure_is_told_in_our_words(opener: Opener) -> None:
    provider, _ = opener(overloaded(), max_retries=0)

    with pytest.raises(ProviderUnavailable):
        asyncio.run(provider.complete_async(ModelRequest.of("abc")))


def test_a_structured_answer_is_json(opener: Opener) -> None:
    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    provider, server = opener()
    asked = ChatMessage(role=MessageRole.USER, text="2 + 2")
    reply = provider.complete(ModelRequest(messages=(asked,), output_schema=schema))

    assert (json.loads(reply.text), reply.tool_calls) == ({"sum": 4}, ())
    assert schema in _values(server.asked[0])


def test_a_truncated_answer_is_told_apart(opener: Opener) -> None:
    provider, server = opener()
    whole = provider.complete(ModelRequest.of("abc"))
    server.stopped = "max_tokens" if "/messages" in server.asked[0]["path"] else "length"

    assert (whole.is_truncated, provider.complete(ModelRequest.of("abc")).is_truncated) == (False, True)


def test_a_server_that_refuses_a_parameter_is_asked_without_it(opener: Opener) -> None:
    refusal = {"error": {"type": "invalid_request_error", "message": "Unsupported parameter: 'temperature'"}}
    provider, server = opener((400, refusal), temperature=0.5)
    replies = [provider.complete(ModelRequest.of("abc")).text for _ in range(2)]

    assert replies == ["cba", "cba"]
    assert ["temperature" in asked for asked in server.asked] == [True, False, False]
    assert provider.refused_parameters == ("temperature",)


def test_an_older_server_gets_the_older_name_of_the_output_limit() -> None:
    from standfast.optimize.providers.vendors import OpenAICompatibleProvider

    refusal = {"error": {"message": "Unrecognized request argument supplied: max_completion_tokens"}}
    with ProtocolServer((400, refusal)) as server:
        provider = OpenAICompatibleProvider(
            model="m", base_url=server.url + "/v1", api_key="k", max_output_tokens=50
        )
        provider.complete(ModelRequest.of("abc"))
        provider.close()

    assert [asked.get("max_tokens") for asked in server.asked] == [None, 50]


def _values(plain: Any) -> Iterator[Any]:
    """Every value at any depth."""
    yield plain
    members = plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ()
    for member in members:
        yield from _values(member)


def test_two_servers_with_one_model_name_are_two_models(opener: Opener) -> None:
    """Grades of one server must never be used for the other, so the address is part of the configuration."""
    first, second = opener()[0], opener()[0]

    assert first.config.model == second.config.model
    assert first.config.config_id != second.config.config_id


def test_revision_and_parameters_are_part_of_the_configuration_and_parameters_are_sent(
    opener: Opener,
) -> None:
    plain, _ = opener()
    tuned, server = opener(parameters={"top_p": 0.25}, revision="2026-11")
    tuned.complete(ModelRequest.of("abc"))

    assert server.asked[0]["top_p"] == 0.25
    assert "2026-11" not in str(server.asked[0])
    changes: list[dict[str, Any]] = [{"revision": "2026-12"}, {"parameters": {}}, {"address": "http://x"}]
    configs = [tuned.config, *(msgspec.structs.replace(tuned.config, **change) for change in changes)]
    assert len({config.config_id for config in [*configs, plain.config]}) == 5


def test_an_address_has_no_credentials() -> None:
    from standfast.optimize.providers.vendors import OpenAICompatibleProvider

    url = "https://me:secret@Example.org:8443/v1/?key=1"
    provider = OpenAICompatibleProvider(model="m", base_url=url, api_key="k")

    assert provider.config.address == "https://example.org:8443/v1"
    provider.close()


@pytest.mark.parametrize("failure", [overloaded(), overloaded(429), overloaded(500), CUT], ids=str)
def test_a_passing_failure_is_tried_again(opener: Opener, failure: Answer) -> None:
    provider, server = opener(failure, failure, max_retries=2)

    assert provider.complete(ModelRequest.of("abc")).text == "cba"
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (overloaded(), "provider_unavailable"),
        (overloaded(429), "provider_unavailable"),
        (CUT, "provider_unavailable"),
        (HANG, "provider_timeout"),
        ((400, {"error": {"type": "invalid_request_error", "message": "no"}}), "provider_refused"),
        ((401, {"error": {"type": "authentication_error", "message": "who?"}}), "provider_refused"),
        ((404, {"error": {"type": "not_found_error", "message": "no model"}}), "provider_refused"),
        ((200, "not JSON"), "provider_garbled"),
        ((200, {}), "provider_garbled"),
        ((200, "[]"), "provider_garbled"),
    ],
    ids=str,
)
def test_a_lasting_failure_is_told_in_our_words(opener: Opener, failure: Answer, code: str) -> None:
    provider, _ = opener(failure, max_retries=0, timeout_seconds=0.5)

    with raises_code(code):
        provider.complete(ModelRequest.of("abc"))


def test_a_script_answers_the_same_every_time_and_says_what_it_is() -> None:
    provider = ScriptedProvider({"2+2": "4"})

    assert provider.complete(ModelRequest.of("2+2")) == provider.complete(ModelRequest.of("2+2"))
    assert provider.config.provider == "scripted"
    assert provider.complete(ModelRequest.of("2+2")).model == "scripted:script"
    assert provider.calls == 3
    with pytest.raises(ProviderRefused):
        provider.complete(ModelRequest.of("3+3"))


def test_noise_is_decided_by_seed_prompt_and_repeat() -> None:
    def wrongs(seed: int, noise: float) -> list[int]:
        provider = ScriptedProvider(lambda _: "right", noise=noise, wrong="wrong", seed=seed)
        replies = [provider.complete(ModelRequest.of("q", repeat=repeat)).text for repeat in range(400)]
        return [repeat for repeat, text in enumerate(replies) if text == "wrong"]

    assert wrongs(1, 0.25) == wrongs(1, 0.25) != wrongs(2, 0.25)
    assert 60 < len(wrongs(1, 0.25)) < 140
    assert wrongs(1, 0.0) == []
    assert len(wrongs(1, 1.0)) == 400


def test_latency_passes_on_the_clock_that_is_handed_in() -> None:
    clock = ManualClock()
    ScriptedProvider(lambda _: "x", latency_seconds=2.0, clock=clock).complete(ModelRequest.of("q"))

    assert clock.monotonic() == 2.0


@pytest.mark.slow
def test_a_real_model_answers_the_same_at_temperature_zero(model_server: ModelServer) -> None:
    from standfast.optimize.providers.vendors import OpenAICompatibleProvider

    provider = OpenAICompatibleProvider(
        model=MODEL_NAME, base_url=model_server.base_url, api_key="none", max_output_tokens=16, seed=1
    )
    request = ModelRequest.of("Name the capital of France in one word.")
    first, second = provider.complete(request), provider.complete(request)

    assert first.text == second.text != ""
    assert first.usage.input_tokens > 0
    provider.close()
