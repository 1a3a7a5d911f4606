"""Models behind their vendors' libraries: OpenAI's chat API, servers with the same one, and Anthropic's.

Each needs the extra of its library, ``openai`` or ``anthropic``, which is imported when a provider is made.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import msgspec

from standfast.errors import MissingExtra
from standfast.limits import PROVIDER_RETRIES, PROVIDER_TIMEOUT_SECONDS
from standfast.optimize.errors import (
    ProviderError,
    ProviderRefused,
    ProviderUnavailable,
)
from standfast.optimize.providers.adapter import (
    ChatMessage,
    MessageRole,
    ModelReply,
    ModelRequest,
    ModelToolCall,
    ProviderConfig,
    TokenUsage,
)

OPENAI_COMPATIBLE: Final = "openai-compatible"
ANTHROPIC: Final = "anthropic"
_ANSWER: Final = "standfast_answer"
_SERVER_ERROR: Final = 500
_MAX_REFUSED: Final = 4
"""How many parameters of one request a server may refuse, one after the other."""
_QUOTED_PARAMETER: Final = re.compile(r"[\w.]+")


def _address(url: str) -> str:
    """Return a URL without credentials, query and trailing slash."""
    parts = urlsplit(url)
    host = (parts.netloc.rpartition("@")[2]).lower()
    return f"{parts.scheme.lower()}://{host}{parts.path.rstrip('/')}"


def _library(name: str, feature: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(feature=feature, extra=name) from None


class VendorProvider(ABC):
    """A model behind its vendor's library.

    OpenAI's and Anthropic's have the same options and the same errors.

    The library retries on overload and lost connections. Servers differ in the parameters they know: one that
    a server refuses by its name is left out (or sent under its older name) from then on, and
    ``refused_parameters`` lists it. A subclass builds a request and reads the library's answer.
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
        return self._retried(request, lambda call: self._create(self._client, **call))

    async def complete_async(self, request: ModelRequest) -> ModelReply:
        """Send a request without blocking the event loop, and return the reply."""
        # A client belongs to one event loop, so each call has its own.
        async with self._open_async() as client:
            for _ in range(_MAX_REFUSED):
                try:
                    return self._read(await self._create(client, **self._call(request)), request)
                except Exception as error:  # noqa: BLE001  # Everything is translated or raised again.
                    self._adapt_or_raise(error, request)
        raise self._refuses_too_many()

    def stream(self, request: ModelRequest, on_text: Callable[[str], object]) -> ModelReply:
        """Send a request, hand over the answer's text as it arrives, and return the whole reply."""
        return self._retried(request, lambda call: self._stream(call, on_text))

    def _retried(self, request: ModelRequest, send: Callable[[dict[str, Any]], Any]) -> ModelReply:
        """Send a request again as long as the server refuses parameters that can be left out."""
        for _ in range(_MAX_REFUSED):
            try:
                return self._read(send(self._call(request)), request)
            except Exception as error:  # noqa: BLE001  # Everything is translated or raised again.
                self._adapt_or_raise(error, request)
        raise self._refuses_too_many()

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
        """Note which parameter the server refused, so that the request is sent again; raise other errors."""
        if isinstance(error, self._vendor_error):
            refused = self._refused_parameter(error, request)
            if refused is None:
                raise self._translate(error) from None
            self._replacements[refused] = self.optional[refused]
        elif isinstance(error, AttributeError | IndexError | KeyError | TypeError | ValueError):
            problem = f"{type(error).__name__}: {error}"
            raise ProviderError("provider_garbled", provider=self._config.provider, problem=problem) from None
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

    def _refuses_too_many(self) -> ProviderRefused:
        problem = f"it refuses the parameters {', '.join(self.refused_parameters)}; see its documentation"
        return ProviderRefused(provider=self._config.provider, problem=problem)

    @abstractmethod
    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of the library's call."""

    @abstractmethod
    def _create(self, client: Any, **call: Any) -> Any:
        """Call the library, blocking or not as its client does."""

    @abstractmethod
    def _stream(self, call: dict[str, Any], on_text: Callable[[str], object]) -> Any:
        """Call the library, hand over the text as it arrives, and return an answer like ``_create``'s."""

    @abstractmethod
    def _read(self, answer: Any, request: ModelRequest) -> ModelReply:
        """Convert the library's answer."""

    def _translate(self, error: Exception) -> ProviderError:
        library: Any = self._library
        provider, problem = self._config.provider, str(error)
        # The library's timeout is a subclass of its connection error, so it is checked first.
        if isinstance(error, library.APITimeoutError):
            return ProviderUnavailable(
                "provider_timeout", provider=provider, timeout_seconds=self._timeout_seconds
            )
        if isinstance(error, library.APIConnectionError | library.RateLimitError):
            return ProviderUnavailable(provider=provider, problem=problem)
        if isinstance(error, library.APIStatusError):
            kind = ProviderUnavailable if error.status_code >= _SERVER_ERROR else ProviderRefused
            return kind(provider=provider, problem=problem)
        return ProviderError("provider_garbled", provider=provider, problem=problem)


class OpenAICompatibleProvider(VendorProvider):
    """A model behind ``/chat/completions``.

    Args:
        revision: The version behind the model's name, if you know it; part of every cache key.
        parameters: Further members of every request, such as ``{"top_p": 0.9}``.
    """

    # Servers that follow an older version of the API know max_tokens only; some models take no temperature or
    # seed.
    optional: ClassVar[dict[str, str | None]] = {
        "max_completion_tokens": "max_tokens",
        "stream_options": None,
        "temperature": None,
        "seed": None,
    }

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        max_output_tokens: int = 1024,
        seed: int | None = None,
        revision: str = "",
        parameters: Mapping[str, Any] | None = None,
        timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS,
        max_retries: int = PROVIDER_RETRIES,
    ) -> None:
        config = ProviderConfig(
            provider=OPENAI_COMPATIBLE,
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            seed=seed,
            revision=revision,
            parameters=dict(parameters or {}),
        )
        super().__init__(
            config,
            library=_library("openai", "An OpenAI-compatible model"),
            client="OpenAI",
            base_url=base_url,
            api_key=api_key,
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
        )

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        config = self._config
        call: dict[str, Any] = {
            "model": config.model,
            "messages": [_openai_message(message) for message in request.messages],
            "max_completion_tokens": config.max_output_tokens,
        }
        if config.temperature is not None:
            call["temperature"] = config.temperature
        if config.seed is not None:
            # Repeats measure how answers vary, so each gets its own seed.
            call["seed"] = config.seed + request.repeat
        if config.parameters:
            call["extra_body"] = config.parameters
        if request.tools:
            call["tools"] = [{"type": "function", "function": tool.as_json()} for tool in request.tools]
        if request.output_schema is not None:
            schema = {"name": "answer", "schema": request.output_schema, "strict": True}
            call["response_format"] = {"type": "json_schema", "json_schema": schema}
        return call

    def _create(self, client: Any, **call: Any) -> Any:
        return client.chat.completions.create(**call)

    def _stream(self, call: dict[str, Any], on_text: Callable[[str], object]) -> Any:
        call.setdefault("stream_options", {"include_usage": True})
        if "stream_options" in self._replacements:
            del call["stream_options"]
        streaming: Any = import_module("openai.lib.streaming.chat")
        state = streaming.ChatCompletionStreamState()
        for chunk in self._client.chat.completions.create(**call, stream=True):
            state.handle_chunk(chunk)
            for choice in chunk.choices:
                if choice.delta.content:
                    on_text(choice.delta.content)
        return state.get_final_completion()

    def _read(self, answer: Any, request: ModelRequest) -> ModelReply:  # noqa: ARG002  # The base class has it.
        choice, usage = answer.choices[0], answer.usage
        calls = tuple(
            ModelToolCall(
                call_id=call.id,
                name=call.function.name,
                arguments=json.loads(call.function.arguments or "{}"),
            )
            for call in choice.message.tool_calls or ()
        )
        return ModelReply(
            text=choice.message.content or "",
            tool_calls=calls,
            usage=(
                TokenUsage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)
                if usage is not None
                else TokenUsage()
            ),
            model=answer.model or "",
            stopped=choice.finish_reason or "",
        )


def _openai_message(message: ChatMessage) -> dict[str, Any]:
    if message.role is MessageRole.TOOL:
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    plain: dict[str, Any] = {"role": message.role.value, "content": message.text}
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return plain


class AnthropicProvider(VendorProvider):
    """A model behind ``/v1/messages``.

    Args:
        revision: The version behind the model's name, if you know it; part of every cache key.
        parameters: Further members of every request, such as ``{"top_p": 0.9}``.
    """

    optional: ClassVar[dict[str, str | None]] = {"temperature": None}

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        max_output_tokens: int = 1024,
        revision: str = "",
        parameters: Mapping[str, Any] | None = None,
        timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS,
        max_retries: int = PROVIDER_RETRIES,
    ) -> None:
        config = ProviderConfig(
            provider=ANTHROPIC,
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            revision=revision,
            parameters=dict(parameters or {}),
        )
        super().__init__(
            config,
            library=_library("anthropic", "Anthropic"),
            client="Anthropic",
            base_url=base_url,
            api_key=api_key,
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
        )

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        call: dict[str, Any] = {
            "model": self._config.model,
            "messages": [_anthropic_message(message) for message in request.turns],
            "max_tokens": self._config.max_output_tokens,
        }
        if request.system:
            call["system"] = request.system
        # Newer models and the library's signature have no temperature; older servers take one.
        extra = {} if self._config.temperature is None else {"temperature": self._config.temperature}
        if extra | self._config.parameters:
            call["extra_body"] = extra | self._config.parameters
        if request.tools:
            call["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in request.tools
            ]
        if request.output_schema is not None:
            # A tool that must be called: every model has that, and its input fits the schema.
            answer = {
                "name": _ANSWER,
                "description": "Give the answer.",
                "input_schema": request.output_schema,
            }
            call["tools"] = [*call.get("tools", ()), answer]
            # With other tools on offer the model chooses, or it could never call them.
            call["tool_choice"] = {"type": "any"} if request.tools else {"type": "tool", "name": _ANSWER}
        return call

    def _create(self, client: Any, **call: Any) -> Any:
        return client.messages.create(**call)

    def _stream(self, call: dict[str, Any], on_text: Callable[[str], object]) -> Any:
        with self._client.messages.stream(**call) as stream:
            for text in stream.text_stream:
                on_text(text)
            return stream.get_final_message()

    def _read(self, answer: Any, request: ModelRequest) -> ModelReply:
        blocks = answer.content
        text = "".join(block.text for block in blocks if block.type == "text")
        if request.output_schema is not None:
            structured = [
                block.input for block in blocks if block.type == "tool_use" and block.name == _ANSWER
            ]
            blocks = [block for block in blocks if block.type != "tool_use" or block.name != _ANSWER]
            text = json.dumps(structured[0], ensure_ascii=False) if structured else text
        return ModelReply(
            text=text,
            tool_calls=tuple(
                ModelToolCall(call_id=block.id, name=block.name, arguments=dict(block.input))
                for block in blocks
                if block.type == "tool_use"
            ),
            usage=TokenUsage(
                input_tokens=answer.usage.input_tokens, output_tokens=answer.usage.output_tokens
            ),
            model=answer.model or "",
            stopped=answer.stop_reason or "",
        )


def _anthropic_message(message: ChatMessage) -> dict[str, Any]:
    if message.role is MessageRole.TOOL:
        result = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}
        return {"role": "user", "content": [result]}
    content: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments}
        for call in message.tool_calls
    ]
    return {"role": message.role.value, "content": content}
