"""Runs one policy over one episode under one budget, and grades it.

Labels are not an argument of ``run_policy``. A bandit gets utilities through a function from a timestep to
its utility, which is called only for what was just stored; an oracle gets a ``Hindsight``. What does not
depend on the policy is computed once for an episode: the steps as each track sees them, frozen; their prices;
and the exact oracle. Each run has a store and a price list of its own.
"""

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, Final, Protocol

import msgspec

from standfast.bench.entrants import Entrant
from standfast.bench.episodes import Episode
from standfast.bench.metrics import (
    ActionCounts,
    EpisodeMetrics,
    WorthCurve,
    evaluate,
    oracle_curve,
    oracle_worth,
)
from standfast.errors import BenchError, StandfastError
from standfast.policies import (
    BanditPolicy,
    ByteBudget,
    ByteMemoryStore,
    ByteModel,
    Compression,
    Hindsight,
    MemoryItem,
    OraclePolicy,
    PriceList,
    Track,
    WritePolicy,
    apply_policy,
)
from standfast.policies.byte_model import compressed_bytes, frozen, json_bytes
from standfast.policies.write_policy import HINTS, visible_metadata
from standfast.records.canon import fingerprint
from standfast.records.vocabulary import ActionType, MemoryAction, Step

CURVE_POINTS: Final = 256


def track_view(steps: Sequence[Step], track: Track, hints: frozenset[str] = HINTS) -> tuple[Step, ...]:
    """Return the steps as a policy on this track sees them, frozen.

    These steps are also what is stored and priced, so a policy pays for exactly the metadata that it sees.
    """
    return tuple(
        Step(
            t=step.t,
            observation=frozen(step.observation),
            metadata=visible_metadata(step.metadata, track, hints),
        )
        for step in steps
    )


class StepObserver(Protocol):
    """Sees each step of a run after its actions were applied."""

    def after(
        self, step: Step, applied: Sequence[tuple[MemoryAction, bool]], store: ByteMemoryStore, /
    ) -> None:
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
    prices: Sequence[MemoryItem] = (),
    names: tuple[str, str] = ("", ""),
) -> ActionCounts:
    """Apply a policy to each step, and count its actions.

    Args:
        policy: The policy; with ``feedback`` it must have ``learn``, with ``hindsight`` ``foresee``.
        steps: The steps as its track sees them.
        store: The store that its actions are applied to.
        feedback: Returns the utility of a timestep; called for what was just stored.
        hindsight: Given to the policy before the first step.
        observer: Sees each step.
        prices: The priced steps, if known. The store learns each price when its step's turn comes.
        names: The names of policy and episode, for errors.

    Raises:
        BenchError: The policy raised an error; it names the timestep.
    """
    counts = ActionCounts()
    emitted, refused, show = counts.emitted, counts.refused, store.prices.show
    step = steps[0]
    try:
        if hindsight is not None:
            assert isinstance(policy, OraclePolicy), "hindsight needs a policy with foresee()"
            policy.foresee(hindsight)
        for step, item in zip_longest(steps, prices):
            if item is not None:
                show(item)
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
        raise BenchError(
            "policy_failed", policy=names[0], t=step.t, episode=names[1], problem=problem
        ) from error
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
        compression: Compression = Compression.NEVER,
    ) -> None:
        """Price an episode.

        Args:
            episode: The episode.
            model: How a WRITE is priced.
            seed: Makes the seeds of policies that use random numbers.
            name: The episode's name in seeds and errors.
            compression: Whether observations and deltas are stored compressed, or may be.
        """
        self.episode = episode
        self.model = model
        self.name = name
        self.seed = seed
        self._compression = compression
        self._hints = HINTS | episode.labels.hints
        # Tracks differ in metadata only, so an observation is frozen and measured once.
        measure = compressed_bytes if compression is Compression.ALWAYS else json_bytes
        self._steps = track_view(episode.steps, Track.PRIVILEGED)
        self._sizes = [measure(step.observation) for step in episode.steps]
        # By whether hints are shown, in which tracks differ.
        self._views: dict[bool, tuple[MemoryItem, ...]] = {}
        self._worth: dict[tuple[bool, int], int] = {}
        self._curves: dict[tuple[bool, int], list[int]] = {}
        # Runs that never felt their budget: under any larger one they are the same, to the last action.
        self._unfelt: dict[tuple[Entrant, bool], _RunOutcome] = {}

    def priced_steps(self, track: Track) -> tuple[MemoryItem, ...]:
        """Return the steps that a track sees, as the items that a WRITE of each would store."""
        key = track is Track.PRIVILEGED
        if key not in self._views:
            prices = self._price_list()
            steps = self._steps if key else track_view(self._steps, track, self._hints)
            self._views[key] = tuple(map(prices.price, steps, self._sizes))
        return self._views[key]

    def shown(self, track: Track) -> tuple[Step, ...]:
        """Return the steps that a track sees."""
        return tuple(item.step for item in self.priced_steps(track))

    def new_store(self, track: Track, budget: ByteBudget) -> ByteMemoryStore:
        """Return an empty store for a run on this track. Only an oracle's store knows prices in advance."""
        prices = self._price_list()
        if track is Track.ORACLE:
            for item in self.priced_steps(track):
                prices.show(item)
        return ByteMemoryStore(budget, prices=prices)

    def _price_list(self) -> PriceList:
        return PriceList(self.model, compression=self._compression)

    def sizes_and_worth(self, track: Track) -> tuple[list[int], list[int]]:
        """Return the price and the worth of each step that a track sees."""
        items, worth = self.priced_steps(track), self.episode.labels.worth
        return [item.byte_cost for item in items], [worth.get(item.step.t, 0) for item in items]

    def oracle_worth(self, track: Track, max_bytes: int) -> int:
        """Return the WRITE-only optimum for what a track sees."""
        key = track is Track.PRIVILEGED, max_bytes
        if key not in self._worth:
            self._worth[key] = oracle_worth(*self.sizes_and_worth(track), max_bytes)
        return self._worth[key]

    def oracle_curve(self, track: Track, max_bytes: int) -> list[int]:
        """Return the WRITE-only optimum after each step."""
        key = track is Track.PRIVILEGED, max_bytes
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
        items: Sequence[MemoryItem] | None = None,
        observer: StepObserver | None = None,
    ) -> tuple[ByteMemoryStore, ActionCounts]:
        """Run a policy over the priced steps, or some of them, and return its store and its actions."""
        items = self.priced_steps(entrant.track) if items is None else items
        steps = [item.step for item in items]
        store = self.new_store(entrant.track, ByteBudget(max_bytes))
        with entrant.policy(self.policy_seed(entrant)) as policy:
            counts = run_policy(
                policy,
                steps,
                store,
                feedback=self.feedback(entrant.track),
                hindsight=self.hindsight(entrant.track, steps),
                observer=observer,
                prices=items,
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
