# The names of standfast.policies. Each is listed here and nowhere else; see lazy_names.py.

from standfast.policies.band_budget import (
    BandBudget as BandBudget,
    BudgetedBand as BudgetedBand,
)
from standfast.policies.byte_model import (
    ByteModel as ByteModel,
    Compression as Compression,
    MemoryItem as MemoryItem,
    PriceList as PriceList,
    canonical_delta as canonical_delta,
    estimate_bytes as estimate_bytes,
)
from standfast.policies.byte_store import (
    ByteBudget as ByteBudget,
    ByteMemoryStore as ByteMemoryStore,
    Rejection as Rejection,
)
from standfast.policies.write_policy import (
    BanditPolicy as BanditPolicy,
    Hindsight as Hindsight,
    OraclePolicy as OraclePolicy,
    PolicySpec as PolicySpec,
    Track as Track,
    WritePolicy as WritePolicy,
    apply_policy as apply_policy,
    expire as expire,
    merge as merge,
    policy_names as policy_names,
    write as write,
)
