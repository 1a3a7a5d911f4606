"""A model as a guard: it answers the judge's question about a text."""

from standfast.optimize.providers.adapter import ModelRequest, ProviderAdapter


class ProviderGuard:
    """Asks a provider. Its id covers the model, its server and its parameters."""

    def __init__(self, provider: ProviderAdapter) -> None:
        self._provider = provider

    @property
    def guard_id(self) -> str:
        """The provider, the model and a hash of the configuration."""
        config = self._provider.config
        return f"{config.provider}:{config.model}@{config.config_id[:12]}"

    def ask(self, system: str, text: str) -> str:
        """Return the model's answer to one message."""
        return self._provider.complete(ModelRequest.of(text, system=system)).text
