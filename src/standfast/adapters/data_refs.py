"""Refs in which an adapter keeps a framework's value exactly as it was given.

json-v1 rounds floats and normalises strings, so a value that must come back unchanged stands in a ref, as
JSON text. Such a ref has the kind of the record's own source: it is the same word, and is trusted as far.
"""

from collections.abc import Mapping
from typing import Any, Final

from standfast.records.vocabulary import Record

_HOLDS: Final = "holds"
_AGENT: Final = "agent"


def data_ref(holds: str, source: Mapping[str, Any] | None = None, **fields: str) -> dict[str, str]:
    """A ref that holds something for an adapter.

    Args:
        holds: What it is, such as ``"langgraph"``.
        source: The source of the record; None for the agent's own word.
    """
    return {"kind": str((source or {}).get("kind", _AGENT)), _HOLDS: holds, **fields}


def data_ref_of(record: Record, holds: str) -> dict[str, Any] | None:
    """The ref of a record that holds this; None if there is none."""
    return next((ref for ref in record.refs if ref.get(_HOLDS) == holds), None)
