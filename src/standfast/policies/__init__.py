"""Write policies: what to keep when bytes run out, the same in production and in the benchmark."""

from standfast.policies.band_budget import BandBudget, BudgetedBand
from standfast.policies.byte_model import (
    ByteModel,
    Compression,
    MemoryItem,
    PriceList,
    canonical_delta,
    estimate_bytes,
)
from standfast.policies.byte_store import ByteBudget, ByteMemoryStore, Rejection
from standfast.policies.write_policy import (
    BanditPolicy,
    Hindsight,
    OraclePolicy,
    PolicySpec,
    Track,
    WritePolicy,
    apply_policy,
    expire,
    merge,
    policy_names,
    write,
)

__all__ = [
    "BandBudget",
    "BanditPolicy",
    "BudgetedBand",
    "ByteBudget",
    "ByteMemoryStore",
    "ByteModel",
    "Compression",
    "Hindsight",
    "MemoryItem",
    "OraclePolicy",
    "PolicySpec",
    "PriceList",
    "Rejection",
    "Track",
    "WritePolicy",
    "apply_policy",
    "canonical_delta",
    "estimate_bytes",
    "expire",
    "merge",
    "policy_names",
    "write",
]
