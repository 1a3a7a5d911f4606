"""Opens what commands and settings name by a URL or a word: overrides, result caches, providers, prompts."""

from typing import TYPE_CHECKING, Any

from standfast.errors import InvalidSettings, InvalidValue, MissingExtra, StandfastError
from standfast.limits import DEFAULT_OUTPUT_TOKENS

if TYPE_CHECKING:
    # Slow to import, and each caller needs only one or two of them.
    from standfast.optimize.evals.results import ResultCache
    from standfast.optimize.prompts.overrides import PromptOverridesStore
    from standfast.optimize.prompts.template import PromptTemplate
    from standfast.optimize.providers.adapter import ProviderAdapter, ProviderGuard


def open_overrides(url: str) -> "PromptOverridesStore":
    """Open the prompt overrides in a folder, at ``redis://…`` or at ``s3://bucket/prefix``."""
    if _is_redis(url):
        from standfast.optimize.prompts.backends import (  # noqa: PLC0415  # Loaded only when used.
            RedisPromptOverridesStore,
        )

        return RedisPromptOverridesStore(client=_redis_client(url))
    if url.startswith("s3://"):
        from standfast.optimize.prompts.backends import S3PromptOverridesStore  # noqa: PLC0415  # As above.

        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        return S3PromptOverridesStore(
            client=_s3_client(), bucket=bucket, prefix=prefix or "standfast/overrides/"
        )
    from standfast.optimize.prompts.backends import LocalPromptOverridesStore  # noqa: PLC0415  # As above.

    return LocalPromptOverridesStore(url)


def open_result_cache(url: str) -> "ResultCache":
    """Open the cache of eval results in a folder, at ``redis://…`` or in ``:memory:``."""
    from standfast.optimize.evals.results import (  # noqa: PLC0415  # Loaded only when used.
        InMemoryResultCache,
        LocalResultCache,
        RedisResultCache,
    )

    if url == ":memory:":
        return InMemoryResultCache()
    return RedisResultCache(client=_redis_client(url)) if _is_redis(url) else LocalResultCache(url)


def open_provider(
    kind: str,
    *,
    model: str | None = None,
    base_url: str | None = None,
    script: str | None = None,
    temperature: float | None = None,
    max_output_tokens: int = DEFAULT_OUTPUT_TOKENS,
) -> "ProviderAdapter":
    """Open a model provider: ``openai`` (or a compatible server), ``anthropic``, or ``scripted`` by rules.

    Args:
        temperature: Sent with every request; by default the provider's own.
        max_output_tokens: The most tokens of an answer.
    """
    if kind == "scripted":
        from standfast.optimize.providers.adapter import scripted_by  # noqa: PLC0415  # As above.

        if script is None:
            problem = "the scripted provider needs a file of rules; give --script"
            raise InvalidSettings(name="script", source="command line", problem=problem)
        return scripted_by(script)
    if model is None:
        problem = "the provider needs the name of a model; give --model"
        raise InvalidSettings(name="model", source="command line", problem=problem)
    if kind == "anthropic":
        from standfast.optimize.providers.vendors import AnthropicProvider  # noqa: PLC0415  # As above.

        return AnthropicProvider(
            model=model, base_url=base_url, temperature=temperature, max_output_tokens=max_output_tokens
        )
    from standfast.optimize.providers.vendors import OpenAICompatibleProvider  # noqa: PLC0415  # As above.

    return OpenAICompatibleProvider(
        model=model, base_url=base_url, temperature=temperature, max_output_tokens=max_output_tokens
    )


def openai_guard(*, model: str | None, base_url: str | None, script: str | None) -> "ProviderGuard":
    """A model of OpenAI's, or of a server with the same API, for the judge."""
    return _guard("openai", model, base_url, script)


def anthropic_guard(*, model: str | None, base_url: str | None, script: str | None) -> "ProviderGuard":
    """A model of Anthropic's for the judge."""
    return _guard("anthropic", model, base_url, script)


def scripted_guard(*, model: str | None, base_url: str | None, script: str | None) -> "ProviderGuard":
    """A file of rules for the judge."""
    return _guard("scripted", model, base_url, script)


def _guard(kind: str, model: str | None, base_url: str | None, script: str | None) -> "ProviderGuard":
    from standfast.optimize.providers.adapter import ProviderGuard  # noqa: PLC0415  # As above.

    return ProviderGuard(open_provider(kind, model=model, base_url=base_url, script=script))


def read_prompt(file: str) -> "PromptTemplate":
    """Read a prompt template from a ``.toml`` or ``.json`` file."""
    import json  # noqa: PLC0415  # As above.
    import tomllib  # noqa: PLC0415  # As above.

    from standfast.optimize.prompts.template import PromptTemplate  # noqa: PLC0415  # As above.

    try:
        with open(file, "rb") as source:  # noqa: PTH123  # A path given as a string.
            plain = tomllib.load(source) if file.endswith(".toml") else json.load(source)
        return PromptTemplate.from_json(plain)
    except (OSError, ValueError, StandfastError) as error:
        raise InvalidValue(what=f"Prompt file {file}", problem=str(error)) from None


def _is_redis(url: str) -> bool:
    return url.startswith(("redis://", "rediss://", "unix://"))


def _redis_client(url: str) -> Any:
    try:
        import redis  # noqa: PLC0415  # As above.
    except ImportError:
        raise MissingExtra(feature="Redis", extra="redis") from None
    return redis.Redis.from_url(url)


def _s3_client() -> Any:
    try:
        import boto3  # noqa: PLC0415  # As above.
    except ImportError:
        raise MissingExtra(feature="S3", extra="s3") from None
    return boto3.client("s3")
