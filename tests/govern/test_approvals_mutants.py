"""No changed approval decides anything, and hostile input gets a typed error."""

import random
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import ApprovalError, StandfastError
from standfast.govern.approvals.approvals import (
    Approval,
    Proposal,
    Statement,
)
from standfast.records.canon import canonical_bytes, parse
from tests.figures import Figures
from tests.govern.mutation import armor, blob_of, mutated
from tests.govern.seals import (
    APPROVAL,
    FIELDS,
    STATEMENT_JSON,
    check,
)
from tests.json_values import hostile_values

SEEDS_FAST, SEEDS_SLOW = 4, 100
MUTANTS_A_SEED = 1_000


@pytest.mark.parametrize("seed", range(SEEDS_FAST))
def test_no_mutated_approval_decides(seed: int, figures: Figures) -> None:
    _refuse_mutants(seed, figures)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS_FAST, SEEDS_FAST + SEEDS_SLOW))
def test_none_of_many_mutated_approvals_decides(seed: int, figures: Figures) -> None:
    _refuse_mutants(seed, figures)


def _refuse_mutants(seed: int, figures: Figures) -> None:
    """Half are changed in their bytes, half in one field, which is still well formed."""
    dice = random.Random(seed)
    stored = canonical_bytes(APPROVAL.as_json())
    tried = verified = 0
    while tried < MUTANTS_A_SEED:
        try:
            if dice.random() < 0.5:
                mutant = Approval.from_json(parse(mutated(dice, stored)))
            else:
                mutant = Approval.from_json(_with_one_field_changed(dice))
        except StandfastError:
            tried += 1
            continue
        if mutant == APPROVAL:
            continue
        tried, verified = tried + 1, verified + 1
        with pytest.raises(ApprovalError) as refused:
            check(mutant)
        assert refused.value.code in {"bad_signature", "unusable_key", "unknown_signer", "wrong_namespace"}
    figures("approvals", mutants=tried, of_them_well_formed=verified)


def _with_one_field_changed(dice: random.Random) -> dict[str, Any]:
    told = APPROVAL.as_json()
    field = dice.choice([*told["statement"], "signature", "principal", "key_fingerprint"])
    if field == "signature":
        told[field] = armor(mutated(dice, blob_of(told[field])))
    elif field == "decision":
        told["statement"][field] = "reject"
    elif field == "memory_snapshot_id":
        told["statement"][field] = dice.randrange(1 << 53)
    else:
        holder = told if field in told else told["statement"]
        place = dice.randrange(len(holder[field]))
        holder[field] = holder[field][:place] + dice.choice("0123456789abcdef") + holder[field][place + 1 :]
    return told


@given(
    hostile_values | st.dictionaries(st.sampled_from([*APPROVAL.as_json(), *STATEMENT_JSON]), hostile_values)
)
def test_nothing_but_an_approval_is_read_as_one(plain: object) -> None:
    for kind in (Approval, Statement, Proposal):
        with pytest.raises(StandfastError):
            kind.from_json(plain)


@given(
    st.sampled_from(sorted(STATEMENT_JSON)),
    hostile_values,
)
def test_a_hostile_field_is_refused_or_is_another_statement(field: str, value: object) -> None:
    try:
        statement = Statement.from_json(STATEMENT_JSON | {field: value})
        changed = statement.signed_bytes != APPROVAL.statement.signed_bytes
    except StandfastError:
        return
    assert changed == (statement != APPROVAL.statement)


@given(st.sampled_from(sorted(FIELDS)), hostile_values)
def test_a_hostile_proposal_is_refused_or_shown_safely(field: str, value: Any) -> None:
    if field in ("proposed_at", "summary") and not isinstance(value, str if field == "summary" else datetime):
        return
    try:
        proposal = Proposal.of(**{**FIELDS, field: value})
    except StandfastError:
        return
    assert Proposal.from_json(proposal.as_json()) == proposal
