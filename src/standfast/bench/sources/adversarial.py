"""Streams made against one policy: an adversary watches what it keeps, and plays what costs it most.

The stream is made in segments of ten steps. Before each, the adversary tries every gambit on a copy of the policy and of its
memory, and plays the one after which the policy has lost most: critical steps that it did not keep, and ones that it let go.
It knows the policy and its budget and has the same dice every time, so that the stream can be made again.
"""

import copy
from collections.abc import Callable
from typing import Final

from standfast.bench.episodes import Episode
from standfast.bench.sources.labelling import CRITICAL, UTILITY, Touch, metadata_of
from standfast.bench.sources.synthetic import DriftSettings, Regime, World
from standfast.bench.stage import Entrant
from standfast.bench.tracks import view
from standfast.errors import InvalidValue
from standfast.policies.budget import ByteBudget
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.protocol import Track, WritePolicy, take_turn
from standfast.vocabulary import Step

SEGMENT_STEPS: Final = 10
BUDGET_BYTES: Final = 10_240


def generate_against(
    settings: DriftSettings, episode: int, policy: str, max_bytes: int = BUDGET_BYTES
) -> Episode:
    """The episode of that number, made against this policy."""
    if settings.regime is not Regime.ADVERSARIAL:
        raise InvalidValue(
            what="DriftSettings", problem="a stream against a policy has the adversarial regime"
        )
    entrant = Entrant.parse(policy)
    if entrant.track is Track.ORACLE:
        problem = f"{policy} is told everything beforehand, and there is nothing to surprise it with"
        raise InvalidValue(what="DriftSettings", problem=problem)
    duel = Duel(World(settings, episode), entrant, max_bytes)
    while len(duel.touches) < settings.steps:
        trials = [duel.fork().played(gambit) for gambit in GAMBITS.values()]
        worst = max(range(len(trials)), key=lambda number: (trials[number].lost, -number))
        duel = trials[worst]
    return duel.world.labelled(duel.touches[: settings.steps])


class Duel:
    """A world, a policy in it, what it holds, and what it has lost so far."""

    def __init__(self, world: World, entrant: Entrant, max_bytes: int) -> None:
        self.world = world
        self.entrant = entrant
        self.policy: WritePolicy = entrant.spec.build()
        self.store = ByteMemoryStore(ByteBudget(max_bytes))
        self.touches: list[Touch] = []
        self.offered = 0.0

    def fork(self) -> "Duel":
        """A copy that goes its own way."""
        twin = copy.copy(self)
        twin.world = copy.deepcopy(self.world)
        twin.policy = copy.deepcopy(self.policy)
        twin.store = self.store.fork()
        twin.touches = list(self.touches)
        return twin

    def played(self, gambit: Callable[["Duel", int], Touch]) -> "Duel":
        """The same duel, one segment on."""
        for number in range(SEGMENT_STEPS):
            touch = gambit(self, number)
            step = self._shown(touch, len(self.touches))
            self.touches.append(touch)
            turn = take_turn(self.policy, step, self.store)
            worth = UTILITY[touch.drift_class]
            self.offered += worth if touch.drift_class in CRITICAL else 0.0
            learn: Callable[[Step, float], None] | None = getattr(self.policy, "learn", None)
            if learn is not None and step.t in self.store and turn:
                learn(step, worth)
        return self

    @property
    def lost(self) -> float:
        """The worth of all critical steps that are not retained."""
        kept = self.store.retained()
        held = sum(
            UTILITY[self.touches[t].drift_class] for t in kept if self.touches[t].drift_class in CRITICAL
        )
        return self.offered - held

    def held_entities(self) -> set[str]:
        """The endpoints of which something is held."""
        return {item.api for item in self.store.items() if item.api is not None}

    def _shown(self, touch: Touch, t: int) -> Step:
        metadata = metadata_of(
            touch, source="synthetic", mode=str(Regime.ADVERSARIAL), episode_id=self.world.episode, t=t
        )
        step = Step(t=t, observation=touch.observation, metadata=metadata)
        return view((step,), self.entrant.track)[0]


def _natural(duel: Duel, number: int) -> Touch:  # noqa: ARG001  # A gambit's signature.
    """What happens by itself."""
    return duel.world.next(len(duel.touches))


def _flood(duel: Duel, number: int) -> Touch:
    """The longest things, unchanged, to drive out what is held."""
    longest = sorted(duel.world.entities, key=lambda entity: (-len(entity["words"]), entity["number"]))
    return duel.world.observe(longest[number % min(5, len(longest))]["number"], drift=False)


def _strike(duel: Duel, number: int) -> Touch:
    """Drift of what memory knows nothing about."""
    held = duel.held_entities()
    unknown = [n for n in range(len(duel.world.entities)) if duel.world.name_of(n) not in held]
    return duel.world.observe((unknown or [0])[number % max(len(unknown), 1)], drift=True)


def _churn(duel: Duel, number: int) -> Touch:
    """One thing that changes all the time, then something else that matters."""
    return duel.world.observe(number // (SEGMENT_STEPS - 1), drift=True)


def _echo(duel: Duel, number: int) -> Touch:
    """The same again and again, and a change at the end."""
    return duel.world.observe(len(duel.world.entities) - 1, drift=number == SEGMENT_STEPS - 1)


GAMBITS: Final[dict[str, Callable[[Duel, int], Touch]]] = {
    "natural": _natural,
    "flood": _flood,
    "strike": _strike,
    "churn": _churn,
    "echo": _echo,
}
