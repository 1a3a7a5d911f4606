"""How the public API is used, for the type checker to read: `make check` fails when a type is lost."""

from datetime import datetime
from typing import Any, assert_type

import holdfast


def canonical_json(value: object) -> None:
    """Bytes, digests and values keep their types."""
    assert_type(holdfast.canonical_bytes(value), bytes)
    assert_type(holdfast.fingerprint(value), str)
    assert_type(holdfast.parse(b"{}"), Any)


def vocabulary(clock: holdfast.Clock, ids: holdfast.IdSource) -> holdfast.Record:
    """Values are built by keyword and read back as their own class."""
    assert_type(clock.now(), datetime)
    record = holdfast.Record(memory_id=ids.new_id(), text="x", tags=("a",), band=holdfast.Band.ACTIVE)
    assert_type(record.band.tier, holdfast.Tier)
    assert_type(holdfast.Record.from_json(record.as_json()), holdfast.Record)
    assert_type(holdfast.Verdict.read("hold"), holdfast.Verdict)
    return record


def errors() -> str:
    """An error is caught by class and read by code and facts."""
    try:
        holdfast.parse("")
    except holdfast.NotCanonical as error:
        assert_type(error.facts, dict[str, Any])
        return error.code
    return ""


clock: holdfast.Clock = holdfast.ManualClock()
ids: holdfast.IdSource = holdfast.CountedIds()
settings: holdfast.Settings = holdfast.Settings.load({})
