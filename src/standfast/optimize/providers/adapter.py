"""The protocol between Standfast and a model: one request, one reply, usage told, errors in our words."""

from abc import ABC, abstractmethod
from enum import StrEnum
from types import ModuleType
from typing import Any, Final, Protocol, TypedDict

from standfast.canon import fingerprint
from standfast.errors import (
    ProviderError,
    ProviderGarbled,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
)
from standfast.limits import PROVIDER_RETRIES, PROVIDER_TIMEOUT_SECONDS
from standfast.vocabulary import Value


class MessageRole(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ProviderConfig(Value, frozen=True, kw_only=True):
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


class ModelToolCall(Value, frozen=True, kw_only=True):
    """What the model wants a tool to do."""

    call_id: str
    name: str
    arguments: dict[str, Any]


class ChatMessage(Value, frozen=True, kw_only=True):
    """One thing that was said: by the user, by the model (perhaps with calls), or by a tool."""

    role: MessageRole
    text: str
    tool_calls: tuple[ModelToolCall, ...] = ()
    call_id: str | None = None

    def __post_init__(self) -> None:
        self._coerce("role", MessageRole)
        self._require((self.role is MessageRole.TOOL) == (self.call_id is not None), "a tool answers a call")
        self._require(not self.tool_calls or self.role is MessageRole.ASSISTANT, "only the model calls tools")


class ModelRequest(Value, frozen=True, kw_only=True):
    """What is asked. ``repeat`` tells apart requests that are the same on purpose, to see how much answers vary."""

    turns: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    repeat: int = 0

    def __post_init__(self) -> None:
        self._require(len(self.turns) > 0, "at least one turn is needed")
        self._require_whole("repeat", self.repeat, least=0)

    @classmethod
    def of(cls, text: str, *, repeat: int = 0) -> "ModelRequest":
        """A request with one turn of the user."""
        return cls(turns=(ChatMessage(role=MessageRole.USER, text=text),), repeat=repeat)

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
    tool_calls: tuple[ModelToolCall, ...] = ()
    usage: TokenUsage = TokenUsage()
    model: str
    stopped: str = ""


class ProviderAdapter(Protocol):
    """A model that can be asked. Any thread may ask; what goes wrong is a ``ProviderError``."""

    @property
    def config(self) -> ProviderConfig:
        """Everything about it that can change its answers."""
        ...

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask and wait."""
        ...


_OVERLOADED: Final = 500


class Patience(TypedDict, total=False):
    """How long a provider waits for one answer, and how often it asks again."""

    timeout_seconds: float
    max_retries: int


class OfficialProvider(ABC):
    """The part that both share. Overload and lost connections are tried again, with growing pauses.

    A provider says how a request is put to its library, and how to read what comes back.
    """

    def __init__(
        self,
        config: ProviderConfig,
        *,
        library: ModuleType,
        client: str,
        base_url: str | None,
        api_key: str | None,
        timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS,
        max_retries: int = PROVIDER_RETRIES,
    ) -> None:
        self._config, self._library = config, library
        self._timeout_seconds = timeout_seconds
        self._their_error: type[Exception] = getattr(library, f"{client}Error")
        try:
            self._client: Any = getattr(library, client)(
                base_url=base_url, api_key=api_key, timeout=timeout_seconds, max_retries=max_retries
            )
        except self._their_error as error:
            raise ProviderRefused(provider=config.provider, problem=str(error)) from None

    @property
    def config(self) -> ProviderConfig:
        """Everything about it that can change its answers."""
        return self._config

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask and wait."""
        try:
            return self._read(self._ask(request))
        except self._their_error as error:
            raise self._in_our_words(error) from None
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise ProviderGarbled(provider=self._config.provider, problem=problem) from None

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    @abstractmethod
    def _ask(self, request: ModelRequest) -> Any:
        """What the library gives back."""

    @abstractmethod
    def _read(self, answer: Any) -> ModelReply:
        """That in our words."""

    def _in_our_words(self, error: Exception) -> ProviderError:
        library: Any = self._library
        provider, problem = self._config.provider, str(error)
        # The library's time-out is one of its connection errors, so it comes first.
        if isinstance(error, library.APITimeoutError):
            return ProviderTimeout(provider=provider, timeout_seconds=self._timeout_seconds)
        if isinstance(error, library.APIConnectionError | library.RateLimitError):
            return ProviderUnavailable(provider=provider, problem=problem)
        if isinstance(error, library.APIStatusError):
            kind = ProviderUnavailable if error.status_code >= _OVERLOADED else ProviderRefused
            return kind(provider=provider, problem=problem)
        return ProviderGarbled(provider=provider, problem=problem)
