"""Models behind Anthropic's messages API, through its library. Needs the extra ``anthropic``."""

from collections.abc import Mapping
from typing import Any, Final

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


class AnthropicProvider(VendorProvider):
    """A model behind ``/v1/messages``.

    Args:
        revision: The version behind the model's name, if you know it; part of every cache key.
        parameters: Further members of every request, such as ``{"top_p": 0.9}``.
    """

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

    def _send(self, request: ModelRequest) -> Any:
        call: dict[str, Any] = {
            "model": self._config.model,
            "messages": [_message(message) for message in request.messages],
            "max_tokens": self._config.max_output_tokens,
        }
        # Newer models and the library's signature have no temperature; older servers take one.
        extra = {} if self._config.temperature is None else {"temperature": self._config.temperature}
        if extra | self._config.parameters:
            call["extra_body"] = extra | self._config.parameters
        if request.tools:
            call["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
                for tool in request.tools
            ]
        return self._client.messages.create(**call)

    def _read(self, answer: Any) -> ModelReply:
        blocks = answer.content
        return ModelReply(
            text="".join(block.text for block in blocks if block.type == "text"),
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
