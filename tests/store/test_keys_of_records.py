"""Which keys belong to a record."""

import pytest

from standfast.store.stored_records import is_key_of


@pytest.mark.parametrize(
    "key", ["LEDGER/team/a//gate", "ACTIVE/team/a//gate~0123456789ab", "VOID/team/a//gate~0123456789ab@1.2"]
)
def test_a_key_belongs_to_its_record_with_or_without_a_suffix(key: str) -> None:
    assert is_key_of("team/a", "gate", key)


@pytest.mark.parametrize(
    "key",
    [
        "LEDGER/team/b//gate",
        "LEDGER/team//gate",
        "LEDGER/team/a//gates",
        "LEDGER/team/a//gate~0123",
        "LEDGER/team/a//the-gate",
        "gate",
        "",
    ],
)
def test_a_key_of_another_scope_or_name_does_not(key: str) -> None:
    assert not is_key_of("team/a", "gate", key)
