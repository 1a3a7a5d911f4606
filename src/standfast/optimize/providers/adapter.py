"""ProviderAdapter, the protocol between Standfast and a model, and the base of providers that use a vendor's library."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import StrEnum
from types import ModuleType
from typing import Any, ClassVar, Final, Protocol
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

    SYSTEM = "system"
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
        output_schema: A JSON schema. The answer's text is then a JSON object that the provider made to fit it.
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


_SERVER_ERROR: Final = 500
_MAX_REFUSED: Final = 4
"""How many parameters of one request a server may refuse, one after the other."""
_QUOTED_PARAMETER: Final = re.compile(r"[\w.]+")


def _address(url: str) -> str:
    """Return a URL without credentials, query and trailing slash."""
    parts = urlsplit(url)
    host = (parts.netloc.rpartition("@")[2]).lower()
    return f"{parts.scheme.lower()}://{host}{parts.path.rstrip('/')}"


class VendorProvider(ABC):
    """A model behind its vendor's library. OpenAI's and Anthropic's have the same options and the same errors.

    The library retries on overload and lost connections. Servers differ in the parameters they know: one that a server refuses
    by its name is left out (or sent under its older name) from then on, and ``refused_parameters`` lists it. A
    subclass builds a request and reads the library's answer.
    """

    optional: ClassVar[dict[str, str | None]] = {}
    """The parameters that can be left out, each with the name to try instead."""

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
        options: dict[str, Any] = {
            "base_url": base_url,
            "api_key": api_key,
            "timeout": timeout_seconds,
            "max_retries": max_retries,
        }
        try:
            self._client: Any = getattr(library, client)(**options)
        except self._vendor_error as error:
            raise ProviderRefused(provider=config.provider, problem=str(error)) from None
        self._open_async: Callable[[], Any] = lambda: getattr(library, f"Async{client}")(**options)
        self._replacements: dict[str, str | None] = {}
        # The library may take the address from the environment, so it is asked.
        self._config = msgspec.structs.replace(config, address=_address(str(self._client.base_url)))

    @property
    def config(self) -> ProviderConfig:
        """The model's configuration."""
        return self._config

    @property
    def refused_parameters(self) -> tuple[str, ...]:
        """The parameters that this server refused and that are no longer sent under these names."""
        return tuple(sorted(self._replacements))

    def complete(self, request: ModelRequest) -> ModelReply:
        """Send a request and return the reply."""
        for _ in range(_MAX_REFUSED):
            try:
                return self._read(self._create(self._client, **self._call(request)), request)
            except Exception as error:  # noqa: BLE001  # Everything is translated or raised again.
                self._adapt_or_raise(error, request)
        raise ProviderRefused(provider=self._config.provider, problem=self._refused_too_many())

    async def complete_async(self, request: ModelRequest) -> ModelReply:
        """Send a request without blocking the event loop, and return the reply."""
        # A client belongs to one event loop, so each call has its own.
        async with self._open_async() as client:
            for _ in range(_MAX_REFUSED):
                try:
                    return self._read(await self._create(client, **self._call(request)), request)
                except Exception as error:  # noqa: BLE001  # Everything is translated or raised again.
                    self._adapt_or_raise(error, request)
        raise ProviderRefused(provider=self._config.provider, problem=self._refused_too_many())

    def stream(self, request: ModelRequest, on_text: Callable[[str], object]) -> ModelReply:
        """Send a request, hand over the answer's text piece by piece as it arrives, and return the whole reply."""
        for _ in range(_MAX_REFUSED):
            try:
                return self._read(self._stream(self._call(request), on_text), request)
            except Exception as error:  # noqa: BLE001  # Everything is translated or raised again.
                self._adapt_or_raise(error, request)
        raise ProviderRefused(provider=self._config.provider, problem=self._refused_too_many())

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _call(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of the library's call, without what the server refused before."""
        call = self._arguments(request)
        for refused, replacement in sorted(self._replacements.items()):
            for members in (call, call.get("extra_body", {})):
                if refused in members:
                    value = members.pop(refused)
                    if replacement is not None:
                        members[replacement] = value
        return call

    def _adapt_or_raise(self, error: Exception, request: ModelRequest) -> None:
        """Note which parameter the server refused, so that the request can be sent again; raise any other error."""
        if isinstance(error, self._vendor_error):
            refused = self._refused_parameter(error, request)
            if refused is None:
                raise self._translate(error) from None
            self._replacements[refused] = self.optional[refused]
        elif isinstance(error, AttributeError | IndexError | KeyError | TypeError | ValueError):
            problem = f"{type(error).__name__}: {error}"
            raise ProviderGarbled(provider=self._config.provider, problem=problem) from None
        else:
            raise error

    def _refused_parameter(self, error: Exception, request: ModelRequest) -> str | None:
        """Return the optional parameter that a 400 or 422 answer names, if it was sent."""
        if getattr(error, "status_code", None) not in (400, 422):
            return None
        call = self._call(request)
        sent = {**call, **call.get("extra_body", {})}
        named = set(_QUOTED_PARAMETER.findall(str(error)))
        return next((name for name in self.optional if name in sent and name in named), None)

    def _refused_too_many(self) -> str:
        return f"it refuses the parameters {', '.join(self.refused_parameters)}; see its documentation"

    @abstractmethod
    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of the library's call."""

    @abstractmethod
    def _create(self, client: Any, **call: Any) -> Any:
        """Call the library, blocking or not as its client does."""

    @abstractmethod
    def _stream(self, call: dict[str, Any], on_text: Callable[[str], object]) -> Any:
        """Call the library, hand over the text as it arrives, and return an answer like that of ``_create``."""

    @abstractmethod
    def _read(self, answer: Any, request: ModelRequest) -> ModelReply:
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
