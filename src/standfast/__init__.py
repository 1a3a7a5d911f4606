"""Standfast: deterministic, governed, budgeted memory for AI agents. Every class that users hold is exported here.

A name's module is imported when the name is first used, so ``import standfast`` loads nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.canon import NORMALIZATION_VERSION, canonical_bytes, fingerprint, parse
    from standfast.client import AsyncClient, Client
    from standfast.clock import Clock, CountedIds, IdSource, ManualClock, RandomIds, SystemClock
    from standfast.errors import (
        ApprovalError,
        CannotOpen,
        CommitAborted,
        Corruption,
        InvalidSettings,
        InvalidValue,
        MissingExtra,
        NoSuchSnapshot,
        NotAllowed,
        NotAuthorised,
        NotCanonical,
        OutcomeUnknown,
        PayloadMismatch,
        RecallError,
        RunOver,
        StandfastError,
        StoreError,
        TraceError,
    )
    from standfast.govern.approvals.approvals import Approval, Decision, Proposal, Statement
    from standfast.govern.approvals.queue import ApprovalQueue
    from standfast.govern.approvals.signers import Signers
    from standfast.govern.judge import Claim, Finding, Floor, FloorRegistry, Judge, Judgement, JudgingContext
    from standfast.govern.policy import MemoryWritePolicy
    from standfast.govern.sweep import DueRecord
    from standfast.ledger.checkpoint import InclusionReceipt
    from standfast.ledger.notary import Notary
    from standfast.memory import (
        AgentRun,
        AsyncMemory,
        AsyncRun,
        AsyncSnapshotView,
        IdempotencyRecord,
        Memory,
        Run,
        SnapshotView,
    )
    from standfast.optimize.evals.cache import (
        InMemoryResultCache,
        LocalResultCache,
        RedisResultCache,
        ResultCache,
    )
    from standfast.optimize.evals.evaluators import Evaluator, Score
    from standfast.optimize.evals.samples import Dataset, Sample
    from standfast.optimize.loops.eval import EvalLoop
    from standfast.optimize.loops.group import LoopGroup
    from standfast.optimize.loops.main import MainLoop
    from standfast.optimize.loops.optimize import OptimizeLoop
    from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
    from standfast.optimize.mailboxes.mailbox import Mailbox
    from standfast.optimize.mailboxes.redis import RedisMailbox
    from standfast.optimize.prompts.local import LocalPromptOverridesStore
    from standfast.optimize.prompts.overrides import PromptOverridesStore
    from standfast.optimize.prompts.prompt import Prompt, RenderedPrompt
    from standfast.optimize.prompts.redis import RedisPromptOverridesStore
    from standfast.optimize.prompts.s3 import S3PromptOverridesStore
    from standfast.optimize.prompts.template import PromptTemplate
    from standfast.optimize.providers.adapter import ProviderAdapter, ProviderConfig
    from standfast.optimize.providers.anthropic import AnthropicProvider
    from standfast.optimize.providers.openai_compatible import OpenAICompatibleProvider
    from standfast.optimize.providers.scripted import ScriptedProvider
    from standfast.policies import BandBudget, ByteModel, PolicySpec, WritePolicy, policy_names
    from standfast.recall.package import ContextPackage
    from standfast.recall.request import MemoryControllerInput
    from standfast.recall.tokens import TokenCounter
    from standfast.settings import Settings
    from standfast.store import Commit, Store, Write, open_store
    from standfast.store.records import HistoryEntry, RecordChange
    from standfast.traces import (
        Comparison,
        ModelConfig,
        Recorder,
        ReplayedRun,
        ToolCall,
        ToolProfile,
        Trace,
        TraceFolder,
        compare,
    )
    from standfast.vocabulary import (
        AbortReason,
        ActionType,
        Band,
        Budget,
        BufferState,
        Evidence,
        Experiment,
        FloorCheck,
        MemoryAction,
        Receipt,
        Record,
        Remembered,
        RememberRequest,
        RunIdentity,
        Snapshot,
        Step,
        Tier,
        Verdict,
        VisibilityMode,
    )

__version__ = "0.1.0"

__all__ = [
    "NORMALIZATION_VERSION",
    "AbortReason",
    "ActionType",
    "AgentRun",
    "AnthropicProvider",
    "Approval",
    "ApprovalError",
    "ApprovalQueue",
    "AsyncClient",
    "AsyncMemory",
    "AsyncRun",
    "AsyncSnapshotView",
    "Band",
    "BandBudget",
    "Budget",
    "BufferState",
    "ByteModel",
    "CannotOpen",
    "Claim",
    "Client",
    "Clock",
    "Commit",
    "CommitAborted",
    "Comparison",
    "ContextPackage",
    "Corruption",
    "CountedIds",
    "Dataset",
    "Decision",
    "DueRecord",
    "EvalLoop",
    "Evaluator",
    "Evidence",
    "Experiment",
    "Finding",
    "Floor",
    "FloorCheck",
    "FloorRegistry",
    "HistoryEntry",
    "IdSource",
    "IdempotencyRecord",
    "InMemoryMailbox",
    "InMemoryResultCache",
    "InclusionReceipt",
    "InvalidSettings",
    "InvalidValue",
    "Judge",
    "Judgement",
    "JudgingContext",
    "LocalPromptOverridesStore",
    "LocalResultCache",
    "LoopGroup",
    "Mailbox",
    "MainLoop",
    "ManualClock",
    "Memory",
    "MemoryAction",
    "MemoryControllerInput",
    "MemoryWritePolicy",
    "MissingExtra",
    "ModelConfig",
    "NoSuchSnapshot",
    "NotAllowed",
    "NotAuthorised",
    "NotCanonical",
    "Notary",
    "OpenAICompatibleProvider",
    "OptimizeLoop",
    "OutcomeUnknown",
    "PayloadMismatch",
    "PolicySpec",
    "Prompt",
    "PromptOverridesStore",
    "PromptTemplate",
    "Proposal",
    "ProviderAdapter",
    "ProviderConfig",
    "RandomIds",
    "RecallError",
    "Receipt",
    "Record",
    "RecordChange",
    "Recorder",
    "RedisMailbox",
    "RedisPromptOverridesStore",
    "RedisResultCache",
    "RememberRequest",
    "Remembered",
    "RenderedPrompt",
    "ReplayedRun",
    "ResultCache",
    "Run",
    "RunIdentity",
    "RunOver",
    "S3PromptOverridesStore",
    "Sample",
    "Score",
    "ScriptedProvider",
    "Settings",
    "Signers",
    "Snapshot",
    "SnapshotView",
    "StandfastError",
    "Statement",
    "Step",
    "Store",
    "StoreError",
    "SystemClock",
    "Tier",
    "TokenCounter",
    "ToolCall",
    "ToolProfile",
    "Trace",
    "TraceError",
    "TraceFolder",
    "Verdict",
    "VisibilityMode",
    "Write",
    "WritePolicy",
    "__version__",
    "canonical_bytes",
    "compare",
    "fingerprint",
    "open_store",
    "parse",
    "policy_names",
]

# The module of each name. Names that are not listed are in the vocabulary.
_MODULES = {
    "canon": "NORMALIZATION_VERSION canonical_bytes fingerprint parse",
    "client": "AsyncClient Client",
    "clock": "Clock CountedIds IdSource ManualClock RandomIds SystemClock",
    "errors": "ApprovalError CannotOpen CommitAborted Corruption InvalidSettings InvalidValue MissingExtra NoSuchSnapshot NotAllowed NotAuthorised NotCanonical OutcomeUnknown PayloadMismatch RecallError RunOver StandfastError StoreError TraceError",
    "govern.approvals.approvals": "Approval Decision Proposal Statement",
    "govern.approvals.queue": "ApprovalQueue",
    "govern.approvals.signers": "Signers",
    "govern.judge": "Claim Finding Floor FloorRegistry Judge Judgement JudgingContext",
    "govern.policy": "MemoryWritePolicy",
    "govern.sweep": "DueRecord",
    "ledger.checkpoint": "InclusionReceipt",
    "ledger.notary": "Notary",
    "memory": "AgentRun AsyncMemory AsyncRun AsyncSnapshotView IdempotencyRecord Memory Run SnapshotView",
    "optimize.evals.cache": "InMemoryResultCache LocalResultCache RedisResultCache ResultCache",
    "optimize.evals.evaluators": "Evaluator Score",
    "optimize.evals.samples": "Dataset Sample",
    "optimize.loops.eval": "EvalLoop",
    "optimize.loops.group": "LoopGroup",
    "optimize.loops.main": "MainLoop",
    "optimize.loops.optimize": "OptimizeLoop",
    "optimize.mailboxes.in_memory": "InMemoryMailbox",
    "optimize.mailboxes.mailbox": "Mailbox",
    "optimize.mailboxes.redis": "RedisMailbox",
    "optimize.prompts.local": "LocalPromptOverridesStore",
    "optimize.prompts.overrides": "PromptOverridesStore",
    "optimize.prompts.prompt": "Prompt RenderedPrompt",
    "optimize.prompts.redis": "RedisPromptOverridesStore",
    "optimize.prompts.s3": "S3PromptOverridesStore",
    "optimize.prompts.template": "PromptTemplate",
    "optimize.providers.adapter": "ProviderAdapter ProviderConfig",
    "optimize.providers.anthropic": "AnthropicProvider",
    "optimize.providers.openai_compatible": "OpenAICompatibleProvider",
    "optimize.providers.scripted": "ScriptedProvider",
    "policies": "BandBudget ByteModel PolicySpec WritePolicy policy_names",
    "recall.package": "ContextPackage",
    "recall.request": "MemoryControllerInput",
    "recall.tokens": "TokenCounter",
    "settings": "Settings",
    "store": "Commit Store Write open_store",
    "store.records": "HistoryEntry RecordChange",
    "traces": "Comparison ModelConfig Recorder ReplayedRun ToolCall ToolProfile Trace TraceFolder compare",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'standfast' has no attribute {name!r}")
    module = import_module(f"standfast.{_MODULE_OF.get(name, 'vocabulary')}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return __all__
