"""Streams made against one policy: an adversary sees what the policy stores and chooses what costs it most.

The stream is made in segments of ten steps. Before each segment, the adversary tries every attack on a copy of the policy and its
store, and uses the one after which the policy has lost most: critical steps that it did not store or that it expired. The
adversary is deterministic, so the stream can be made again. A policy that is not shipped runs in a process of its own; a copy of it is
a new process that is shown the stream so far.
"""

import copy
from collections.abc import Callable
from typing import Final

from standfast.bench.entrants import Entrant, IsolatedPolicy
from standfast.bench.episodes import Episode
from standfast.bench.runner import track_view
from standfast.bench.sources.labelling import CRITICAL, UTILITY, DriftEvent, metadata_of
from standfast.bench.sources.synthetic import DriftingWorld, DriftSettings, Regime
from standfast.errors import InvalidValue
from standfast.policies import BanditPolicy, ByteBudget, ByteMemoryStore, Track, WritePolicy, apply_policy
from standfast.vocabulary import Step

SEGMENT_STEPS: Final = 10
BUDGET_BYTES: Final = 10_240


def generate_against(
    settings: DriftSettings, episode: int, policy: str, max_bytes: int = BUDGET_BYTES
) -> Episode:
    """Return the episode of that number, made against this policy under this budget."""
    if settings.regime is not Regime.ADVERSARIAL:
        raise InvalidValue(
            what="DriftSettings", problem="a stream against a policy needs the adversarial regime"
        )
    entrant = Entrant.parse(policy)
    if entrant.track is Track.ORACLE:
        problem = f"{policy} knows the whole stream in advance, so no stream can be made against it"
        raise InvalidValue(what="DriftSettings", problem=problem)
    duel = _Duel(DriftingWorld(settings, episode), entrant, max_bytes)
    trials: list[_Duel] = []
    try:
        while len(duel.events) < settings.steps:
            trials = []
            for attack in ATTACKS.values():
                trials.append(duel.fork())
                trials[-1].play(attack)
            duel.close()
            worst = max(range(len(trials)), key=lambda number: (trials[number].lost, -number))
            duel = trials.pop(worst)
            for trial in trials:
                trial.close()
    finally:
        for open_duel in (duel, *trials):
            open_duel.close()
    return duel.world.as_episode(duel.events[: settings.steps])


class _Duel:
    """A policy, its store, and the stream that it has seen so far."""

    def __init__(self, world: DriftingWorld, entrant: Entrant, max_bytes: int) -> None:
        self.world = world
        self.entrant = entrant
        self.policy: WritePolicy = (
            entrant.spec.build() if entrant.spec.shipped else IsolatedPolicy(entrant.spec, 0)
        )
        self.store = ByteMemoryStore(ByteBudget(max_bytes))
        self.events: list[DriftEvent] = []
        self.offered = 0.0
        self._max_bytes = max_bytes

    def fork(self) -> "_Duel":
        """Return an independent copy. A policy in a process of its own is started anew and shown the same stream."""
        if isinstance(self.policy, IsolatedPolicy):
            fork = _Duel(copy.deepcopy(self.world), self.entrant, self._max_bytes)
            try:
                for event in self.events:
                    fork.show(event)
            except BaseException:
                fork.close()
                raise
            return fork
        copied = copy.copy(self)
        copied.world = copy.deepcopy(self.world)
        copied.policy = copy.deepcopy(self.policy)
        copied.store = self.store.fork()
        copied.events = list(self.events)
        return copied

    def play(self, attack: Callable[["_Duel", int], DriftEvent]) -> None:
        """Add one segment."""
        for number in range(SEGMENT_STEPS):
            self.show(attack(self, number))

    def show(self, event: DriftEvent) -> None:
        """Show the policy one more event, and apply its actions."""
        step = self._step(event, len(self.events))
        self.events.append(event)
        apply_policy(self.policy, step, self.store)
        utility = UTILITY[event.drift_class]
        self.offered += utility if event.drift_class in CRITICAL else 0.0
        if self.entrant.track is Track.BANDIT and step.t in self.store:
            assert isinstance(self.policy, BanditPolicy), "a policy on the bandit track learns"
            self.policy.learn(step, utility)

    def close(self) -> None:
        """End the policy's process, if it has one."""
        if isinstance(self.policy, IsolatedPolicy):
            self.policy.close()

    @property
    def lost(self) -> float:
        """The utility of all critical steps that are not retained."""
        retained = sum(
            UTILITY[self.events[t].drift_class]
            for t in self.store.retained()
            if self.events[t].drift_class in CRITICAL
        )
        return self.offered - retained

    def stored_endpoints(self) -> set[str]:
        """Return the endpoints of all stored items."""
        return {item.api for item in self.store.items() if item.api is not None}

    def _step(self, event: DriftEvent, t: int) -> Step:
        metadata = metadata_of(
            event, source="synthetic", mode=str(Regime.ADVERSARIAL), episode_id=self.world.episode, t=t
        )
        step = Step(t=t, observation=event.observation, metadata=metadata)
        return track_view((step,), self.entrant.track)[0]


def _natural(duel: _Duel, number: int) -> DriftEvent:  # noqa: ARG001  # An attack's signature.
    """Let the world drift on its own."""
    return duel.world.next(len(duel.events))


def _flood(duel: _Duel, number: int) -> DriftEvent:
    """Show the longest entities unchanged, to displace what is stored."""
    longest = sorted(duel.world.entities, key=lambda entity: (-len(entity["words"]), entity["number"]))
    return duel.world.observe(longest[number % min(5, len(longest))]["number"], drift=False)


def _strike(duel: _Duel, number: int) -> DriftEvent:
    """Drift entities that are not stored."""
    stored = duel.stored_endpoints()
    unknown = [n for n in range(len(duel.world.entities)) if duel.world.name_of(n) not in stored]
    return duel.world.observe((unknown or [0])[number % max(len(unknown), 1)], drift=True)


def _churn(duel: _Duel, number: int) -> DriftEvent:
    """Change one entity at every step, then another one."""
    return duel.world.observe(number // (SEGMENT_STEPS - 1), drift=True)


def _echo(duel: _Duel, number: int) -> DriftEvent:
    """Repeat one entity and change it at the end."""
    return duel.world.observe(len(duel.world.entities) - 1, drift=number == SEGMENT_STEPS - 1)


ATTACKS: Final[dict[str, Callable[[_Duel, int], DriftEvent]]] = {
    "natural": _natural,
    "flood": _flood,
    "strike": _strike,
    "churn": _churn,
    "echo": _echo,
}
