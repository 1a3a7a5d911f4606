"""A deterministic world for the commit pipeline: owners with wrong clocks that crash, stop, come back and
repeat themselves.

One seed is one history. Every owner is a generator that asks for one transaction after the other; a scheduler
with seeded dice decides who goes next, how much time passes, and what goes wrong.

    python -m tests.store.simulation 42                                   the history of seed 42
    python -m tests.store.simulation 0 --schedules 1000000 --jobs 2       many of them; one line at the end
"""

import argparse
import sys
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from itertools import accumulate
from typing import Any, Final

from standfast.clock import seeded
from standfast.errors import OutcomeUnknown, StoreError
from standfast.records.vocabulary import BufferState
from standfast.store.commit import Commit, Write
from standfast.store.in_memory import InMemoryStorage
from standfast.store.pipeline import Submission
from standfast.store.protocol import Buffer
from tests.store.builders import commit, expire, merge, write
from tests.store.referee import Referee, Violation
from tests.store.request import Request, aborting, claiming, committing, discarding, renewing, staging

Script = Generator[Request, Any, None]
Talk = Generator[Request, Any, Any]

MAX_SKEW_SECONDS: Final = 3600.0
PAUSES_SECONDS: Final = (0.0, 0.001, 0.5, 4.0, 11.0, 31.0)
STOPS_SECONDS: Final = (20.0, 45.0, 4000.0)
IDLE_SECONDS: Final = (0.001, 11.0, 31.0, 90.0)
RUNS: Final = 5
STEPS: Final = 36
PART: Final = 500


class Fate(Enum):
    """What becomes of a step."""

    GOES = "goes"
    STOPS = "is stopped for a while"
    CRASHES_BEFORE = "crashes before it begins"
    CRASHES_INSIDE = "crashes between load and append"
    CRASHES_AFTER = "crashes after the append, before the answer"
    UNKNOWN_LOST = "is told nothing; nothing was appended"
    UNKNOWN_KEPT = "is told nothing; it was appended"
    ECHO = "goes, and an old request arrives once more"


FATES: Final = tuple(Fate)
WEIGHTS: Final = tuple(accumulate((66, 6, 4, 5, 6, 3, 4, 6)))
assert len(WEIGHTS) == len(FATES)


class Owner:
    """A process with a clock of its own, which is wrong by up to an hour and drifts.

    A crash gives it a new name.
    """

    def __init__(self, world: "World", name: str, *, recovers: bool) -> None:
        self.world = world
        self.name = name
        self.recovers = recovers
        self.lives = 0
        self.stopped_until = 0.0
        self.skew = world.dice.uniform(-MAX_SKEW_SECONDS, MAX_SKEW_SECONDS)
        self.drift = world.dice.uniform(-0.05, 0.05)
        self.begin()

    def begin(self) -> None:
        """Start, or start again after a crash; nothing is remembered."""
        self.lives += 1
        self.id = f"{self.name}.{self.lives}"
        self.script = _recovering(self) if self.recovers else _submitting(self)
        self.request: Request | None = next(self.script, None)

    def hears(self, answer: object) -> None:
        """Go on with the answer, up to the next request."""
        try:
            self.request = self.script.send(answer)
        except StopIteration:
            self.request = None

    def clock(self) -> float:
        """What this owner takes for the time."""
        skew = self.skew + self.drift * (self.world.now - self.world.began)
        return self.world.now + max(-MAX_SKEW_SECONDS, min(MAX_SKEW_SECONDS, skew))


class World:
    """The storage, the true time, the owners and the dice."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = seeded(seed)
        self.began = self.now = 1_800_000_000.0
        self.seen_time = self.now
        self.storage = InMemoryStorage(_Face(self))
        self.referee = Referee(self.storage)
        self.starts: dict[int, int] = {}
        self.sent: list[tuple[Owner, Request]] = []
        self.trace: list[tuple[float, str, str, str, object]] = []
        self._found("genesis", write("s0", 0), write("s1", 0))
        self.owners = [Owner(self, f"worker{n}", recovers=True) for n in range(self.dice.randint(2, 4))]
        self.owners += [Owner(self, f"client{n}", recovers=False) for n in range(self.dice.randint(2, 4))]

    def _found(self, run_id: str, *writes: Write) -> None:
        first = self.known(commit(run_id, *writes))
        self.transact(self.now, committing("nobody", [Submission(first)], {}))

    def known(self, given: Commit) -> Commit:
        """The commit, made known to the referee."""
        self.referee.commits[given.commit_id, given.payload_fingerprint] = given
        return given

    def commit_of(self, run: int, shape: str = "whole") -> Commit:
        """What a run commits; all who speak for that run mean the same start snapshot."""
        start = self.starts.setdefault(run, self.storage.head())
        return self.known(_commit(run, shape, start))

    # The scheduler.

    def play(self) -> None:
        """Faults first; then they stop, time passes, recovery runs, and everything must be settled."""
        try:
            for _ in range(STEPS):
                self._step(faults=True)
            self._settle()
        except Violation as violation:
            raise Violation(f"seed {self.seed}: {violation}\n{self.history()}") from None

    def history(self) -> str:
        """All that happened."""
        lines = [
            f"{now - self.began:10.3f} {who:10} {what} … {fate} → {answer!r:.150}"
            for now, who, what, fate, answer in self.trace
        ]
        return "\n".join([*lines, f"replay: python -m tests.store.simulation {self.seed}"])

    def _step(self, *, faults: bool) -> bool:
        self.now += self.dice.choice(PAUSES_SECONDS)
        ready = [owner for owner in self.owners if owner.request and owner.stopped_until <= self.now]
        if not ready:
            return False
        owner = self.dice.choice(ready)
        fate = self.dice.choices(FATES, cum_weights=WEIGHTS)[0] if faults else Fate.GOES
        assert owner.request is not None
        self._happen(owner, owner.request, fate)
        self.referee.look()
        return True

    def _happen(self, owner: Owner, request: Request, fate: Fate) -> None:
        answer: object = None
        if fate is Fate.CRASHES_INSIDE:
            self.transact(owner.clock(), request, append=False)
        elif fate not in (Fate.STOPS, Fate.CRASHES_BEFORE, Fate.UNKNOWN_LOST):
            answer = self.transact(owner.clock(), request)
            self.sent.append((owner, request))
        self.trace.append((self.now, owner.id, request.what, fate.value, answer))
        match fate:
            case Fate.STOPS:
                owner.stopped_until = self.now + self.dice.choice(STOPS_SECONDS)
            case Fate.CRASHES_BEFORE | Fate.CRASHES_INSIDE | Fate.CRASHES_AFTER:
                owner.begin()
            case Fate.UNKNOWN_LOST | Fate.UNKNOWN_KEPT:
                owner.hears(OutcomeUnknown(problem=fate.value))
            case Fate.GOES:
                owner.hears(answer)
            case Fate.ECHO:
                self._echo()
                owner.hears(answer)

    def _echo(self) -> None:
        """An old request arrives once more, from a queue or a network; nobody hears the answer."""
        sender, request = self.dice.choice(self.sent)
        again = replace(request, granted={})
        answer = self.transact(sender.clock(), again)
        self.trace.append((self.now, again.owner, again.what, "echo", answer))

    def transact(self, clock: float, request: Request, *, append: bool = True) -> object:
        """One serialised transaction, as a clock shows it."""
        self.seen_time = clock
        changes, answer = request.decide(self.storage.load(request.query))
        if append and changes:
            self.referee.judge(request, changes, clock)
            self.storage.append(changes)
        return answer

    def _settle(self) -> None:
        while any(owner.request for owner in self.owners if not owner.recovers):
            self.now += MAX_SKEW_SECONDS
            self._step(faults=False)
        self.now += 3 * MAX_SKEW_SECONDS
        self.owners = [Owner(self, "last", recovers=True)]
        while self._abandoned():
            self._step(faults=False)
        self._decide_what_waits()
        referee = self.referee
        left = [b for b in self._buffers() if b.state is not BufferState.ABORTED]
        referee.require(not left, f"left over: {left}")
        undecided = referee.settled - referee.aborted - referee.applied.keys()
        referee.require(not undecided, f"settled, but neither applied nor aborted: {undecided}")
        for known in list(referee.commits.values()):
            (answer,) = self._ask(committing("nobody", [Submission(known)], {}))
            referee.hears(known, answer)
        referee.look()

    def _buffers(self) -> list[Buffer]:
        return [buffer for buffer in self.storage._buffers.values() if not buffer.is_discarded]

    def _abandoned(self) -> bool:
        return any(b.state is not BufferState.ABORTED and b.waits_for is None for b in self._buffers())

    def _decide_what_waits(self) -> None:
        """The approvals come in: whoever knows the present fence may act on it."""
        for buffer in [buffer for buffer in self._buffers() if buffer.waits_for is not None]:
            held = {buffer.commit_id: self.referee.grants[buffer.commit_id]}
            if self.dice.random() < 0.5:
                self._ask(aborting("approver", buffer, held))
            else:
                asked = Submission(Commit.from_bytes(buffer.content or b""), buffer.fence)
                self._ask(committing("approver", [asked], held))

    def _ask(self, request: Request) -> Any:
        answer = self.transact(self.now, request)
        self.trace.append((self.now, request.owner, request.what, "goes", answer))
        return answer


class _Face:
    """The clock that the storage looks at: the face of whoever's turn it is."""

    def __init__(self, world: World) -> None:
        self._world = world

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._world.seen_time, UTC)

    def monotonic(self) -> float:
        return self._world.now

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing in the pipeline sleeps, be it for {seconds} seconds")


@cache
def _commit(run: int, shape: str, start: int) -> Commit:
    shared = (merge("s0", run), merge("s1", run), expire("s1"), merge("s0", [run]))[run % 4]
    writes = {
        "small": (write(f"own{run}", run),),
        "whole": (write(f"own{run}", run), shared),
        "other": (write(f"own{run}", "forged"),),
    }[shape]
    return commit(f"run{run}", *writes, at=start)


# How owners behave.


def _insisting(request: Request) -> Talk:
    """Ask until there is an answer, as the store does after an unknown outcome."""
    while isinstance(answer := (yield request), OutcomeUnknown):
        pass
    return answer


def _submitting(me: Owner) -> Script:
    """Speak for a few runs, one after the other; others may speak for the same ones."""
    dice = me.world.dice
    for _ in range(4):
        run = dice.randrange(RUNS)
        how = dice.choice((_direct, _staged, _staged, _together))
        yield from how(me, run)


def _direct(me: Owner, run: int) -> Script:
    asked = me.world.commit_of(run, "other" if me.world.dice.random() < 0.1 else "whole")
    (answer,) = yield from _insisting(committing(me.id, [Submission(asked)], {}))
    me.world.referee.hears(asked, answer)


def _together(me: Owner, run: int) -> Script:
    """Several runs, some of them twice, share one transaction."""
    runs = [run, *me.world.dice.choices(range(RUNS), k=2)]
    batch = [Submission(me.world.commit_of(each)) for each in runs]
    answers = yield from _insisting(committing(me.id, batch, {}))
    for asked, answer in zip(batch, answers, strict=True):
        me.world.referee.hears(asked.commit, answer)


def _staged(me: Owner, run: int) -> Script:
    """Open, perhaps grow, settle, renew, then commit or abort or vanish; after a lost lease, try all the
    same.
    """
    world, dice = me.world, me.world.dice
    whole = world.commit_of(run)
    held: dict[str, int] = {}
    if dice.random() < 0.5:
        grows = world.commit_of(run, dice.choice(("small", "whole")))
        opening = staging(me.id, grows, BufferState.OPEN, None, held)
        buffer = yield from _insisting(opening)
        held |= opening.granted
        if not isinstance(buffer, Buffer):
            return world.referee.hears(grows, buffer)
        if dice.random() < 0.3:
            dropped = yield from _insisting(discarding(me.id, buffer, held))
            return world.referee.require(isinstance(dropped, bool), "discarding answers with a bool")
    waits_for = "approval" if dice.random() < 0.1 else None
    settling = staging(me.id, whole, BufferState.PENDING, waits_for, held)
    buffer = yield from _insisting(settling)
    held |= settling.granted
    if not isinstance(buffer, Buffer):
        return world.referee.hears(whole, buffer)
    for _ in range(dice.randrange(3)):
        yield from _insisting(renewing(me.id, buffer, held))
    if dice.random() < 0.2:
        answer = yield from _insisting(aborting(me.id, buffer, held))
        if isinstance(answer, StoreError):
            return None
    (answer,) = yield from _insisting(committing(me.id, [Submission(whole, buffer.fence)], held))
    return world.referee.hears(whole, answer)


def _recovering(me: Owner) -> Script:
    """Claim what dead owners left, and finish it."""
    world, dice = me.world, me.world.dice
    while True:
        claim = claiming(me.id, dice.choice((1, 2, 64)))
        claimed = yield claim
        if not claimed or isinstance(claimed, OutcomeUnknown):
            me.stopped_until = world.now + dice.choice(IDLE_SECONDS)
            continue
        for buffer in claimed:
            held = {buffer.commit_id: claim.granted[buffer.commit_id]}
            if buffer.state is BufferState.OPEN:
                yield from _insisting(discarding(me.id, buffer, held))
                continue
            if dice.random() < 0.2:
                yield from _insisting(renewing(me.id, buffer, held))
            left = Commit.from_bytes(buffer.content)
            (answer,) = yield from _insisting(committing(me.id, [Submission(left, buffer.fence)], held))
            world.referee.hears(left, answer)


def play_all(seeds: range) -> Counter[str]:
    """Play a schedule for each seed, and count what happened."""
    counts: Counter[str] = Counter(schedules=len(seeds))
    for seed in seeds:
        world = World(seed)
        world.play()
        referee = world.referee
        counts.update(
            transactions=len(world.trace),
            applied=len(referee.applied),
            aborted=len(referee.aborted),
            takeovers=referee.takeovers,
        )
    return counts


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.store.simulation", description=__doc__)
    parser.add_argument("seed", type=int, help="the first seed")
    parser.add_argument("--schedules", type=int, help="play so many seeds, and print what was covered")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    given = parser.parse_args()
    if given.schedules is None:
        replayed = World(given.seed)
        replayed.play()
        sys.stdout.write(replayed.history() + "\n")
        return
    end = given.seed + given.schedules
    parts = [range(first, min(first + PART, end)) for first in range(given.seed, end, PART)]
    counts: Counter[str] = Counter()
    with ProcessPoolExecutor(given.jobs) as pool:
        for part in pool.map(play_all, parts):
            counts += part
            sys.stderr.write(f"\r{counts['schedules']:,} of {given.schedules:,} schedules")
    sys.stdout.write(
        "\n" + ", ".join(f"{number:,} {what}" for what, number in counts.items()) + ", 0 broken rules\n"
    )


if __name__ == "__main__":
    _main()
