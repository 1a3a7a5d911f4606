"""A budgeted band stores what its policy decides, and reaches the same state again from its stream."""

from typing import Any

import pytest

from standfast import Band, InvalidValue, Record, Step
from standfast.policies import BandBudget, BudgetedBand, ByteModel, estimate_bytes
from standfast.policies.band_budget import PolicyStep, observed, release_row, restart_row, step_row


def _band(max_bytes: int = 10_000, policy: str = "RecencyBias(expiries=0)", **fields: Any) -> BudgetedBand:
    return BudgetedBand(BandBudget(band=Band.ACTIVE, max_bytes=max_bytes, policy=policy, **fields))


def _record(number: int, text: str = "x" * 20, **fields: Any) -> Record:
    return Record(memory_id=f"m-{number}", text=text, band=Band.ACTIVE, **fields)


def _change(number: int, value: str) -> Record:
    """A record that policies can merge."""
    observation = {"api": "pay", "text": "y" * 80, "v": value}
    return _record(number, refs=({"kind": "observation", "observation": observation},))


def _cost(record: Record, model: ByteModel = ByteModel.SPEC) -> int:
    observation, metadata = observed(record)
    return estimate_bytes(Step(t=0, observation=observation, metadata=metadata), model)


class _Stream:
    """A band and the rows of its stream."""

    def __init__(self, band: BudgetedBand) -> None:
        self.band = band
        self.rows: list[dict[str, Any]] = []

    def take(self, record: Record) -> PolicyStep:
        """Show the band a record and store the row."""
        step = self.band.take(record.key, record)
        self.rows.append(step_row(step, record))
        return step

    def replayed(self, *, since: int = 0, without: tuple[int, ...] = ()) -> BudgetedBand:
        """A new band that replays the rows, some of which are erased."""
        band = BudgetedBand(self.band.budget)
        rows = [(number, row) for number, row in enumerate(self.rows) if number not in without]
        band.replay(rows, since=since, steps=self.band.steps)
        return band


def _state(band: BudgetedBand) -> tuple[int, int, set[str], set[int]]:
    return band.steps, band.used_bytes, band.keys, band.retained()


def test_a_record_costs_what_the_benchmark_charges_for_its_step() -> None:
    record = _record(0, "Ada prefers German.", subject="ada/language", tags=("style",))
    band, indexed = _band(), _band(byte_model="indexed-v0")
    step = band.take(record.key, record)
    indexed.take(record.key, record)

    assert observed(record) == (
        {"api": "ada/language", "text": "Ada prefers German."},
        {"tags": ["style"]},
    )
    assert step.item is not None
    assert (step.t, step.key, step.expired, step.actions) == (0, record.key, (), ("WRITE",))
    assert band.used_bytes == step.item.byte_cost == _cost(record)
    assert indexed.used_bytes == _cost(record) + 16
    assert (band.steps, band.keys, band.retained()) == (1, {record.key}, {0})


def test_a_step_names_what_expired_and_what_was_refused() -> None:
    cost = _cost(_record(0))
    band = _band(2 * cost)
    for number in range(2):
        band.take(f"k{number}", _record(number))
    third = band.take("k2", _record(2))
    long = _band(cost - 1, "PriorityThreshold(threshold=-1)").take("k", _record(3))
    skipped = _band(1, "AlwaysWrite").take("k", _record(4))

    assert (third.expired, third.actions) == (("k0",), ("EXPIRE", "WRITE"))
    assert (band.keys, band.used_bytes, band.retained()) == ({"k1", "k2"}, 2 * cost, {1, 2})
    assert (long.item, long.actions) == (None, ("WRITE refused",))
    assert (skipped.item, skipped.actions) == (None, ("SKIP",))
    assert _band(1, "ExpireOldest").take("k", _record(5)).actions == ("SKIP",), "no action is a skip"


def test_releasing_frees_the_bytes_of_these_keys_only() -> None:
    band = _band()
    for number in range(3):
        band.take(f"k{number}", _record(number))
    band.release(["k1", "unknown"])

    assert (band.keys, band.used_bytes, band.retained()) == ({"k0", "k2"}, 2 * _cost(_record(0)), {0, 2})


@pytest.mark.parametrize(
    "policy",
    [
        "RecencyBias(expiries=0)",
        "MergeFirst",
        "DriftValue",
        "RareDrift",
        "RandomPolicy",
        "UniformSample(every=2)",
    ],
)
def test_a_replayed_stream_gives_the_same_state_and_the_same_next_step(policy: str) -> None:
    stream = _Stream(_band(700, policy, seed=3))
    for number in range(12):
        stream.take(_change(number, "ab"[number % 2] * (number % 3)))
    released = sorted(stream.band.keys)[:1]
    stream.band.release(released)
    stream.rows.append(release_row(released))
    again = stream.replayed()

    assert _state(again) == _state(stream.band)
    assert again.take("next", _change(12, "c")) == stream.band.take("next", _change(12, "c"))


def test_after_an_erasure_stored_records_are_restored_without_asking_the_policy() -> None:
    stream = _Stream(_band(policy="MergeAggressive"))
    for number in range(5):
        stream.take(_change(number, str(number)))
    before = _state(stream.band)
    stream.band.release(["ACTIVE/shared//m-2"])
    stream.rows.append(restart_row(stream.band.keys))
    stream.band.reset_policy()
    stream.take(_change(5, "5"))
    again = stream.replayed(since=6, without=(2,))

    assert before[3] == {0, 1, 2, 3, 4}
    assert _state(again) == _state(stream.band)
    assert (again.steps, again.retained()) == (6, {0, 1, 3, 4, 5})


def test_a_delta_whose_base_was_erased_still_costs_its_bytes() -> None:
    stream = _Stream(_band(policy="MergeAggressive"))
    for number in range(3):
        stream.take(_change(number, str(number)))
    stream.band.release(["ACTIVE/shared//m-0"])
    stream.rows.append(restart_row(stream.band.keys))
    again = stream.replayed(since=4, without=(0,))

    assert again.used_bytes == stream.band.used_bytes == 2 * (len('{"v": "1"}') + 16)
    assert (again.keys, again.retained(), again.steps) == (
        {"ACTIVE/shared//m-1", "ACTIVE/shared//m-2"},
        set(),
        3,
    )


def test_rows_name_keys_in_order() -> None:
    assert release_row(["b", "a"]) == {"released": ["a", "b"]}
    assert restart_row(["b", "a"]) == {"held": ["a", "b"]}


def test_a_band_can_be_given_by_its_name() -> None:
    name: Any = "ACTIVE"

    assert BandBudget(band=name, max_bytes=1, policy="AlwaysWrite").band is Band.ACTIVE


def test_a_row_holds_what_the_policy_was_shown_as_text() -> None:
    record = _record(
        0, refs=({"kind": "observation", "observation": {"b": 1.0, "a": 2}, "metadata": {"m": 1}},)
    )
    band = _band()
    row = step_row(band.take("k", record), record)

    assert row == {
        "base_t": None,
        "byte_cost": len('{"b": 1.0, "a": 2}') + len('{"m": 1}') + 32,
        "key": "k",
        "shown": ['{"a":2,"b":1.0}', '{"m":1}'],
        "t": 0,
    }
    assert step_row(_band(1, "AlwaysWrite").take("k", record), record)["byte_cost"] == 0


def test_the_first_observation_ref_is_what_a_policy_sees() -> None:
    refs = ({"kind": "doc"}, {"kind": "observation", "observation": "seen"}, {"kind": "observation"})

    assert observed(_record(0, refs=refs)) == ("seen", {})
    assert observed(_record(0, "plain")) == ({"text": "plain"}, {})
    with pytest.raises(InvalidValue, match="must be an object"):
        observed(_record(0, refs=({"kind": "observation", "metadata": ["no"]},)))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"band": "VAULT"}, "VAULT can't have a budget"),
        ({"band": "PHOENIX"}, "PHOENIX can't have a budget"),
        ({"max_bytes": 0}, "whole number from 1"),
        ({"policy": "OracleOptimal"}, "oracle track"),
        ({"policy": "BanditUCB"}, "bandit track"),
        ({"byte_model": "spec-v9"}, "byte_model"),
    ],
)
def test_an_invalid_budget_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidValue, match=problem):
        BandBudget(**{"band": "ACTIVE", "max_bytes": 1, "policy": "AlwaysWrite", **fields})


@pytest.mark.parametrize("band", ["LEDGER", "ACTIVE", "WITNESS"])
def test_three_bands_can_have_a_budget_and_privileged_policies_can_spend_it(band: str) -> None:
    budget = BandBudget(band=Band(band), max_bytes=1, policy="PriorityGreedy")

    assert (budget.band, budget.byte_model, budget.seed) == (Band(band), ByteModel.SPEC, 0)
