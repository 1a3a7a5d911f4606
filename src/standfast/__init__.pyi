# The names of standfast: what someone uses for memory. Each is listed here and nowhere else;
# see lazy_names.py.

from standfast.clock import (
    Clock as Clock,
    CountedIds as CountedIds,
    IdSource as IdSource,
    ManualClock as ManualClock,
)
from standfast.errors import (
    CommitAborted as CommitAborted,
    InvalidValue as InvalidValue,
    MissingExtra as MissingExtra,
    NotAllowed as NotAllowed,
    StandfastError as StandfastError,
    StoreError as StoreError,
)
from standfast.govern.approvals.approvals import (
    Approval as Approval,
    Decision as Decision,
    Proposal as Proposal,
    Statement as Statement,
)
from standfast.govern.approvals.queue import ApprovalQueue as ApprovalQueue
from standfast.govern.approvals.signers import Signers as Signers
from standfast.govern.judge import (
    Claim as Claim,
    Finding as Finding,
    Floor as Floor,
    FloorRegistry as FloorRegistry,
    Judgement as Judgement,
    JudgingContext as JudgingContext,
)
from standfast.govern.judge.model_floor import ModelFloor as ModelFloor
from standfast.ledger.checkpoint import InclusionReceipt as InclusionReceipt
from standfast.memory import (
    AddedMessage as AddedMessage,
    AddedMessages as AddedMessages,
    AgentRun as AgentRun,
    AsyncMemory as AsyncMemory,
    AsyncRun as AsyncRun,
    AsyncSnapshotView as AsyncSnapshotView,
    Conflict as Conflict,
    ErasurePlan as ErasurePlan,
    ExtractedFact as ExtractedFact,
    FactExtractor as FactExtractor,
    Forgotten as Forgotten,
    Investigation as Investigation,
    Memory as Memory,
    Profile as Profile,
    Quarantined as Quarantined,
    QuarantinePlan as QuarantinePlan,
    Released as Released,
    Run as Run,
    SessionInfo as SessionInfo,
    SessionMessage as SessionMessage,
    Settlement as Settlement,
    SnapshotView as SnapshotView,
)
from standfast.policies import (
    BandBudget as BandBudget,
    WritePolicy as WritePolicy,
)
from standfast.recall import (
    BpeCounter as BpeCounter,
    ContextPackage as ContextPackage,
    Embedder as Embedder,
    EstimatedCounter as EstimatedCounter,
    Filter as Filter,
    HttpEmbedder as HttpEmbedder,
    LocalEmbedder as LocalEmbedder,
    MemoryControllerInput as MemoryControllerInput,
    RecallItem as RecallItem,
    RecallPackage as RecallPackage,
    RecallRequest as RecallRequest,
    StaticEmbedder as StaticEmbedder,
    TokenCounter as TokenCounter,
    Where as Where,
    open_embedder as open_embedder,
)
from standfast.records.canon import (
    canonical_bytes as canonical_bytes,
    fingerprint as fingerprint,
)
from standfast.records.origins import Origin as Origin
from standfast.records.requests import RememberRequest as RememberRequest
from standfast.records.vocabulary import (
    ActionType as ActionType,
    Band as Band,
    CommitPolicy as CommitPolicy,
    Evidence as Evidence,
    FloorCheck as FloorCheck,
    MemoryAction as MemoryAction,
    Receipt as Receipt,
    Record as Record,
    Remembered as Remembered,
    RunIdentity as RunIdentity,
    Snapshot as Snapshot,
    Step as Step,
    Tier as Tier,
    Verdict as Verdict,
    VisibilityMode as VisibilityMode,
)
from standfast.settings import Settings as Settings
from standfast.store.stored_records import (
    HistoryEntry as HistoryEntry,
    RecordChange as RecordChange,
)
from standfast.traces import (
    ModelConfig as ModelConfig,
    ToolProfile as ToolProfile,
    Trace as Trace,
    TraceFolder as TraceFolder,
)

__version__: str
