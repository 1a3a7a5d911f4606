"""The only module that names concrete backends: it turns settings into working parts."""

import os
from typing import TYPE_CHECKING, Any

from holdfast.clock import Clock, IdSource, RandomIds, SystemClock
from holdfast.errors import CannotOpen, HoldfastError, InvalidSettings, InvalidValue, MissingExtra
from holdfast.store.protocol import Storage
from holdfast.store.store import Store

if TYPE_CHECKING:
    # Commands that do not optimise prompts should not wait for these.
    from holdfast.evals.cache import ResultCache
    from holdfast.prompts.overrides import PromptOverridesStore
    from holdfast.prompts.template import PromptTemplate
    from holdfast.providers.adapter import ProviderAdapter


def open_store(
    url: str, *, create: bool, clock: Clock | None = None, ids: IdSource | None = None, recover: bool = True
) -> Store:
    """The store at a path or URL. One that is not there is made only where ``create`` says so.

    What dead owners left is finished on the way in.
    """
    clock, ids = clock or SystemClock(), ids or RandomIds()
    if not create and not _exists(url):
        raise CannotOpen(
            store=url, problem="there is no such store; check the path, or --store and HOLDFAST_STORE"
        )
    store = Store(_storage(url, clock, ids), clock=clock, ids=ids)
    if recover:
        store.recover()
    return store


def _exists(url: str) -> bool:
    return url == ":memory:" or _is_postgres(url) or os.path.exists(url)  # noqa: PTH110  # A string from settings.


def _is_postgres(url: str) -> bool:
    return url.startswith(("postgresql://", "postgres://"))


def _storage(url: str, clock: Clock, ids: IdSource) -> Storage:
    if _is_postgres(url):
        from holdfast.store.postgres import PostgresStorage  # noqa: PLC0415  # Only its users pay for it.

        return PostgresStorage(url, clock=clock, ids=ids)
    if url == ":memory:":
        from holdfast.store.in_memory import InMemoryStorage  # noqa: PLC0415  # As above.

        return InMemoryStorage(clock)
    from holdfast.store.sqlite import SQLiteStorage  # noqa: PLC0415  # As above.

    return SQLiteStorage(url, clock=clock, ids=ids)


def open_overrides(url: str) -> "PromptOverridesStore":
    """The overrides store at a folder, ``redis://…`` or ``s3://bucket/prefix``."""
    if _is_redis(url):
        from holdfast.prompts.redis import RedisPromptOverridesStore  # noqa: PLC0415  # Only its users pay for it.

        return RedisPromptOverridesStore(client=_redis_client(url))
    if url.startswith("s3://"):
        from holdfast.prompts.s3 import S3PromptOverridesStore  # noqa: PLC0415  # As above.

        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        return S3PromptOverridesStore(
            client=_s3_client(), bucket=bucket, prefix=prefix or "holdfast/overrides/"
        )
    from holdfast.prompts.local import LocalPromptOverridesStore  # noqa: PLC0415  # As above.

    return LocalPromptOverridesStore(url)


def open_result_cache(url: str) -> "ResultCache":
    """The cache of eval results at a folder, ``redis://…`` or ``:memory:``."""
    from holdfast.evals.cache import (  # noqa: PLC0415  # Only its users pay for it.
        InMemoryResultCache,
        LocalResultCache,
        RedisResultCache,
    )

    if url == ":memory:":
        return InMemoryResultCache()
    return RedisResultCache(client=_redis_client(url)) if _is_redis(url) else LocalResultCache(url)


def open_provider(
    kind: str, *, model: str | None = None, base_url: str | None = None, script: str | None = None
) -> "ProviderAdapter":
    """A model: ``openai`` (or anything that speaks its protocol), ``anthropic``, or ``scripted`` with a file of rules."""
    if kind == "scripted":
        from holdfast.providers.scripted import scripted_by  # noqa: PLC0415  # As above.

        if script is None:
            problem = "a scripted provider needs a file of rules; give --script"
            raise InvalidSettings(name="script", source="command line", problem=problem)
        return scripted_by(script)
    if model is None:
        problem = "the provider needs a model's name; give --model"
        raise InvalidSettings(name="model", source="command line", problem=problem)
    if kind == "anthropic":
        from holdfast.providers.anthropic import AnthropicProvider  # noqa: PLC0415  # As above.

        return AnthropicProvider(model=model, base_url=base_url)
    from holdfast.providers.openai_compatible import OpenAICompatibleProvider  # noqa: PLC0415  # As above.

    return OpenAICompatibleProvider(model=model, base_url=base_url)


def read_prompt(file: str) -> "PromptTemplate":
    """A prompt's source from a ``.toml`` or ``.json`` file."""
    import json  # noqa: PLC0415  # As above.
    import tomllib  # noqa: PLC0415  # As above.

    from holdfast.prompts.template import PromptTemplate  # noqa: PLC0415  # As above.

    try:
        with open(file, "rb") as source:  # noqa: PTH123  # A string from outside.
            plain = tomllib.load(source) if file.endswith(".toml") else json.load(source)
        return PromptTemplate.from_json(plain)
    except (OSError, ValueError) as error:
        raise InvalidValue(what=f"Prompt file {file}", problem=str(error)) from None
    except HoldfastError as error:
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
