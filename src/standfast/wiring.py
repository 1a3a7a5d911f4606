"""Builds the objects that the settings describe, for the command line and the server."""

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from standfast.errors import InvalidSettings, InvalidValue, MissingExtra, StandfastError
from standfast.govern.approvals.signers import Signers
from standfast.govern.judge import FloorRegistry
from standfast.ledger.checkpoint import CheckpointFile
from standfast.ledger.notary import Notary
from standfast.ledger.note import KeyFile, log_name
from standfast.memory import Memory
from standfast.policies import BandBudget, ByteModel
from standfast.recall.embedders import Embedder, open_embedder
from standfast.settings import Settings
from standfast.store.store import Store, is_file_url, open_store
from standfast.traces.folder import TraceFolder

if TYPE_CHECKING:
    # Slow to import, and only the prompt commands need them.
    from standfast.optimize.evals.results import ResultCache
    from standfast.optimize.prompts.overrides import PromptOverridesStore
    from standfast.optimize.prompts.template import PromptTemplate
    from standfast.optimize.providers.adapter import ProviderAdapter


def open_memory(settings: Settings, *, create: bool) -> Memory:
    """Open the memory that the settings describe. ``create`` makes the store if it does not exist."""
    store = open_store(settings.store, create=create)
    return memory_in(settings, store, settings.namespace, notary=notary_of(settings, store))


def memory_in(settings: Settings, store: Store, namespace: str, *, notary: Notary | None = None) -> Memory:
    """The memory of one namespace of an open store, configured by the settings.

    Give a notary to one memory of a store only: it signs the ledger of the whole store.
    """
    memory = Memory(
        store,
        namespace=namespace,
        floors=floors_of(settings),
        strict=settings.strict,
        allow_live=settings.allow_live_read_write,
        mode=settings.visibility_mode,
        ceiling=settings.visibility_ceiling,
        notary=notary,
        traces=traces_of(settings, store),
        commit_policy=settings.commit_policy,
        budgets=budgets_of(settings),
        origins=settings.origins,
        embedder=embedder_of(settings),
        language=settings.languages.get(namespace, settings.language),
    )
    memory.finish_forgetting()
    return memory


def embedder_of(settings: Settings) -> Embedder | None:
    """The embedder that the settings name; all memories of a process share it.

    A server's key is in ``OPENAI_API_KEY``.
    """
    if not settings.embedder:
        return None
    try:
        return _shared_embedder(settings.embedder, os.environ.get("OPENAI_API_KEY", ""))
    except InvalidValue as error:
        raise InvalidSettings(name="embedder", source="settings", problem=str(error)) from None


@cache
def _shared_embedder(spec: str, api_key: str) -> Embedder:
    return open_embedder(spec, api_key=api_key)


def floors_of(settings: Settings) -> FloorRegistry:
    """The floors that the settings describe: those that ship, your own, and a model's if one is named."""
    registry = FloorRegistry.shipped().configured(settings.floors)
    if (chosen := settings.model_floor) is not None:
        from standfast.govern.judge.model_floor import (  # noqa: PLC0415  # Loaded only when used.
            AnswerFolder,
            ModelFloor,
        )
        from standfast.optimize.providers.adapter import ProviderGuard  # noqa: PLC0415  # As above.

        provider = open_provider(
            chosen.provider,
            model=chosen.model or None,
            base_url=chosen.base_url or None,
            script=chosen.script or None,
        )
        answers = AnswerFolder(chosen.cache) if chosen.cache else {}
        registry.register(ModelFloor(guard=ProviderGuard(provider), answers=answers, hard=chosen.hard))
    return registry


def traces_of(settings: Settings, store: Store) -> TraceFolder | None:
    """The folder of the traces of runs: the one that the settings name, or the store's own."""
    if settings.traces == "off":
        return None
    days, limit = settings.trace_retention_days, settings.traces_max_bytes
    if not settings.traces:
        return TraceFolder.for_store(settings.store, retention_days=days, max_bytes=limit)
    return TraceFolder(settings.traces, ids=store.ids, retention_days=days, max_bytes=limit)


def budgets_of(settings: Settings) -> list[BandBudget]:
    """The byte budgets of the bands, each with its write policy."""
    return [
        BandBudget(
            band=band,
            max_bytes=limit,
            policy=settings.band_policies[band],
            byte_model=ByteModel(settings.band_byte_models.get(band, ByteModel.SPEC)),
        )
        for band, limit in settings.band_budgets_bytes.items()
    ]


def notary_of(settings: Settings, store: Store) -> Notary | None:
    """The notary that signs a store's checkpoints.

    Its files are named by the settings. Otherwise they lie next to a store's file, or in the folder
    ``standfast-log`` for a store on a server. A store in memory has no notary.
    """
    if not settings.log_key and not settings.checkpoints:
        return Notary.for_store(settings.store, store.entries, store.branches)
    if not settings.log_key or not settings.checkpoints:
        raise InvalidSettings(
            name="log_key" if settings.log_key else "checkpoints",
            source="settings",
            problem="log_key and checkpoints are used together; set both or neither",
        )
    name = log_name(Path(settings.store)) if is_file_url(settings.store) else "standfast/log"
    return Notary(
        KeyFile(Path(settings.log_key), name=name),
        CheckpointFile(settings.checkpoints),
        store.entries,
        store.branches,
    )


def signers_of(settings: Settings) -> Signers:
    """Who may sign approvals, read from the files that the settings name."""
    return Signers.parse(
        _text("signers", settings.signers),
        _text("revoked_signers", settings.revoked_signers) if settings.revoked_signers else "",
    )


def _text(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = (
            f"can't read {path} ({error}); create it with a line for each person who may sign: "
            'alice@example.com namespaces="standfast-seal" ssh-ed25519 AAAA…'
        )
        raise InvalidSettings(name=name, source="settings", problem=problem) from None


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
    kind: str, *, model: str | None = None, base_url: str | None = None, script: str | None = None
) -> "ProviderAdapter":
    """Open a model provider: ``openai`` (or a compatible server), ``anthropic``, or ``scripted`` with a file
    of rules.
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

        return AnthropicProvider(model=model, base_url=base_url)
    from standfast.optimize.providers.vendors import OpenAICompatibleProvider  # noqa: PLC0415  # As above.

    return OpenAICompatibleProvider(model=model, base_url=base_url)


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
