"""Holdfast: deterministic, governed, budgeted memory for AI agents. The public names, and nothing else.

A name's module is imported when the name is first used, so that ``import holdfast`` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.aio import AsyncMemory
    from holdfast.canon import NORMALIZATION_VERSION, canonical_bytes, fingerprint, parse
    from holdfast.client import Client
    from holdfast.clock import Clock, CountedIds, IdSource, ManualClock, RandomIds, SystemClock
    from holdfast.errors import (
        CannotOpen,
        CommitAborted,
        Corruption,
        HoldfastError,
        InvalidSettings,
        InvalidValue,
        MissingExtra,
        NotCanonical,
        OutcomeUnknown,
        PayloadMismatch,
        RecallError,
        StoreError,
    )
    from holdfast.memory import Memory
    from holdfast.recall.package import ContextPackage
    from holdfast.recall.request import MemoryControllerInput
    from holdfast.settings import Settings
    from holdfast.vocabulary import (
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
        Run,
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
    "HoldfastError",
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
    "Settings",
    "Snapshot",
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
    "aio": ("AsyncMemory",),
    "canon": ("NORMALIZATION_VERSION", "canonical_bytes", "fingerprint", "parse"),
    "client": ("Client",),
    "clock": ("Clock", "CountedIds", "IdSource", "ManualClock", "RandomIds", "SystemClock"),
    "errors": (
        "CannotOpen",
        "CommitAborted",
        "Corruption",
        "HoldfastError",
        "InvalidSettings",
        "InvalidValue",
        "MissingExtra",
        "NotCanonical",
        "OutcomeUnknown",
        "PayloadMismatch",
        "RecallError",
        "StoreError",
    ),
    "memory": ("Memory",),
    "recall.package": ("ContextPackage",),
    "recall.request": ("MemoryControllerInput",),
    "settings": ("Settings",),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    home = next((module for module, names in _HOMES.items() if name in names), "vocabulary")
    value = globals()[name] = getattr(import_module(f"holdfast.{home}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
