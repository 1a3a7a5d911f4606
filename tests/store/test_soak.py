"""The short form of the soak, and that it would notice."""

from itertools import cycle
from pathlib import Path

import pytest

from standfast.memory import Memory
from standfast.store.commit import Commit
from standfast.store.opening import open_store
from standfast.store.store import Store
from tests.figures import Figures
from tests.soak import soak
from tests.soak_model import Facts, Model, Violation
from tests.soak_worker import Worker


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, ram_folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the store of a soak is."""
    monkeypatch.chdir(ram_folder)
    if request.param == "sqlite":
        return str(ram_folder / "soak.db")
    place: str = request.getfixturevalue("postgres_store_url")
    return place


def test_several_processes_and_a_kill_leave_what_the_model_says(
    url: str, ram_folder: Path, figures: Figures
) -> None:
    done = soak(ram_folder, url, seconds=120, actions=40, workers=2, seed=7, kill_seconds=0.2)

    assert done["actions"] >= 40
    assert done["verified"] >= 1
    assert done["restores"] == (0 if "://" in url else 1)
    figures("soak", actions=done["actions"], kills=done["kills"], violations=0)


def test_a_write_that_was_lost_is_noticed(ram_folder: Path) -> None:
    model = Model(ram_folder / "w0.journal")
    model.finish(model.begin("remember", subject="w0/1", text="It was acknowledged."))
    worker = Worker(ram_folder, str(ram_folder / "soak.db"), "w0", 1)

    with pytest.raises(Violation, match="w0/1 holds None"):
        worker.work(0)
    worker.memory.close()


@pytest.mark.parametrize("applied", [True, False])
def test_an_action_that_a_kill_interrupted_may_have_happened_or_not(ram_folder: Path, applied: bool) -> None:
    Model(ram_folder / "w0.journal").begin("remember", subject="w0/1", text="Item 1 of w0/1 has part 1.")
    if applied:
        with Memory.open(str(ram_folder / "soak.db")) as memory:
            memory.remember(
                "Item 1 of w0/1 has part 1.", subject="w0/1", source={"kind": "doc", "id": "plan-1"}
            )
    worker = Worker(ram_folder, str(ram_folder / "soak.db"), "w0", 1)
    worker.work(0)

    assert worker.model.texts["w0/1"] == ("Item 1 of w0/1 has part 1." if applied else None)


def _model_of_conversation(folder: Path) -> Model:
    """Two messages whose forgetting was interrupted, and one that came after."""
    model = Model(folder / "w0.journal")
    model.finish(model.begin("add", subject="session/1", text="One.\nTwo."))
    model.begin("forget_scope")
    model = Model(folder / "w0.journal")
    model.let_fade()
    model.finish(model.begin("add", subject="session/1", text="Three."))
    return Model(folder / "w0.journal")


@pytest.mark.parametrize("found", ["One.\nTwo.\nThree.", "One.\nThree.", "Two.\nThree.", "Three."])
def test_of_what_was_being_forgotten_each_message_may_be_there_or_gone(ram_folder: Path, found: str) -> None:
    assert _model_of_conversation(ram_folder).allows("session/1", found, "Three.")


@pytest.mark.parametrize("found", [None, "One.\nTwo.", "Two.\nOne.\nThree.", "Three.\nOne.", "Four.\nThree."])
def test_what_was_written_after_it_stays_and_nothing_else_comes(ram_folder: Path, found: str | None) -> None:
    assert not _model_of_conversation(ram_folder).allows("session/1", found, "Three.")


def test_what_has_gone_does_not_come_back_and_goes_with_the_whole(ram_folder: Path) -> None:
    model = _model_of_conversation(ram_folder)
    assert model.allows("session/1", "Two.\nThree.", "Three.")
    model = Model(ram_folder / "w0.journal")

    assert not model.allows("session/1", "One.\nTwo.\nThree.", "Three.")
    model.finish(model.begin("forget_scope"))
    assert not model.allows("session/1", "Two.", model.texts["session/1"])
    assert model.allows("session/1", None, model.texts["session/1"])


def _committed(folder: Path, *numbers: int) -> Store:
    store = open_store(str(folder / "soak.db"), create=True)
    writes = [Facts(folder, "w0").fact(3, number) for number in numbers]
    store.commit(Commit.of(run_id="r1", memory_snapshot_id=0, policy_set_id="soak", writes=writes))
    return store


def test_a_fact_more_than_was_acknowledged_may_be_there(ram_folder: Path) -> None:
    store, facts = _committed(ram_folder, 0, 1, 2), Facts(ram_folder, "w0")
    facts.acknowledge(3, 2)
    facts.check(store, cycle([0.5]))

    assert [facts.acknowledged(lane) for lane in (2, 3, 4)] == [0, 3, 0]
    assert facts.check_all(store) == 3


@pytest.mark.parametrize(
    ("numbers", "acknowledged", "problem"),
    [
        ((0, 2), 3, r"were acknowledged, and are lost: \[\(3, 1\)\]"),
        ((0, 1, 2), 1, "fact 2 of w0 in 3 was never remembered"),
    ],
)
def test_a_fact_that_is_lost_or_too_many_is_noticed(
    ram_folder: Path, numbers: tuple[int, ...], acknowledged: int, problem: str
) -> None:
    store, facts = _committed(ram_folder, *numbers), Facts(ram_folder, "w0")
    facts.acknowledge(3, acknowledged)

    with pytest.raises(Violation, match=problem):
        facts.check(store, cycle([0.5]))
