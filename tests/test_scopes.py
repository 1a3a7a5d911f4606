"""Scopes and keys: what is a scope, and how a key is built and taken apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import InvalidValue
from standfast.limits import MAX_SCOPE_BYTES, MAX_SCOPE_SEGMENTS, MAX_SCOPES
from standfast.records.scopes import (
    ALL_SCOPES,
    checked_scope,
    is_within,
    key_parts,
    listed_scope,
    name_in,
    outer_scopes,
    prefix_of,
    recalled_scopes,
    scope_in,
    scoped_key,
)

SEGMENTS = st.text("abz0.-_ é:*", min_size=1, max_size=4).filter(lambda one: one not in {".", "..", "*"})
SCOPES = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)


@given(scope=SCOPES, other=SCOPES, name=st.text("ab/~@é", min_size=1, max_size=8))
def test_a_key_gives_back_what_it_was_built_from_and_prefixes_hold_a_scope_and_all_below_it(
    scope: str, other: str, name: str
) -> None:
    key = scoped_key("LEDGER", checked_scope(scope), name)

    assert key_parts(key) == ("LEDGER", scope, name)
    assert (scope_in(key), name_in(key)) == (scope, name)
    assert key.startswith(prefix_of("LEDGER", other)) == is_within(scope, other)
    assert key.startswith(prefix_of("LEDGER"))
    assert is_within(scope, ALL_SCOPES)


@pytest.mark.parametrize("key", ["", "LEDGER", "LEDGER/a", "//a", "LEDGER//a", "/a//b"])
def test_what_has_no_scope_is_no_scoped_key(key: str) -> None:
    assert key_parts(key) is None
    assert (scope_in(key), name_in(key)) == ("shared", key)


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "a/..",
        "a/*",
        "*",
        "a\nb",
        "e\u0301",
        "\ud800",
        "a" * (MAX_SCOPE_BYTES + 1),
        "é" * (MAX_SCOPE_BYTES // 2 + 1),
        "/".join("a" * (MAX_SCOPE_SEGMENTS + 1)),
        None,
        7,
        b"a",
    ],
)
def test_what_is_no_scope_is_refused(scope: object) -> None:
    with pytest.raises(InvalidValue, match="user/ada"):
        checked_scope(scope)


@pytest.mark.parametrize("scope", ["/user/bob", "user/bob/", "user//bob", "user/bob\n"])
def test_a_path_with_too_many_slashes_names_the_scope_that_is_meant(scope: str) -> None:
    with pytest.raises(InvalidValue, match="did you mean 'user/bob'"):
        checked_scope(scope)


@pytest.mark.parametrize(
    "scope", ["a", "user/ada", "a b", "é" * (MAX_SCOPE_BYTES // 2), "/".join("a" * MAX_SCOPE_SEGMENTS)]
)
def test_the_largest_scopes_are_scopes(scope: str) -> None:
    assert checked_scope(scope) == listed_scope(scope) == scope


def test_a_segment_that_begins_alike_is_another_scope() -> None:
    assert is_within("user/ada", "user")
    assert is_within("user/ada", "user/ada")
    assert not is_within("user/adam", "user/ada")
    assert not is_within("user", "user/ada")


def test_a_recall_names_scopes_once_and_leaves_out_those_below_another() -> None:
    assert recalled_scopes(None, None) == ("shared",)
    assert recalled_scopes(None, None, default="user/ada") == ("user/ada",)
    assert recalled_scopes("user", None) == ("user",)
    named = recalled_scopes(None, ["user/ada", "shared", "user", "shared"])
    assert named == ("shared", "user", "user/ada")
    assert outer_scopes(named) == ("shared", "user")
    assert listed_scope("*") == "*"
    for scopes in ([], "user", 7, [f"s{number}" for number in range(MAX_SCOPES + 1)], ["*"]):
        with pytest.raises(InvalidValue):
            recalled_scopes(None, scopes)
    with pytest.raises(InvalidValue, match="not both"):
        recalled_scopes("a", ["a"])
