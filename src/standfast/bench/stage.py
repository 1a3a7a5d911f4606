"""One episode under one budget: each policy plays on the same stage, and is graded by the same labels.

What does not depend on the policy is worked out once: the steps as each track sees them, their prices, the exact oracle.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.metrics import Metrics, evaluate, regraded
from standfast.bench.oracle import oracle_curve, oracle_worth
from standfast.bench.play import Counts, Watcher, no_counts, play
from standfast.bench.regret import WorthWatcher
from standfast.bench.tracks import VISIBLE, view
from standfast.canon import fingerprint
from standfast.errors import UnknownPolicy
from standfast.policies.budget import ByteBudget
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.bytes import ByteModel, json_bytes
from standfast.policies.items import Prices
from standfast.policies.knapsack import Ranking, ranked
from standfast.policies.protocol import Hindsight, Track
from standfast.policies.registry import PolicySpec
from standfast.vocabulary import ActionType, Step

CURVE_POINTS: Final = 256


class Entrant(msgspec.Struct, frozen=True):
    """A policy in the benchmark, and what it is shown; ``Name@privileged`` shows a policy the hints it does not need."""

    spec: PolicySpec
    track: Track

    @classmethod
    def parse(cls, text: str) -> "Entrant":
        """A policy as people write it, on its own track unless another is named."""
        name, _, track = text.partition("@")
        spec = PolicySpec.parse(name)
        own = spec.track
        if not track:
            return cls(spec, own)
        if not (own is Track.UNPRIVILEGED and track in (Track.UNPRIVILEGED, Track.PRIVILEGED)):
            problem = f"it plays on the {own} track; only an unprivileged policy can be shown more, with @privileged"
            raise UnknownPolicy(policy=repr(text), problem=problem)
        return cls(spec, Track(track))

    def __str__(self) -> str:
        return str(self.spec) if self.track is self.spec.track else f"{self.spec}@{self.track}"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy left behind: all that grading needs, and nothing that depends on labels."""

    retained: set[int]
    counts: Counts
    bytes_used: int
    limit_felt: bool
    worth: list[int] | None
    """The worth of what was retained after each step, where curves are asked for."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one policy on the stage."""

    metrics: Metrics
    counts: Counts
    curve: tuple[float, ...] = ()
    mean_regret: float | None = None


class Scene:
    """An episode as the tracks see it, priced."""

    def __init__(
        self,
        episode: Episode,
        model: ByteModel,
        *,
        seed: int = 0,
        name: str = "",
        measure: Callable[[object], int] = json_bytes,
    ) -> None:
        self.episode = episode
        self.model = model
        self.name = name
        self.seed = seed
        # Tracks differ in metadata only, so an observation is measured once.
        self._sizes = [measure(step.observation) for step in episode.steps]
        self._views: dict[tuple[str, ...], tuple[tuple[Step, ...], Prices]] = {}
        self._priced: dict[tuple[str, ...], tuple[list[int], list[int]]] = {}
        self._rankings: dict[tuple[str, ...], Ranking] = {}
        # Runs that never felt their budget: with any larger one they would be the same, to the last action.
        self.unfelt: dict[Entrant, tuple[int, Outcome, Metrics]] = {}

    def shown(self, track: Track) -> tuple[tuple[Step, ...], Prices]:
        """The steps that a track sees, and their prices, which all its policies share."""
        key = VISIBLE[track]
        if key not in self._views:
            beside = next((prices for _, prices in self._views.values()), None)
            prices = Prices(self.model, beside=beside)
            steps = view(self.episode.steps, track)
            prices.note_all(steps, self._sizes)
            self._views[key] = (steps, prices)
        return self._views[key]

    def priced_worth(self, track: Track) -> tuple[list[int], list[int]]:
        """The size and the worth of each step that a track sees; the oracle of every budget asks for them."""
        key = VISIBLE[track]
        if key not in self._priced:
            steps, prices = self.shown(track)
            worth = self.episode.labels.worth
            self._priced[key] = (
                [prices.of(step) for step in steps],
                [worth.get(step.t, 0) for step in steps],
            )
        return self._priced[key]

    def ranking(self, track: Track) -> Ranking:
        """What a track sees in the order of worth per byte, which is the same for the oracle of every budget."""
        key = VISIBLE[track]
        if key not in self._rankings:
            self._rankings[key] = ranked(*self.priced_worth(track))
        return self._rankings[key]

    def policy_seed(self, entrant: Entrant) -> int:
        """Dice that depend on what is run and on nothing else: not on the order, nor on the worker, nor on the budget."""
        return int(fingerprint([self.seed, self.name, str(entrant)])[:15], 16)

    def utility_of(self, t: int) -> float:
        """What a learner is told about a step that it stored."""
        return self.episode.labels.utility_by_step.get(t, 0.0)


class Stage:
    """A scene under a budget."""

    def __init__(self, scene: Scene, max_bytes: int, *, curves: bool = False) -> None:
        self.scene = scene
        self.max_bytes = max_bytes
        self._curves = curves
        self._worth: dict[tuple[str, ...], int] = {}
        self._oracles: dict[tuple[str, ...], list[int]] = {}

    def run(self, entrant: Entrant) -> Run:
        """Let one policy play, and grade it."""
        labels, steps = self.scene.episode.labels, self.scene.episode.steps
        best_worth = self.oracle_worth(entrant.track)
        known = self.scene.unfelt.get(entrant)
        if known is not None and known[0] <= self.max_bytes:
            _, outcome, before = known
            metrics = regraded(
                before,
                outcome.retained,
                labels,
                steps=len(steps),
                max_bytes=self.max_bytes,
                oracle_worth=best_worth,
            )
        else:
            outcome = self._played(entrant)
            metrics = evaluate(
                outcome.retained,
                labels,
                outcome.counts,
                steps=len(steps),
                current_t=steps[-1].t,
                bytes_used=outcome.bytes_used,
                max_bytes=self.max_bytes,
                oracle_worth=best_worth,
            )
            if not outcome.limit_felt:
                self.scene.unfelt[entrant] = (self.max_bytes, outcome, metrics)
        if outcome.worth is None:
            return Run(metrics=metrics, counts=outcome.counts)
        unit = labels.unit
        oracle = self.oracle_curve(entrant.track)
        regret = [max(0, best - own) for best, own in zip(oracle, outcome.worth, strict=True)]
        assert regret[-1] / unit == metrics.regret, "the curve ends where the metric stands"
        curve = tuple(regret[point] / unit for point in curve_points(len(steps)))
        mean = sum(regret) / len(regret) / unit
        return Run(metrics=metrics, counts=outcome.counts, curve=curve, mean_regret=mean)

    def _played(self, entrant: Entrant) -> Outcome:
        watcher = WorthWatcher(self.scene.episode.labels.worth) if self._curves else None
        counts = no_counts()
        steps, _ = self.scene.shown(entrant.track)
        store = alone(self.scene, entrant, steps, self.max_bytes, watcher=watcher, counts=counts)
        return Outcome(
            retained=store.retained(),
            counts=counts,
            bytes_used=store.held_bytes,
            limit_felt=store.limit_felt,
            worth=watcher.curve if watcher is not None else None,
        )

    def oracle_worth(self, track: Track) -> int:
        """The WRITE-only optimum for what a track sees."""
        key = VISIBLE[track]
        if key not in self._worth:
            sizes, values = self.scene.priced_worth(track)
            ranking = partial(self.scene.ranking, track)
            self._worth[key] = oracle_worth(sizes, values, self.max_bytes, ranking)
        return self._worth[key]

    def oracle_curve(self, track: Track) -> list[int]:
        """The same after each step."""
        key = VISIBLE[track]
        if key not in self._oracles:
            self._oracles[key] = oracle_curve(*self.scene.priced_worth(track), self.max_bytes)
        return self._oracles[key]


def alone(
    scene: Scene,
    entrant: Entrant,
    steps: tuple[Step, ...],
    max_bytes: int,
    *,
    watcher: Watcher | None = None,
    counts: Counts | None = None,
) -> ByteMemoryStore:
    """Let one policy play over steps of a scene with a budget of its own, told what its track is told. Gives its store."""
    labels = scene.episode.labels
    store = ByteMemoryStore(ByteBudget(max_bytes), prices=scene.shown(entrant.track)[1])
    play(
        entrant.spec.build(seed=partial(scene.policy_seed, entrant)),
        steps,
        store,
        feedback=scene.utility_of if entrant.track is Track.BANDIT else None,
        hindsight=Hindsight(steps=steps, worth=labels.worth) if entrant.track is Track.ORACLE else None,
        watcher=watcher,
        counts=counts,
        names=(str(entrant), scene.name),
    )
    return store


def curve_points(steps: int) -> list[int]:
    """At most 256 places, evenly spread over a stream, the last among them."""
    count = min(steps, CURVE_POINTS)
    return sorted({math.ceil((number + 1) * steps / count) - 1 for number in range(count)})


_COLUMNS: Final = {
    kind: (f"{kind.value.lower()}_emitted", f"{kind.value.lower()}_refused") for kind in ActionType
}


def row_of(entrant: Entrant, run: Run) -> dict[str, Any]:
    """A run as a row of results."""
    row: dict[str, Any] = {"policy": str(entrant.spec), "track": str(entrant.track)}
    row |= msgspec.to_builtins(run.metrics)
    row["mean_regret"] = run.mean_regret
    for kind, (emitted, refused) in _COLUMNS.items():
        row[emitted] = run.counts.emitted[kind]
        row[refused] = run.counts.refused[kind]
    return row
