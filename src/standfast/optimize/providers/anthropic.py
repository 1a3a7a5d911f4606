"""Models behind Anthropic's messages API, through its library. Needs the extra ``anthropic``."""

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
    import anthropic
except ImportError:
    raise MissingExtra(feature="Anthropic", extra="anthropic") from None

PROVIDER: Final = "anthropic"
_ANSWER: Final = "standfast_answer"


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
            provider=PROVIDER,
            model=model,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
            revision=revision,
            parameters=dict(parameters or {}),
        )
        super().__init__(
            config,
            library=anthropic,
            client="Anthropic",
            base_url=base_url,
            api_key=api_key,
            timeout_seconds=timeout_seconds,
            max_retries=max_retries,
        )

    def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        call: dict[str, Any] = {
            "model": self._config.model,
            "messages": [_message(message) for message in request.turns],
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


def _message(message: ChatMessage) -> dict[str, Any]:
    if message.role is MessageRole.TOOL:
        result = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.text}
        return {"role": "user", "content": [result]}
    content: list[dict[str, Any]] = [{"type": "text", "text": message.text}] if message.text else []
    content += [
        {"type": "tool_use", "id": call.call_id, "name": call.name, "input": call.arguments}
        for call in message.tool_calls
    ]
    return {"role": message.role.value, "content": content}
