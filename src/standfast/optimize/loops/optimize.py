"""OptimizeLoop: takes an ``OptimizeRequest`` and replies with an ``OptimizeResult``.

It may be killed at any time. The request returns to the queue, and the next worker sends the same evaluation
requests; graded ones are in the result cache, so the report comes out the same.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Generic

import msgspec

from standfast.clock import UUID, Clock, SystemClock, fresh_uuid
from standfast.errors import MissingExtra, StandfastError
from standfast.limits import EVAL_PATIENCE_SECONDS, STRATEGY_NAMES
from standfast.memory.memory import Memory
from standfast.optimize.errors import EvalError, OptimizationError
from standfast.optimize.evals.evaluators import Evaluator, Metric
from standfast.optimize.evals.results import EvalRequest, EvalResult, ResultCache
from standfast.optimize.evals.samples import Dataset, DatasetLike, ExpectedT, InputT
from standfast.optimize.loops.evaluation import template_from
from standfast.optimize.loops.gate import GateSettings
from standfast.optimize.loops.main import EvalLoop, MainLoop
from standfast.optimize.loops.optimization import Optimization
from standfast.optimize.loops.proposals import CompressStrategy
from standfast.optimize.loops.report import OptimizationReport
from standfast.optimize.loops.spending import (
    ModelSpending,
    Progress,
    SpendingEstimate,
    SpendingLimits,
    estimate_spending,
)
from standfast.optimize.loops.strategies import named_strategies
from standfast.optimize.loops.trial import Subject, Trial
from standfast.optimize.loops.worker import WorkerLoop, error_text
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.mailboxes.mailbox import InMemoryMailboxResolver, Mailbox
from standfast.optimize.mailboxes.wire import message_kind
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import STABLE, PromptOverridesStore, approved_prompt
from standfast.optimize.prompts.prompt import Fallback, Prompt
from standfast.optimize.prompts.template import (
    InMemoryPromptRegistry,
    PromptRegistry,
    PromptTemplate,
)
from standfast.optimize.providers.adapter import ProviderAdapter, checked_provider
from standfast.recall.tokens import BpeCounter, EstimatedCounter, TokenCounter
from standfast.records.canon import fingerprint
from standfast.records.vocabulary import Value


@message_kind("OptimizeRequest")
class OptimizeRequest(Value, Generic[InputT, ExpectedT], frozen=True):
    """A request to optimize a prompt on a dataset.

    Args:
        memory_snapshot: The snapshot of memory that every evaluation reads. Without one, each reads the
            newest, so a write in between may change a result.
    """

    prompt_ns: str
    prompt_key: str
    dataset: Dataset[InputT, ExpectedT]
    baseline_tag: str = STABLE
    flags: dict[str, bool] = msgspec.field(default_factory=dict)
    request_id: UUID = msgspec.field(default_factory=fresh_uuid)
    created_at: datetime = msgspec.field(default_factory=SystemClock().now)
    memory_snapshot: int | None = None

    def __post_init__(self) -> None:
        self._require_aware("created_at", self.created_at)
        self._require(
            isinstance(self.dataset, Dataset), "dataset must be a Dataset; Dataset.of(rows) makes one of rows"
        )
        for field in ("prompt_ns", "prompt_key", "baseline_tag"):
            self._require_name(field, getattr(self, field))


@message_kind("OptimizeResult")
class OptimizeResult(Value, frozen=True, kw_only=True):
    """The result of an optimization. With an error, the report is empty and its experiment is ``failed``."""

    request_id: UUID
    report: OptimizationReport
    completed_at: datetime = msgspec.field(default_factory=SystemClock().now)
    error: str | None = None
    error_code: str | None = None
    spending: ModelSpending = ModelSpending()
    """What this run really spent; the report's own figures include what was cached."""
    proposing: ModelSpending = ModelSpending()
    """The part of it that a proposer with limits of its own spent."""


class OptimizeLoop(
    WorkerLoop[OptimizeRequest[InputT, ExpectedT], OptimizeResult], Generic[InputT, ExpectedT]
):
    """Proposes shorter prompts, validates them through evaluation workers, and replies with what passed.

    Args:
        eval_requests: The mailbox of the evaluation workers.
        adapter: The model for strategies that ask one.
        limits: What one optimization may spend.
        proposer_limits: What ``adapter`` may spend on proposals, apart from ``limits``. When it is spent,
            nothing more is asked, and what was proposed is tested. Without it, proposals count against
            ``limits``.
        counter: Counts tokens; by default a real tokenizer if one is installed, else an estimate.
        patience_seconds: How long to wait for evaluations before they are sent again.
        progress: Called often with what is known so far of each candidate.
    """

    takes: ClassVar[type] = OptimizeRequest
    name = "optimize"

    def __init__(
        self,
        *,
        strategy: CompressStrategy,
        overrides_store: PromptOverridesStore,
        prompt_registry: PromptRegistry,
        eval_requests: Mailbox[EvalRequest[InputT, ExpectedT], EvalResult],
        requests: Mailbox[OptimizeRequest[InputT, ExpectedT], OptimizeResult],
        adapter: ProviderAdapter | None = None,
        gate: GateSettings | None = None,
        limits: SpendingLimits | None = None,
        proposer_limits: SpendingLimits | None = None,
        counter: TokenCounter | None = None,
        patience_seconds: float = EVAL_PATIENCE_SECONDS,
        progress: Progress | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(requests=requests, clock=clock)
        self._strategy, self._proposer_limits = strategy, proposer_limits
        self._adapter = None if adapter is None else checked_provider(adapter)
        self._store, self._prompts = overrides_store, prompt_registry
        self._eval_requests = eval_requests
        self._gate, self._limits = gate or GateSettings(), limits or SpendingLimits()
        self._counter = counter or _best_counter()
        self._patience_seconds, self._progress = patience_seconds, progress

    def handle(self, request: OptimizeRequest[InputT, ExpectedT]) -> OptimizeResult:
        """Run one optimization. Its temporary tags are always removed."""
        template = self._prompts.get(request.prompt_ns, request.prompt_key)
        if not len(request.dataset):
            raise EvalError("invalid_dataset", dataset=str(request.request_id), problem="it has no samples")
        self._store.sweep()
        # A tag without an override means the source; the report says so.
        baseline = Prompt(template, overrides_tag=request.baseline_tag, fallback=Fallback.TEMPLATE).resolve(
            self._store
        )
        held = self._store.resolve(
            ns=request.prompt_ns, prompt_key=request.prompt_key, tag=request.baseline_tag
        )
        samples = request.dataset.distinct()
        approved = approved_prompt(template, None if baseline.fell_back else held)
        subject = Subject(
            experiment_id=fingerprint(["optimize/v1", str(request.request_id)])[:16],
            template=template,
            baseline=baseline,
            baseline_tag=request.baseline_tag,
            dataset=samples,
            repeated_samples=len(request.dataset) - len(samples),
            flags=request.flags,
            created_at=request.created_at,
            gate=self._gate,
            limits=self._limits,
            proposer_limits=self._proposer_limits,
            approved=None if approved.digest == baseline.descriptor.digest else approved,
            memory_snapshot=request.memory_snapshot,
            patience_seconds=self._patience_seconds,
        )
        trial = Trial(
            subject,
            store=self._store,
            eval_requests=self._eval_requests,
            clock=self._clock,
            beat=self.beat,
            progress=self._progress,
        )
        try:
            report = Optimization(
                subject,
                trial=trial,
                strategy=self._strategy,
                adapter=self._adapter,
                counter=self._counter,
            ).report()
        finally:
            trial.close()
        return OptimizeResult(
            request_id=request.request_id,
            report=report,
            spending=trial.spending + trial.proposing,
            proposing=trial.proposing,
        )

    def failed(self, request: OptimizeRequest[InputT, ExpectedT], error: Exception) -> OptimizeResult:
        """Return a result with the error and an empty report."""
        return OptimizeResult(
            request_id=request.request_id,
            report=OptimizationReport.failed(ns=request.prompt_ns, prompt_key=request.prompt_key),
            error=error_text(error),
            error_code=error.code if isinstance(error, StandfastError) else "unexpected",
        )


def _best_counter() -> TokenCounter:
    """Return a real tokenizer if one is installed, else an estimate, which reports call an estimate."""
    try:
        return BpeCounter()
    except MissingExtra:
        return EstimatedCounter()


def optimize_in_process(
    template: PromptTemplate,
    dataset: DatasetLike,
    *,
    provider: ProviderAdapter,
    strategy: CompressStrategy,
    overrides_store: PromptOverridesStore,
    memory: Memory | None = None,
    agent: MainLoop[Any] | None = None,
    system: str = "",
    proposer: ProviderAdapter | None = None,
    evaluator: Evaluator | Metric | None = None,
    cache: ResultCache | None = None,
    gate: GateSettings | None = None,
    limits: SpendingLimits | None = None,
    proposer_limits: SpendingLimits | None = None,
    tag: str = STABLE,
    workers: int = 4,
    progress: Progress | None = None,
) -> OptimizeResult:
    """Optimize a prompt in this process, with evaluation workers in threads and mailboxes in memory.

    An interrupt leaves no temporary tags behind. Every evaluation reads memory as it is now.

    Args:
        agent: The agent whose prompt it is, with its tools; by default one with the template, the provider,
            the memory and the system message.
        proposer: The model for strategies that ask one; by default the provider.
        proposer_limits: What proposals may spend, apart from ``limits``.
    """
    resolver = InMemoryMailboxResolver()
    evals: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals", reply_resolver=resolver)
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="optimize", reply_resolver=resolver)
    main = agent or MainLoop[Any](
        adapter=provider,
        template=template,
        overrides_store=overrides_store,
        memory=memory,
        system=system,
    )
    optimizer: OptimizeLoop[Any, Any] = OptimizeLoop(
        strategy=strategy,
        overrides_store=overrides_store,
        prompt_registry=InMemoryPromptRegistry(template),
        eval_requests=evals,
        requests=requests,
        adapter=proposer or provider,
        gate=gate,
        limits=limits,
        proposer_limits=proposer_limits,
        progress=progress,
    )
    loops: list[WorkerLoop[Any, Any]] = [
        optimizer,
        *(EvalLoop(loop=main, requests=evals, evaluator=evaluator, cache=cache) for _ in range(workers)),
    ]
    request: OptimizeRequest[Any, Any] = OptimizeRequest(
        prompt_ns=template.ns,
        prompt_key=template.key,
        dataset=Dataset.of(dataset),
        baseline_tag=tag,
        memory_snapshot=None if memory is None else memory.store.head(),
    )
    # The optimizer stops first: it removes its tags, for which it needs no workers.
    with _running(loops) as running:
        return _answered(request, requests, running[0])


def optimize(
    prompt: PromptTemplate | str,
    dataset: DatasetLike,
    provider: ProviderAdapter,
    *,
    evaluator: Evaluator | Metric | None = None,
    strategies: Sequence[str] = STRATEGY_NAMES[:3],
    proposer: ProviderAdapter | None = None,
    gate: GateSettings | None = None,
    limits: SpendingLimits | None = None,
    proposer_limits: SpendingLimits | None = None,
    overrides_store: PromptOverridesStore | None = None,
    cache: ResultCache | None = None,
    workers: int = 4,
    progress: Progress | None = None,
) -> OptimizationReport:
    """Optimize a prompt and return the report; ``print(report)`` explains it. Nothing is applied.

    Args:
        prompt: A template, or a text with ``${placeholders}``.
        dataset: A ``Dataset``, or rows such as ``{"question": "…", "expected": "…"}``; see ``Dataset.of``.
        evaluator: Grades the answers: an evaluator, or a function of the output and what is expected.
            ``Exact()`` by default.
        strategies: Names of strategies, as on the command line.
        proposer: The model for strategies that ask one; by default the provider.
        proposer_limits: What proposals may spend, apart from ``limits``. When it is spent, nothing more is
            asked, and what was proposed is tested.
        overrides_store: Where the baseline is read and uses of held-out samples are counted. Without one,
            each call starts afresh, so pass one if you optimize a prompt more than once on the same samples.
        progress: Called often with what is known of each candidate; ``live_table()`` shows it in a terminal.

    Raises:
        OptimizationError: The optimization came to no result; the message says why.
        EvalError: The evaluator or the dataset is none.
        ProviderError: The provider is none.
    """
    samples = Dataset.of(dataset)
    checked_provider(provider)
    template = template_from(prompt)
    with ExitStack() as stack:
        if overrides_store is None:
            overrides_store = LocalPromptOverridesStore(stack.enter_context(TemporaryDirectory()))
        result = optimize_in_process(
            template,
            samples,
            provider=provider,
            strategy=named_strategies(strategies, proposer or provider, cache),
            proposer=proposer,
            overrides_store=overrides_store,
            evaluator=evaluator,
            cache=cache,
            gate=gate,
            limits=limits,
            proposer_limits=proposer_limits,
            workers=workers,
            progress=progress,
        )
    if result.error is not None:
        raise OptimizationError("optimization_failed", problem=result.error)
    return result.report


def estimate_optimization(
    template: PromptTemplate,
    dataset: Dataset[Any, Any],
    *,
    strategies: Sequence[str],
    overrides_store: PromptOverridesStore,
    gate: GateSettings | None = None,
    tag: str = STABLE,
) -> SpendingEstimate:
    """Estimate what an optimization would spend, without calling a model."""
    baseline = Prompt(template, overrides_tag=tag, fallback=Fallback.TEMPLATE).resolve(overrides_store)
    gate, descriptor, dataset = gate or GateSettings(), baseline.descriptor, dataset.distinct()
    _, confirm = dataset.split(gate.held_out_share)
    digests = [sample.digest for sample in confirm]
    return estimate_spending(
        descriptor,
        dataset,
        strategy=named_strategies([name for name in strategies if name != "compress"], None),
        gate=gate,
        counter=_best_counter(),
        asked_sections=len(descriptor.sections) if "compress" in strategies else 0,
        use=overrides_store.held_out_uses(template).lowest_number(descriptor.digest, digests),
    )


@contextmanager
def _running(loops: Sequence[WorkerLoop[Any, Any]]) -> Iterator[list[threading.Thread]]:
    """Run loops in threads while the block lasts, and stop them in order."""
    threads = [threading.Thread(target=loop.run, daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        for loop in loops:
            loop.shutdown()
        for thread in threads:
            thread.join()


def _answered(
    request: OptimizeRequest[Any, Any], requests: Mailbox[Any, Any], optimizer: threading.Thread
) -> OptimizeResult:
    """Send a request and wait for its reply, as long as somebody works on it."""
    replies = requests.reply_mailbox("results")
    requests.send(request, reply_to=replies.name)
    while True:
        alive = optimizer.is_alive()
        if messages := replies.receive(wait_time_seconds=1 if alive else 0):
            result: OptimizeResult = messages[0].body
            return result
        if dead := requests.dead_letters():
            raise OptimizationError("optimization_failed", problem=dead[0].problem)
        if not alive:
            raise OptimizationError("optimization_failed", problem="its loop has stopped")
