"""PriceList are the document's formula, to the byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast import InvalidValue, Step
from standfast.policies.byte_model import ByteModel, PriceList, canonical_delta, estimate_bytes
from tests.json_values import floats, integers, texts

VALUES = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda members: st.lists(members, max_size=3) | st.dictionaries(texts, members, max_size=3),
    max_leaves=8,
)
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["api", "params", "version", "é"]), st.none() | st.integers(0, 2) | st.text(max_size=2)
)


@given(VALUES, st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=3))
def test_a_write_costs_the_documents_formula(observation: Any, metadata: dict[str, Any]) -> None:
    step = Step(t=0, observation=observation, metadata=metadata)
    spec = len(json.dumps(observation)) + len(json.dumps(metadata)) + 32

    assert estimate_bytes(step) == spec
    assert estimate_bytes(step, ByteModel.INDEXED) == spec + 16


def test_the_empty_step_costs_its_header_and_the_two_empty_texts() -> None:
    """The document's "32 bytes, header only" leaves out the two JSON texts that its own formula counts."""
    assert estimate_bytes(Step(t=0, observation="", metadata={})) == 2 + 2 + 32


@given(OBJECTS, OBJECTS)
def test_the_delta_is_what_changed_without_the_endpoint(base: dict[str, Any], new: dict[str, Any]) -> None:
    delta = canonical_delta(base, new)

    assert "api" not in delta
    assert {**base, **delta, "api": None} == {**base, **new, "api": None}
    assert all(key not in base or base[key] != value for key, value in delta.items())


def test_a_null_where_nothing_was_is_a_change() -> None:
    assert canonical_delta({"api": "a"}, {"api": "a", "sunset": None}) == {"sunset": None}
    assert canonical_delta({"api": "a", "sunset": None}, {"api": "a", "sunset": None}) == {}


def test_a_price_belongs_to_one_object_and_survives_tampering() -> None:
    prices = PriceList()
    long, short = Step(t=3, observation="x" * 100), Step(t=3, observation="x")

    assert prices.base(long).byte_cost == estimate_bytes(long)
    assert prices.base(short).byte_cost == estimate_bytes(short)

    shown = Step(t=4, observation={"api": "a", "text": "x" * 100})
    price = prices.base(shown).byte_cost
    shown.observation["text"] = ""

    assert prices.base(shown).byte_cost == price


@pytest.mark.parametrize("observation", [float("nan"), float("inf"), {1, 2}, object(), b"x"])
def test_what_is_no_json_has_no_price(observation: object) -> None:
    with pytest.raises(InvalidValue, match="can't be priced"):
        estimate_bytes(Step(t=0, observation=observation))
