"""Conditions: each extension of the document has its own metric."""

from pathlib import Path
from typing import Any

import pytest

from standfast.bench.conditions import (
    BYTES_PER_STEP,
    CONDITIONS,
    PATTERNS,
    WriteQueue,
    condition_named,
    reordered,
)
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import Episode
from standfast.policies.byte_model import ByteModel, compressed_bytes
from standfast.policies.byte_store import ByteBudget, ByteMemoryStore
from standfast.policies.write_policy import policy_names, write
from standfast.records.requests import DEFAULT_CONTROLLER
from tests.bench.episodes import episode_of, small_episode


def _rows(condition: str, episode: Episode, policies: list[str], *budgets: int) -> list[dict[str, Any]]:
    run = condition_named(condition)(episode, name="e", seed=0, model=ByteModel.SPEC)
    return list(run.records([Entrant.parse(policy) for policy in policies], budgets))


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_condition_runs_every_policy_and_reports_its_metric(condition: str) -> None:
    rows = _rows(condition, small_episode(50), policy_names(), 800, 8_000)
    metric = condition_named(condition).metric

    assert [(row["budget_bytes"], row["policy"]) for row in rows] == [
        (b, n) for b in (800, 8_000) for n in policy_names()
    ]
    assert all(isinstance(row[metric], float) for row in rows)
    assert rows == _rows(condition, small_episode(50), policy_names(), 800, 8_000)


def test_the_hierarchical_condition_gives_each_kind_half_of_the_bytes() -> None:
    schema = [{"api": f"a{n}", "params": ["x" * 30]} for n in range(10)]
    docs = [{"api": f"d{n}", "content": "y" * 30, "section": "s"} for n in range(10)]
    (row,) = _rows("hierarchical", episode_of(*schema, *docs, critical=(0, 10, 19)), ["AlwaysWrite"], 1_000)

    assert row["recall_api"] == 1.0
    assert row["recall_docs"] == 0.5
    assert row["balanced_recall"] == 0.5
    assert max(row["bytes_api"], row["bytes_docs"]) <= 500


def test_items_that_are_written_too_fast_are_late() -> None:
    queue, store = WriteQueue(), ByteMemoryStore(ByteBudget(10**6))
    steps = episode_of(*("x" * 1_000 for _ in range(30))).steps
    for step in steps:
        store.apply(write(step), step)
        queue.after(step, [], store)

    assert queue.timely(0)
    assert not queue.timely(29)
    assert queue.delay[0] == store.cost_of(steps[0])
    assert queue.delay[29] > 10 * BYTES_PER_STEP


def test_compression_never_costs_more_than_a_byte_and_can_pay() -> None:
    assert compressed_bytes("x" * 500) < 50
    assert compressed_bytes("ab") == 1 + len('"ab"')
    long = [{"api": f"a{n}", "content": "the same words again " * 20} for n in range(20)]
    (row,) = _rows("compression", episode_of(*long, critical=(15,)), ["AlwaysWrite"], 2_500)

    assert row["recall_plain"] == 0.0
    assert row["recall_gain"] == 1.0


def test_a_policy_may_choose_what_is_compressed_and_pays_what_the_runner_computes() -> None:
    long = [
        {"api": f"a{n % 3}", "content": f"removed {n} " + "the same words again " * 20} for n in range(20)
    ]
    episode = episode_of(*long, critical=(15,))
    rows = _rows("compression_choice", episode, ["AlwaysWrite", "DriftValue"], 1_500)
    gains = {row["policy"]: (row["recall_gain"], row["compressed_share"]) for row in rows}

    assert gains["AlwaysWrite"] == (0.0, 0.0)
    assert gains["DriftValue"] == (1.0, 1.0)


CHOOSY = """
from standfast.policies import merge, write

class Choosy:
    def select(self, step, store):
        delta = store.delta_for(step)
        if delta is None:
            yield write(step, compress=True)
        else:
            assert store.compressed_cost(delta) < delta.byte_cost
            yield merge(step, delta.merge_parent_t, compress=True)
"""


def test_an_isolated_policy_has_the_same_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "choosy.py").write_text(CHOOSY, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    long = [{"api": "a", "content": f"removed {n} " + "the same words again " * 20} for n in range(6)]
    episode = episode_of(*long, critical=(5,))
    (offered,) = _rows("compression_choice", episode, ["choosy:Choosy"], 700)

    assert (offered["recall"], offered["recall_plain"], offered["compressed_share"]) == (1.0, 0.0, 1.0)


def test_retrieval_asks_the_default_controller_for_an_endpoints_last_critical_step() -> None:
    steps = [{"api": f"endpoint_{n}", "fields": ["name"] * 8} for n in range(8)]
    steps += [{"api": "endpoint_6", "fields": ["name"]}, {"api": "other", "fields": ["endpoint_6"] * 9}]
    (row,) = _rows("retrieval", episode_of(*steps, critical=(6, 8)), ["AlwaysWrite"], 10_000)

    assert (row["queries"], row["retrieval_at_1"], row["retrieval_at_5"]) == (1, 0.0, 1.0)
    assert row["mean_reciprocal_rank"] == 0.5
    assert row["controller"] == DEFAULT_CONTROLLER


def test_the_shared_condition_shares_one_budget() -> None:
    rows = _rows("shared", small_episode(60), ["AlwaysWrite", "RecencyBias", "DriftValue"], 3_000)

    assert sum(row["share_of_bytes"] for row in rows) == pytest.approx(1.0)
    assert all(0 < row["fairness"] <= 1 for row in rows)
    assert rows[0]["joint_recall"] >= max(row["recall_in_company"] for row in rows)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_reordering_moves_steps_but_changes_none(pattern: str) -> None:
    episode = small_episode(120)
    moved = reordered(episode, pattern)

    assert [step.t for step in moved.steps] == [step.t for step in episode.steps]
    assert sorted(map(repr, (step.observation for step in moved.steps))) == sorted(
        map(repr, (step.observation for step in episode.steps))
    )
    assert len(moved.labels.critical_steps) == len(episode.labels.critical_steps)
    assert sum(moved.labels.worth.values()) == sum(episode.labels.worth.values())


def test_the_worst_order_is_no_better_than_the_original_one() -> None:
    for row in _rows("adversarial", small_episode(100), policy_names(), 1_500):
        assert row["worst_recall"] <= row["recall"]
        assert row["lost_recall"] == row["recall"] - row["worst_recall"]
