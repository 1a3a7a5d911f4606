"""One policy over one stream: every step is shown once, every action is applied, and what came of it is counted.

Labels are no argument of ``play``. What the bandit and oracle tracks are told comes through two narrow openings: a function
from a timestep to its utility, asked only about what was just written, and a ``Hindsight``.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from holdfast.budgets.store import ByteMemoryStore
from holdfast.errors import HoldfastError, PolicyFailed
from holdfast.policies.protocol import Endless, Hindsight, Learner, Seer, WritePolicy, take_turn
from holdfast.vocabulary import ActionType, MemoryAction, Step

Turn = list[tuple[MemoryAction, bool]]
STORING: Final = (ActionType.WRITE, ActionType.MERGE)


class Counts(msgspec.Struct, kw_only=True):
    """How often each action was emitted, and how often it was accepted."""

    emitted: dict[ActionType, int]
    accepted: dict[ActionType, int]

    @classmethod
    def none(cls) -> "Counts":
        """Nothing yet."""
        return cls(emitted=dict.fromkeys(ActionType, 0), accepted=dict.fromkeys(ActionType, 0))


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
    names: tuple[str, str] = ("", ""),
) -> Counts:
    """Run a policy over a stream. ``names``, of the policy and the episode, are for the error if it fails."""
    counts = Counts.none()
    emitted, accepted = counts.emitted, counts.accepted
    learner = policy if isinstance(policy, Learner) and feedback is not None else None
    t = steps[0].t
    try:
        if isinstance(policy, Seer) and hindsight is not None:
            policy.foresee(hindsight)
        for step in steps:
            t = step.t
            turn = take_turn(policy, step, store)
            stored = False
            for action, done in turn:
                kind = action.action
                emitted[kind] += 1
                if done:
                    accepted[kind] += 1
                    stored = stored or kind in STORING
            if learner is not None and feedback is not None and stored:
                learner.learn(step, feedback(step.t))
            if watcher is not None:
                watcher.after(step, turn, store)
    except HoldfastError as error:
        raise PolicyFailed(policy=names[0], t=t, episode=names[1], problem=str(error)) from error
    except Endless as error:
        raise PolicyFailed(policy=names[0], t=t, episode=names[1], problem=str(error)) from None
    except Exception as error:
        # A user's policy may raise anything; the place is what its author needs.
        raise PolicyFailed(policy=names[0], t=t, episode=names[1], problem=repr(error)) from error
    return counts
