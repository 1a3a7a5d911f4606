"""Authority: who may write which band, who may seal, and what always needs a human."""

from contextlib import nullcontext
from typing import Any

import pytest

from standfast.errors import InvalidValue, NotAuthorised
from standfast.govern.authority import (
    Operation,
    Role,
    may_seal,
    may_write,
    needs_human,
    require_seal,
    require_write,
)
from standfast.govern.policy import VERDICT_BAND_ROUTING
from standfast.records.vocabulary import Band
from tests.govern.chains import short_name

MATRIX = """
           VAULT  LEDGER ACTIVE PHOENIX WITNESS VOID  seals
human      yes    yes    yes    yes     -       -     yes
888_JUDGE  -      yes    yes    yes     -       yes   -
111_SENSE  -      -      -      -       -       -     -
777_FORGE  -      -      -      -       yes     -     -
999_SEAL   -      yes    -      -       -       -     -
system     -      yes    -      -       -       -     -
agent      -      -      yes    yes     -       -     -
"""
HEADER, *ROWS = (line.split() for line in MATRIX.strip().splitlines())
CELLS = [
    (row[0], column, cell == "yes") for row in ROWS for column, cell in zip(HEADER, row[1:], strict=True)
]


@pytest.mark.parametrize(("role", "column", "may"), CELLS)
def test_every_cell_of_the_matrix(role: str, column: str, may: bool) -> None:
    answer = may_seal(role) if column == "seals" else may_write(role, column)

    assert answer is may


@pytest.mark.parametrize(("role", "column", "may"), CELLS)
def test_what_is_required_is_refused_just_where_it_is_not_allowed(role: str, column: str, may: bool) -> None:
    expected: Any = nullcontext() if may else pytest.raises(NotAuthorised, match=f"^{role} may not ")

    with expected:
        if column == "seals":
            require_seal(role)
        else:
            require_write(role, column)


def test_the_matrix_has_every_role_and_band() -> None:
    assert {row[0] for row in ROWS} == set(Role)
    assert set(HEADER) == {*Band, "seals"}


def test_only_a_human_reaches_vault_and_only_a_human_seals() -> None:
    """999_SEAL closes a commit; for all its name it seals no law."""
    assert [role for role in Role if may_write(role, Band.VAULT)] == [Role.HUMAN]
    assert [role for role in Role if may_seal(role)] == [Role.HUMAN]


def test_the_judge_may_write_wherever_a_verdict_routes() -> None:
    routed = {band for bands in VERDICT_BAND_ROUTING.values() for band in bands}

    assert all(may_write(Role.JUDGE, band) for band in routed)


@pytest.mark.parametrize(
    ("operation", "needs"),
    [
        ("vault_write", True),
        ("hold_verdict", True),
        ("amendment_sealing", True),
        ("constitution_modification", True),
        ("band_write", False),
        ("proposal", False),
        ("recall", False),
        ("retention_sweep", False),
    ],
)
def test_four_operations_always_need_a_human(operation: str, needs: bool) -> None:
    assert needs_human(operation) is needs
    assert needs_human(Operation(operation)) is needs


def test_the_refusal_names_those_who_may() -> None:
    with pytest.raises(
        NotAuthorised,
        match=r"^agent may not write to LEDGER; only human or 888_JUDGE or 999_SEAL or system may\.$",
    ):
        require_write("agent", "LEDGER")
    with pytest.raises(NotAuthorised, match="999_SEAL may not seal; only human may"):
        require_seal(Role.SEAL)


def test_case_does_not_matter() -> None:
    assert may_write("HUMAN", "vault")
    assert may_write("888_judge", Band.VOID)


@pytest.mark.parametrize(
    "word", ["", "root", "human ", "\u017fystem", None, 7, ["human"], 10**5_000, "x" * 10**6], ids=short_name
)
def test_an_unknown_word_is_a_typed_error_and_never_a_yes(word: Any) -> None:
    for ask in (may_seal, needs_human, require_seal, lambda role: may_write(role, "ACTIVE")):
        with pytest.raises(InvalidValue):
            ask(word)
    for call in (may_write, require_write):
        with pytest.raises(InvalidValue):
            call("human", word)
