"""Loops that run agents, evaluate them and shorten their prompts, with what they need.

prompts/    prompts as trees of sections, overrides by tag
mailboxes/  queues with leases, in memory and on Redis
providers/  models behind one protocol
evals/      datasets, evaluators, results and their cache
loops/      MainLoop, EvalLoop, OptimizeLoop, LoopGroup                  <- START HERE

Names are imported from their modules when they are first used, so that ``import standfast.optimize`` is cheap
and a missing extra is reported only where it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.optimize.evals.evaluators import (
        AllOf,
        AnyOf,
        Assertions,
        Contains,
        Evaluator,
        Exact,
        JsonSchema,
        ModelJudge,
        Numeric,
        Score,
        named_evaluator,
    )
    from standfast.optimize.evals.results import (
        EvalReport,
        EvalRequest,
        EvalResult,
        InMemoryResultCache,
        LocalResultCache,
        Outcome,
        RedisResultCache,
        ResultCache,
    )
    from standfast.optimize.evals.samples import Dataset, Sample, is_graded_by_assertions, read_dataset
    from standfast.optimize.loops.agent import (
        AgentSession,
        AgentTool,
        Resources,
        ToolContext,
        ToRemember,
    )
    from standfast.optimize.loops.apply import (
        LedgerSealer,
        PromptChange,
        Sealer,
        apply_modifications,
        apply_report,
        restore,
        rollback,
        set_overrides,
    )
    from standfast.optimize.loops.gate import GateSettings, PowerStatement, RejectReason
    from standfast.optimize.loops.main import EvalLoop, MainLoop, MainLoopRequest, MainLoopResult
    from standfast.optimize.loops.optimize import (
        OptimizeLoop,
        OptimizeRequest,
        OptimizeResult,
        estimate_optimization,
        optimize,
        optimize_in_process,
    )
    from standfast.optimize.loops.proposals import (
        CompressStrategy,
        Rewriting,
        SampleOutcome,
        SectionEdit,
        Strategies,
        StrategySession,
        rewriting_strategies,
    )
    from standfast.optimize.loops.report import (
        Modification,
        OptimizationReport,
        ParetoPoint,
        RejectedModification,
        UnchangedSection,
        UntestedText,
        html_report,
    )
    from standfast.optimize.loops.spending import (
        CandidateProgress,
        ModelSpending,
        OptimizationProgress,
        SpendingEstimate,
        SpendingLimits,
        live_table,
    )
    from standfast.optimize.loops.strategies import (
        Ablation,
        DuplicateRemoval,
        FewShot,
        LLMCompressStrategy,
        RecallBudget,
        Reflection,
        named_strategies,
    )
    from standfast.optimize.loops.worker import LoopGroup, WorkerLoop
    from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
    from standfast.optimize.mailboxes.mailbox import (
        DeadLetter,
        DeadReason,
        InMemoryMailboxResolver,
        Mailbox,
        MailboxCounts,
        MailboxResolver,
        Message,
    )
    from standfast.optimize.mailboxes.redis import RedisMailbox, RedisMailboxResolver
    from standfast.optimize.mailboxes.wire import Codec, WireCodec, message_kind
    from standfast.optimize.prompts.backends import (
        LocalPromptOverridesStore,
        RedisPromptOverridesStore,
        S3PromptOverridesStore,
    )
    from standfast.optimize.prompts.overrides import (
        OverridesBackend,
        PromptOverride,
        PromptOverridesStore,
        RollbackRecord,
        SectionOverride,
    )
    from standfast.optimize.prompts.prompt import (
        Experiment,
        Fallback,
        FellBack,
        Prompt,
        RenderedPrompt,
        ResolvedPrompt,
        descriptor_for_prompt,
    )
    from standfast.optimize.prompts.template import (
        InMemoryPromptRegistry,
        PromptDescriptor,
        PromptRegistry,
        PromptTemplate,
        Section,
        SectionDescriptor,
        memory_section,
    )
    from standfast.optimize.providers.adapter import (
        ChatMessage,
        MessageRole,
        ModelReply,
        ModelRequest,
        ModelToolCall,
        ProviderAdapter,
        ProviderConfig,
        ProviderGuard,
        ScriptedProvider,
        TokenUsage,
        ToolSpec,
        scripted_by,
    )
    from standfast.optimize.providers.vendors import AnthropicProvider, OpenAICompatibleProvider

__all__ = [
    "Ablation",
    "AgentSession",
    "AgentTool",
    "AllOf",
    "AnthropicProvider",
    "AnyOf",
    "Assertions",
    "CandidateProgress",
    "ChatMessage",
    "Codec",
    "CompressStrategy",
    "Contains",
    "Dataset",
    "DeadLetter",
    "DeadReason",
    "DuplicateRemoval",
    "EvalLoop",
    "EvalReport",
    "EvalRequest",
    "EvalResult",
    "Evaluator",
    "Exact",
    "Experiment",
    "Fallback",
    "FellBack",
    "FewShot",
    "GateSettings",
    "InMemoryMailbox",
    "InMemoryMailboxResolver",
    "InMemoryPromptRegistry",
    "InMemoryResultCache",
    "JsonSchema",
    "LLMCompressStrategy",
    "LedgerSealer",
    "LocalPromptOverridesStore",
    "LocalResultCache",
    "LoopGroup",
    "Mailbox",
    "MailboxCounts",
    "MailboxResolver",
    "MainLoop",
    "MainLoopRequest",
    "MainLoopResult",
    "Message",
    "MessageRole",
    "ModelJudge",
    "ModelReply",
    "ModelRequest",
    "ModelSpending",
    "ModelToolCall",
    "Modification",
    "Numeric",
    "OpenAICompatibleProvider",
    "OptimizationProgress",
    "OptimizationReport",
    "OptimizeLoop",
    "OptimizeRequest",
    "OptimizeResult",
    "Outcome",
    "OverridesBackend",
    "ParetoPoint",
    "PowerStatement",
    "Prompt",
    "PromptChange",
    "PromptDescriptor",
    "PromptOverride",
    "PromptOverridesStore",
    "PromptRegistry",
    "PromptTemplate",
    "ProviderAdapter",
    "ProviderConfig",
    "ProviderGuard",
    "RecallBudget",
    "RedisMailbox",
    "RedisMailboxResolver",
    "RedisPromptOverridesStore",
    "RedisResultCache",
    "Reflection",
    "RejectReason",
    "RejectedModification",
    "RenderedPrompt",
    "ResolvedPrompt",
    "Resources",
    "ResultCache",
    "Rewriting",
    "RollbackRecord",
    "S3PromptOverridesStore",
    "Sample",
    "SampleOutcome",
    "Score",
    "ScriptedProvider",
    "Sealer",
    "Section",
    "SectionDescriptor",
    "SectionEdit",
    "SectionOverride",
    "SpendingEstimate",
    "SpendingLimits",
    "Strategies",
    "StrategySession",
    "ToRemember",
    "TokenUsage",
    "ToolContext",
    "ToolSpec",
    "UnchangedSection",
    "UntestedText",
    "WireCodec",
    "WorkerLoop",
    "apply_modifications",
    "apply_report",
    "descriptor_for_prompt",
    "estimate_optimization",
    "html_report",
    "is_graded_by_assertions",
    "live_table",
    "memory_section",
    "message_kind",
    "named_evaluator",
    "named_strategies",
    "optimize",
    "optimize_in_process",
    "read_dataset",
    "restore",
    "rewriting_strategies",
    "rollback",
    "scripted_by",
    "set_overrides",
]

_NAMES_OF_MODULE = {
    "evals.evaluators": (
        "AllOf AnyOf Assertions Contains Evaluator Exact JsonSchema ModelJudge Numeric Score named_evaluator"
    ),
    "evals.results": (
        "EvalReport EvalRequest EvalResult InMemoryResultCache LocalResultCache Outcome RedisResultCache"
        " ResultCache"
    ),
    "evals.samples": "Dataset Sample is_graded_by_assertions read_dataset",
    "loops.agent": "AgentSession AgentTool Resources ToolContext ToRemember",
    "loops.apply": (
        "LedgerSealer PromptChange Sealer apply_modifications apply_report restore rollback set_overrides"
    ),
    "loops.gate": "GateSettings PowerStatement RejectReason",
    "loops.main": "EvalLoop MainLoop MainLoopRequest MainLoopResult",
    "loops.optimize": (
        "OptimizeLoop OptimizeRequest OptimizeResult estimate_optimization optimize optimize_in_process"
    ),
    "loops.proposals": (
        "CompressStrategy Rewriting SampleOutcome SectionEdit Strategies StrategySession rewriting_strategies"
    ),
    "loops.report": (
        "Modification OptimizationReport ParetoPoint RejectedModification UnchangedSection UntestedText"
        " html_report"
    ),
    "loops.spending": (
        "CandidateProgress ModelSpending OptimizationProgress SpendingEstimate SpendingLimits live_table"
    ),
    "loops.strategies": (
        "Ablation DuplicateRemoval FewShot LLMCompressStrategy RecallBudget Reflection named_strategies"
    ),
    "loops.worker": "LoopGroup WorkerLoop",
    "mailboxes.in_memory": "InMemoryMailbox",
    "mailboxes.mailbox": (
        "DeadLetter DeadReason InMemoryMailboxResolver Mailbox MailboxCounts MailboxResolver Message"
    ),
    "mailboxes.redis": "RedisMailbox RedisMailboxResolver",
    "mailboxes.wire": "Codec WireCodec message_kind",
    "prompts.backends": "LocalPromptOverridesStore RedisPromptOverridesStore S3PromptOverridesStore",
    "prompts.overrides": (
        "OverridesBackend PromptOverride PromptOverridesStore RollbackRecord SectionOverride"
    ),
    "prompts.prompt": (
        "Experiment Fallback FellBack Prompt RenderedPrompt ResolvedPrompt descriptor_for_prompt"
    ),
    "prompts.template": (
        "InMemoryPromptRegistry PromptDescriptor PromptRegistry PromptTemplate Section SectionDescriptor"
        " memory_section"
    ),
    "providers.adapter": (
        "ChatMessage MessageRole ModelReply ModelRequest ModelToolCall ProviderAdapter ProviderConfig"
        " ProviderGuard ScriptedProvider TokenUsage ToolSpec scripted_by"
    ),
    "providers.vendors": "AnthropicProvider OpenAICompatibleProvider",
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF_NAME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
