"""Crash images: the store is opened from every state that a power loss may leave, and has kept its promises.

A failing case names its crash point and what was on the disk; ``REPLAY`` runs that point alone.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import NamedTuple

import pytest

from standfast.clock import ManualClock, seeded
from standfast.errors import StandfastError
from standfast.store.store import Store
from tests.figures import Figures
from tests.store.builders import commit, contents, sqlite_store, write
from tests.store.crash_workload import Begun, Log, Outcome, Reached, Recording, pending_of, record, recovered
from tests.store.power_loss import Disk, Kept, at_random, systematic
from tests.store.recording_vfs import DATABASE, Op

FAST_CHUNKS, FAST_STATES, FAST_THINNED = 2, 2_000, 17
SLOW_CHUNKS, SLOW_STATES = 20, 100_000
HEADS = ("newest", "absent", "older", "empty")
REPLAY: int | None = None
"""Set it to a crash point to look at nothing else."""


class State(NamedTuple):
    """What a power loss left after the first ``point`` entries of the log, and what the store may make of
    it.
    """

    point: int
    what: str
    files: dict[str, bytes]
    allowed: tuple[Outcome, ...]

    def __str__(self) -> str:
        return f"crash point {self.point}, {self.what}"


class Crashes:
    """Every legal state at each crash point, made only when asked for."""

    def __init__(self, log: Log) -> None:
        self._disk = Disk()
        self._log = log
        self._allowed: tuple[Outcome, ...] = (Outcome(0),)

    def points(self) -> Iterator[int]:
        """Let the log happen, entry by entry; the state before, between and after each is a crash point."""
        yield 0
        for place, entry in enumerate(self._log):
            match entry:
                case Begun(outcomes):
                    self._allowed = (self._allowed[0], *outcomes)
                case Reached(outcome):
                    self._allowed = self._allowed[self._allowed.index(outcome) :]
                case Op():
                    self._disk.play(place, entry)
            yield place + 1

    def systematic(self, point: int) -> Iterator[Callable[[], State]]:
        """The states at this point that are the same in every run; those where all or nothing is kept come
        first.
        """
        for names in range(self._disk.uncertain_names(), -1, -1):
            for number, kept in enumerate(systematic(self._disk.uncertain())):
                heads = HEADS if number < 2 else HEADS[number % len(HEADS) :][:1]
                yield from (partial(self._state, point, kept, names, head) for head in heads)

    def at_random(self, point: int, seed: int) -> State:
        """One state at this point, by a roll of the dice."""
        dice = seeded(seed * 1_000_003 + point)
        names = dice.randint(0, self._disk.uncertain_names())
        return self._state(point, at_random(self._disk.uncertain(), dice), names, dice.choice(HEADS))

    def uncertain(self) -> int:
        """How many writes may or may not be on the disk at this point."""
        return len(self._disk.uncertain())

    def _state(self, point: int, kept: Kept, names: int, head: str) -> State:
        files = self._disk.image(kept, names)
        heads = self._disk.heads
        if heads and head != "absent":
            files["-files/head"] = {"newest": heads[-1], "older": heads[point % len(heads)], "empty": b""}[
                head
            ]
        return State(point, f"kept {dict(kept)}, {names} names, head file {head}", files, self._allowed)


def systematic_states(log: Log, *, chunk: int, chunks: int, thinned: int = 1) -> Iterator[State]:
    """A chunk's share of the systematic states, none twice.

    Thinning spares those where all or nothing is kept.
    """
    seen: set[int] = set()
    others = count()
    crashes = Crashes(log)
    for point in crashes.points():
        for number, make in enumerate(crashes.systematic(point)):
            if number >= 2 * len(HEADS) and next(others) % thinned:
                continue
            state, place = make(), len(seen)
            seen.add(_identity(state))
            if len(seen) > place and place % chunks == chunk:
                yield state


def random_states(log: Log, *, chunk: int, states: int) -> Iterator[State]:
    """So many random states, none twice, spread over the crash points where the systematic ones do not say it
    all.
    """
    seen: set[int] = set()
    for lap in range(1_000):
        crashes = Crashes(log)
        for point in crashes.points():
            if crashes.uncertain() >= 3:
                state = crashes.at_random(point, seed=chunk * 1_000 + lap)
                is_new = _identity(state) not in seen
                seen.add(_identity(state))
                if is_new:
                    yield state
                if len(seen) == states:
                    return


def _identity(state: State) -> int:
    return hash((state.allowed, *state.files.items()))


def examine(state: State, recording: Recording, folder: Path) -> str | None:
    """Open the store as the power loss left it. None, or which promise is broken."""
    for name in ("", "-wal", "-shm", "-journal", "-files/head"):
        path = folder / (DATABASE + name)
        path.unlink(missing_ok=True)
        if name in state.files:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(state.files[name])
    try:
        store = sqlite_store(folder / DATABASE, ManualClock())
    except StandfastError as error:
        return f"refused: {error}"
    try:
        return _broken_promise(store, state, recording)
    except StandfastError as error:
        return f"refused: {error}"
    finally:
        store.close()


def _broken_promise(store: Store, state: State, recording: Recording) -> str | None:
    applied = store.commits(after=0, limit=1_000)
    head, pending = store.head(), pending_of(store)
    if [commit.memory_snapshot_id for commit in applied] != list(range(1, head + 1)):
        return "gaps: the snapshots have some"
    if head < state.allowed[0].head:
        return f"lost: snapshot {state.allowed[0].head} was acknowledged, the newest is {head}"
    if Outcome(head, pending) not in state.allowed:
        return f"partial: {Outcome(head, pending)} was never a state of this store"
    if applied != recording.applied[:head] or contents(store) != recording.contents[head]:
        return f"partial: snapshot {head} is not what it was"
    if problems := list(store.verify()):
        return f"told: {problems}"
    if recovered(store) != sorted(pending):
        return f"pending: {pending} did not recover"
    further = store.commit(commit("further", write("further"), at=head))
    if further.memory_snapshot_id != head + len(pending) + 1:
        return f"stuck: the next commit made snapshot {further.memory_snapshot_id}"
    return None


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The log of a store at work, with what it promised."""
    return record(tmp_path_factory.mktemp("recording"))


def _examined(states: Iterable[State], recording: Recording, folder: Path) -> Counter[str]:
    found: Counter[str] = Counter(states=0, lost=0, partial=0, gaps=0, refused=0)
    for state in states:
        if REPLAY is not None and state.point != REPLAY:
            continue
        found["states"] += 1
        problem = examine(state, recording, folder)
        assert problem is None, f"{problem}, at {state}"
    return found


@pytest.mark.parametrize("chunk", range(FAST_CHUNKS))
def test_a_power_loss_loses_nothing_that_was_acknowledged_and_leaves_nothing_half(
    recording: Recording, ram_folder: Path, chunk: int, figures: Figures
) -> None:
    states = systematic_states(recording.log, chunk=chunk, chunks=FAST_CHUNKS, thinned=FAST_THINNED)
    found = _examined(states, recording, ram_folder)
    figures("crash images", found)

    assert found["states"] >= FAST_STATES // FAST_CHUNKS


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(SLOW_CHUNKS))
def test_no_power_loss_of_a_hundred_thousand_loses_or_halves_anything(
    recording: Recording, ram_folder: Path, chunk: int, figures: Figures
) -> None:
    every = systematic_states(recording.log, chunk=chunk, chunks=SLOW_CHUNKS)
    others = random_states(recording.log, chunk=chunk, states=SLOW_STATES // SLOW_CHUNKS)
    found = _examined(chain(every, others), recording, ram_folder)
    figures("crash images", found)

    assert found["states"] >= SLOW_STATES // SLOW_CHUNKS


def _problems(log: Log, recording: Recording, folder: Path) -> Iterator[str]:
    for state in systematic_states(log, chunk=0, chunks=1, thinned=50):
        yield (examine(state, recording, folder) or "none").partition(":")[0]


def _without(*dropped: tuple[str, str]) -> Callable[[Log], Log]:
    return lambda log: [op for op in log if not isinstance(op, Op) or (op.kind, op.name) not in dropped]


def _acknowledged_before_the_sync(log: Log) -> Log:
    """Each acknowledgement moved before the sync that it should wait for."""
    early = list(log)
    for place, entry in enumerate(log):
        if isinstance(entry, Reached):
            sync = max(number for number in range(place) if log[number] == Op("sync", "-wal"))
            early.insert(sync, early.pop(place))
    return early


def _head_file_before_the_sync(log: Log) -> Log:
    early = list(log)
    for place, entry in enumerate(log):
        if isinstance(entry, Op) and entry.kind == "head":
            early.insert(place - 1, early.pop(place))
    return early


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (_without(("sync", "-wal")), "lost"),
        (_without(("sync", "")), "lost"),
        (_without(("sync_folder", "")), "lost"),
        (_acknowledged_before_the_sync, "lost"),
        (_head_file_before_the_sync, "refused"),
    ],
    ids=[
        "log never synced",
        "database never synced",
        "folder never synced",
        "early answer",
        "early head file",
    ],
)
def test_a_store_that_kept_its_promises_less_well_would_be_caught(
    recording: Recording, ram_folder: Path, broken: Callable[[Log], Log], problem: str
) -> None:
    """The same log, as a store would leave it that forgets a sync or speaks too early."""
    assert problem in _problems(broken(recording.log), recording, ram_folder)
