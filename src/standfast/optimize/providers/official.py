"""A model behind its vendor's official library. OpenAI's and Anthropic's are of one make: the same options, the same errors."""

from abc import ABC, abstractmethod
from types import ModuleType
from typing import Any, Final, TypedDict

from standfast.errors import (
    ProviderError,
    ProviderGarbled,
    ProviderRefused,
    ProviderTimeout,
    ProviderUnavailable,
)
from standfast.limits import PROVIDER_RETRIES, PROVIDER_TIMEOUT_SECONDS
from standfast.optimize.providers.adapter import ModelConfig, ModelReply, ModelRequest

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
        config: ModelConfig,
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
    def config(self) -> ModelConfig:
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
