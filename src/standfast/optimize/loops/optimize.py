"""The worker that makes prompts shorter: takes an ``OptimizeRequest``, replies with an ``OptimizeResult``.

It may be killed at any moment. The request comes back to the queue, and whoever takes it asks the same questions under the
same names; what eval workers have graded is in their cache, and the report comes out the same.
"""

from typing import ClassVar, Generic

from standfast.canon import fingerprint
from standfast.clock import Clock
from standfast.errors import InvalidDataset, MissingExtra, StandfastError
from standfast.limits import EVAL_PATIENCE_SECONDS
from standfast.optimize.evals.results import EvalRequest, EvalResult
from standfast.optimize.evals.samples import ExpectedT, InputT
from standfast.optimize.loops.gate.settings import GateSettings
from standfast.optimize.loops.requests import OptimizeRequest, OptimizeResult, error_text
from standfast.optimize.loops.strategies.proposals import CompressStrategy
from standfast.optimize.loops.trials.optimization import Optimization, Subject
from standfast.optimize.loops.trials.report import OptimizationReport
from standfast.optimize.loops.trials.trial import Progress, Trial, TrialSetting
from standfast.optimize.loops.worker import WorkerLoop
from standfast.optimize.mailboxes.mailbox import Mailbox
from standfast.optimize.prompts.overrides import PromptOverridesStore
from standfast.optimize.prompts.prompt import Fallback, Prompt
from standfast.optimize.prompts.template import PromptRegistry
from standfast.optimize.providers.adapter import ProviderAdapter
from standfast.recall.tokens import BpeCounter, EstimatedCounter, TokenCounter


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
