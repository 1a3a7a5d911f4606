"""Builds the objects that the settings describe, for the command line and the server."""

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from standfast.errors import InvalidSettings, InvalidValue
from standfast.extensions import extensions, part_at
from standfast.govern.approvals.signers import Signers
from standfast.govern.judge import FloorRegistry
from standfast.ledger.checkpoint import CheckpointFile
from standfast.ledger.cosigning import WitnessKey
from standfast.ledger.notary import Notary
from standfast.ledger.note import KeyFile, log_name
from standfast.memory import Memory
from standfast.memory.embedding import NO_EMBEDDER
from standfast.memory.extraction import FactExtractor
from standfast.policies import BandBudget, ByteModel
from standfast.recall.embedders import Embedder, open_embedder
from standfast.recall.rerankers import Reranker, open_reranker
from standfast.settings import Settings
from standfast.store.opening import is_file_url, open_store
from standfast.store.store import Store
from standfast.traces.folder import TraceFolder
from standfast.traces.recall_log import RecallLog

if TYPE_CHECKING:
    from standfast.govern.judge.model_floor import Guard


def open_memory(settings: Settings, *, create: bool, sign: bool = True) -> Memory:
    """Open the memory that the settings describe.

    Args:
        create: Makes the store if it does not exist.
        sign: Whether the ledger is signed while the memory is open.
    """
    store = open_store(settings.store, create=create)
    memory = memory_in(settings, store, settings.namespace, notary=notary_of(settings, store))
    if sign:
        memory.ledger.start_signing()
    return memory


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
        reranker=reranker_of(settings),
        language=settings.languages.get(namespace, settings.language),
        recall_log=_recall_log_of(settings.store, store) if settings.recall_log else None,
        extractor=extractor_of(settings, store),
    )
    memory.finish_forgetting()
    return memory


_LOGS: Final[WeakKeyDictionary[Store, RecallLog | None]] = WeakKeyDictionary()


def _recall_log_of(url: str, store: Store) -> RecallLog | None:
    """The recall log of a store; all memories on it share one, so that each batch is written once."""
    if store not in _LOGS:
        _LOGS[store] = RecallLog.chosen(True, url, store.clock)
    return _LOGS[store]


def embedder_of(settings: Settings) -> Embedder | str | None:
    """The embedder that the settings name, shared in a process. A server's key is in ``OPENAI_API_KEY``."""
    if settings.embedder in ("", NO_EMBEDDER):
        return settings.embedder or None
    try:
        return _shared_embedder(settings.embedder, os.environ.get("OPENAI_API_KEY", ""))
    except InvalidValue as error:
        raise InvalidSettings(name="embedder", source="settings", problem=str(error)) from None


@cache
def _shared_embedder(spec: str, api_key: str) -> Embedder:
    return open_embedder(spec, api_key=api_key)


def reranker_of(settings: Settings) -> Reranker | None:
    """The reranker that the settings name, if they do. A server's key is in ``RERANKER_API_KEY``."""
    if not settings.reranker:
        return None
    try:
        return _shared_reranker(settings.reranker, os.environ.get("RERANKER_API_KEY", ""))
    except InvalidValue as error:
        raise InvalidSettings(name="reranker", source="settings", problem=str(error)) from None


@cache
def _shared_reranker(spec: str, api_key: str) -> Reranker:
    return open_reranker(spec, api_key=api_key)


def floors_of(settings: Settings) -> FloorRegistry:
    """The floors that the settings describe: those that ship, your own, and a model's if one is named."""
    registry = FloorRegistry.shipped().configured(settings.floors)
    if (chosen := settings.model_floor) is not None:
        from standfast.govern.judge.model_floor import (  # noqa: PLC0415  # Loaded only when used.
            AnswerFolder,
            ModelFloor,
        )

        guard = open_model(
            chosen.provider,
            model=chosen.model or None,
            base_url=chosen.base_url or None,
            script=chosen.script or None,
        )
        answers = AnswerFolder(chosen.cache) if chosen.cache else {}
        registry.register(ModelFloor(guard=guard, answers=answers, hard=chosen.hard))
    return registry


def open_model(kind: str, *, model: str | None, base_url: str | None, script: str | None) -> "Guard":
    """Open a model of a provider that an installed package brings: ``openai`` or ``anthropic``."""
    openers = {name: at for one in extensions() for name, at in one.models.items()}
    if kind not in openers:
        problem = f"there is no provider {kind!r}; there are {', '.join(sorted(openers))}"
        raise InvalidSettings(name="model_floor", source="settings", problem=problem)
    guard: Guard = part_at(openers[kind])(model=model, base_url=base_url, script=script)
    return guard


def extractor_of(settings: Settings, store: Store) -> FactExtractor | None:
    """The model that finds facts in conversations, if the settings name one."""
    if not settings.sections:
        # Who sets it has a section for it; most deployments have none, and import nothing for it.
        return None
    opened = (part_at(one.extractor)(settings, store) for one in extensions() if one.extractor)
    return next((one for one in opened if one is not None), None)


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
    """The notary that signs a store's checkpoints, and the witness that cosigns them, if there is one.

    Its files are named by the settings. Otherwise they are among the store's side files. A store in memory
    has no notary.
    """
    notary = _notary_of(settings, store)
    if notary is not None and settings.witness:
        try:
            notary.set_witness(settings.witness, WitnessKey.parse(settings.witness_key))
        except InvalidValue as error:
            name = "witness" if error.facts["what"] == "witness" else "witness_key"
            raise InvalidSettings(name=name, source="settings", problem=error.facts["problem"]) from None
    return notary


def _notary_of(settings: Settings, store: Store) -> Notary | None:
    if not settings.log_key and not settings.checkpoints:
        return Notary.for_store(
            settings.store,
            store.entries,
            store.branches,
            store.announce_key,
            every_entries=settings.signed_entries,
            every_seconds=settings.signed_seconds,
        )
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
        announce=store.announce_key,
        every_entries=settings.signed_entries,
        every_seconds=settings.signed_seconds,
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
