"""Prices follow the document's formula to the byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast import InvalidValue, Step
from standfast.policies import byte_model
from standfast.policies.byte_model import (
    ByteModel,
    Compression,
    PriceList,
    canonical_delta,
    compressed_bytes,
    estimate_bytes,
)
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


def test_a_new_null_is_a_change() -> None:
    assert canonical_delta({"api": "a"}, {"api": "a", "sunset": None}) == {"sunset": None}
    assert canonical_delta({"api": "a", "sunset": None}, {"api": "a", "sunset": None}) == {}


def test_a_price_belongs_to_one_object_and_survives_modification() -> None:
    prices = PriceList()
    long, short = Step(t=3, observation="x" * 100), Step(t=3, observation="x")

    assert prices.base(long).byte_cost == estimate_bytes(long)
    assert prices.base(short).byte_cost == estimate_bytes(short)

    shown = Step(t=4, observation={"api": "a", "text": "x" * 100})
    price = prices.base(shown).byte_cost
    shown.observation["text"] = ""

    assert prices.base(shown).byte_cost == price


def test_a_price_and_a_delta_are_computed_once_for_the_same_objects() -> None:
    prices = PriceList()
    base = prices.base(Step(t=0, observation={"api": "a", "v": 1}))
    changed, other = (Step(t=1, observation={"api": "a", "v": v}) for v in (2, 3))
    delta = prices.delta(base, changed)

    assert prices.base(base.step) is base
    assert prices.delta(base, changed) is delta
    assert prices.delta(base, other).step.observation == {"v": 3}, "another object at the same timestep"
    rewritten = prices.base(Step(t=0, observation={"api": "a", "v": 3, "w": 4}))
    assert prices.delta(rewritten, changed).step.observation == {"v": 2}
    assert prices.delta(base, changed).step.observation == {"v": 2}
    assert prices.delta(rewritten, other).step.observation == {}, "another base at the same timestep"


def test_the_number_of_remembered_prices_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_model, "MAX_PRICED_STEPS", 3)
    prices = PriceList()
    base = prices.base(Step(t=0, observation={"api": "a"}))
    sizes = []
    for t in range(1, 9):
        step = Step(t=t, observation={"api": "a", "v": t})
        prices.base(step)
        prices.delta(base, step)
        sizes.append(len(prices._shown))

    assert sizes == [2, 3, 1, 2, 3, 1, 2, 3]


def test_a_price_that_is_shown_is_used() -> None:
    step = Step(t=0, observation="x" * 500)
    prices = PriceList(ByteModel.INDEXED)
    item = prices.price(step, 7)
    prices.show(item)

    assert item.byte_cost == 7 + len("{}") + 32 + 16
    assert prices.base(step) is item


def test_deltas_are_stored_deflated_if_observations_are() -> None:
    base, changed = ({"api": "a", "text": letter * 400} for letter in "xy")
    plain, deflated = PriceList(), PriceList(compression=Compression.ALWAYS)
    costs = [
        prices.delta(prices.base(Step(t=0, observation=base)), Step(t=1, observation=changed)).byte_cost
        for prices in (plain, deflated)
    ]

    assert costs[0] == len('{"text": ""}') + 400 + 16
    assert costs[1] == compressed_bytes({"text": "y" * 400}) + 16 < 60


@pytest.mark.parametrize("observation", [float("nan"), float("inf"), {1, 2}, object(), b"x"])
def test_values_that_are_not_json_have_no_price(observation: object) -> None:
    with pytest.raises(InvalidValue, match="can't be priced"):
        estimate_bytes(Step(t=0, observation=observation))


def test_lists_and_dicts_are_frozen_at_every_depth() -> None:
    value = byte_model.frozen({"a": [{"b": [1]}]})

    assert value == {"a": [{"b": [1]}]}
    for inner in (value["a"], value["a"][0]["b"]):
        with pytest.raises(TypeError):
            inner.append(2)
    with pytest.raises(TypeError):
        value["a"][0]["c"] = 1
