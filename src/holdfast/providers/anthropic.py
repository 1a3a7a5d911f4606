"""Anthropic's messages, through its official library."""

from typing import Any, Final

from holdfast.errors import (
    MissingExtra,
    ProviderError,
    ProviderGarbled,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
)
from holdfast.limits import PROVIDER_RETRIES, PROVIDER_TIMEOUT_SECONDS
from holdfast.providers.adapter import ModelConfig, ModelReply, ModelRequest, Role, TokenUsage, ToolCall, Turn

try:
    import anthropic
except ImportError:
    raise MissingExtra(feature="Anthropic", extra="anthropic") from None

PROVIDER: Final = "anthropic"
_OVERLOADED: Final = 500


class AnthropicProvider:
    """A model behind ``/v1/messages``. Overload and lost connections are tried again, with growing pauses."""

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = None,
        max_output_tokens: int = 1024,
        timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS,
        max_retries: int = PROVIDER_RETRIES,
    ) -> None:
        self._config = ModelConfig(
            provider=PROVIDER, model=model, temperature=temperature, max_output_tokens=max_output_tokens
        )
        self._timeout_seconds = timeout_seconds
        try:
            self._client = anthropic.Anthropic(
                base_url=base_url, api_key=api_key, timeout=timeout_seconds, max_retries=max_retries
            )
        except anthropic.AnthropicError as error:
            raise ProviderRefused(provider=PROVIDER, problem=str(error)) from None

    @property
    def config(self) -> ModelConfig:
        """Everything about it that can change its answers."""
        return self._config

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask and wait."""
        try:
            answer = self._client.messages.create(**self._call(request))
        except anthropic.AnthropicError as error:
            raise self._in_our_words(error) from None
        except (ValueError, TypeError, AttributeError) as error:
            raise ProviderGarbled(provider=PROVIDER, problem=str(error)) from None
        return _reply(answer)

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def _call(self, request: ModelRequest) -> dict[str, Any]:
        call: dict[str, Any] = {
            "model": self._config.model,
            "messages": [_message(turn) for turn in request.turns],
            "max_tokens": self._config.max_output_tokens,
        }
        if self._config.temperature is not None:
            # Newer models take no temperature, and neither does the library's signature; older servers do.
            call["extra_body"] = {"temperature": self._config.temperature}
        if request.tools:
            call["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in request.tools
            ]
        return call

    def _in_our_words(self, error: "anthropic.AnthropicError") -> ProviderError:
        # The library's time-out is one of its connection errors, so it comes first.
        if isinstance(error, anthropic.APITimeoutError):
            return ProviderTimeout(provider=PROVIDER, timeout_seconds=self._timeout_seconds)
        if isinstance(error, anthropic.APIConnectionError | anthropic.RateLimitError):
            return ProviderUnavailable(provider=PROVIDER, problem=str(error))
        if isinstance(error, anthropic.APIStatusError):
            kind = ProviderUnavailable if error.status_code >= _OVERLOADED else ProviderRefused
            return kind(provider=PROVIDER, problem=str(error))
        return ProviderGarbled(provider=PROVIDER, problem=str(error))


def _message(turn: Turn) -> dict[str, Any]:
    if turn.role is Role.TOOL:
        result = {"type": "tool_result", "tool_use_id": turn.call_id, "content": turn.text}
        return {"role": "user", "content": [result]}
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments}
        for call in turn.tool_calls
    ]
    return {"role": turn.role.value, "content": content}


def _reply(answer: Any) -> ModelReply:
    try:
        blocks = answer.content
        return ModelReply(
            text="".join(block.text for block in blocks if block.type == "text"),
            tool_calls=tuple(
                ToolCall(call_id=block.id, name=block.name, arguments=dict(block.input))
                for block in blocks
                if block.type == "tool_use"
            ),
            usage=TokenUsage(
                input_tokens=answer.usage.input_tokens, output_tokens=answer.usage.output_tokens
            ),
            model=answer.model or "",
            stopped=answer.stop_reason or "",
        )
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ProviderGarbled(provider=PROVIDER, problem=f"{type(error).__name__}: {error}") from None
