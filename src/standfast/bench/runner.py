"""Runs one policy over one episode under one budget, and grades it.

Labels are not an argument of ``run_policy``. A bandit gets utilities through a function from a timestep to its utility,
which is called only for what was just stored; an oracle gets a ``Hindsight``. What does not depend on the policy is computed
once for an episode: the steps as each track sees them, their prices, and the exact oracle.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.metrics import ActionCounts, EpisodeMetrics, WorthCurve, evaluate
from standfast.bench.oracle import oracle_curve, oracle_worth
from standfast.canon import fingerprint
from standfast.errors import PolicyFailed, StandfastError, UnknownPolicy
from standfast.policies import (
    BanditPolicy,
    ByteBudget,
    ByteMemoryStore,
    ByteModel,
    Hindsight,
    OraclePolicy,
    PolicySpec,
    PriceList,
    Track,
    WritePolicy,
    apply_policy,
)
from standfast.policies.byte_model import json_bytes
from standfast.vocabulary import ActionType, MemoryAction, Step

CURVE_POINTS: Final = 256

# Metadata that a stream's source provides, as opposed to what is derived from labels.
UNLABELLED: Final = ("mode", "source", "version_distance")
VISIBLE: Final = {
    Track.UNPRIVILEGED: UNLABELLED,
    Track.PRIVILEGED: (*UNLABELLED, "priority"),
    Track.BANDIT: UNLABELLED,
    Track.ORACLE: UNLABELLED,
}
assert set(VISIBLE) == set(Track)


def track_view(steps: Sequence[Step], track: Track) -> tuple[Step, ...]:
    """Return the steps as a policy on this track sees them.

    Hidden metadata is not there at all. These steps are also what is stored and priced, so a policy does not pay for metadata
    that it can't see.
    """
    allowed = VISIBLE[track]
    return tuple(
        step
        if step.metadata.keys() <= set(allowed)
        else Step(
            t=step.t,
            observation=step.observation,
            metadata={key: step.metadata[key] for key in allowed if key in step.metadata},
        )
        for step in steps
    )


class Entrant(msgspec.Struct, frozen=True):
    """A policy in the benchmark and the track it sees. ``Name@privileged`` shows an unprivileged policy the hints, too."""

    spec: PolicySpec
    track: Track

    @classmethod
    def parse(cls, text: str) -> "Entrant":
        """Read ``Name``, ``Name(setting=value)`` or either with ``@track``."""
        name, _, track = text.partition("@")
        spec = PolicySpec.parse(name)
        if not track:
            return cls(spec, spec.track)
        if not (spec.track is Track.UNPRIVILEGED and track in (Track.UNPRIVILEGED, Track.PRIVILEGED)):
            problem = f"it is on the {spec.track} track; only an unprivileged policy can be shown more, with @privileged"
            raise UnknownPolicy(policy=repr(text), problem=problem)
        return cls(spec, Track(track))

    def __str__(self) -> str:
        return str(self.spec) if self.track is self.spec.track else f"{self.spec}@{self.track}"


class StepObserver(Protocol):
    """Sees each step of a run after its actions were applied."""

    def after(self, step: Step, applied: Sequence[tuple[MemoryAction, bool]], store: ByteMemoryStore) -> None:
        """Receive a step, its actions with whether each was accepted, and the store after them."""
        ...


def run_policy(
    policy: WritePolicy,
    steps: Sequence[Step],
    store: ByteMemoryStore,
    *,
    feedback: Callable[[int], float] | None = None,
    hindsight: Hindsight | None = None,
    observer: StepObserver | None = None,
    names: tuple[str, str] = ("", ""),
) -> ActionCounts:
    """Apply a policy to each step, and count its actions.

    Args:
        policy: The policy; with ``feedback`` it must have ``learn``, with ``hindsight`` it must have ``foresee``.
        steps: The steps as its track sees them.
        store: The store that its actions are applied to.
        feedback: Returns the utility of a timestep; called for what was just stored.
        hindsight: Given to the policy before the first step.
        observer: Sees each step.
        names: The names of policy and episode, for errors.

    Raises:
        PolicyFailed: The policy raised an error; it names the timestep.
    """
    counts = ActionCounts()
    emitted, refused = counts.emitted, counts.refused
    step = steps[0]
    try:
        if hindsight is not None:
            assert isinstance(policy, OraclePolicy), "hindsight needs a policy with foresee()"
            policy.foresee(hindsight)
        for step in steps:
            applied = apply_policy(policy, step, store)
            for action, accepted in applied:
                emitted[action.action] += 1
                if not accepted:
                    refused[action.action] += 1
            if feedback is not None and step.t in store:
                assert isinstance(policy, BanditPolicy), "feedback needs a policy with learn()"
                policy.learn(step, feedback(step.t))
            if observer is not None:
                observer.after(step, applied, store)
    except Exception as error:
        # A user's policy may raise anything.
        problem = str(error) if isinstance(error, StandfastError) else repr(error)
        raise PolicyFailed(policy=names[0], t=step.t, episode=names[1], problem=problem) from error
    return counts


class _RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy left behind: all that grading needs."""

    max_bytes: int
    retained: set[int]
    counts: ActionCounts
    bytes_used: int
    limit_felt: bool
    worth_curve: list[int] | None


class EpisodeRun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one policy on one episode under one budget."""

    metrics: EpisodeMetrics
    counts: ActionCounts
    curve: tuple[float, ...] = ()
    mean_regret: float | None = None


class PricedEpisode:
    """An episode as each track sees it, with its prices; runs policies over it.

    Example:
        ``PricedEpisode(episode).run(Entrant.parse("RecencyBias"), 10_240).metrics.recall``
    """

    def __init__(
        self,
        episode: Episode,
        model: ByteModel = ByteModel.SPEC,
        *,
        seed: int = 0,
        name: str = "",
        measure: Callable[[object], int] = json_bytes,
    ) -> None:
        """Price an episode.

        Args:
            episode: The episode.
            model: How a WRITE is priced.
            seed: Makes the seeds of policies that use random numbers.
            name: The episode's name in seeds and errors.
            measure: Returns the stored length of an observation.
        """
        self.episode = episode
        self.model = model
        self.name = name
        self.seed = seed
        # Tracks differ in metadata only, so an observation is measured once.
        self._sizes = [measure(step.observation) for step in episode.steps]
        self._views: dict[tuple[str, ...], tuple[tuple[Step, ...], PriceList]] = {}
        self._worth: dict[tuple[tuple[str, ...], int], int] = {}
        self._curves: dict[tuple[tuple[str, ...], int], list[int]] = {}
        # Runs that never felt their budget: under any larger one they are the same, to the last action.
        self._unfelt: dict[tuple[Entrant, bool], _RunOutcome] = {}

    def shown(self, track: Track) -> tuple[tuple[Step, ...], PriceList]:
        """Return the steps that a track sees, and their prices."""
        key = VISIBLE[track]
        if key not in self._views:
            steps, prices = track_view(self.episode.steps, track), PriceList(self.model)
            prices.price_all(steps, self._sizes)
            self._views[key] = (steps, prices)
        return self._views[key]

    def sizes_and_worth(self, track: Track) -> tuple[list[int], list[int]]:
        """Return the price and the worth of each step that a track sees."""
        steps, prices = self.shown(track)
        worth = self.episode.labels.worth
        return [prices.base(step).byte_cost for step in steps], [worth.get(step.t, 0) for step in steps]

    def oracle_worth(self, track: Track, max_bytes: int) -> int:
        """Return the WRITE-only optimum for what a track sees."""
        key = VISIBLE[track], max_bytes
        if key not in self._worth:
            self._worth[key] = oracle_worth(*self.sizes_and_worth(track), max_bytes)
        return self._worth[key]

    def oracle_curve(self, track: Track, max_bytes: int) -> list[int]:
        """Return the WRITE-only optimum after each step."""
        key = VISIBLE[track], max_bytes
        if key not in self._curves:
            self._curves[key] = oracle_curve(*self.sizes_and_worth(track), max_bytes)
        return self._curves[key]

    def policy_seed(self, entrant: Entrant) -> int:
        """Return the seed of a policy. It does not depend on the order of runs, the worker or the budget."""
        return int(fingerprint([self.seed, self.name, str(entrant)])[:15], 16)

    def utility_of(self, t: int) -> float:
        """Return the utility of a timestep."""
        return self.episode.labels.utility_by_step.get(t, 0.0)

    def feedback(self, track: Track) -> Callable[[int], float] | None:
        """Return the ``feedback`` of a run on this track."""
        return self.utility_of if track is Track.BANDIT else None

    def hindsight(self, track: Track, steps: Sequence[Step]) -> Hindsight | None:
        """Return the ``hindsight`` of a run on this track."""
        return Hindsight(steps=steps, worth=self.episode.labels.worth) if track is Track.ORACLE else None

    def fill_store(
        self,
        entrant: Entrant,
        max_bytes: int,
        *,
        steps: Sequence[Step] | None = None,
        observer: StepObserver | None = None,
    ) -> tuple[ByteMemoryStore, ActionCounts]:
        """Run a policy over the steps, or some of them, and return its store and its actions."""
        shown, prices = self.shown(entrant.track)
        steps = shown if steps is None else steps
        store = ByteMemoryStore(ByteBudget(max_bytes), prices=prices)
        counts = run_policy(
            entrant.spec.build(seed=self.policy_seed(entrant)),
            steps,
            store,
            feedback=self.feedback(entrant.track),
            hindsight=self.hindsight(entrant.track, steps),
            observer=observer,
            names=(str(entrant), self.name),
        )
        return store, counts

    def run(self, entrant: Entrant, max_bytes: int, *, curves: bool = False) -> EpisodeRun:
        """Run one policy and grade it; with ``curves``, also compute its regret after each step."""
        labels, steps = self.episode.labels, self.episode.steps
        outcome = self._unfelt.get((entrant, curves))
        if outcome is None or outcome.max_bytes > max_bytes:
            outcome = self._outcome(entrant, max_bytes, curves=curves)
        metrics = evaluate(
            outcome.retained,
            labels,
            outcome.counts,
            steps=len(steps),
            current_t=steps[-1].t,
            bytes_used=outcome.bytes_used,
            max_bytes=max_bytes,
            oracle_worth=self.oracle_worth(entrant.track, max_bytes),
        )
        if outcome.worth_curve is None:
            return EpisodeRun(metrics=metrics, counts=outcome.counts)
        oracle = self.oracle_curve(entrant.track, max_bytes)
        regret = [max(0, best - own) for best, own in zip(oracle, outcome.worth_curve, strict=True)]
        assert regret[-1] / labels.unit == metrics.regret, "the curve ends at the metric"
        return EpisodeRun(
            metrics=metrics,
            counts=outcome.counts,
            curve=tuple(regret[point] / labels.unit for point in curve_points(len(steps))),
            mean_regret=sum(regret) / len(regret) / labels.unit,
        )

    def _outcome(self, entrant: Entrant, max_bytes: int, *, curves: bool) -> _RunOutcome:
        observer = WorthCurve(self.episode.labels.worth) if curves else None
        store, counts = self.fill_store(entrant, max_bytes, observer=observer)
        outcome = _RunOutcome(
            max_bytes=max_bytes,
            retained=store.retained(),
            counts=counts,
            bytes_used=store.held_bytes,
            limit_felt=store.limit_felt,
            worth_curve=observer.points if observer is not None else None,
        )
        if not outcome.limit_felt:
            self._unfelt[entrant, curves] = outcome
        return outcome


def curve_points(steps: int) -> list[int]:
    """Return at most 256 places, evenly spread over a stream, including the last."""
    count = min(steps, CURVE_POINTS)
    return sorted({math.ceil((number + 1) * steps / count) - 1 for number in range(count)})


_COUNT_COLUMNS: Final = {
    kind: (f"{kind.value.lower()}_emitted", f"{kind.value.lower()}_refused") for kind in ActionType
}


def result_row(run: EpisodeRun) -> dict[str, Any]:
    """Return the columns of a run in a row of results."""
    row: dict[str, Any] = msgspec.to_builtins(run.metrics)
    row["mean_regret"] = run.mean_regret
    for kind, (emitted, refused) in _COUNT_COLUMNS.items():
        row[emitted] = run.counts.emitted[kind]
        row[refused] = run.counts.refused[kind]
    return row
