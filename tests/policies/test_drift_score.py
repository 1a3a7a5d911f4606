"""The drift score weighs changes that any policy can see."""

from typing import Any

import pytest

from standfast.policies.features import (
    ADDED,
    DEPRECATED,
    FIRST_SEEN,
    REMOVED,
    REWRITTEN,
    SAME,
    TOUCHED,
    drift_score,
)

SCHEMA: dict[str, Any] = {
    "api": "pay",
    "params": ["amount", "card"],
    "required": ["amount"],
    "deprecated": False,
}
PAGE = " ".join(f"word{n}" for n in range(100))


@pytest.mark.parametrize(
    ("change", "weight"),
    [
        ({}, SAME),
        ({"params": ["amount"]}, REMOVED),
        ({"required": ["amount", "card"]}, REMOVED),
        ({"required": []}, TOUCHED),
        ({"params": ["amount", "card", "tip"]}, ADDED),
        ({"deprecated": True}, DEPRECATED),
        ({"status": "removed"}, REMOVED),
        ({"version": 2}, TOUCHED),
    ],
)
def test_what_changed_in_a_schema(change: dict[str, Any], weight: float) -> None:
    assert (
        drift_score({**SCHEMA, **change}, {**SCHEMA, "status": "active"} if "status" in change else SCHEMA)
        == weight
    )


@pytest.mark.parametrize(
    ("note", "weight"),
    [
        ("Remove support for cards", REMOVED),
        ("⚠️ The amount is an integer now", REMOVED),
        ("Deprecate the old client", DEPRECATED),
        ("Add support for tips", ADDED),
        ("Quiet words", FIRST_SEEN),
    ],
)
def test_what_a_note_announces(note: str, weight: float) -> None:
    assert drift_score({"api": "log", "content": note}, None) == weight


def test_a_page_is_read_for_what_is_new_on_it() -> None:
    page = {"api": "docs", "content": PAGE + " removed long ago"}

    assert drift_score(page, page) == SAME
    assert (
        drift_score({"api": "docs", "content": PAGE + " all deprecated"}, {"api": "docs", "content": PAGE})
        == DEPRECATED
    )
    half = " ".join(PAGE.split()[:50]) + " " + " ".join(f"other{n}" for n in range(40))
    assert drift_score({"api": "docs", "content": half}, {"api": "docs", "content": PAGE}) == REWRITTEN


@pytest.mark.parametrize(
    "observation", ["text", 3, None, ["a"], {}, {"content": None}, {"deprecated": "yes"}]
)
def test_any_json_has_a_drift_score(observation: Any) -> None:
    assert 0 <= drift_score(observation, None) <= REMOVED
    assert 0 <= drift_score(observation, {"content": 1, "params": "x", "status": []}) <= REMOVED
