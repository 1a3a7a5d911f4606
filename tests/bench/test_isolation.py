"""Policies that are not shipped can't cheat: they see frozen steps, no later step and no label.

What they try against files, the network and the machine is in ``test_isolation_attacks.py``.
"""

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from standfast.bench.conditions import CONDITIONS, condition_named
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import write_jsonl
from standfast.bench.grid import ResultsFolder, in_process, plan_grid, read_results, run_grid
from standfast.bench.runner import PricedEpisode
from standfast.errors import UnknownPolicy
from standfast.policies import ByteModel, Track, estimate_bytes
from standfast.policies.byte_model import frozen
from tests.bench.episodes import small_episode
from tests.raising import raises_code

CHEATS = '''
import gc
import os
import sys

from standfast.policies import Track, merge, write
from standfast.policies.byte_model import MemoryItem
from standfast.records.vocabulary import MemoryAction, Step


class Vandal:
    """Empties every step after it was decided about, by force."""

    def select(self, step, store):
        yield write(step)
        dict.clear(step.observation)


class Clumsy:
    """Modifies a step without force."""

    def select(self, step, store):
        step.observation["text"] = ""
        yield write(step)


class Cheap:
    """Makes its store believe that steps are empty and the budget endless, and writes all of them."""

    def select(self, step, store):
        dict.clear(step.observation)
        store.budget.max_bytes = 10**9
        store.prices.show(store.prices.price(step, 0))
        yield write(step)


class Swap:
    """Writes a cheap step of its own under the timestep of the step that it was shown."""

    def select(self, step, store):
        yield MemoryAction(action="WRITE", step=Step(t=step.t, observation={}))


class Prophet:
    """Writes if it finds a later step: in the store, in its prices, or anywhere in memory."""

    def select(self, step, store):
        later = [t for t in vars(store.prices)["_shown"] if t > step.t]
        for thing in gc.get_objects():
            if isinstance(thing, (list, tuple)):
                later += [one.t for one in thing if isinstance(one, Step) and one.t > step.t]
        if later:
            yield write(step)


class Spy:
    """Writes if it finds labels: in the frames of its callers or anywhere in memory."""

    def select(self, step, store):
        frame, found = sys._getframe(), []
        while frame is not None:
            found += [one for one in frame.f_locals.values() if hasattr(one, "labels") or hasattr(one, "episode")]
            frame = frame.f_back
        found += [one for one in gc.get_objects() if isinstance(one, dict) and "critical_steps" in one]
        # The benchmark itself is not even loaded.
        if found or any(name.startswith("standfast.bench") for name in sys.modules):
            yield write(step)


class Elephant:
    """Writes if it was here before: what a class remembers must not reach the next run."""

    seen = set()

    def select(self, step, store):
        if step.t in self.seen:
            yield write(step)
        self.seen.add(step.t)
        print("a policy may print")


class Keeper:
    """Keeps the newest, as RecencyBias does, and merges nothing."""

    def select(self, step, store):
        oldest = store.oldest_item()
        if not store.fits(step) and oldest is not None:
            yield MemoryAction(action="EXPIRE", target_t=oldest.step.t)
        yield write(step)


class Learner:
    """Writes everything until the first utility, then nothing."""

    track = Track.BANDIT

    def __init__(self):
        self.told = []

    def learn(self, step, utility):
        self.told.append((step.t, utility))

    def select(self, step, store):
        return [] if self.told else [write(step)]


class Seer:
    track = Track.ORACLE

    def foresee(self, hindsight):
        raise SystemError

    def select(self, step, store):
        return []


class Quitter:
    def select(self, step, store):
        os._exit(3)


class Documented:
    """The example of the document's section 6.3, as it is printed."""

    track = Track.PRIVILEGED

    def select(self, step, store):
        # Expire oldest item if budget tight
        if store.budget.remaining() < 500 and (oldest := store.oldest_item()):
            yield MemoryAction(action="EXPIRE", target_t=oldest.step.t)

        # Write new step if critical
        if step.metadata.get("breaking_change"):
            yield MemoryAction(action="WRITE", step=step, reason="critical")
'''  # noqa: E501  # A text as a whole.


@pytest.fixture(autouse=True)
def _cheats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cheats.py").write_text(CHEATS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)


def _retained(policy: str, priced: PricedEpisode, max_bytes: int = 2_000) -> set[int]:
    store, _ = priced.fill_store(Entrant.parse(policy), max_bytes)
    return store.retained()


def test_a_policy_that_empties_steps_changes_nothing_for_those_after_it(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "e.jsonl", [small_episode(30)])
    figures = []
    for first in ("NeverWrite", "cheats:Vandal"):
        grid, units = plan_grid([tmp_path / "e.jsonl"], policies=[first, "DriftValue"], budgets=(1_500,))
        folder = ResultsFolder(tmp_path / first.replace(":", "_"))
        folder.open(grid)
        run_grid(grid, units, folder, in_process)
        figures.append([row["recall"] for row in read_results(folder.path) if row["policy"] == "DriftValue"])

    assert figures[0] == figures[1]
    assert figures[0][0] > 0


def test_modifying_a_step_is_an_error_that_says_what_to_do() -> None:
    with raises_code("policy_failed", match="work on a copy"):
        _retained("cheats:Clumsy", PricedEpisode(small_episode(5)))


def test_frozen_values_are_equal_and_can_be_copied() -> None:
    plain: Any = {"a": [1, {"b": 2}], "c": "d"}
    held = frozen(plain)

    assert held == plain
    assert json.dumps(held) == json.dumps(plain)
    assert frozen(held) is held
    changes: list[tuple[Any, str, tuple[Any, ...]]] = [
        (held, "update", ({"x": 1},)),
        (held["a"], "append", (1,)),
        (held["a"][1], "pop", ("b",)),
        (held, "__setitem__", ("a", 1)),
        (held["a"], "sort", ()),
    ]
    for target, method, arguments in changes:
        with pytest.raises(TypeError, match="frozen"):
            getattr(target, method)(*arguments)
    mine = copy.deepcopy(held)
    mine["a"][1]["b"] = 3
    assert (type(mine), type(mine["a"]), held["a"][1]["b"]) == (dict, list, 2)
    assert type(copy.copy(held)) is dict


@pytest.mark.parametrize("policy", ["cheats:Cheap", "cheats:Swap"])
def test_a_policy_pays_what_the_runner_says(policy: str) -> None:
    priced = PricedEpisode(small_episode(40))
    run = priced.run(Entrant.parse(policy), 2_000)
    steps = {step.t: step for step in priced.shown(Track.UNPRIVILEGED)}
    retained = _retained(policy, priced)

    assert run.metrics.bytes_used == sum(estimate_bytes(steps[t]) for t in retained) <= 2_000
    assert run.metrics.utility <= run.metrics.oracle_utility
    assert len(retained) < 40


@pytest.mark.parametrize("policy", ["Prophet", "Spy", "Elephant"])
def test_no_later_step_no_label_and_no_earlier_run_is_in_reach(policy: str) -> None:
    priced = PricedEpisode(small_episode(12))

    assert _retained(f"cheats:{policy}", priced) == _retained(f"cheats:{policy}", priced) == set()


def test_the_price_list_of_a_shipped_policys_run_knows_no_later_step() -> None:
    priced = PricedEpisode(small_episode(12))
    seen: list[int] = []

    class Watch:
        def after(self, step: Any, _: Any, store: Any) -> None:
            seen.append(max(store.prices._shown) - step.t)

    for _ in range(2):
        priced.fill_store(Entrant.parse("MergeAggressive"), 2_000, observer=Watch())

    assert seen == [0] * 24


@pytest.mark.parametrize("condition", CONDITIONS)
def test_an_isolated_policy_does_what_the_same_policy_does_here(condition: str) -> None:
    episode = small_episode(40)
    run = condition_named(condition)(episode, name="e", seed=0, model=ByteModel.SPEC)
    rows = list(run.records([Entrant.parse("cheats:Keeper"), Entrant.parse("NeverWrite")], (1_500,)))
    other = list(run.records([Entrant.parse("RecencyBias"), Entrant.parse("NeverWrite")], (1_500,)))
    skipped = {"policy", "skip_emitted", "write_emitted", "write_refused", "expire_rate"}

    assert [_without(row, skipped) for row in rows] == [_without(row, skipped) for row in other]


def _without(row: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def test_a_bandit_is_told_utilities_in_its_process() -> None:
    assert Entrant.parse("cheats:Learner").track is Track.BANDIT
    assert len(_retained("cheats:Learner", PricedEpisode(small_episode(5)))) == 1


def test_a_policy_of_others_is_never_an_oracle() -> None:
    with pytest.raises(UnknownPolicy, match="shipped upper bounds"):
        Entrant.parse("cheats:Seer")
    with pytest.raises(UnknownPolicy, match="can't be loaded"):
        Entrant.parse("cheats:Nobody")


def test_a_process_that_ends_is_reported() -> None:
    with raises_code("policy_failed", match="ended with exit code 3"):
        _retained("cheats:Quitter", PricedEpisode(small_episode(3)))


def test_the_module_of_a_policy_is_not_imported_and_its_code_is_hashed(tmp_path: Path) -> None:
    text = "class Policy:\n    def select(self, step, store):\n        return []\n"
    (tmp_path / "loud.py").write_text(text, encoding="utf-8")
    before = Entrant.parse("loud:Policy").code
    (tmp_path / "loud.py").write_text(text + "\n", encoding="utf-8")

    assert Entrant.parse("loud:Policy").code != before
    assert "loud" not in sys.modules
    (tmp_path / "loud.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    with pytest.raises(UnknownPolicy):
        Entrant.parse("loud:Policy")


def test_the_documents_example_runs_as_it_is_printed() -> None:
    episode = small_episode(40)
    steps = [step.as_json() for step in episode.steps]
    for step in steps:
        step["metadata"] |= {"breaking_change": step["t"] in episode.labels.critical_steps, "team": "billing"}
    marked = type(episode).from_json({"steps": steps, "labels": episode.labels.raw})
    priced = PricedEpisode(marked)
    held = {step.t: step for step in marked.steps}
    store, _ = priced.fill_store(Entrant.parse("cheats:Documented"), 50_000)

    assert store.retained() == marked.labels.critical_steps != set()
    assert store.held_bytes == sum(estimate_bytes(held[t]) for t in store.retained()), (
        "all metadata is priced"
    )
    assert all("breaking_change" not in step.metadata for step in priced.shown(Track.UNPRIVILEGED))
    assert all(step.metadata["team"] == "billing" for step in priced.shown(Track.UNPRIVILEGED))
