"""One policy over one stream: every step is shown once, every action is applied, and what came of it is counted.

Labels are no argument of ``play``. What the bandit and oracle tracks are told comes through two narrow openings: a function
from a timestep to its utility, asked only about what was just written, and a ``Hindsight``.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.budgets.store import ByteMemoryStore
from holdfast.errors import HoldfastError, PolicyFailed
from holdfast.policies.protocol import SKIP, Endless, Hindsight, WritePolicy, not_endless
from holdfast.vocabulary import ActionType, MemoryAction, Step

Turn = list[tuple[MemoryAction, bool]]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How often each action was emitted, and how often it was refused."""

    emitted: dict[ActionType, int]
    refused: dict[ActionType, int]


def no_counts() -> Counts:
    """Nothing yet; whoever plays counts on."""
    return Counts(emitted=dict.fromkeys(ActionType, 0), refused=dict.fromkeys(ActionType, 0))


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
    """Run a policy over a stream of priced steps: ``take_turn`` for each of them, with the benchmark's books kept.

    ``names``, of policy and episode, are for the error if it fails.
    """
    counts = counts or no_counts()
    # A user's policy may have any shape; the registry has checked that a track comes with its method.
    shaped: Any = policy
    learn: Callable[[Step, float], None] | None = shaped.learn if feedback is not None else None
    t, skipped = steps[0].t, 0
    try:
        if hindsight is not None:
            shaped.foresee(hindsight)
        select, apply = policy.select, store.apply
        emitted, refused, skip = counts.emitted, counts.refused, ActionType.SKIP
        for step in steps:
            t = step.t
            actions = select(step, store)
            if actions is SKIP and watcher is None:
                # Most steps of most policies: nothing to apply, nothing to tell.
                skipped += 1
                continue
            turn: Turn = []
            idle = 0
            for action in actions:
                kind = action.action
                emitted[kind] += 1
                done = apply(action, step)
                if not done:
                    refused[kind] += 1
                    idle = not_endless(idle + 1)
                elif kind is skip:
                    idle = not_endless(idle + 1)
                if watcher is not None:
                    turn.append((action, done))
            if learn is not None and feedback is not None and t in store:
                learn(step, feedback(t))
            if watcher is not None:
                watcher.after(step, turn, store)
        emitted[skip] += skipped
    except HoldfastError as error:
        raise PolicyFailed(policy=names[0], t=t, episode=names[1], problem=str(error)) from error
    except Endless as error:
        raise PolicyFailed(policy=names[0], t=t, episode=names[1], problem=str(error)) from None
    except Exception as error:
        # A user's policy may raise anything; the place is what its author needs.
        raise PolicyFailed(policy=names[0], t=t, episode=names[1], problem=repr(error)) from error
