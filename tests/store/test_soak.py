"""The short form of the soak, and that it would notice."""

from pathlib import Path

import pytest

from standfast.memory import Memory
from tests.figures import Figures
from tests.soak import soak
from tests.soak_worker import Model, Violation, Worker


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
    done = soak(ram_folder, url, seconds=120, actions=40, workers=2, seed=7, kill_seconds=3)

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
