"""One policy over one stream: every step is shown once, every action is applied, and what came of it is counted.

Labels are no argument of ``play``. What the bandit and oracle tracks are told comes through two narrow openings: a function
from a timestep to its utility, asked only about what was just written, and a ``Hindsight``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from standfast.errors import PolicyFailed, StandfastError
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.protocol import SKIP, Endless, Hindsight, WritePolicy, not_endless
from standfast.vocabulary import ActionType, MemoryAction, Step

_KINDS: Final = tuple(ActionType)
_SKIP, _WRITE, _MERGE, _EXPIRE = _KINDS
Turn = list[tuple[MemoryAction, bool]]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How often each action was emitted, and how often it was refused."""

    emitted: dict[ActionType, int]
    refused: dict[ActionType, int]


def no_counts() -> Counts:
    """Nothing yet; whoever plays counts on."""
    return Counts(emitted=dict.fromkeys(_KINDS, 0), refused=dict.fromkeys(_KINDS, 0))


class Watcher(Protocol):
    """Someone who looks on: told of each step after its actions were applied."""

    def after(self, step: Step, turn: Turn, store: ByteMemoryStore) -> None:
        """One step is done."""
        ...


def play(
    policy: WritePolicy,
    steps: Sequence[Step],
    store: ByteMemoryStore,
    *,
    feedback: Callable[[int], float] | None = None,
    hindsight: Hindsight | None = None,
    watcher: Watcher | None = None,
    counts: Counts | None = None,
    names: tuple[str, str] = ("", ""),
) -> None:
    """``take_turn`` for each step of a priced stream, with books kept; ``names``, of policy and episode, are for errors."""
    counts = counts or no_counts()
    # A user's policy may have any shape; the registry has checked that a track comes with its method.
    shaped: Any = policy
    learn: Callable[[Step, float], None] | None = shaped.learn if feedback is not None else None
    turn: Turn = []
    # Counted here and entered in the end, because looking a kind up takes longer than writing some steps.
    skipped = written = merged = expired = 0
    step = steps[0]
    try:
        if hindsight is not None:
            shaped.foresee(hindsight)
        select, refused = policy.select, counts.refused
        write, merge, expire = store.write, store.merge, store.expire
        for step in steps:
            actions = select(step, store)
            if actions is SKIP and watcher is None:
                skipped += 1
                continue  # Most steps of most policies: nothing to apply, nothing to tell.
            idle = 0
            for action in actions:
                kind = action.action
                if kind is _WRITE:
                    done, written = write(action, step), written + 1
                elif kind is _EXPIRE:
                    done, expired = expire(action, step), expired + 1
                elif kind is _MERGE:
                    done, merged = merge(action, step), merged + 1
                else:
                    done, skipped = store.apply(action, step), skipped + 1
                    idle = not_endless(idle + 1)
                if not done:
                    refused[kind] += 1
                    idle = not_endless(idle + 1)
                if watcher is not None:
                    turn.append((action, done))
            if learn is not None and feedback is not None and step.t in store:
                learn(step, feedback(step.t))
            if watcher is not None:
                watcher.after(step, turn, store)
                turn.clear()
    except Exception as error:
        # A user's policy may raise anything; the place is what its author needs.
        raise _failed(error, step, names) from error
    for kind, number in zip(_KINDS, (skipped, written, merged, expired), strict=True):
        counts.emitted[kind] += number


def _failed(error: Exception, step: Step, names: tuple[str, str]) -> PolicyFailed:
    problem = str(error) if isinstance(error, (StandfastError, Endless)) else repr(error)
    return PolicyFailed(policy=names[0], t=step.t, episode=names[1], problem=problem)
