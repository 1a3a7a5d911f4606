# The names of standfast.optimize. Each is listed here and nowhere else; see lazy_names.py.

from standfast.optimize.evals.evaluators import (
    AllOf as AllOf,
    AnyOf as AnyOf,
    Assertions as Assertions,
    Contains as Contains,
    Evaluator as Evaluator,
    Exact as Exact,
    FunctionEvaluator as FunctionEvaluator,
    JsonSchema as JsonSchema,
    ModelJudge as ModelJudge,
    NoRefusal as NoRefusal,
    Numeric as Numeric,
    Score as Score,
    SessionFacts as SessionFacts,
    TokensUnder as TokensUnder,
    ToolCalled as ToolCalled,
    named_evaluator as named_evaluator,
)
from standfast.optimize.evals.exchanges import (
    Exchange as Exchange,
    Grade as Grade,
    GradeBook as GradeBook,
)
from standfast.optimize.evals.results import (
    EvalReport as EvalReport,
    EvalRequest as EvalRequest,
    EvalResult as EvalResult,
    InMemoryResultCache as InMemoryResultCache,
    LocalResultCache as LocalResultCache,
    Outcome as Outcome,
    RedisResultCache as RedisResultCache,
    ResultCache as ResultCache,
)
from standfast.optimize.evals.samples import (
    Dataset as Dataset,
    Sample as Sample,
    is_graded_by_assertions as is_graded_by_assertions,
    read_dataset as read_dataset,
)
from standfast.optimize.loops.agent import (
    AgentTool as AgentTool,
    ToRemember as ToRemember,
    ToolContext as ToolContext,
)
from standfast.optimize.loops.apply import (
    LedgerSealer as LedgerSealer,
    Sealer as Sealer,
    apply_modifications as apply_modifications,
    apply_report as apply_report,
    rollback as rollback,
)
from standfast.optimize.loops.evaluation import (
    compare_experiments as compare_experiments,
    evaluate as evaluate,
    provider_matrix as provider_matrix,
)
from standfast.optimize.loops.gate import (
    GateSettings as GateSettings,
    RejectReason as RejectReason,
)
from standfast.optimize.loops.main import (
    EvalLoop as EvalLoop,
    MainLoop as MainLoop,
    MainLoopRequest as MainLoopRequest,
    MainLoopResult as MainLoopResult,
)
from standfast.optimize.loops.optimize import (
    OptimizeLoop as OptimizeLoop,
    OptimizeRequest as OptimizeRequest,
    OptimizeResult as OptimizeResult,
    estimate_optimization as estimate_optimization,
    optimize as optimize,
    optimize_in_process as optimize_in_process,
)
from standfast.optimize.loops.proposals import (
    CompressStrategy as CompressStrategy,
    SectionEdit as SectionEdit,
    Strategies as Strategies,
    StrategySession as StrategySession,
    rewriting_strategies as rewriting_strategies,
)
from standfast.optimize.loops.report import (
    Modification as Modification,
    OptimizationReport as OptimizationReport,
    ParetoPoint as ParetoPoint,
    UntestedText as UntestedText,
    html_report as html_report,
)
from standfast.optimize.loops.spending import (
    CandidateProgress as CandidateProgress,
    ModelSpending as ModelSpending,
    OptimizationProgress as OptimizationProgress,
    SpendingEstimate as SpendingEstimate,
    SpendingLimits as SpendingLimits,
    live_table as live_table,
)
from standfast.optimize.loops.strategies import (
    Ablation as Ablation,
    DuplicateRemoval as DuplicateRemoval,
    FewShot as FewShot,
    LLMCompressStrategy as LLMCompressStrategy,
    RecallBudget as RecallBudget,
    Reflection as Reflection,
    named_strategies as named_strategies,
)
from standfast.optimize.loops.worker import (
    LoopGroup as LoopGroup,
    WorkerLoop as WorkerLoop,
)
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox as InMemoryMailbox
from standfast.optimize.mailboxes.mailbox import (
    DeadLetter as DeadLetter,
    InMemoryMailboxResolver as InMemoryMailboxResolver,
    Mailbox as Mailbox,
    Message as Message,
)
from standfast.optimize.mailboxes.redis import (
    RedisMailbox as RedisMailbox,
    RedisMailboxResolver as RedisMailboxResolver,
)
from standfast.optimize.mailboxes.wire import (
    message_kind as message_kind,
)
from standfast.optimize.prompts.backends import (
    LocalPromptOverridesStore as LocalPromptOverridesStore,
    RedisPromptOverridesStore as RedisPromptOverridesStore,
    S3PromptOverridesStore as S3PromptOverridesStore,
)
from standfast.optimize.prompts.overrides import (
    PromptOverride as PromptOverride,
    PromptOverridesStore as PromptOverridesStore,
    SectionOverride as SectionOverride,
)
from standfast.optimize.prompts.prompt import (
    Experiment as Experiment,
    Fallback as Fallback,
    Prompt as Prompt,
    descriptor_for_prompt as descriptor_for_prompt,
)
from standfast.optimize.prompts.template import (
    InMemoryPromptRegistry as InMemoryPromptRegistry,
    PromptDescriptor as PromptDescriptor,
    PromptTemplate as PromptTemplate,
    Section as Section,
    memory_section as memory_section,
)
from standfast.optimize.providers.adapter import (
    ChatMessage as ChatMessage,
    MessageRole as MessageRole,
    ModelReply as ModelReply,
    ModelRequest as ModelRequest,
    ModelToolCall as ModelToolCall,
    ProviderAdapter as ProviderAdapter,
    ProviderConfig as ProviderConfig,
    ProviderGuard as ProviderGuard,
    ScriptedProvider as ScriptedProvider,
    TokenUsage as TokenUsage,
    ToolSpec as ToolSpec,
    scripted_by as scripted_by,
)
from standfast.optimize.providers.vendors import (
    AnthropicProvider as AnthropicProvider,
    OpenAICompatibleProvider as OpenAICompatibleProvider,
)
