"""Streams of drifting APIs, made from a seed: the same settings give the same bytes on every machine.

A world of endpoints and documentation sections is observed step by step. Between two observations an entity may drift: lose
or gain a parameter, be deprecated, be rewritten; a breaking change may be followed by a migration guide. Regimes say when:

    default             drift at a steady rate
    bursts              drift mostly in short windows, as releases do
    redundancy          the same entity is observed again and again
    bursts_redundancy   both
    adversarial         drift that is placed where the policy under test does worst; see ``adversarial.py``
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.sources.labelling import Touch, labelled
from standfast.canon import fingerprint
from standfast.clock import seeded
from standfast.errors import InvalidValue
from standfast.limits import MAX_EPISODE_STEPS

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
    """When drift happens, and how often the same thing is seen again."""

    DEFAULT = "default"
    BURSTS = "bursts"
    REDUNDANCY = "redundancy"
    BURSTS_REDUNDANCY = "bursts_redundancy"
    ADVERSARIAL = "adversarial"


class DriftSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a generated stream is like."""

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
    """How many entities the world has; 0 takes one for every twelve steps."""

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
    """The episode of that number; each has dice of its own, so that they can be made in any order."""
    world = World(settings, episode)
    return world.labelled([world.next(t) for t in range(settings.steps)])


class World:
    """Endpoints and documentation sections that drift while they are observed."""

    def __init__(self, settings: DriftSettings, episode: int) -> None:
        self.settings = settings
        self.episode = episode
        self._dice = seeded(
            int(fingerprint(["synthetic", settings.seed, str(settings.regime), episode])[:16], 16)
        )
        count = settings.endpoints or max(8, settings.steps // 12)
        self.entities = [self._entity(number) for number in range(count)]
        self._last = 0
        self._pending: list[Touch] = []

    def labelled(self, touches: list[Touch]) -> Episode:
        """The touches as an episode of this world."""
        return labelled(
            touches,
            source="synthetic",
            mode=str(self.settings.regime),
            episode_id=self.episode,
            halve_superseded=True,
        )

    def next(self, t: int) -> Touch:
        """What is observed at this timestep."""
        if self._pending:
            return self._pending.pop()
        settings, dice = self.settings, self._dice
        redundant = settings.regime in (Regime.REDUNDANCY, Regime.BURSTS_REDUNDANCY)
        bursty = settings.regime in (Regime.BURSTS, Regime.BURSTS_REDUNDANCY)
        if not (redundant and t and dice.random() < settings.repeat_rate):
            self._last = self._below(len(self.entities))
        rate = settings.drift_rate
        if bursty:
            rate = settings.burst_rate if t % settings.burst_every < settings.burst_steps else rate / 2
        return self.observe(self._last, drift=dice.random() < rate)

    def observe(self, number: int, *, drift: bool) -> Touch:
        """One observation of an entity, after it drifted or as it was."""
        entity = self.entities[number]
        kinds = self._drift(entity) if drift else ("unchanged",) if entity["seen"] else ("baseline",)
        distance, entity["seen"] = entity["version"] - max(entity["seen"], 1), entity["version"]
        return Touch(observation=self._shown(entity), kinds=kinds, version_distance=max(distance, 0))

    def _below(self, bound: int) -> int:
        # Only ``random()`` is promised to give the same numbers on every Python.
        return int(self._dice.random() * bound)

    def _entity(self, number: int) -> dict[str, Any]:
        dice = self._dice
        documented = dice.random() < self.settings.docs_share
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
        dice = self._dice
        roll = dice.random()
        if entity["documented"]:
            return self._rewrite(entity, roll)
        if roll < 0.3 and entity["words"]:
            gone = entity["words"].pop(self._below(len(entity["words"])))
            if dice.random() < 0.25:
                self._pending.append(self._guide(entity, gone))
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

    def _guide(self, entity: dict[str, Any], gone: str) -> Touch:
        name = f"endpoint_{entity['number']}"
        observation = {
            "api": f"guide:{name}#{entity['version']}",
            "old_api": f"{name}.{gone}",
            "new_api": f"{name}.v{entity['version']}",
            "deadline": f"2026-{1 + entity['version'] % 12:02}-01",
        }
        return Touch(observation=observation, kinds=("migration_announced",))

    def name_of(self, number: int) -> str:
        """The endpoint by which an entity's observations are known."""
        return f"docs:section_{number}" if self.entities[number]["documented"] else f"endpoint_{number}"

    def _shown(self, entity: dict[str, Any]) -> dict[str, Any]:
        version, name = entity["version"], self.name_of(entity["number"])
        if entity["documented"]:
            words = entity["words"]
            said = " ".join(f"The {word} is described here, with all its limits." for word in words)
            return {
                "api": name,
                "section": f"Section {entity['number']}",
                "content": ("Deprecated. " if entity["deprecated"] else "") + said,
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
