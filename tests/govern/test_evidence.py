"""Evidence: the document's hash, the three kinds of problems, and chains that survive being stored."""

import copy
import hashlib
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from standfast.errors import InvalidValue, NotCanonical, StandfastError, TooLarge
from standfast.govern.evidence import (
    ChainReading,
    _require_json,
    accepted_record,
    build_chain,
    build_evidence,
    build_judged_chain,
    compute_evidence_hash,
    content_check,
    content_fingerprint,
    decided_record,
    evidence_text,
    has_failed_hard_floor,
    is_bound,
    logged_record,
    read_chain,
    read_instant,
    sealed_record,
)
from standfast.govern.policy import MemoryWritePolicy
from standfast.limits import MAX_EVIDENCE_BYTES
from standfast.records.canon import canonical_bytes, parse
from standfast.records.vocabulary import Band, Evidence, FloorCheck, Record, Tier, Verdict
from tests import json_values
from tests.govern.chains import (
    FLOORS,
    NOW_ISO,
    chain,
    chain_without,
    check,
    document_hash,
    forgivable_states,
    malformed_states,
    monstrous_states,
    valid_states,
)

# Half of what the profile tries: these values are costly to make, and each example asks several questions.
FEWER = settings(max_examples=settings().max_examples // 2)
AT = datetime(2026, 1, 1, tzinfo=UTC)
CHECKS = [FloorCheck(floor="F1_Amanah", score=1.0, passed=True)]
plain_json = st.recursive(
    st.none() | st.booleans() | json_values.integers | json_values.floats | json_values.texts,
    lambda members: st.lists(members, max_size=4) | st.dictionaries(st.text("abcé", max_size=4), members),
    max_leaves=12,
)


def _problems(evidence: Any, verdict: Verdict | None = None) -> list[str]:
    return read_chain(evidence, verdict).validation.missing_links


def test_the_hash_is_one_that_others_can_check() -> None:
    """A golden value, computed once with the document's own function and nothing of ours."""
    assert (
        compute_evidence_hash([{"floor": "F1_Amanah", "score": 1.0, "passed": True}], "SEAL", NOW_ISO)
        == "dbcd0dfdebd07db27bcddf201f4f6a5f5d63b8265bb49a5f7b73909b034b9814"
    )


@FEWER
@given(plain_json, plain_json, plain_json)
def test_the_hash_is_the_documents_for_all_json(checks: Any, verdict: Any, timestamp: Any) -> None:
    assert compute_evidence_hash(checks, verdict, timestamp) == document_hash(checks, verdict, timestamp)


def test_the_hash_takes_the_vocabularys_own_values() -> None:
    plain = [check.as_json() for check in CHECKS]

    assert compute_evidence_hash(CHECKS, Verdict.SEAL, NOW_ISO) == document_hash(plain, "SEAL", NOW_ISO)
    assert compute_evidence_hash(tuple(CHECKS), "SEAL", NOW_ISO) == document_hash(plain, "SEAL", NOW_ISO)


@pytest.mark.parametrize(
    "checks",
    [
        [check(score=float("nan"))],
        [check(reason="\ud800")],
        [check(at=AT)],
        ["x" * (MAX_EVIDENCE_BYTES + 1)],
        [{1: 2}],
        {1, 2},
        iter(FLOORS),
    ],
    ids=["NaN", "surrogate", "datetime", "huge", "key", "set", "iterator"],
)
def test_what_cannot_be_hashed_is_a_typed_error(checks: Any) -> None:
    with pytest.raises(NotCanonical):
        compute_evidence_hash(checks, "SEAL", NOW_ISO)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_sound_chain_is_valid(verdict: Verdict) -> None:
    for state, evidence in valid_states(verdict.value).items():
        validation = read_chain(evidence, verdict).validation

        assert (state, validation.missing_links) == (state, [])
        assert validation.valid
        assert validation.hash_verified
        assert validation.floor_check_present == (state != "valid, no check")


@pytest.mark.parametrize("field", ["floor_checks", "hash", "timestamp", "verdict"])
def test_a_missing_field_is_named_and_nothing_else(field: str) -> None:
    policy = MemoryWritePolicy()
    validation = policy.validate_evidence_chain(chain_without(field, "SEAL"))

    assert validation.missing_links == [field]
    assert not validation.valid
    assert not validation.hash_verified
    assert validation.floor_check_present == (field != "floor_checks")


def test_nothing_at_all_misses_every_field() -> None:
    assert _problems(None) == _problems({}) == ["floor_checks", "hash", "timestamp", "verdict"]


def test_what_is_missing_and_what_disagrees_are_told_apart_and_named_in_this_order() -> None:
    reading = read_chain({**chain(floor_checks=[]), "hash": "0" * 64})

    assert reading.missing == ("floor_checks",)
    assert reading.disagreeing == ("hash does not match the evidence",)
    assert reading.problems == [*reading.missing, *reading.disagreeing]


def test_problems_are_of_three_kinds() -> None:
    for evidence in forgivable_states("SEAL").values():
        reading = read_chain(evidence, Verdict.SEAL)

        assert reading.missing or reading.disagreeing
        assert not reading.malformed
    for evidence in {**malformed_states("SEAL"), **monstrous_states("SEAL")}.values():
        assert read_chain(evidence, Verdict.SEAL).malformed


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("a list", "evidence_chain must be a dict or an Evidence"),
        ("floor_checks a string", "floor_checks must be a list"),
        ("second check malformed", "floor_checks[1]: FloorCheck is invalid: score must be between 0 and 1"),
        ("score NaN", "evidence_chain: At $.floor_checks[0].score: nan is not a number"),
        ("unknown field in a floor check", "floor_checks[0]: FloorCheck is invalid: there is no field"),
        ("timestamp naive", "timestamp must be an ISO 8601 instant with a time zone"),
        ("verdict unknown", "verdict must be one of SEAL, SABAR, PARTIAL, VOID, 888_HOLD"),
        ("lone surrogate", "evidence_chain: At $.floor_checks[0].reason: the string holds a lone surrogate"),
        ("hash a number", "hash does not match the evidence"),
    ],
)
def test_a_problem_is_named_in_words(state: str, problem: str) -> None:
    assert _problems(malformed_states("SEAL")[state])[0].startswith(problem)


def test_a_verdict_that_differs_breaks_the_chain_only_where_one_is_expected() -> None:
    assert _problems(chain("SABAR")) == []
    assert _problems(chain("SABAR"), Verdict.SEAL) == ["verdict is SABAR, but the write is judged SEAL"]


@pytest.mark.parametrize("field", ["floor_checks", "timestamp", "verdict"])
def test_a_change_to_any_covered_field_shows(field: str) -> None:
    other: dict[str, Any] = {
        "floor_checks": [*FLOORS, check(floor="F3")],
        "timestamp": "2025-01-15T10:30:01Z",
        "verdict": "SABAR",
    }
    validation = read_chain({**chain(), field: other[field]}).validation

    assert validation.missing_links == ["hash does not match the evidence"]
    assert not validation.hash_verified


def test_a_well_hashed_but_malformed_chain_has_its_hash_and_is_invalid() -> None:
    validation = read_chain(chain(floor_checks=[check(score=2.0)])).validation

    assert validation.hash_verified
    assert not validation.valid


def test_built_evidence_is_a_valid_chain() -> None:
    evidence = build_evidence(CHECKS, "hold", AT.astimezone(timezone(timedelta(hours=8))))

    assert evidence.timestamp == "2026-01-01T00:00:00.000000Z"
    assert evidence.verdict is Verdict.HOLD
    assert evidence.hash == document_hash([CHECKS[0].as_json()], "888_HOLD", evidence.timestamp)
    assert read_chain(evidence, Verdict.HOLD).validation.valid
    assert read_chain(evidence.as_json(), Verdict.HOLD).validation.valid


floor_checks = st.lists(
    st.builds(
        FloorCheck,
        floor=st.sampled_from(["F1_Amanah", "F2_Truth", "é"]),
        score=st.floats(0, 1) | st.integers(0, 1) | st.just(-0.0),
        passed=st.booleans(),
        threshold=st.none() | st.floats(0, 1) | st.integers(0, 1),
        hard=st.none() | st.booleans(),
        reason=st.none() | st.text(max_size=8) | st.just("e\u0301"),
    ),
    min_size=1,
    max_size=4,
)


@FEWER
@given(floor_checks, st.sampled_from(Verdict))
def test_built_evidence_keeps_its_hash_through_the_store(checks: list[FloorCheck], verdict: Verdict) -> None:
    """The store keeps json-v1, which rounds, composes and writes 1.0 as 1; the hash must not notice."""
    try:
        evidence = build_evidence(checks, verdict, AT)
    except NotCanonical:
        return
    back = Evidence.from_json(parse(canonical_bytes(evidence.as_json())))

    assert back == evidence
    assert build_chain(checks, verdict, AT) == (evidence, read_chain(evidence, verdict))
    rejected = any(check.hard and not check.passed for check in checks)
    assert read_chain(back, verdict).validation.valid is (verdict is Verdict.VOID or not rejected)
    assert read_chain(back, verdict).hash_verified
    assert evidence_text(back.floor_checks, back.verdict, back.timestamp) == read_chain(evidence).text


@FEWER
@given(floor_checks, st.sampled_from(Verdict), st.text(max_size=8))
@example([FloorCheck(floor="F2", score=0.0, passed=False, hard=True)], Verdict.SEAL, "x")
@example([FloorCheck(floor="F2", score=0.0, passed=False, hard=True)], Verdict.VOID, "x")
@example(CHECKS, Verdict.SEAL, "x")
def test_evidence_of_a_judgement_is_built_as_any_other(
    checks: list[FloorCheck], verdict: Verdict, text: str
) -> None:
    record = Record(memory_id="m", text=text)
    try:
        expected = build_chain([content_check(record), *checks], verdict, AT)
    except NotCanonical:
        return
    for _ in range(2):
        built = build_judged_chain(content_fingerprint(record), tuple(checks), verdict, AT)

        assert (built.evidence, built.chain) == expected
        assert built.canonical == canonical_bytes(built.evidence.as_json())


def test_evidence_of_a_judgement_is_bounded() -> None:
    def built(chars: int) -> ChainReading:
        checks = (*CHECKS, FloorCheck(floor="F2", score=1.0, passed=True, reason="x" * chars))
        return build_judged_chain("0" * 64, checks, Verdict.SEAL, AT)[1]

    most = MAX_EVIDENCE_BYTES - len(built(1).text or "") + 1

    assert len(built(most).text or "") == MAX_EVIDENCE_BYTES
    with pytest.raises(TooLarge):
        built(most + 1)


@pytest.mark.parametrize(
    ("checks", "verdict", "at"),
    [
        ([], "SEAL", AT),
        (CHECKS, "MAYBE", AT),
        (CHECKS, None, AT),
        ([{"floor": "F1", "score": 2, "passed": True}], "SEAL", AT),
        ([object()], "SEAL", AT),
        ([FloorCheck(floor="F1", score=1.0, passed=msgspec.UNSET)], "SEAL", AT),  # type: ignore[arg-type]
        (CHECKS, "SEAL", AT.replace(tzinfo=None)),
        (CHECKS * 5_000, "SEAL", AT),
    ],
)
def test_evidence_cannot_be_built_from_less(checks: Any, verdict: Any, at: Any) -> None:
    with pytest.raises((InvalidValue, NotCanonical)):
        build_evidence(checks, verdict, at)


def test_an_evidence_value_that_was_built_of_anything_is_read_without_a_crash() -> None:
    """The vocabulary checks what it reads from JSON; a value built in Python may hold anything."""
    strange = Evidence(
        floor_checks=(object(),),  # type: ignore[arg-type]
        verdict=Verdict.SEAL,
        timestamp=NOW_ISO,
        hash="0" * 64,
    )

    assert not read_chain(strange).validation.valid


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2025-01-15T10:30:00Z", datetime(2025, 1, 15, 10, 30, tzinfo=UTC)),
        ("2025-01-15T10:30Z", datetime(2025, 1, 15, 10, 30, tzinfo=UTC)),
        ("2025-01-15T10:30:00.5+01:00", datetime(2025, 1, 15, 9, 30, 0, 500_000, tzinfo=UTC)),
        ("2025-01-15T10:30:00,123456789-0530", datetime(2025, 1, 15, 16, 0, 0, 123_456, tzinfo=UTC)),
        ("2025-01-15T10:30:00+01", datetime(2025, 1, 15, 9, 30, tzinfo=UTC)),
        ("2025-01-15T10:30:00", None),
        ("2025-01-15 10:30:00Z", None),
        ("20250115T103000Z", None),
        ("2025-01-15T10:30:60Z", None),
        ("2025-01-15T10:30:00Z\n", None),
        ("2025-01-15T10:30:00+01:30:15", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("x" * 10**6, None),
        (b"2025-01-15T10:30:00Z", None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_instant_is_iso_8601_with_a_time_zone(text: Any, instant: datetime | None) -> None:
    assert read_instant(text) == instant


@FEWER
@given(json_values.hostile_values, json_values.hostile_values, json_values.hostile_values)
def test_hashing_hostile_values_gives_a_hash_or_a_typed_error(checks: Any, verdict: Any, at: Any) -> None:
    try:
        digest = compute_evidence_hash(checks, verdict, at)
    except StandfastError:
        return

    assert len(digest) == 64


def _as_read_from_plain_json(evidence: Evidence, verdict: Verdict) -> ChainReading:
    """Reads the evidence after it was stored as JSON and parsed again."""
    return read_chain(parse(canonical_bytes(evidence.as_json())) | _spelled(evidence), verdict)


def _spelled(evidence: Evidence) -> dict[str, Any]:
    """json-v1 writes 1.0 as 1; the hash is over Python's own spelling."""
    return {"floor_checks": [check.as_json() for check in evidence.floor_checks]}


@given(
    st.lists(
        st.builds(
            FloorCheck,
            floor=st.sampled_from(["F1_Amanah", "F\u00e4", "content"]),
            score=st.floats(0, 1) | st.integers(0, 1),
            passed=st.booleans(),
            threshold=st.none() | st.floats(0, 1),
            hard=st.none() | st.booleans(),
            reason=st.none() | st.text(max_size=20),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(Verdict),
    st.sampled_from(Verdict),
)
def test_evidence_reads_the_same_after_it_was_stored(
    checks: list[FloorCheck], verdict: Verdict, judged: Verdict
) -> None:
    try:
        evidence = build_evidence(checks, verdict, datetime(2026, 1, 1, tzinfo=UTC))
    except NotCanonical:
        return
    again = build_evidence(checks, verdict, datetime(2026, 1, 1, tzinfo=UTC))

    assert evidence == again
    assert read_chain(evidence, judged) == _as_read_from_plain_json(evidence, judged)
    assert evidence.hash == compute_evidence_hash(
        [check.as_json() for check in evidence.floor_checks], verdict.value, evidence.timestamp
    )


def test_a_check_with_true_for_a_score_is_refused_though_it_equals_a_sound_one() -> None:
    sound = FloorCheck(floor="F1_Amanah", score=1.0, passed=True)
    build_evidence([sound], "SEAL", datetime(2026, 1, 1, tzinfo=UTC))
    odd: Any = FloorCheck(floor="F1_Amanah", score=True, passed=True)

    assert odd == sound
    with pytest.raises(InvalidValue):
        build_evidence([odd], "SEAL", datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("field", "value", "is_content"),
    [
        ("text", "other", True),
        ("ts_utc", "2026-01-01T00:00:00.000000Z", True),
        ("tags", ("a",), True),
        ("refs", ({"kind": "doc", "id": "b"},), True),
        ("subject", "other", True),
        ("source", {"kind": "doc", "id": "b"}, True),
        ("memory_id", "other", False),
        ("band", Band.VAULT, False),
        ("tier", Tier.COLD, False),
        ("verdict", Verdict.SEAL, False),
    ],
)
def test_the_fingerprint_covers_the_content_and_nothing_else(
    field: str, value: Any, is_content: bool
) -> None:
    record = Record(memory_id="m", text="EU refunds take 14 days.")
    changed = msgspec.structs.replace(record, **{field: value})

    assert (content_fingerprint(changed) != content_fingerprint(record)) is is_content
    assert content_check(changed).reason == f"sha256:{content_fingerprint(changed)}"


def test_the_content_check_passes_and_covers_the_time() -> None:
    record = Record(memory_id="m1", text="x", ts_utc="2026-01-01T00:00:00Z")
    later = Record(memory_id="m1", text="x", ts_utc="2026-01-02T00:00:00Z")

    assert content_check(record).passed
    assert len({content_check(one).reason for one in (record, later, Record(memory_id="m1", text="x"))}) == 3


def test_an_empty_list_of_floor_checks_is_missing_though_its_hash_is_right() -> None:
    chain = {"floor_checks": [], "verdict": "SEAL", "timestamp": "2026-01-01T00:00:00Z"}
    chain["hash"] = compute_evidence_hash([], "SEAL", chain["timestamp"])
    validation = MemoryWritePolicy().validate_evidence_chain(chain)

    assert (validation.valid, validation.missing_links) == (False, ["floor_checks"])
    assert (validation.hash_verified, validation.floor_check_present) == (True, False)


ODD_VALUES = {
    "floor": ["F2", "ünï", "a\\b", "\ud800", 7],
    "score": [0.5, 0.0, 1, True, 1.5, -0.5, "high"],
    "passed": [False, 1, "yes"],
    "threshold": [0.25, 1, 1.5, -0.5, "low"],
    "hard": [False, True, 0, "yes"],
    "reason": ["plain", "ä", '"', "\ud800", 7, ["a list"], f"sha256:{'0' * 63}", f"sha256:{'A' * 64}"],
}


@pytest.mark.parametrize("sound", [CHECKS[0], content_check(Record(memory_id="m", text="x"))])
@pytest.mark.parametrize(("field", "value"), [(name, one) for name, odd in ODD_VALUES.items() for one in odd])
def test_evidence_with_one_odd_field_reads_as_its_plain_form_does(
    sound: FloorCheck, field: str, value: Any
) -> None:
    """Evidence is read in a short way if it is sound, and no other evidence may take that way."""
    odd = copy.copy(sound)
    msgspec.structs.force_setattr(odd, field, value)
    _assert_reads_as_plain_form([sound, odd], NOW_ISO, None, is_hashed=True)


@given(
    st.lists(
        st.builds(
            FloorCheck,
            floor=st.sampled_from(["content", "F1_Amanah", "ünï", "a\\b"]),
            score=st.sampled_from([1.0, 0.5, 1, 0, True, 0.123456]),
            passed=st.sampled_from([True, False, 1, "yes"]),
            threshold=st.sampled_from([None, 0.5, 1]),
            hard=st.sampled_from([None, True, 0]),
            reason=st.sampled_from([None, "plain", "ä", '"', 7, ["a list"]]),
        ),
        max_size=3,
    ),
    st.sampled_from(["2026-01-15T10:30:00.000000Z", "2026-01-15", "ä", "\\"]),
    st.sampled_from([None, Verdict.SEAL, Verdict.VOID]),
    st.booleans(),
)
def test_evidence_reads_as_its_plain_form_does(
    checks: list[FloorCheck], timestamp: str, verdict: Verdict | None, is_hashed: bool
) -> None:
    _assert_reads_as_plain_form(checks, timestamp, verdict, is_hashed=is_hashed)


def _assert_reads_as_plain_form(
    checks: list[FloorCheck], timestamp: str, verdict: Verdict | None, *, is_hashed: bool
) -> None:
    plain = {
        "floor_checks": [
            {name: value for name, value in msgspec.structs.asdict(check).items() if value is not None}
            for check in checks
        ],
        "verdict": "SEAL",
        "timestamp": timestamp,
    }
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest() if is_hashed else "0" * 64
    evidence = Evidence(floor_checks=tuple(checks), verdict=Verdict.SEAL, timestamp=timestamp, hash=digest)

    assert read_chain(evidence, verdict) == read_chain({**plain, "hash": digest}, verdict)


def test_a_chain_that_cannot_be_read_has_no_floor_checks() -> None:
    assert not read_chain("no chain").validation.floor_check_present


def test_evidence_of_other_content_or_with_a_wrong_hash_binds_nothing() -> None:
    record = Record(memory_id="m", text="x", verdict=Verdict.SEAL)
    evidence = build_evidence([content_check(record)], Verdict.SEAL, AT)
    bound = msgspec.structs.replace(record, evidence=evidence)

    assert is_bound(bound)
    assert is_bound(
        msgspec.structs.replace(
            record, evidence=build_evidence([*CHECKS, content_check(record)], Verdict.SEAL, AT)
        )
    )
    assert not is_bound(msgspec.structs.replace(bound, text="y"))
    assert not is_bound(msgspec.structs.replace(bound, verdict=Verdict.PARTIAL))
    forged = msgspec.structs.replace(evidence, hash="0" * 64)
    assert not is_bound(msgspec.structs.replace(bound, evidence=forged))


@pytest.mark.parametrize(
    ("hard", "passed", "is_rejected"),
    [(True, False, True), (True, True, False), (False, False, False), (None, False, False)],
)
def test_only_a_hard_floor_that_failed_rejects_for_good(
    hard: bool | None, passed: bool, is_rejected: bool
) -> None:
    record = Record(memory_id="m", text="x")
    one = FloorCheck(floor="F1_Amanah", score=0.5, passed=passed, hard=hard)
    evidence = build_evidence([one], Verdict.PARTIAL, AT)

    assert not has_failed_hard_floor(record)
    assert has_failed_hard_floor(msgspec.structs.replace(record, evidence=evidence)) is is_rejected


def test_a_logged_record_has_twelve_digits_of_its_evidence_in_its_id() -> None:
    record = Record(memory_id="m", text="x", evidence=build_evidence(CHECKS, Verdict.SEAL, AT))
    assert record.evidence is not None

    assert logged_record(record).memory_id == f"m~{record.evidence.hash[:12]}"


def test_evidence_may_be_as_long_as_the_limit() -> None:
    empty = evidence_text([{"reason": ""}], "SEAL", NOW_ISO)
    longest = "x" * (MAX_EVIDENCE_BYTES - len(empty))

    assert len(evidence_text([{"reason": longest}], "SEAL", NOW_ISO)) == MAX_EVIDENCE_BYTES
    with pytest.raises(TooLarge):
        evidence_text([{"reason": longest + "x"}], "SEAL", NOW_ISO)


@pytest.mark.parametrize(
    "change",
    [{"passed": False}, {"passed": 1}, {"score": 1}, {"score": 0.5}, {"threshold": 0.5}, {"hard": False}],
)
def test_a_check_that_only_resembles_that_of_the_content_is_hashed_as_it_is(change: dict[str, Any]) -> None:
    resembling = msgspec.structs.replace(content_check(Record(memory_id="m", text="x")), **change)
    evidence = Evidence(floor_checks=(resembling,), verdict=Verdict.SEAL, timestamp=NOW_ISO, hash="0" * 64)

    text = evidence_text([resembling.as_json()], "SEAL", NOW_ISO)
    assert evidence_text([resembling], "SEAL", NOW_ISO) == text
    assert read_chain(evidence).hash == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    "change", [{"floor": "other"}, {"passed": False}, {"score": 0.5}, {"threshold": 0.5}, {"hard": False}]
)
def test_the_hash_of_a_sound_content_check_is_none_of_a_changed_one(change: dict[str, Any]) -> None:
    check = content_check(Record(memory_id="m", text="x"))
    sound = build_evidence([check], Verdict.SEAL, AT)
    changed = msgspec.structs.replace(sound, floor_checks=(msgspec.structs.replace(check, **change),))

    assert read_chain(sound).validation.hash_verified
    assert not read_chain(changed).validation.hash_verified


def test_what_is_no_part_of_the_hashed_text_may_be_as_long_as_the_limit() -> None:
    # A dict counts one and its members; texts count their characters.
    _require_json({"n": "x" * (MAX_EVIDENCE_BYTES - 3)})

    with pytest.raises(TooLarge):
        _require_json({"n": "x" * (MAX_EVIDENCE_BYTES - 2)})


def test_evidence_without_floor_checks_lacks_them_though_its_hash_is_right() -> None:
    timestamp = "2026-01-01T00:00:00.000000Z"
    digest = compute_evidence_hash([], "SEAL", timestamp)
    empty = Evidence(floor_checks=(), verdict=Verdict.SEAL, timestamp=timestamp, hash=digest)
    validation = read_chain(empty).validation

    assert (validation.valid, validation.missing_links) == (False, ["floor_checks"])
    assert (validation.hash_verified, validation.floor_check_present) == (True, False)


@pytest.mark.parametrize("timestamp", ["yesterday", "2026-01-01T00:00:00"])
def test_evidence_without_a_time_is_unsound_though_its_hash_is_right(timestamp: str) -> None:
    digest = compute_evidence_hash([msgspec.to_builtins(one) for one in CHECKS], "SEAL", timestamp)
    timeless = Evidence(floor_checks=tuple(CHECKS), verdict=Verdict.SEAL, timestamp=timestamp, hash=digest)

    assert read_chain(timeless).validation.valid is False


def test_what_a_human_decided_is_a_check_of_its_own_behind_those_of_the_judge() -> None:
    now = datetime(2026, 11, 18, tzinfo=UTC)
    checks = [FloorCheck(floor="truth", score=0.5, passed=True, reason="so it seems")]
    judged = Record(
        memory_id="law", text="Refunds take 14 days.", evidence=build_evidence(checks, Verdict.HOLD, now)
    )
    by = {"principal": "alice@example.com", "proposal_id": "p1"}
    at = "2026-11-18T00:00:00.000000Z"
    kept, rejected = (
        decided_record(judged, **by, is_rejected=is_rejected, now=now) for is_rejected in (False, True)
    )
    made = [
        (sealed_record(judged, **by, now=now), Band.VAULT, Verdict.SEAL, "sealed", True),
        (accepted_record(judged, **by, now=now), Band.LEDGER, Verdict.SABAR, "accepted", True),
        (decided_record(judged, **by, is_rejected=False, now=now), Band.LEDGER, Verdict.HOLD, "sealed", True),
        (
            decided_record(judged, **by, is_rejected=True, now=now),
            Band.LEDGER,
            Verdict.HOLD,
            "rejected",
            False,
        ),
    ]

    for record, band, verdict, word, passed in made:
        assert (record.band, record.verdict) == (band, verdict)
        assert record.evidence is not None
        assert not read_chain(record.evidence).problems
        last = record.evidence.floor_checks[-1]
        assert (last.passed, last.score) == (passed, float(passed))
        assert last.reason == f"alice@example.com {word} p1 at {at}"
    assert [len(one[0].evidence.floor_checks) for one in made if one[0].evidence] == [2, 2, 2, 2]
    assert made[0][0].evidence is not None
    assert made[0][0].evidence.floor_checks[0] == checks[0]
    assert kept.text == judged.text
    assert "14 days" not in rejected.text
