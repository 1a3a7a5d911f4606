"""OpenAI's chat protocol, through its official library: OpenAI itself, and every server that speaks the same."""

import json
from typing import Any, Final, Unpack

from standfast.errors import MissingExtra
from standfast.optimize.providers.adapter import (
    ChatMessage,
    MessageRole,
    ModelReply,
    ModelRequest,
    ModelToolCall,
    OfficialProvider,
    Patience,
    ProviderConfig,
    TokenUsage,
)

try:
    import openai
except ImportError:
    raise MissingExtra(feature="An OpenAI-compatible model", extra="openai") from None

PROVIDER: Final = "openai-compatible"


class OpenAICompatibleProvider(OfficialProvider):
    """A model behind ``/chat/completions``."""

    def __init__(
        self,
        *,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        temperature: float | None = 0.0,
        max_output_tokens: int = 1024,
        seed: int | None = None,
        **patience: Unpack[Patience],
    ) -> None:
        config = ProviderConfig(
            provider=PROVIDER,
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            seed=seed,
        )
        super().__init__(
            config, library=openai, client="OpenAI", base_url=base_url, api_key=api_key, **patience
        )

    def _ask(self, request: ModelRequest) -> Any:
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
        return self._client.chat.completions.create(**call)

    def _read(self, answer: Any) -> ModelReply:
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
            usage=TokenUsage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)
            if usage is not None
            else TokenUsage(),
            model=answer.model or "",
            stopped=choice.finish_reason or "",
        )


def _message(turn: ChatMessage) -> dict[str, Any]:
    if turn.role is MessageRole.TOOL:
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
