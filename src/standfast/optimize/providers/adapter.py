"""ProviderAdapter, the protocol between Standfast and a model, and the base of providers that use a vendor's library."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from types import ModuleType
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec

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
    """Who a chat message is from."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ProviderConfig(Value, frozen=True, kw_only=True):
    """Everything about a model that can change its answers. Its id is part of every cache key.

    Args:
        address: The server's URL, without credentials: two servers with a model of one name are two models.
        revision: What the caller knows about the version behind the name, such as a date or the hash of a file of weights.
        parameters: Further parameters that are sent with every request, such as ``top_p``.
    """

    provider: str
    model: str
    address: str = ""
    revision: str = ""
    temperature: float | None = None
    max_output_tokens: int = 1024
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
    """One message of a chat: from the user, from the model (with or without tool calls), or from a tool."""

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
    """A chat to complete. ``repeat`` numbers requests that are equal on purpose, to see how much answers vary."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolSpec, ...] = ()
    repeat: int = 0

    def __post_init__(self) -> None:
        self._require(len(self.messages) > 0, "at least one message is needed")
        self._require_whole("repeat", self.repeat, least=0)

    @classmethod
    def of(cls, text: str, *, repeat: int = 0) -> "ModelRequest":
        """Return a request with one user message."""
        return cls(messages=(ChatMessage(role=MessageRole.USER, text=text),), repeat=repeat)

    @property
    def prompt(self) -> str:
        """The text of the first message."""
        return self.messages[0].text


class TokenUsage(Value, frozen=True, kw_only=True):
    """The tokens that the provider reports."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )


class ModelReply(Value, frozen=True, kw_only=True):
    """The model's answer. ``model`` is the exact model that the provider reports, such as a dated version."""

    text: str
    tool_calls: tuple[ModelToolCall, ...] = ()
    usage: TokenUsage = TokenUsage()
    model: str
    stopped: str = ""


class ProviderAdapter(Protocol):
    """A model. Any thread may call it; every failure is a ``ProviderError``."""

    @property
    def config(self) -> ProviderConfig:
        """The model's configuration."""
        ...

    def complete(self, request: ModelRequest) -> ModelReply:
        """Send a request and return the reply."""
        ...


_SERVER_ERROR: Final = 500


def _address(url: str) -> str:
    """Return a URL without credentials, query and trailing slash."""
    parts = urlsplit(url)
    host = (parts.netloc.rpartition("@")[2]).lower()
    return f"{parts.scheme.lower()}://{host}{parts.path.rstrip('/')}"


class VendorProvider(ABC):
    """A model behind its vendor's library. OpenAI's and Anthropic's have the same options and the same errors.

    The library retries on overload and lost connections. A subclass sends a request and reads the library's answer.
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
        self._library = library
        self._timeout_seconds = timeout_seconds
        self._vendor_error: type[Exception] = getattr(library, f"{client}Error")
        try:
            self._client: Any = getattr(library, client)(
                base_url=base_url, api_key=api_key, timeout=timeout_seconds, max_retries=max_retries
            )
        except self._vendor_error as error:
            raise ProviderRefused(provider=config.provider, problem=str(error)) from None
        # The library may take the address from the environment, so it is asked.
        self._config = msgspec.structs.replace(config, address=_address(str(self._client.base_url)))

    @property
    def config(self) -> ProviderConfig:
        """The model's configuration."""
        return self._config

    def complete(self, request: ModelRequest) -> ModelReply:
        """Send a request and return the reply."""
        try:
            return self._read(self._send(request))
        except self._vendor_error as error:
            raise self._translate(error) from None
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            problem = f"{type(error).__name__}: {error}"
            raise ProviderGarbled(provider=self._config.provider, problem=problem) from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    @abstractmethod
    def _send(self, request: ModelRequest) -> Any:
        """Call the library and return its answer."""

    @abstractmethod
    def _read(self, answer: Any) -> ModelReply:
        """Convert the library's answer."""

    def _translate(self, error: Exception) -> ProviderError:
        library: Any = self._library
        provider, problem = self._config.provider, str(error)
        # The library's timeout is a subclass of its connection error, so it is checked first.
        if isinstance(error, library.APITimeoutError):
            return ProviderTimeout(provider=provider, timeout_seconds=self._timeout_seconds)
        if isinstance(error, library.APIConnectionError | library.RateLimitError):
            return ProviderUnavailable(provider=provider, problem=problem)
        if isinstance(error, library.APIStatusError):
            kind = ProviderUnavailable if error.status_code >= _SERVER_ERROR else ProviderRefused
            return kind(provider=provider, problem=problem)
        return ProviderGarbled(provider=provider, problem=problem)
