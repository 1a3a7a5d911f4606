"""OpenAI's chat protocol, through its official library: OpenAI itself, and every server that speaks the same."""

import json
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
    import openai
except ImportError:
    raise MissingExtra(feature="An OpenAI-compatible model", extra="openai") from None

PROVIDER: Final = "openai-compatible"


class OpenAICompatibleProvider:
    """A model behind ``/chat/completions``. Overload and lost connections are tried again, with growing pauses."""

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        max_output_tokens: int = 1024,
        seed: int | None = None,
        timeout_seconds: float = PROVIDER_TIMEOUT_SECONDS,
        max_retries: int = PROVIDER_RETRIES,
    ) -> None:
        self._config = ModelConfig(
            provider=PROVIDER,
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            seed=seed,
        )
        self._timeout_seconds = timeout_seconds
        try:
            self._client = openai.OpenAI(
                base_url=base_url, api_key=api_key, timeout=timeout_seconds, max_retries=max_retries
            )
        except openai.OpenAIError as error:
            raise ProviderRefused(provider=PROVIDER, problem=str(error)) from None

    @property
    def config(self) -> ModelConfig:
        """Everything about it that can change its answers."""
        return self._config

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask and wait."""
        try:
            answer = self._client.chat.completions.create(**self._call(request))
        except openai.OpenAIError as error:
            raise self._in_our_words(error) from None
        except (ValueError, TypeError, AttributeError) as error:
            raise ProviderGarbled(provider=PROVIDER, problem=str(error)) from None
        return _reply(answer)

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def _call(self, request: ModelRequest) -> dict[str, Any]:
        config = self._config
        call: dict[str, Any] = {
            "model": config.model,
            "messages": [_message(turn) for turn in request.turns],
            "max_completion_tokens": config.max_output_tokens,
        }
        if config.temperature is not None:
            call["temperature"] = config.temperature
        if config.seed is not None:
            # Repeats are there to see how answers vary, so each has a seed of its own.
            call["seed"] = config.seed + request.repeat
        if request.tools:
            call["tools"] = [{"type": "function", "function": tool.as_json()} for tool in request.tools]
        return call

    def _in_our_words(self, error: "openai.OpenAIError") -> ProviderError:
        # The library's time-out is one of its connection errors, so it comes first.
        if isinstance(error, openai.APITimeoutError):
            return ProviderTimeout(provider=PROVIDER, timeout_seconds=self._timeout_seconds)
        if isinstance(error, openai.APIConnectionError | openai.RateLimitError | openai.InternalServerError):
            return ProviderUnavailable(provider=PROVIDER, problem=str(error))
        if isinstance(error, openai.APIStatusError):
            return ProviderRefused(provider=PROVIDER, problem=str(error))
        return ProviderGarbled(provider=PROVIDER, problem=str(error))


def _message(turn: Turn) -> dict[str, Any]:
    if turn.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": turn.call_id, "content": turn.text}
    message: dict[str, Any] = {"role": turn.role.value, "content": turn.text}
    if turn.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in turn.tool_calls
        ]
    return message


def _reply(answer: Any) -> ModelReply:
    try:
        choice = answer.choices[0]
        calls = tuple(
            ToolCall(
                call_id=call.id,
                name=call.function.name,
                arguments=json.loads(call.function.arguments or "{}"),
            )
            for call in choice.message.tool_calls or ()
        )
        usage = answer.usage
        return ModelReply(
            text=choice.message.content or "",
            tool_calls=calls,
            usage=TokenUsage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)
            if usage is not None
            else TokenUsage(),
            model=answer.model or "",
            stopped=choice.finish_reason or "",
        )
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ProviderGarbled(provider=PROVIDER, problem=f"{type(error).__name__}: {error}") from None
