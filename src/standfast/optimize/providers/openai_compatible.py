"""Models behind OpenAI's chat API or a server with the same API, through OpenAI's library. Needs the extra ``openai``."""

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from standfast.errors import MissingExtra
from standfast.limits import PROVIDER_RETRIES, PROVIDER_TIMEOUT_SECONDS
from standfast.optimize.providers.adapter import (
    ChatMessage,
    MessageRole,
    ModelReply,
    ModelRequest,
    ModelToolCall,
    ProviderConfig,
    TokenUsage,
    VendorProvider,
)

try:
    import openai
    from openai.lib.streaming.chat import ChatCompletionStreamState
except ImportError:
    raise MissingExtra(feature="An OpenAI-compatible model", extra="openai") from None

PROVIDER: Final = "openai-compatible"


class OpenAICompatibleProvider(VendorProvider):
    """A model behind ``/chat/completions``.

    Args:
        revision: The version behind the model's name, if you know it; part of every cache key.
        parameters: Further members of every request, such as ``{"top_p": 0.9}``.
    """

    # Servers that follow an older version of the API know max_tokens only; some models take no temperature or seed.
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
            provider=PROVIDER,
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            seed=seed,
            revision=revision,
            parameters=dict(parameters or {}),
        )
        super().__init__(
            config,
            library=openai,
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
            "messages": [_message(message) for message in request.messages],
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
        state = ChatCompletionStreamState()
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
            usage=TokenUsage(input_tokens=usage.prompt_tokens, output_tokens=usage.completion_tokens)
            if usage is not None
            else TokenUsage(),
            model=answer.model or "",
            stopped=choice.finish_reason or "",
        )


def _message(message: ChatMessage) -> dict[str, Any]:
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
