"""The protocol between Standfast and a model: one request, one reply, usage told, errors in our words."""

from enum import StrEnum
from typing import Any, Protocol

from standfast.canon import fingerprint
from standfast.vocabulary import Value


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ModelConfig(Value, frozen=True, kw_only=True):
    """Everything about a model that can change its answers. Its id is part of every cached result."""

    provider: str
    model: str
    temperature: float | None = None
    max_output_tokens: int = 1024
    seed: int | None = None

    def __post_init__(self) -> None:
        self._require_name("provider", self.provider)
        self._require_name("model", self.model)
        self._require_whole("max_output_tokens", self.max_output_tokens, least=1)

    @property
    def config_id(self) -> str:
        """The same for the same configuration, everywhere."""
        return fingerprint(["model-config/v1", self.as_json()])


class ToolSpec(Value, frozen=True, kw_only=True):
    """A tool as the model is told of it; ``parameters`` is a JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]

    def __post_init__(self) -> None:
        self._require_name("name", self.name)


class ToolCall(Value, frozen=True, kw_only=True):
    """What the model wants a tool to do."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class Turn(Value, frozen=True, kw_only=True):
    """One thing that was said: by the user, by the model (perhaps with calls), or by a tool."""

    role: Role
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None

    def __post_init__(self) -> None:
        self._coerce("role", Role)
        self._require((self.role is Role.TOOL) == (self.call_id is not None), "a tool answers a call")
        self._require(not self.tool_calls or self.role is Role.ASSISTANT, "only the model calls tools")


class ModelRequest(Value, frozen=True, kw_only=True):
    """What is asked. ``repeat`` tells apart requests that are the same on purpose, to see how much answers vary."""

    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...] = ()
    repeat: int = 0

    def __post_init__(self) -> None:
        self._require(len(self.turns) > 0, "at least one turn is needed")
        self._require_whole("repeat", self.repeat, least=0)

    @classmethod
    def of(cls, text: str, *, repeat: int = 0) -> "ModelRequest":
        """A request with one turn of the user."""
        return cls(turns=(Turn(role=Role.USER, text=text),), repeat=repeat)

    @property
    def prompt(self) -> str:
        """What the user said first."""
        return self.turns[0].text


class TokenUsage(Value, frozen=True, kw_only=True):
    """What the provider says it has counted."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


class ModelReply(Value, frozen=True, kw_only=True):
    """What came back. ``model`` is who the provider says has answered, which may be a dated version."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = TokenUsage()
    model: str
    stopped: str = ""


class ProviderAdapter(Protocol):
    """A model that can be asked. Any thread may ask; what goes wrong is a ``ProviderError``."""

    @property
    def config(self) -> ModelConfig:
        """Everything about it that can change its answers."""
        ...

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask and wait."""
        ...
