"""The conditions of a grid: the document's plain one, and its extensions, each with a metric of its own.

A condition runs each policy on an episode under a budget and makes one row of results. A new condition is a
class with a name, a metric and ``records``, or ``measure`` if policies run separately.
"""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, ClassVar, Final

import msgspec

from standfast.bench.entrants import Entrant
from standfast.bench.episodes import Episode
from standfast.bench.kept_memory import (
    QUESTION_KINDS,
    KeptMemory,
    Question,
    questions_about,
    read_answer,
)
from standfast.bench.metrics import ratio
from standfast.bench.runner import PricedEpisode, curve_points, result_row, run_policy
from standfast.errors import InvalidValue
from standfast.policies import ByteBudget, ByteMemoryStore, ByteModel, Compression, WritePolicy
from standfast.policies.byte_model import compressed_bytes, endpoint_of, json_bytes
from standfast.policies.features import ObservationKind, kind_of
from standfast.records.requests import DEFAULT_CONTROLLER
from standfast.records.vocabulary import MemoryAction, Step

WINDOW_STEPS: Final = 50
EVERYTHING_BYTES: Final = 1 << 40
BYTES_PER_STEP: Final = 256
DEADLINE_STEPS: Final = 10
RETRIEVAL_DEPTHS: Final = (1, 5)
DOCUMENTATION: Final = frozenset((ObservationKind.DOCUMENTATION, ObservationKind.MIGRATION_GUIDE))


class Condition(ABC):
    """One way of running policies over an episode."""

    name: ClassVar[str]
    metric: ClassVar[str]
    """The column that policies are ranked by; more is better."""
    has_curves: ClassVar = False
    together: ClassVar = False
    """Whether policies affect each other."""

    def __init__(
        self, episode: Episode, *, name: str, seed: int, model: ByteModel, curves: bool = False
    ) -> None:
        self.episode, self.name_of_episode, self.seed, self.model = episode, name, seed, model
        self.curves = curves
        self.priced = self.variant(episode)
        self.critical = episode.labels.critical_steps
        self.prepare()

    def prepare(self) -> None:  # noqa: B027  # Most conditions need nothing.
        """Compute what all policies need."""

    def variant(self, episode: Episode, compression: Compression = Compression.NEVER) -> PricedEpisode:
        """Return an episode priced as this condition's."""
        return PricedEpisode(
            episode, self.model, seed=self.seed, name=self.name_of_episode, compression=compression
        )

    @abstractmethod
    def records(self, entrants: Sequence[Entrant], budgets: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield a row for each budget and policy, in that order; one with ``curve`` has a budget's curves."""

    def recall(self, retained: set[int]) -> float:
        """Return the share of critical steps that are retained."""
        return ratio(len(self.critical & retained), len(self.critical))


class _SeparateCondition(Condition):
    """A condition in which policies run separately. A subclass measures one policy under one budget."""

    def records(self, entrants: Sequence[Entrant], budgets: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield a row for each budget and policy."""
        for max_bytes in sorted(budgets):
            for entrant in entrants:
                yield {**_row_start(entrant, max_bytes), **self.measure(entrant, max_bytes)}

    @abstractmethod
    def measure(self, entrant: Entrant, max_bytes: int) -> dict[str, Any]:
        """Run a policy under a budget and return the columns of its row."""


def _recall_of(variant: PricedEpisode, entrant: Entrant, max_bytes: int) -> float:
    """Run a policy on a variant of the episode and return its recall."""
    store, _ = variant.fill_store(entrant, max_bytes)
    critical = variant.episode.labels.critical_steps
    return ratio(len(critical & store.retained()), len(critical))


def _row_start(entrant: Entrant, max_bytes: int) -> dict[str, Any]:
    return {"budget_bytes": max_bytes, "policy": str(entrant.spec), "track": str(entrant.track)}


class PlainCondition(Condition):
    """The document's own condition: one budget, one policy, every metric of section 4."""

    name = "plain"
    metric = "recall"
    has_curves = True

    def records(self, entrants: Sequence[Entrant], budgets: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the rows of each budget and, after them, its curves."""
        for max_bytes in sorted(budgets):
            drawn, optimum = {}, {}
            for entrant in entrants:
                run = self.priced.run(entrant, max_bytes, curves=self.curves)
                yield {**_row_start(entrant, max_bytes), **result_row(run)}
                if run.curve:
                    drawn[str(entrant)] = run.curve
                    optimum[str(entrant)] = run.metrics.oracle_utility
            if drawn:
                steps = self.episode.steps
                points = [steps[point].t for point in curve_points(len(steps))]
                yield {"budget_bytes": max_bytes, "curve": {"t": points, "regret": drawn, "optimum": optimum}}


class HierarchicalCondition(_SeparateCondition):
    """API and documentation steps have half of the bytes each, and a policy of the same kind each.

    The metric is the worse of the two recalls.
    """

    name = "hierarchical"
    metric = "balanced_recall"

    def measure(self, entrant: Entrant, max_bytes: int) -> dict[str, Any]:
        """Run the policy on both halves."""
        row: dict[str, Any] = {}
        all_retained: set[int] = set()
        recalls = []
        for part, is_documentation in (("api", False), ("docs", True)):
            items = [
                item
                for item in self.priced.priced_steps(entrant.track)
                if (kind_of(item.step.observation) in DOCUMENTATION) is is_documentation
            ]
            retained: set[int] = set()
            row[f"bytes_{part}"] = 0
            if items:
                store, _ = self.priced.fill_store(entrant, max(1, max_bytes // 2), items=items)
                retained, row[f"bytes_{part}"] = store.retained(), store.held_bytes
            critical = self.critical & {item.step.t for item in items}
            row[f"recall_{part}"] = len(critical & retained) / len(critical) if critical else None
            if critical:
                recalls.append(row[f"recall_{part}"])
            all_retained |= retained
        return {**row, "recall": self.recall(all_retained), self.metric: min(recalls, default=0.0)}


class WriteQueue:
    """When each stored item is durable, at 256 bytes a timestep. Times are whole, because they are bytes."""

    def __init__(self) -> None:
        self._free_at = 0
        self.delay: dict[int, int] = {}

    def after(self, step: Step, _: Sequence[tuple[MemoryAction, bool]], store: ByteMemoryStore) -> None:
        """Queue what was stored at this step."""
        item = store.item_at(step.t)
        if item is not None:
            now = step.t * BYTES_PER_STEP
            self._free_at = max(now, self._free_at) + item.byte_cost
            self.delay[step.t] = self._free_at - now

    def timely(self, t: int) -> bool:
        """Return whether the item of a timestep was durable within the deadline."""
        return self.delay[t] <= DEADLINE_STEPS * BYTES_PER_STEP


class LatencyCondition(_SeparateCondition):
    """Bytes are written at a limited rate, in the order in which items were stored.

    The metric is timely recall: the critical steps that are retained and were durable at most ten timesteps
    after they were seen. A policy that writes everything is late for what matters.
    """

    name = "latency"
    metric = "timely_recall"

    def measure(self, entrant: Entrant, max_bytes: int) -> dict[str, Any]:
        """Run the policy with a write queue."""
        queue = WriteQueue()
        store, _ = self.priced.fill_store(entrant, max_bytes, observer=queue)
        hits = self.critical & store.retained()
        delays = len(queue.delay)
        return {
            self.metric: ratio(sum(queue.timely(t) for t in hits), len(self.critical)),
            "recall": ratio(len(hits), len(self.critical)),
            "mean_delay_steps": ratio(sum(queue.delay.values()), delays) / BYTES_PER_STEP,
            "late_share": ratio(sum(not queue.timely(t) for t in queue.delay), delays),
        }


class CompressionCondition(_SeparateCondition):
    """Observations and deltas are stored deflated where that is shorter, so the same budget holds more.

    The metric is the gain in recall over the plain condition. Each row names the version of zlib, because
    another implementation may deflate a little differently.
    """

    name = "compression"
    metric = "recall_gain"
    compression: ClassVar = Compression.ALWAYS

    def prepare(self) -> None:
        """Price the steps as they are stored compressed."""
        self._compressed = self.variant(self.episode, self.compression)
        plain_bytes = sum(json_bytes(step.observation) for step in self.episode.steps)
        self._ratio = plain_bytes / sum(compressed_bytes(step.observation) for step in self.episode.steps)

    def measure(self, entrant: Entrant, max_bytes: int) -> dict[str, Any]:
        """Run the policy with plain and with compressed observations."""
        plain = _recall_of(self.priced, entrant, max_bytes)
        store, _ = self._compressed.fill_store(entrant, max_bytes)
        recall = self.recall(store.retained())
        chosen = ratio(sum(item.is_compressed for item in store.items()), len(store))
        return {
            self.metric: recall - plain,
            "recall": recall,
            "recall_plain": plain,
            "compressed_share": 1.0 if self.compression is Compression.ALWAYS else chosen,
            "compression_ratio": self._ratio,
            "zlib": zlib.ZLIB_RUNTIME_VERSION,
        }


class CompressionChoiceCondition(CompressionCondition):
    """A policy may ask, for each WRITE and each MERGE, that it is stored compressed, as the document's
    section 8 says.

    The runner computes the price. A policy that never asks gains nothing.
    """

    name = "compression_choice"
    compression = Compression.OFFERED


class RetrievalCondition(_SeparateCondition):
    """After the stream, recall's default controller is asked for each endpoint that had a critical step.

    The endpoint's last critical step must be among the first k records. Retaining it is not enough, because
    other records may rank before it or fill the token budget.
    """

    name = "retrieval"
    metric = "retrieval_at_5"

    def prepare(self) -> None:
        """Find the last critical step of each endpoint."""
        api_of = {step.t: endpoint_of(step.observation) for step in self.episode.steps}
        self._wanted = {api: t for t in sorted(self.critical) if (api := api_of[t]) is not None}

    def measure(self, entrant: Entrant, max_bytes: int) -> dict[str, Any]:
        """Run the policy and ask its memory."""
        store, _ = self.priced.fill_store(entrant, max_bytes)
        memory = KeptMemory(store)
        ranks = []
        for api, wanted in self._wanted.items():
            found = [t for t, _ in memory.recall(api, max_items=max(RETRIEVAL_DEPTHS))]
            ranks += [found.index(wanted) + 1] if wanted in found else []
        queries = len(self._wanted)
        return {
            "queries": queries,
            **{
                f"retrieval_at_{depth}": ratio(sum(rank <= depth for rank in ranks), queries)
                for depth in RETRIEVAL_DEPTHS
            },
            "mean_reciprocal_rank": ratio(sum(1 / rank for rank in ranks), queries),
            "controller": DEFAULT_CONTROLLER,
        }


class AnswersCondition(_SeparateCondition):
    """Does keeping it help? The metric is the share of right answers.

    Questions about the end of the stream are answered from what recall finds in what was kept.

    The metric is the share of right answers, by exact match and without a model (see ``kept_memory``). The
    row also has the metrics of the byte budget, so that their correlation with answers can be reported.
    """

    name = "answers"
    metric = "answered"

    def prepare(self) -> None:
        """Derive the questions, and how many can be answered if everything is kept."""
        self._questions = questions_about(self.episode.steps)
        everything, _ = self.priced.fill_store(Entrant.parse("AlwaysWrite"), EVERYTHING_BYTES)
        self._ceiling = ratio(len(self._right(KeptMemory(everything))), len(self._questions))

    def _right(self, memory: KeptMemory) -> list[Question]:
        return [question for question in self._questions if read_answer(question, memory) == question.answer]

    def measure(self, entrant: Entrant, max_bytes: int) -> dict[str, Any]:
        """Run the policy and question its memory."""
        store, _ = self.priced.fill_store(entrant, max_bytes)
        memory, retained = KeptMemory(store), store.retained()
        right = self._right(memory)
        worth = self.episode.labels.worth
        return {
            "questions": len(self._questions),
            self.metric: ratio(len(right), len(self._questions)),
            "answered_if_all_is_kept": self._ceiling,
            **{
                f"answered_{kind}": ratio(
                    sum(question.kind == kind for question in right),
                    sum(question.kind == kind for question in self._questions),
                )
                for kind in QUESTION_KINDS
            },
            "recall": self.recall(retained),
            "precision": ratio(len(self.critical & retained), len(retained)),
            "utility_share": ratio(
                sum(worth.get(t, 0) for t in retained), self.priced.oracle_worth(entrant.track, max_bytes)
            ),
            "controller": DEFAULT_CONTROLLER,
        }


class SharedCondition(Condition):
    """All policies see the same stream and share one budget; each has a store of its own.

    The order in which they decide rotates from step to step. The metric is a policy's own recall; the row
    also has its share of the bytes, the recall of all policies together and Jain's fairness index.
    """

    name = "shared"
    metric = "recall_in_company"
    together = True

    def records(self, entrants: Sequence[Entrant], budgets: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Run all policies together under each budget."""
        for max_bytes in sorted(budgets):
            budget = ByteBudget(max_bytes)
            stores = self._fill_stores(entrants, budget)
            sizes = [store.held_bytes for store in stores]
            together = set[int]().union(*(store.retained() for store in stores))
            for entrant, store in zip(entrants, stores, strict=True):
                yield {
                    **_row_start(entrant, max_bytes),
                    self.metric: self.recall(store.retained()),
                    "share_of_bytes": ratio(store.held_bytes, budget.used_bytes),
                    "joint_recall": self.recall(together),
                    "fairness": ratio(sum(sizes) ** 2, len(sizes) * sum(size**2 for size in sizes)),
                }

    def _fill_stores(self, entrants: Sequence[Entrant], budget: ByteBudget) -> list[ByteMemoryStore]:
        with ExitStack() as policies:
            runs = [
                (
                    entrant,
                    policies.enter_context(entrant.policy(self.priced.policy_seed(entrant))),
                    self.priced.new_store(entrant.track, budget),
                )
                for entrant in entrants
            ]
            for number in range(len(self.episode.steps)):
                first = number % len(runs)
                for entrant, policy, store in runs[first:] + runs[:first]:
                    self._step(number, entrant, policy, store)
        return [store for _, _, store in runs]

    def _step(self, number: int, entrant: Entrant, policy: WritePolicy, store: ByteMemoryStore) -> None:
        track = entrant.track
        item = self.priced.priced_steps(track)[number]
        run_policy(
            policy,
            (item.step,),
            store,
            feedback=self.priced.feedback(track),
            hindsight=self.priced.hindsight(track, self.priced.shown(track)) if number == 0 else None,
            prices=(item,),
            names=(str(entrant), self.priced.name),
        )


# What a pattern sorts the steps of a window by: whether a step is critical, its length, and its place.
_SortKey = Callable[[bool, int, int], tuple[int, ...]]
PATTERNS: Final[dict[str, _SortKey]] = {
    "as_it_was": lambda _critical, _size, place: (place,),
    "critical_first": lambda critical, _size, place: (not critical, place),
    "critical_last": lambda critical, _size, place: (critical, place),
    "longest_last": lambda _critical, size, place: (size, place),
    "longest_first": lambda _critical, size, place: (-size, place),
    "critical_buried": lambda critical, size, place: (not critical, size, place),
}


def reordered(episode: Episode, pattern: str) -> Episode:
    """The episode with its steps reordered in windows of fifty. Timesteps stay; labels move along."""
    sort_key, critical = PATTERNS[pattern], episode.labels.critical_steps
    steps = episode.steps
    sizes = [json_bytes(step.observation) for step in steps]
    order = sorted(
        range(len(steps)),
        key=lambda place: (place // WINDOW_STEPS, sort_key(steps[place].t in critical, sizes[place], place)),
    )
    times = [step.t for step in steps]
    moved = {steps[place].t: times[rank] for rank, place in enumerate(order)}
    labels = {
        **episode.labels.raw,
        "critical_steps": sorted(moved[t] for t in critical),
        "utility_by_step": {str(moved[t]): utility for t, utility in episode.labels.utility_by_step.items()},
    }
    labels.pop("breaking_changes", None)
    reordered_steps = [
        msgspec.structs.replace(steps[place], t=times[rank]) for rank, place in enumerate(order)
    ]
    return Episode(tuple(reordered_steps), labels)


class AdversarialCondition(_SeparateCondition):
    """The same steps in the order that is worst for the policy, out of six patterns.

    The metric is the recall under the worst pattern; the row also has the loss against the original order.
    (``bench generate --regime adversarial`` goes further and makes new streams against one policy.)
    """

    name = "adversarial"
    metric = "worst_recall"

    def prepare(self) -> None:
        """Reorder the steps by each pattern."""
        self._variants = {pattern: self.variant(reordered(self.episode, pattern)) for pattern in PATTERNS}

    def measure(self, entrant: Entrant, max_bytes: int) -> dict[str, Any]:
        """Run the policy on every order."""
        recalls = {
            pattern: _recall_of(variant, entrant, max_bytes) for pattern, variant in self._variants.items()
        }
        worst = min(recalls, key=lambda pattern: (recalls[pattern], pattern))
        return {
            self.metric: recalls[worst],
            "worst_pattern": worst,
            "recall": recalls["as_it_was"],
            "lost_recall": recalls["as_it_was"] - recalls[worst],
        }


_ALL: Final[tuple[type[Condition], ...]] = (
    PlainCondition,
    HierarchicalCondition,
    LatencyCondition,
    CompressionCondition,
    CompressionChoiceCondition,
    RetrievalCondition,
    AnswersCondition,
    SharedCondition,
    AdversarialCondition,
)
CONDITIONS: Final = {condition.name: condition for condition in _ALL}


def condition_named(name: str) -> type[Condition]:
    """Return the condition of that name."""
    if name not in CONDITIONS:
        problem = f"there is no condition {name!r:.40}; there are {', '.join(CONDITIONS)}"
        raise InvalidValue(what="Grid", problem=problem)
    return CONDITIONS[name]
