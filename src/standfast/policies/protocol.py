"""What a write policy is, and how it is asked. Whoever drives one (Memory at commit, the benchmark) does it through here.

class MyPolicy:
    track = Track.UNPRIVILEGED

    def select(self, step, store):
        if store.cost_of(step) <= store.budget.remaining():
            yield write(step)
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import ClassVar, Final, Protocol

import msgspec

from standfast.limits import MAX_IDLE_ACTIONS, MAX_MADE_ACTIONS
from standfast.policies.byte_store import ByteMemoryStore
from standfast.vocabulary import ActionType, MemoryAction, Step


class Track(StrEnum):
    """What a policy may see. It declares its track; whoever drives it shows no more than that."""

    UNPRIVILEGED = "unprivileged"
    """The observation, and metadata that no label was used for."""

    PRIVILEGED = "privileged"
    """The same, and ``priority`` from 0 to 1 in the metadata."""

    BANDIT = "bandit"
    """As unprivileged; and after a step the utility of what was just written, and of nothing else."""

    ORACLE = "oracle"
    """The whole stream and all its labels, beforehand. For upper bounds only."""


class WritePolicy(Protocol):
    """Decides, step by step, what is done with memory.

    Actions are applied one by one while ``select`` yields them, so that a generator sees what its last action did. An
    action that the store rejects costs nothing. The same steps over an equal store give the same actions: what a policy
    knows beyond the store it has only from the steps before and from its seed.
    """

    track: ClassVar[Track]

    def select(self, step: Step, store: ByteMemoryStore) -> Iterable[MemoryAction]:
        """What to do about this step: any number of actions."""
        ...


class Learner(Protocol):
    """A policy on the bandit track."""

    def learn(self, step: Step, utility: float) -> None:
        """Told after a step whose WRITE or MERGE was accepted: what that turned out to be worth."""
        ...


class Hindsight(msgspec.Struct, frozen=True, kw_only=True):
    """All that an oracle is told before the stream begins; worth is in whole units."""

    steps: Sequence[Step]
    worth: Mapping[int, int]


class Seer(Protocol):
    """A policy on the oracle track."""

    def foresee(self, hindsight: Hindsight) -> None:
        """Told once, before the first step."""
        ...


SKIP: Final = (MemoryAction(action=ActionType.SKIP),)
_WRITE, _MERGE, _EXPIRE = ActionType.WRITE, ActionType.MERGE, ActionType.EXPIRE


def write(step: Step, reason: str | None = None) -> MemoryAction:
    """Store the step whole."""
    return MemoryAction(action=_WRITE, step=step, reason=reason)


def merge(step: Step, target_t: int, reason: str | None = None) -> MemoryAction:
    """Store what the step changes in that base; the store works out the delta."""
    return MemoryAction(action=_MERGE, step=step, target_t=target_t, reason=reason)


def expire(target_t: int, reason: str | None = None) -> MemoryAction:
    """Forget what is held of that timestep, and have its bytes back."""
    return _expiry(target_t, reason)


@lru_cache(maxsize=MAX_MADE_ACTIONS, typed=True)
def _expiry(target_t: int, reason: str | None) -> MemoryAction:
    """Made once, because many policies let the same timesteps go under many budgets."""
    return MemoryAction(action=_EXPIRE, target_t=target_t, reason=reason)


class Endless(Exception):
    """A policy goes on and on about one step with actions that do nothing."""


def take_turn(policy: WritePolicy, step: Step, store: ByteMemoryStore) -> list[tuple[MemoryAction, bool]]:
    """Ask a policy about one step and do what it says; gives each action and whether it was accepted.

    The step is priced before it is shown. A step can be stored once and each item can expire once, so only actions that
    do nothing could go on for ever, and those are counted.
    """
    store.cost_of(step)
    turn: list[tuple[MemoryAction, bool]] = []
    idle = 0
    for action in policy.select(step, store):
        done = store.apply(action, step)
        turn.append((action, done))
        if not done or action.action is ActionType.SKIP:
            idle = not_endless(idle + 1)
    return turn


def not_endless(idle: int) -> int:
    """The number of actions that did nothing, if it is one that a sane policy might reach."""
    if idle > MAX_IDLE_ACTIONS:
        raise Endless(f"it yielded more than {MAX_IDLE_ACTIONS} actions that did nothing for one step")
    return idle
