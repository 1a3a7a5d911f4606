# The names of standfast.ledger. Each is listed here and nowhere else; see lazy_names.py.

from standfast.ledger.chain import Entry as Entry
from standfast.ledger.checkpoint import (
    Checkpoint as Checkpoint,
    CheckpointFile as CheckpointFile,
    InclusionReceipt as InclusionReceipt,
    verify_receipt as verify_receipt,
)
from standfast.ledger.notary import Notary as Notary
from standfast.ledger.note import (
    KeyFile as KeyFile,
    SigningKey as SigningKey,
    VerifyingKey as VerifyingKey,
)
from standfast.ledger.witness import (
    LedgerState as LedgerState,
    LedgerTail as LedgerTail,
    Verification as Verification,
)
