# The names of standfast.memory. Each is listed here and nowhere else; see lazy_names.py.

from standfast.memory.async_memory import (
    AsyncMemory as AsyncMemory,
    AsyncRun as AsyncRun,
    AsyncSnapshotView as AsyncSnapshotView,
)
from standfast.memory.conversations import (
    AddedMessage as AddedMessage,
    AddedMessages as AddedMessages,
)
from standfast.memory.current import (
    Conflict as Conflict,
    ConflictEntry as ConflictEntry,
    LeftOut as LeftOut,
    Profile as Profile,
    Settlement as Settlement,
)
from standfast.memory.embedding import (
    MemoryVectors as MemoryVectors,
    VectorStatus as VectorStatus,
)
from standfast.memory.erasing import (
    ErasurePlan as ErasurePlan,
    Forgotten as Forgotten,
)
from standfast.memory.extraction import (
    ExtractedFact as ExtractedFact,
    FactExtractor as FactExtractor,
    KnownFact as KnownFact,
)
from standfast.memory.idempotency import IdempotencyRecord as IdempotencyRecord
from standfast.memory.investigation import (
    Investigation as Investigation,
    InvestigationLink as InvestigationLink,
    InvestigationNode as InvestigationNode,
    LinkKind as LinkKind,
    NodeKind as NodeKind,
    RecordState as RecordState,
    Side as Side,
)
from standfast.memory.memory import Memory as Memory
from standfast.memory.messages import (
    SessionInfo as SessionInfo,
    SessionMessage as SessionMessage,
)
from standfast.memory.quarantine import (
    QuarantineAct as QuarantineAct,
    Quarantined as Quarantined,
    QuarantinedRecord as QuarantinedRecord,
    QuarantinePlan as QuarantinePlan,
    Released as Released,
)
from standfast.memory.quarantine_choice import RevertConflict as RevertConflict
from standfast.memory.run import (
    AgentRun as AgentRun,
    Run as Run,
)
from standfast.memory.snapshot_view import SnapshotView as SnapshotView
