"""The worker that makes prompts shorter: takes an ``OptimizeRequest``, replies with an ``OptimizeResult``.

It may be killed at any moment. The request comes back to the queue, and whoever takes it asks the same questions under the
same names; what eval workers have graded is in their cache, and the report comes out the same.
"""

import threading
from collections.abc import Sequence
from typing import Any, ClassVar, Generic

import msgspec

from standfast.canon import fingerprint, utc_text
from standfast.clock import Clock, RandomIds, SystemClock
from standfast.errors import InvalidDataset, MissingExtra, StandfastError
from standfast.limits import EVAL_PATIENCE_SECONDS, MAX_WAIT_SECONDS
from standfast.optimize.evals.cache import ResultCache
from standfast.optimize.evals.evaluators import Evaluator
from standfast.optimize.evals.results import EvalRequest, EvalResult
from standfast.optimize.evals.samples import Dataset, ExpectedT, InputT
from standfast.optimize.loops.agent import AgentMemory
from standfast.optimize.loops.eval import EvalLoop
from standfast.optimize.loops.gate import GateSettings
from standfast.optimize.loops.main import MainLoop
from standfast.optimize.loops.optimization import Optimization, Subject
from standfast.optimize.loops.proposals import CompressStrategy
from standfast.optimize.loops.report import OptimizationReport
from standfast.optimize.loops.trial import Progress, Trial, TrialSetting
from standfast.optimize.loops.worker import WorkerLoop, error_text
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.mailboxes.mailbox import InMemoryMailboxResolver, Mailbox
from standfast.optimize.mailboxes.wire import message_kind
from standfast.optimize.prompts.overrides import STABLE, PromptOverridesStore
from standfast.optimize.prompts.prompt import Fallback, Prompt
from standfast.optimize.prompts.template import InMemoryPromptRegistry, PromptRegistry, PromptTemplate
from standfast.optimize.providers.adapter import ProviderAdapter
from standfast.recall.tokens import BpeCounter, EstimatedCounter, TokenCounter
from standfast.vocabulary import Value


def _now() -> str:
    return utc_text(SystemClock().now())


@message_kind("OptimizeRequest")
class OptimizeRequest(Value, Generic[InputT, ExpectedT], frozen=True, kw_only=True):
    """Request to optimize a prompt."""

    prompt_ns: str
    prompt_key: str
    dataset: Dataset[InputT, ExpectedT]
    baseline_tag: str = STABLE
    flags: dict[str, bool] = msgspec.field(default_factory=dict)
    request_id: str = msgspec.field(default_factory=RandomIds().new_id)
    created_at: str = msgspec.field(default_factory=_now)

    def __post_init__(self) -> None:
        for field in ("prompt_ns", "prompt_key", "baseline_tag", "request_id"):
            self._require_name(field, getattr(self, field))


@message_kind("OptimizeResult")
class OptimizeResult(Value, frozen=True, kw_only=True):
    """Result of an optimization run. With an error, the report is empty and its experiment is called ``failed``."""

    request_id: str
    report: OptimizationReport
    completed_at: str = msgspec.field(default_factory=_now)
    error: str | None = None
    error_code: str | None = None


class OptimizeLoop(
    WorkerLoop[OptimizeRequest[InputT, ExpectedT], OptimizeResult], Generic[InputT, ExpectedT]
):
    """Generates and validates compressed prompt variants through eval workers, and replies with what is proved."""

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
        counter: TokenCounter | None = None,
        patience_seconds: float = EVAL_PATIENCE_SECONDS,
        progress: Progress | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(requests=requests, clock=clock)
        self._strategy, self._adapter = strategy, adapter
        self._store, self._prompts = overrides_store, prompt_registry
        self._eval_requests = eval_requests
        self._gate = gate or GateSettings()
        self._counter = counter or _best_counter()
        self._patience_seconds, self._progress = patience_seconds, progress

    def handle(self, request: OptimizeRequest[InputT, ExpectedT]) -> OptimizeResult:
        """One optimisation, whose temporary tags are gone when it ends, however it ends."""
        template = self._prompts.get(request.prompt_ns, request.prompt_key)
        if not len(request.dataset):
            raise InvalidDataset(dataset=request.request_id, problem="it has no samples; give some")
        self._store.sweep()
        # A tag that nothing is stored under yet means the source, and the report says so.
        baseline = Prompt(template, overrides_tag=request.baseline_tag, fallback=Fallback.TEMPLATE).resolve(
            self._store
        )
        experiment_id = fingerprint(["optimize/v1", request.request_id])[:16]
        trial = Trial(
            TrialSetting(
                experiment_id=experiment_id,
                template=template,
                parent_tag=request.baseline_tag,
                flags=request.flags,
                created_at=request.created_at,
                gate=self._gate,
                patience_seconds=self._patience_seconds,
            ),
            store=self._store,
            eval_requests=self._eval_requests,
            clock=self._clock,
            beat=self.beat,
            progress=self._progress,
        )
        subject = Subject(
            experiment_id=experiment_id,
            baseline=baseline,
            baseline_tag=request.baseline_tag,
            dataset=request.dataset,
        )
        try:
            report = Optimization(
                subject,
                trial=trial,
                strategy=self._strategy,
                adapter=self._adapter,
                counter=self._counter,
                gate=self._gate,
            ).report()
        finally:
            trial.close()
        return OptimizeResult(request_id=request.request_id, report=report)

    def failed(self, request: OptimizeRequest[InputT, ExpectedT], error: Exception) -> OptimizeResult:
        """A result that tells the error, with an empty report."""
        return OptimizeResult(
            request_id=request.request_id,
            report=OptimizationReport.failed(ns=request.prompt_ns, prompt_key=request.prompt_key),
            error=error_text(error),
            error_code=error.code if isinstance(error, StandfastError) else "unexpected",
        )


def _best_counter() -> TokenCounter:
    """A real tokeniser if one is installed; else an estimate, which every report calls an estimate."""
    try:
        return BpeCounter()
    except MissingExtra:
        return EstimatedCounter()


def optimize_in_process(
    template: PromptTemplate,
    dataset: Dataset[Any, Any],
    *,
    provider: ProviderAdapter,
    strategy: CompressStrategy,
    overrides_store: PromptOverridesStore,
    memory: AgentMemory | None = None,
    evaluator: Evaluator | None = None,
    cache: ResultCache | None = None,
    gate: GateSettings | None = None,
    tag: str = STABLE,
    workers: int = 4,
    progress: Progress | None = None,
) -> OptimizeResult:
    """Optimise a prompt with so many eval workers, and give the result; interrupting it leaves nothing temporary."""
    resolver = InMemoryMailboxResolver()
    evals: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals", reply_resolver=resolver)
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="optimize", reply_resolver=resolver)
    main: MainLoop[Any] = MainLoop(
        adapter=provider, template=template, overrides_store=overrides_store, memory=memory
    )
    optimize: OptimizeLoop[Any, Any] = OptimizeLoop(
        strategy=strategy,
        overrides_store=overrides_store,
        prompt_registry=InMemoryPromptRegistry(template),
        eval_requests=evals,
        requests=requests,
        adapter=provider,
        gate=gate,
        progress=progress,
    )
    loops: Sequence[Any] = [
        optimize,
        *(EvalLoop(loop=main, requests=evals, evaluator=evaluator, cache=cache) for _ in range(workers)),
    ]
    threads = [threading.Thread(target=loop.run, daemon=True) for loop in loops]
    replies = requests.reply_mailbox("results")
    for thread in threads:
        thread.start()
    try:
        requests.send(
            OptimizeRequest(
                prompt_ns=template.ns, prompt_key=template.key, dataset=dataset, baseline_tag=tag
            ),
            reply_to=replies.name,
        )
        messages: list[Any] = []
        while not messages:
            messages = replies.receive(wait_time_seconds=MAX_WAIT_SECONDS)
        result: OptimizeResult = messages[0].body
        return result
    finally:
        # The optimiser first: it still deletes its tags, for which it needs nobody.
        for loop in loops:
            loop.shutdown()
        for thread in threads:
            thread.join()
