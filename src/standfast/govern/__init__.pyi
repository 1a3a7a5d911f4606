# The names of standfast.govern. Each is listed here and nowhere else; see lazy_names.py.

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
    Judge as Judge,
    Judgement as Judgement,
    JudgingContext as JudgingContext,
)
from standfast.govern.judge.model_floor import (
    AnswerFolder as AnswerFolder,
    Guard as Guard,
    ModelFloor as ModelFloor,
)
from standfast.govern.patterns import AttackPattern as AttackPattern
from standfast.govern.policy import MemoryWritePolicy as MemoryWritePolicy
from standfast.govern.sweep import DueRecord as DueRecord
