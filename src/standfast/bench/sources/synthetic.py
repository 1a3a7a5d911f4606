"""Synthetic streams of drifting APIs. The same settings give the same bytes on every machine.

A stream observes endpoints and documentation sections. Between two observations an entity may drift: lose or
gain a parameter, be deprecated or be rewritten; a breaking change may be followed by a migration guide. The
regime determines when:

    default             drift at a steady rate
    bursts              drift mostly in short windows, like releases
    redundancy          the same entity is observed many times
    bursts_redundancy   both
    adversarial         drift that is worst for the policy under test; see ``generate_against``
"""

import copy
import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from standfast.bench.entrants import Entrant, IsolatedPolicy
from standfast.bench.episodes import Episode, write_jsonl
from standfast.bench.runner import track_view
from standfast.bench.sources.labelling import CRITICAL, UTILITY, DriftEvent, label_episode, metadata_of
from standfast.clock import seeded
from standfast.errors import BadFile, InvalidValue
from standfast.limits import MAX_EPISODE_STEPS
from standfast.policies import BanditPolicy, ByteBudget, ByteMemoryStore, Track, WritePolicy, apply_policy
from standfast.records.canon import fingerprint
from standfast.records.vocabulary import Step

LENGTHS: Final = {"short": 100, "medium": 1_000, "long": 10_000}
EPISODES: Final = {"short": 10, "medium": 3, "long": 1}
assert set(LENGTHS) == set(EPISODES)

# fmt: off
WORDS: Final = (
    "amount", "balance", "batch", "capture", "channel", "charge", "client", "country", "coupon", "currency",
    "customer", "date", "email", "event", "expires", "filter", "grant", "group", "invoice", "limit",
    "locale", "method", "mode", "name", "order", "page", "payment", "plan", "price", "queue",
    "range", "reason", "refund", "region", "retry", "scope", "service", "shipping", "status", "tax",
    "timeout", "token", "transfer", "unit", "usage", "user", "webhook",
)
# fmt: on


class Regime(StrEnum):
    """When drift happens, and how often the same entity is observed again."""

    DEFAULT = "default"
    BURSTS = "bursts"
    REDUNDANCY = "redundancy"
    BURSTS_REDUNDANCY = "bursts_redundancy"
    ADVERSARIAL = "adversarial"


class DriftSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a generated stream."""

    steps: int = 100
    regime: Regime = Regime.DEFAULT
    seed: int = 0
    drift_rate: float = 0.12
    burst_every: int = 50
    burst_steps: int = 8
    burst_rate: float = 0.6
    repeat_rate: float = 0.7
    docs_share: float = 0.25
    endpoints: int = 0
    """How many entities there are; 0 means one for every twelve steps, and at least eight."""

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MAX_EPISODE_STEPS:
            raise InvalidValue(what="DriftSettings", problem=f"steps must be from 1 to {MAX_EPISODE_STEPS}")
        for name in ("drift_rate", "burst_rate", "repeat_rate", "docs_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidValue(what="DriftSettings", problem=f"{name} must be between 0 and 1")
        if self.endpoints < 0 or not 0 <= self.burst_steps <= self.burst_every or self.burst_every < 1:
            problem = "endpoints must be 0 or more, and burst_steps between 0 and burst_every"
            raise InvalidValue(what="DriftSettings", problem=problem)


def generate(settings: DriftSettings, episode: int) -> Episode:
    """Return the episode of that number. Each has its own random numbers, so any order will do."""
    world = DriftingWorld(settings, episode)
    return world.as_episode([world.next(t) for t in range(settings.steps)])


class DriftingWorld:
    """Endpoints and documentation sections that drift while they are observed."""

    def __init__(self, settings: DriftSettings, episode: int) -> None:
        self.settings = settings
        self.episode = episode
        self._random = seeded(
            int(fingerprint(["synthetic", settings.seed, str(settings.regime), episode])[:16], 16)
        )
        count = settings.endpoints or max(8, settings.steps // 12)
        self.entities = [self._entity(number) for number in range(count)]
        self._last = 0
        self._pending: list[DriftEvent] = []

    def as_episode(self, events: list[DriftEvent]) -> Episode:
        """Return the events as an episode."""
        return label_episode(
            events,
            source="synthetic",
            mode=str(self.settings.regime),
            episode_id=self.episode,
            halve_superseded=True,
        )

    def next(self, t: int) -> DriftEvent:
        """Return what is observed at this timestep."""
        if self._pending:
            return self._pending.pop()
        settings, random = self.settings, self._random
        redundant = settings.regime in (Regime.REDUNDANCY, Regime.BURSTS_REDUNDANCY)
        bursty = settings.regime in (Regime.BURSTS, Regime.BURSTS_REDUNDANCY)
        if not (redundant and t and random.random() < settings.repeat_rate):
            self._last = self._below(len(self.entities))
        rate = settings.drift_rate
        if bursty:
            rate = settings.burst_rate if t % settings.burst_every < settings.burst_steps else rate / 2
        return self.observe(self._last, drift=random.random() < rate)

    def observe(self, number: int, *, drift: bool) -> DriftEvent:
        """Return an observation of an entity, with or without drift."""
        entity = self.entities[number]
        kinds = self._drift(entity) if drift else ("unchanged",) if entity["seen"] else ("baseline",)
        distance, entity["seen"] = entity["version"] - max(entity["seen"], 1), entity["version"]
        return DriftEvent(
            observation=self._observation(entity), kinds=kinds, version_distance=max(distance, 0)
        )

    def _below(self, bound: int) -> int:
        # Only ``random()`` gives the same numbers on every version of Python.
        return int(self._random.random() * bound)

    def _entity(self, number: int) -> dict[str, Any]:
        random = self._random
        documented = random.random() < self.settings.docs_share
        words = [WORDS[self._below(len(WORDS))] for _ in range(2 + self._below(5))]
        return {
            "number": number,
            "documented": documented,
            "words": list(dict.fromkeys(words)),
            "deprecated": False,
            "version": 1,
            "seen": 0,
        }

    def _drift(self, entity: dict[str, Any]) -> tuple[str, ...]:
        entity["version"] += 1
        random = self._random
        roll = random.random()
        if entity["documented"]:
            return self._rewrite(entity, roll)
        if roll < 0.3 and entity["words"]:
            removed = entity["words"].pop(self._below(len(entity["words"])))
            if random.random() < 0.25:
                self._pending.append(self._guide(entity, removed))
            return ("params_removed",)
        if roll < 0.4 and not entity["deprecated"]:
            entity["deprecated"] = True
            return ("deprecated_on",)
        entity["words"].append(f"{WORDS[self._below(len(WORDS))]}_{entity['version']}")
        return ("required_param_added",) if roll < 0.5 else ("optional_params_added",)

    def _rewrite(self, entity: dict[str, Any], roll: float) -> tuple[str, ...]:
        if roll < 0.3:
            entity["words"] = [WORDS[self._below(len(WORDS))] for _ in range(3 + self._below(6))]
            return ("rewritten",)
        entity["words"].append(WORDS[self._below(len(WORDS))])
        if roll < 0.45 and not entity["deprecated"]:
            entity["deprecated"] = True
            return ("warning_added",)
        return ("edited",)

    def _guide(self, entity: dict[str, Any], removed: str) -> DriftEvent:
        name = f"endpoint_{entity['number']}"
        observation = {
            "api": f"guide:{name}#{entity['version']}",
            "old_api": f"{name}.{removed}",
            "new_api": f"{name}.v{entity['version']}",
            "deadline": f"2026-{1 + entity['version'] % 12:02}-01",
        }
        return DriftEvent(observation=observation, kinds=("migration_announced",))

    def name_of(self, number: int) -> str:
        """Return the endpoint of an entity."""
        return f"docs:section_{number}" if self.entities[number]["documented"] else f"endpoint_{number}"

    def _observation(self, entity: dict[str, Any]) -> dict[str, Any]:
        version, name = entity["version"], self.name_of(entity["number"])
        if entity["documented"]:
            words = entity["words"]
            text = " ".join(f"The {word} is described here, with all its limits." for word in words)
            return {
                "api": name,
                "section": f"Section {entity['number']}",
                "content": ("Deprecated. " if entity["deprecated"] else "") + text,
                "last_updated": f"2026-{1 + version % 12:02}-{1 + version % 28:02}",
                "deprecated": entity["deprecated"],
            }
        return {
            "api": name,
            "endpoint": f"/v1/{name}",
            "params": list(entity["words"]),
            "deprecated": entity["deprecated"],
            "version": version,
        }


def episode_files(sources: Sequence[str]) -> list[str]:
    """Return the named files, and the ``.jsonl`` files of named folders in order; each once."""
    found: list[str] = []
    for source in sources:
        if Path(source).is_dir():
            inside = sorted(os.fspath(path) for path in Path(source).glob("*.jsonl"))
            if not inside:
                raise BadFile(file=source, problem="it has no .jsonl files")
            found += inside
        else:
            found.append(source)
    return list(dict.fromkeys(found))


def synthetic_name(settings: DriftSettings, episodes: int, against: str | None = None) -> str:
    """Return a file name that names the settings."""
    target = f"__against={against}" if against is not None else ""
    return f"synthetic__regime={settings.regime}__seed={settings.seed}__steps={settings.steps}__n={episodes}{target}.jsonl"  # noqa: E501  # A file name is read as a whole.


def default_files(out: str, *, seed: int = 0) -> list[str]:
    """Return files of synthetic episodes, three lengths in four regimes; missing ones are made in ``out``."""
    files = []
    for regime in Regime:
        if regime is Regime.ADVERSARIAL:
            continue
        for length, steps in LENGTHS.items():
            settings = DriftSettings(steps=steps, regime=regime, seed=seed)
            file = Path(out) / "episodes" / synthetic_name(settings, EPISODES[length])
            if not file.exists():
                write_jsonl(file, (generate(settings, number) for number in range(EPISODES[length])))
            files.append(os.fspath(file))
    return files


SEGMENT_STEPS: Final = 10
BUDGET_BYTES: Final = 10_240


def generate_against(
    settings: DriftSettings, episode: int, policy: str, max_bytes: int = BUDGET_BYTES
) -> Episode:
    """Return the episode of that number, made against this policy under this budget.

    The stream is made in segments of ten steps. Before each segment, an adversary tries every attack on a
    copy of the policy and its store, and uses the one after which the policy has lost most: critical steps
    that it did not store or that it expired. The adversary is deterministic, so the stream can be made again.
    A policy that is not shipped runs in a process of its own; a copy of it is a new process that is shown the
    stream so far.
    """
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
        self.policy: WritePolicy = entrant.spec.build() if entrant.spec.shipped else entrant.isolated(0)
        self.store = ByteMemoryStore(ByteBudget(max_bytes))
        self.events: list[DriftEvent] = []
        self.offered = 0.0
        self._max_bytes = max_bytes

    def fork(self) -> "_Duel":
        """Return an independent copy. A policy in a process is started anew and shown the same stream."""
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
