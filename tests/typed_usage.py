"""How the public API is used, for the type checker to read: `make check` fails when a type is lost."""

from datetime import datetime
from typing import Any, assert_type

import standfast


def canonical_json(value: object) -> None:
    """Bytes, digests and values keep their types."""
    assert_type(standfast.canonical_bytes(value), bytes)
    assert_type(standfast.fingerprint(value), str)
    assert_type(standfast.parse(b"{}"), Any)


def vocabulary(clock: standfast.Clock, ids: standfast.IdSource) -> standfast.Record:
    """Values are built by keyword and read back as their own class."""
    assert_type(clock.now(), datetime)
    record = standfast.Record(memory_id=ids.new_id(), text="x", tags=("a",), band=standfast.Band.ACTIVE)
    assert_type(record.band.tier, standfast.Tier)
    assert_type(standfast.Record.from_json(record.as_json()), standfast.Record)
    assert_type(standfast.Verdict.read("hold"), standfast.Verdict)
    return record


def errors() -> str:
    """An error is caught by class and read by code and facts."""
    try:
        standfast.parse("")
    except standfast.NotCanonical as error:
        assert_type(error.facts, dict[str, Any])
        return error.code
    return ""


clock: standfast.Clock = standfast.ManualClock()
ids: standfast.IdSource = standfast.CountedIds()
settings: standfast.Settings = standfast.Settings.load({})
