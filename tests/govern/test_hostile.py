"""Whatever the policy is handed, it decides or refuses with a typed error, and lets nothing through."""

import pickle
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.clock import ManualClock
from standfast.errors import StandfastError
from standfast.govern.policy import MemoryWritePolicy
from standfast.records.canon import canonical_bytes
from standfast.records.vocabulary import Band, FloorCheck, Verdict
from tests.govern.chains import (
    FLOORS,
    LOOP,
    NOW_ISO,
    chain,
    document_hash,
    forgivable_states,
    malformed_states,
    monstrous_states,
    valid_states,
)
from tests.json_values import hostile_values

# Half of what the profile tries: these values are costly to make, and each example asks several questions.
FEWER = settings(max_examples=settings().max_examples // 2)
CLOCK = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
STRICT = MemoryWritePolicy(clock=CLOCK)
LENIENT = MemoryWritePolicy(strict_mode=False, clock=CLOCK)
CANONICAL = {"VAULT", "LEDGER", "ACTIVE", "PHOENIX", "WITNESS"}

anything = hostile_values | st.just(10**5_000) | st.just("\ud800") | st.just("x" * 10_000) | st.just(LOOP)
verdicts = st.sampled_from([*Verdict, "seal", "HOLD", "vo\u0131d", "MAYBE", ""]) | anything
targets = st.none() | st.sampled_from([*Band, "vault", "NOWHERE", ""]) | anything
scores = st.floats() | st.integers() | st.booleans() | anything
checks = st.lists(
    st.fixed_dictionaries(
        {"floor": st.sampled_from(["F1_Amanah", "", "\ud800"]) | anything, "score": scores},
        optional={"passed": st.booleans() | anything, "threshold": scores, "reason": anything},
    )
    | st.sampled_from(FLOORS)
    | anything,
    max_size=3,
)


@st.composite
def chains(draw: st.DrawFn) -> Any:
    """A chain that is nearly right: some fields hostile, some missing, the hash right wherever it can be."""
    fields = {
        "floor_checks": draw(st.just(FLOORS) | checks | anything),
        "verdict": draw(verdicts),
        "timestamp": draw(st.sampled_from([NOW_ISO, "2025-01-15T10:30:00"]) | anything),
    }
    try:
        digest: Any = document_hash(fields["floor_checks"], fields["verdict"], fields["timestamp"])
    except (TypeError, ValueError, RecursionError):
        digest = draw(anything)
    fields["hash"] = digest
    for name in draw(st.lists(st.sampled_from(sorted(fields)), max_size=1)):
        del fields[name]
    return fields


def _is_valid(evidence: Any) -> bool:
    """The document's four fields, checked the plain way."""
    try:
        return (
            evidence["hash"]
            == document_hash(evidence["floor_checks"], evidence["verdict"], evidence["timestamp"])
            and evidence["timestamp"] == NOW_ISO
            and len(evidence["floor_checks"]) > 0
            and all(
                type(check["floor"]) is str
                and type(check["score"]) in (int, float)
                and 0 <= check["score"] <= 1
                and type(check["passed"]) is bool
                for check in evidence["floor_checks"]
            )
        )
    except (TypeError, KeyError, ValueError, RecursionError):
        return False


@FEWER
@given(verdicts, chains() | anything, targets)
def test_no_hostile_write_is_allowed(verdict: Any, evidence: Any, target: Any) -> None:
    validation = STRICT.validate_evidence_chain(evidence)
    strict = STRICT.should_write(verdict, evidence, target)
    lenient = LENIENT.should_write(verdict, evidence, target)

    assert validation.valid == (validation.missing_links == [])
    assert not validation.valid or (validation.hash_verified and validation.floor_check_present)
    assert not validation.valid or _is_valid(evidence)
    assert all(len(link) <= 200 for link in validation.missing_links)
    assert not strict.allowed or validation.valid
    for decision in (strict, lenient):
        assert "VAULT" not in decision.target_bands
        assert decision.allowed == bool(decision.target_bands)
        assert len(canonical_bytes(decision.ledger_entry)) < 200_000
        if verdict == Verdict.VOID or (isinstance(verdict, str) and verdict.lower() == "void"):
            assert not CANONICAL.intersection(decision.target_bands)
    assert STRICT.get_write_log()[-1]["allowed"] == strict.allowed


@FEWER
@given(st.data())
def test_one_change_to_a_sound_chain_never_goes_unseen(data: st.DataObject) -> None:
    """Only changes that leave the meaning alone, and fields that the hash does not cover, may pass."""
    evidence = chain(floor_checks=[dict(check) for check in FLOORS])
    holder: Any = data.draw(st.sampled_from([evidence, *evidence["floor_checks"]]))
    field = data.draw(st.sampled_from(sorted(holder)))
    before, holder[field] = holder[field], data.draw(anything)
    changed = type(before) is not type(holder[field]) or before != holder[field]

    assert STRICT.should_write("SEAL", evidence).allowed is not changed


@FEWER
@given(
    st.dictionaries(
        st.sampled_from(
            ["band", "verdict", "timestamp", "ts_utc", "evidence_chain", "evidence", "topic", "subject"]
        ),
        anything | st.sampled_from(["VOID", "LEDGER", "SEAL", NOW_ISO]),
    )
    | anything,
    st.dictionaries(st.just("topic"), anything) | anything,
)
def test_a_hostile_item_is_recalled_within_bounds_or_not_at_all(item: Any, context: Any) -> None:
    decision = STRICT.should_recall(item, context)

    assert 0 <= decision.confidence_ceiling <= 0.85
    assert decision.allowed == (decision.confidence_ceiling > 0)
    assert len(canonical_bytes(decision.floor_warnings)) < 1_000


@FEWER
@given(
    st.dictionaries(
        st.sampled_from(["band", "tier", "status"]), anything | st.sampled_from([*Band, "COLD", "sealed"])
    )
    | anything,
    st.integers() | st.floats() | anything,
)
def test_a_hostile_item_is_never_deleted_by_mistake(item: Any, age_days: Any) -> None:
    try:
        decision = STRICT.should_retain(item, age_days)
    except StandfastError:
        assert type(age_days) not in (int, float) or not isfinite(age_days)
        return

    assert decision.keep or (item["band"] in ("ACTIVE", "WITNESS", "VOID") and age_days > 7)


def test_a_monster_in_any_other_place_is_no_trouble_either() -> None:
    for monster in monstrous_states("SEAL").values():
        for given_item in (monster, {"band": monster}, {"topic": monster, "evidence_chain": monster}):
            recall = STRICT.should_recall(given_item, {"topic": monster})

            assert recall.confidence_ceiling <= 0.85
            assert STRICT.should_retain(given_item, 100).keep
        assert not STRICT.should_write(monster, None, monster).allowed
        assert not LENIENT.should_write("SEAL", chain(), monster).allowed


@pytest.mark.parametrize("verdict", Verdict)
def test_deciding_changes_no_chain_and_says_the_same_again(verdict: Verdict) -> None:
    for states in (valid_states, forgivable_states, malformed_states):
        for evidence in states(verdict.value).values():
            before = pickle.dumps(evidence)
            first = LENIENT.should_write(verdict, evidence)

            assert LENIENT.should_write(verdict, evidence) == first
            assert pickle.dumps(evidence) == before


def test_a_check_of_the_vocabulary_inside_a_plain_chain_is_read_as_what_it_says() -> None:
    evidence = {**chain(), "floor_checks": [FloorCheck.from_json(check) for check in FLOORS]}

    assert STRICT.should_write("SEAL", evidence).allowed
