"""ProviderAdapter, the protocol between Standfast and a model, what is sent and received; and two that ship.

``ScriptedProvider`` answers from a script, for tests and examples: deterministic and fast. Its configuration
names the provider ``scripted``, so that a report made with it can't be mistaken for a model's.
``ProviderGuard`` is a model as the judge's guard.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from standfast.clock import Clock, SystemClock
from standfast.limits import DEFAULT_OUTPUT_TOKENS
from standfast.optimize.errors import ProviderError, ProviderRefused
from standfast.records.canon import fingerprint
from standfast.records.conversion import decoded
from standfast.records.vocabulary import Value


class MessageRole(StrEnum):
    """Who a chat message is from."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ProviderConfig(Value, frozen=True, kw_only=True):
    """Everything about a model that can change its answers. Its id is part of every cache key.

    Args:
        address: The server's URL, without credentials: two servers with a model of one name are two models.
        revision: What the caller knows about the version behind the name, such as a date or the hash of a
            file of weights.
        parameters: Further parameters that are sent with every request, such as ``top_p``.
    """

    provider: str
    model: str
    address: str = ""
    revision: str = ""
    temperature: float | None = None
    max_output_tokens: int = DEFAULT_OUTPUT_TOKENS
    seed: int | None = None
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        self._require_name("provider", self.provider)
        self._require_name("model", self.model)
        self._require_whole("max_output_tokens", self.max_output_tokens, least=1)

    @property
    def config_id(self) -> str:
        """A hash of the configuration."""
        return fingerprint(["model-config/v2", self.as_json()])


class ToolSpec(Value, frozen=True, kw_only=True):
    """A tool as it is described to the model; ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    def __post_init__(self) -> None:
        self._require_name("name", self.name)


def tools_digest(tools: Sequence[ToolSpec]) -> str:
    """Return a hash of the tools that a model is offered."""
    return fingerprint(["tool-specs/v1", [tool.as_json() for tool in tools]])


class ModelToolCall(Value, frozen=True, kw_only=True):
    """A tool call that the model asks for."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class ChatMessage(Value, frozen=True, kw_only=True):
    """One message of a chat: from the system, the user, the model (with or without tool calls), or a tool."""

    role: MessageRole
    text: str
    tool_calls: tuple[ModelToolCall, ...] = ()
    call_id: str | None = None

    def __post_init__(self) -> None:
        self._coerce("role", MessageRole)
        self._require(
            (self.role is MessageRole.TOOL) == (self.call_id is not None),
            "a tool message needs a call_id, and no other message may have one",
        )
        self._require(
            not self.tool_calls or self.role is MessageRole.ASSISTANT,
            "only an assistant message may have tool_calls",
        )


class ModelRequest(Value, frozen=True, kw_only=True):
    """A chat to complete.

    Args:
        output_schema: A JSON schema. The answer's text is then a JSON object that the provider made fit.
        repeat: Numbers requests that are equal on purpose, to see how much answers vary.
    """

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    output_schema: dict[str, Any] | None = None
    repeat: int = 0

    def __post_init__(self) -> None:
        roles = [message.role for message in self.messages]
        self._require(
            any(role is not MessageRole.SYSTEM for role in roles),
            "a message that is not the system's is needed",
        )
        self._require(
            MessageRole.SYSTEM not in roles[1:],
            "only the first message may be the system's; join several to one",
        )
        self._require_whole("repeat", self.repeat, least=0)

    @classmethod
    def of(cls, text: str, *, system: str = "", repeat: int = 0) -> "ModelRequest":
        """Return a request with one user message, behind a system message if there is one."""
        first = (ChatMessage(role=MessageRole.SYSTEM, text=system),) if system else ()
        return cls(messages=(*first, ChatMessage(role=MessageRole.USER, text=text)), repeat=repeat)

    @property
    def system(self) -> str:
        """The text of the system message; empty if there is none."""
        return self.messages[0].text if self.messages[0].role is MessageRole.SYSTEM else ""

    @property
    def turns(self) -> tuple[ChatMessage, ...]:
        """The messages without the system's."""
        return self.messages[1:] if self.messages[0].role is MessageRole.SYSTEM else self.messages

    @property
    def prompt(self) -> str:
        """The text of the first message that is not the system's."""
        return self.turns[0].text


class TokenUsage(Value, frozen=True, kw_only=True):
    """The tokens that the provider reports."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


_TRUNCATED: Final = frozenset({"length", "max_tokens", "model_context_window_exceeded"})


class ModelReply(Value, frozen=True, kw_only=True):
    """The model's answer. ``model`` is the exact model that the provider reports, such as a dated version."""

    text: str
    tool_calls: tuple[ModelToolCall, ...] = ()
    usage: TokenUsage = TokenUsage()
    model: str
    stopped: str = ""

    @property
    def is_truncated(self) -> bool:
        """Whether the answer ends because it reached the limit of output tokens."""
        return self.stopped in _TRUNCATED


class ProviderAdapter(Protocol):
    """A model. Any thread may call it; every failure is a ``ProviderError``."""

    @property
    def config(self) -> ProviderConfig:
        """The model's configuration."""
        ...

    def complete(self, request: ModelRequest) -> ModelReply:
        """Send a request and return the reply."""
        ...


def checked_provider(given: ProviderAdapter) -> ProviderAdapter:
    """Return the provider; raise ``ProviderError`` if it is something else, such as a function or a class."""
    if isinstance(given, type) or not (
        hasattr(given, "config") and callable(getattr(given, "complete", None))
    ):
        raise ProviderError("invalid_provider", provider=f"{given!r:.80}")
    return given


class ProviderGuard:
    """Asks a provider. Its id covers the model, its server and its parameters."""

    def __init__(self, provider: ProviderAdapter) -> None:
        self._provider = provider

    @property
    def guard_id(self) -> str:
        """The provider, the model and a hash of the configuration."""
        config = self._provider.config
        return f"{config.provider}:{config.model}@{config.config_id[:12]}"

    def ask(self, system: str, text: str) -> str:
        """Return the model's answer to one message."""
        return self._provider.complete(ModelRequest.of(text, system=system)).text


Script = Callable[[ModelRequest], str | ModelReply] | Mapping[str, str]
_NOISE_SCALE: Final = 1 << 52


class ScriptedProvider:
    """Answers by a function of the request, or by a table from prompt to answer.

    Args:
        noise: The share of requests that get ``wrong`` instead. Seed, prompt and repeat decide which, so
            equal requests get equal answers.
    """

    def __init__(
        self,
        script: Script,
        *,
        name: str = "script",
        noise: float = 0.0,
        wrong: str = "(noise)",
        seed: int = 0,
        latency_seconds: float = 0.0,
        clock: Clock | None = None,
    ) -> None:
        self._script = script
        self._noise, self._wrong = noise, wrong
        self._latency_seconds = latency_seconds
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._calls = 0
        label = name if not noise else f"{name}+noise={noise:g}"
        self._config = ProviderConfig(provider="scripted", model=label, seed=seed)

    @property
    def config(self) -> ProviderConfig:
        """The configuration; its provider is ``scripted``."""
        return self._config

    @property
    def calls(self) -> int:
        """How many requests it has answered."""
        with self._lock:
            return self._calls

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the script's answer after ``latency_seconds``."""
        with self._lock:
            self._calls += 1
        if self._latency_seconds:
            self._clock.sleep(self._latency_seconds)
        answer = self._wrong if self._is_noise(request) else self._answer(request)
        if isinstance(answer, ModelReply):
            return answer
        # Words, not tokens: a script has no tokenizer.
        usage = TokenUsage(input_tokens=len(request.prompt.split()), output_tokens=len(answer.split()))
        return ModelReply(text=answer, usage=usage, model=f"scripted:{self._config.model}", stopped="stop")

    def _answer(self, request: ModelRequest) -> str | ModelReply:
        if callable(self._script):
            return self._script(request)
        try:
            return self._script[request.prompt]
        except KeyError:
            raise ProviderRefused(
                provider="scripted", problem="the script has no answer for this prompt"
            ) from None

    def _is_noise(self, request: ModelRequest) -> bool:
        if not self._noise:
            return False
        drawn = fingerprint(["noise/v1", self._config.seed, request.prompt, request.repeat])
        return int(drawn[:13], 16) < self._noise * _NOISE_SCALE


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    contains: list[str]
    answer: str


def scripted_by(file: str | os.PathLike[str]) -> ScriptedProvider:
    """Read a provider from a file of rules, one per line: ``{"contains": ["…", …], "answer": "…"}``.

    The first rule whose strings all occur in the prompt answers. A hash of the rules is part of the model's
    name, so that cached answers of other rules are not reused.
    """
    try:
        lines = [line for line in Path(file).read_bytes().splitlines() if line.strip()]
        rules = [decoded(line, _Rule) for line in lines]
    except (OSError, msgspec.MsgspecError) as error:
        problem = f"{os.fspath(file)} is not a script: {error}"
        raise ProviderRefused(provider="scripted", problem=problem) from None

    def script(request: ModelRequest) -> str:
        for rule in rules:
            if all(part in request.prompt for part in rule.contains):
                return rule.answer
        raise ProviderRefused(provider="scripted", problem="no rule of the script matches this prompt")

    rules_hash = fingerprint([[rule.contains, rule.answer] for rule in rules])
    return ScriptedProvider(script, name=f"{Path(file).name}@{rules_hash[:12]}")
