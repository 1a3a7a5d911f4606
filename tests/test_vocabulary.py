"""The shared words: they hold the documents' names and values, and can't be built wrong."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import InvalidValue
from standfast.records import vocabulary as words
from standfast.records.canon import canonical_bytes, parse

DIGEST = "a" * 64
CHECK = {"floor": "F1_Amanah", "score": 1.0, "passed": True}
EVIDENCE = {"floor_checks": [CHECK], "verdict": "SEAL", "timestamp": "2025-01-15T10:30:00Z", "hash": DIGEST}

SAMPLES: list[words.Value] = [
    words.Snapshot(memory_snapshot_id=0),
    words.Snapshot(memory_snapshot_id=7, commit_id=DIGEST, committed_at="2026-01-01T00:00:00.000000Z"),
    words.RunIdentity(run_id="r", workflow_id="triage", memory_snapshot_id=3, policy_set_id="p"),
    words.FloorCheck.from_json(CHECK),
    words.FloorCheck(
        floor="F2_Truth", score=0.99, passed=True, threshold=0.9, hard=True, reason="no contradiction"
    ),
    words.Evidence.from_json(EVIDENCE),
    words.Record(memory_id="m", text=""),
    words.Record.from_json(
        {
            "memory_id": "m",
            "text": "EU refunds take 14 days.",
            "ts_utc": "2026-01-01T00:00:00.000000Z",
            "tags": ["eu", "refunds"],
            "refs": [{"doc": "handbook"}],
            "subject": "policy/eu-refunds",
            "source": {"kind": "doc", "id": "handbook#4"},
            "band": "LEDGER",
            "verdict": "SEAL",
            "evidence": EVIDENCE,
        }
    ),
    words.Step(t=42, observation={"api": "charge.create"}, metadata={"priority": 0.5}),
    words.MemoryAction(action=words.ActionType.SKIP),
    words.MemoryAction(action=words.ActionType.EXPIRE, target_t=10, reason="LRU eviction"),
    words.Budget(max_excerpt_tokens=800),
]


@pytest.mark.parametrize("value", SAMPLES, ids=lambda v: type(v).__name__)
def test_a_value_reads_back_as_it_was_written(value: words.Value) -> None:
    assert type(value).from_json(parse(canonical_bytes(value.as_json()))) == value


@pytest.mark.parametrize("value", SAMPLES, ids=lambda v: type(v).__name__)
def test_a_value_can_not_be_changed(value: words.Value) -> None:
    field = value.__struct_fields__[0]

    with pytest.raises(AttributeError):
        setattr(value, field, getattr(value, field))


@pytest.mark.parametrize("value", SAMPLES, ids=lambda v: type(v).__name__)
def test_an_unknown_field_is_refused(value: words.Value) -> None:
    with pytest.raises(InvalidValue, match="surprise"):
        type(value).from_json({**value.as_json(), "surprise": 1})


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (words.Snapshot, {"memory_snapshot_id": -1}),
        (words.Snapshot, {"memory_snapshot_id": True}),
        (words.Snapshot, {"memory_snapshot_id": "1"}),
        (words.Snapshot, {"memory_snapshot_id": -(10**5000)}),
        (words.Snapshot, {"memory_snapshot_id": 1}),
        (words.Snapshot, {"memory_snapshot_id": 0, "commit_id": DIGEST}),
        (words.Snapshot, {"memory_snapshot_id": 1, "commit_id": "A" * 64}),
        (
            words.RunIdentity,
            {"run_id": "", "workflow_id": "w", "memory_snapshot_id": 0, "policy_set_id": "p"},
        ),
        (
            words.RunIdentity,
            {"run_id": "a\nb", "workflow_id": "w", "memory_snapshot_id": 0, "policy_set_id": "p"},
        ),
        (
            words.RunIdentity,
            {"run_id": "r" * 257, "workflow_id": "w", "memory_snapshot_id": 0, "policy_set_id": "p"},
        ),
        (
            words.RunIdentity,
            {
                "run_id": "r",
                "workflow_id": "w",
                "memory_snapshot_id": 0,
                "policy_set_id": "p",
                "visibility_mode": "x",
            },
        ),
        (words.FloorCheck, {"floor": "F", "score": 1.01, "passed": True}),
        (words.FloorCheck, {"floor": "F", "score": float("nan"), "passed": True}),
        (words.FloorCheck, {"floor": "F", "score": "1", "passed": True}),
        (words.FloorCheck, {"floor": "F", "score": 1, "passed": True, "threshold": -0.1}),
        (words.Evidence, {"floor_checks": (), "verdict": "MAYBE", "timestamp": "t", "hash": DIGEST}),
        (words.Evidence, {"floor_checks": (), "verdict": "SEAL", "timestamp": "t", "hash": "short"}),
        (words.Record, {"memory_id": 5, "text": ""}),
        (words.Record, {"memory_id": "m", "text": None}),
        (words.Record, {"memory_id": "m", "text": "", "tags": ("b", "a")}),
        (words.Record, {"memory_id": "m", "text": "", "tags": ("A",)}),
        (words.Record, {"memory_id": "m", "text": "", "tags": tuple(f"{n:04}" for n in range(257))}),
        (words.Record, {"memory_id": "m", "text": "", "verdict": "VOID"}),
        (words.Record, {"memory_id": "m", "text": "", "verdict": words.Verdict.VOID, "band": "VAULT"}),
        (words.Record, {"memory_id": "m", "text": "", "verdict": "SEAL", "band": "VOID"}),
        (words.Record, {"memory_id": "m", "text": "", "band": "ATTIC"}),
        (words.Step, {"t": -1, "observation": None}),
        (words.Step, {"t": 1.0, "observation": None}),
        (words.Step, {"t": 1, "observation": None, "metadata": []}),
        (words.MemoryAction, {"action": "WRITE"}),
        (words.MemoryAction, {"action": "MERGE", "target_t": 1}),
        (words.MemoryAction, {"action": "EXPIRE"}),
        (words.MemoryAction, {"action": "EXPIRE", "target_t": -1}),
        (words.MemoryAction, {"action": "ERASE"}),
        (words.Budget, {"max_excerpt_tokens": 0}),
        (words.Budget, {"max_excerpt_tokens": 1, "per_item_max_excerpt_tokens": 0}),
        (words.Budget, {"max_excerpt_tokens": 1, "max_items": 0}),
    ],
)
def test_a_value_that_breaks_its_rules_can_not_be_built(
    kind: type[words.Value], fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidValue, match=kind.__name__):
        kind(**fields)


def test_the_closed_sets_are_the_documents_own() -> None:
    assert [*words.Verdict] == ["SEAL", "SABAR", "PARTIAL", "VOID", "888_HOLD"]
    assert {*words.Band} == {"VAULT", "LEDGER", "ACTIVE", "PHOENIX", "WITNESS", "VOID"}
    assert [*words.VisibilityMode] == ["off", "read_only", "buffered_write", "live_read_write"]
    assert [*words.BufferState] == ["buffer_open", "commit_pending", "commit_applied", "commit_aborted"]
    assert [*words.AbortReason] == [
        "policy_rejected",
        "validation_failed",
        "storage_apply_failed",
        "payload_mismatch",
    ]
    assert {band: band.tier for band in words.Band} == {
        "VAULT": "COLD",
        "LEDGER": "WARM",
        "PHOENIX": "WARM",
        "WITNESS": "WARM",
        "ACTIVE": "HOT",
        "VOID": "VOID",
    }


@pytest.mark.parametrize(
    ("text", "verdict"), [("hold", "888_HOLD"), ("888_Hold", "888_HOLD"), ("seal", "SEAL")]
)
def test_verdicts_are_read_as_people_write_them(text: str, verdict: str) -> None:
    assert words.Verdict.read(text) == verdict


@pytest.mark.parametrize("text", ["MAYBE", "\u017feal"])
def test_a_verdict_that_nobody_knows_is_named(text: str) -> None:
    with pytest.raises(InvalidValue, match=text):
        words.Verdict.read(text)


def test_plain_text_stands_for_an_enum_and_becomes_one() -> None:
    record = words.Record(memory_id="m", text="", band="VOID", verdict="VOID")  # type: ignore[arg-type]

    assert record.band is words.Band.VOID
    assert record.verdict is words.Verdict.VOID


@pytest.mark.parametrize(
    ("tags", "normal"),
    [
        (["Refunds", "eu", "refunds"], ("eu", "refunds")),
        (["\u0130"], ("i\u0307",)),
        (["I", "\u0131"], ("i", "\u0131")),
        (["STRASSE", "Stra\u00dfe", "STRA\u1e9eE"], ("strasse", "stra\u00dfe")),
        (["\u212a", "k"], ("k",)),
        (["\u039f\u0394\u039f\u03a3"], ("\u03bf\u03b4\u03bf\u03c2",)),
        (["\u00fc", "U\u0308"], ("\u00fc",)),
        (["J\u030c"], ("\u01f0",)),
        (["z", "u\u0308"], ("z", "\u00fc")),
        (["\ua7cb"], ("\ua7cb",)),
    ],
    ids=[
        "once",
        "Turkish dotted I",
        "Turkish dotless i",
        "sharp s",
        "Kelvin sign",
        "final sigma",
        "two forms of one",
        "composed by lower case",
        "sorted as they are kept",
        "newer than Unicode 14.0",
    ],
)
def test_tags_are_compared_in_one_form(tags: list[str], normal: tuple[str, ...]) -> None:
    assert words.normal_tags(tags) == normal


@given(st.lists(st.text(max_size=6), max_size=4))
def test_tags_in_their_form_are_kept_as_they_are(tags: list[str]) -> None:
    """Whatever is done to a record on its way through the store, its tags are still in the form that it
    demands.
    """
    normal = words.normal_tags(tags)

    assert words.normal_tags(normal) == normal
    assert parse(canonical_bytes(list(normal))) == list(normal)


def test_only_the_live_mode_gives_up_determinism() -> None:
    assert [mode for mode in words.VisibilityMode if not mode.is_deterministic] == ["live_read_write"]
    assert [mode for mode in words.VisibilityMode if mode.may_write] == ["buffered_write", "live_read_write"]


def test_people_read_plain_words_for_verdicts_and_bands() -> None:
    assert [verdict.label for verdict in words.Verdict] == [
        "accepted",
        "accepted, with a reason noted",
        "needs review",
        "rejected",
        "on hold",
    ]
    assert [band.label for band in words.Band] == [
        "law",
        "long-term memory",
        "working memory",
        "waiting",
        "observations",
        "rejected",
    ]
