"""Standfast: deterministic, governed, budgeted memory for AI agents. The public names, and nothing else.

A name's module is imported when the name is first used, so that ``import standfast`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from standfast.canon import NORMALIZATION_VERSION, canonical_bytes, fingerprint, parse
    from standfast.client import Client
    from standfast.clock import Clock, CountedIds, IdSource, ManualClock, RandomIds, SystemClock
    from standfast.errors import (
        CannotOpen,
        CommitAborted,
        Corruption,
        InvalidSettings,
        InvalidValue,
        MissingExtra,
        NotCanonical,
        OutcomeUnknown,
        PayloadMismatch,
        RecallError,
        StandfastError,
        StoreError,
    )
    from standfast.memory import Memory, Run
    from standfast.memory.async_memory import AsyncMemory
    from standfast.recall.package import ContextPackage
    from standfast.recall.request import MemoryControllerInput
    from standfast.settings import Settings
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
        Record,
        Remembered,
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
    "AsyncMemory",
    "Band",
    "Budget",
    "BufferState",
    "CannotOpen",
    "Client",
    "Clock",
    "CommitAborted",
    "ContextPackage",
    "Corruption",
    "CountedIds",
    "Evidence",
    "Experiment",
    "FloorCheck",
    "IdSource",
    "InvalidSettings",
    "InvalidValue",
    "ManualClock",
    "Memory",
    "MemoryAction",
    "MemoryControllerInput",
    "MissingExtra",
    "NotCanonical",
    "OutcomeUnknown",
    "PayloadMismatch",
    "RandomIds",
    "RecallError",
    "Record",
    "Remembered",
    "Run",
    "RunIdentity",
    "Settings",
    "Snapshot",
    "StandfastError",
    "Step",
    "StoreError",
    "SystemClock",
    "Tier",
    "Verdict",
    "VisibilityMode",
    "__version__",
    "canonical_bytes",
    "fingerprint",
    "parse",
]

# In which module each name lives; the vocabulary holds all that are not named here.
_HOMES = {
    "memory.async_memory": ("AsyncMemory",),
    "canon": ("NORMALIZATION_VERSION", "canonical_bytes", "fingerprint", "parse"),
    "client": ("Client",),
    "clock": ("Clock", "CountedIds", "IdSource", "ManualClock", "RandomIds", "SystemClock"),
    "errors": (
        "CannotOpen",
        "CommitAborted",
        "Corruption",
        "StandfastError",
        "InvalidSettings",
        "InvalidValue",
        "MissingExtra",
        "NotCanonical",
        "OutcomeUnknown",
        "PayloadMismatch",
        "RecallError",
        "StoreError",
    ),
    "memory": ("Memory", "Run"),
    "recall.package": ("ContextPackage",),
    "recall.request": ("MemoryControllerInput",),
    "settings": ("Settings",),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'standfast' has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "vocabulary")
    value = globals()[name] = getattr(import_module(f"standfast.{home}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
