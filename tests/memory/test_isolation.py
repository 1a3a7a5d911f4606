"""Runs that go on at the same time see nothing of each other: any interleaving, through the public API, over
real backends.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from standfast.errors import CommitAborted
from standfast.memory import Memory, Run
from standfast.records.vocabulary import Band, Verdict
from standfast.store.store import Store
from tests.memory.conftest import HANDBOOK

SUBJECTS = ("rivers", "towers", "bridges", "harbours")
FACTS = {
    "rivers": "The river {} is deep and cold in March.",
    "towers": "Tower number {} needs new windows.",
    "bridges": "Bridge {} opens for ships at noon.",
    "harbours": "Harbour {} takes sailing boats only.",
}
Facts = dict[str, str]
# The stores of one backend count their ids from 1, each for itself.
RUN_NUMBERS = itertools.count()

STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["remember"] * 4 + ["commit"] * 3 + ["begin"] * 2 + ["forget", "discard"]),
        st.sampled_from(SUBJECTS),
    ),
    min_size=15,
    max_size=30,
)


@dataclass
class Actor:
    """One agent with a connection of its own: its run, what it should see, and what it wants to change."""

    memory: Memory
    run: Run | None = None
    seen: Facts = field(default_factory=dict)
    wanted: dict[str, str | None] = field(default_factory=dict)


class World:
    """What was committed, told by the script alone; after each step memory is held against it."""

    def __init__(self, memories: list[Memory]) -> None:
        self.actors = [Actor(memory) for memory in memories]
        self.committed: Facts = {}
        self._numbers = itertools.count()

    def play(self, number: int, step: str, subject: str) -> None:
        """One step of one actor."""
        actor = self.actors[number]
        if actor.run is None or step == "begin":
            self.begin(actor)
        run = actor.run
        assert run is not None
        if step == "remember":
            text = FACTS[subject].format(next(self._numbers))
            if run.remember(text, subject=subject, source=HANDBOOK).verdict is not Verdict.VOID:
                actor.wanted[subject] = text
        elif step == "forget" and subject in actor.seen and subject not in actor.wanted:
            run.forget(subject, reason="the script says so")
            actor.wanted[subject] = None
        elif step == "commit":
            self.commit(actor, run)
        elif step == "discard":
            run.discard()
            actor.run = None
        self.check()

    def begin(self, actor: Actor) -> None:
        """A new run, in place of one that may be under way."""
        if actor.run is not None:
            actor.run.discard()
        actor.run = actor.memory.run(workflow="w", mode="buffered_write", run_id=f"run-{next(RUN_NUMBERS)}")
        actor.seen, actor.wanted = dict(self.committed), {}

    def commit(self, actor: Actor, run: Run) -> None:
        """It is aborted if, and only if, another one committed to the same subjects meanwhile."""
        overtaken = {
            subject for subject in actor.wanted if actor.seen.get(subject) != self.committed.get(subject)
        }
        try:
            run.commit()
        except CommitAborted:
            assert overtaken, "a commit was aborted though nobody else touched its subjects"
        else:
            assert not overtaken, f"{overtaken} changed since the run began"
            for subject, text in actor.wanted.items():
                self.committed.pop(subject, None)
                if text is not None:
                    self.committed[subject] = text
        actor.run = None

    def check(self) -> None:
        """Every run sees what was committed when it began; everyone else sees what is committed now."""
        for actor in self.actors:
            now = {record.memory_id: record.text for record in actor.memory.records(band=Band.LEDGER)}
            assert now == self.committed
            if actor.run is not None:
                # Forgetting erases from every snapshot: whoever still reads one must not find what was
                # erased.
                gone = {
                    subject
                    for subject, text in actor.seen.items()
                    if self.committed.get(subject) != text and not self._still_told(actor, subject)
                }
                package = actor.run.recall("river tower bridge harbour", tokens=5_000)
                shown = {item.memory_id: item.excerpt for item in package.items}
                assert shown == {name: text for name, text in actor.seen.items() if name not in gone}

    @staticmethod
    def _still_told(actor: Actor, subject: str) -> bool:
        chapters = [one for one in actor.memory.history(subject) if one.key.startswith(Band.LEDGER)]
        return any(one.record is not None and one.record.text == actor.seen[subject] for one in chapters)


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> str:
    """The backends that several processes can share."""
    name: str = request.param
    return name


@pytest.fixture
def new_memories(opener: Callable[[], Store]) -> Callable[[], list[Memory]]:
    """Three agents' memories of one new tenant, each with a connection of its own."""
    stores = [opener() for _ in range(3)]
    names = (f"tenant-{number}" for number in itertools.count())

    def made() -> list[Memory]:
        namespace = next(names)
        return [Memory(store, namespace=namespace) for store in stores]

    return made


def played(new_memories: Callable[[], list[Memory]], steps: list[tuple[int, str, str]]) -> None:
    world = World(new_memories())
    for step in steps:
        world.play(*step)


# The target of the later commit was erased meanwhile, and is no longer there to be compared with.
@example(
    steps=[
        (0, "remember", "towers"),
        (0, "commit", "towers"),
        (1, "remember", "towers"),
        (0, "forget", "towers"),
        (0, "commit", "towers"),
        (1, "commit", "towers"),
    ]
)
@given(steps=STEPS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_runs_at_the_same_time_see_nothing_of_each_other(
    new_memories: Callable[[], list[Memory]], steps: list[tuple[int, str, str]]
) -> None:
    played(new_memories, steps)


@pytest.mark.slow
@given(steps=STEPS)
@settings(max_examples=500, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_runs_at_the_same_time_see_nothing_of_each_other_for_long(
    new_memories: Callable[[], list[Memory]], steps: list[tuple[int, str, str]]
) -> None:
    played(new_memories, steps)
