"""EvalLoop: runs one sample through the agent of a MainLoop and grades the output."""

from typing import Any, ClassVar, Generic

from standfast.clock import Clock
from standfast.optimize.evals.cache import CachedGrade, CacheKey, ResultCache, store_grade
from standfast.optimize.evals.evaluators import Evaluator, Exact
from standfast.optimize.evals.results import EvalRequest, EvalResult, Outcome
from standfast.optimize.evals.samples import ExpectedT, InputT
from standfast.optimize.loops.main import MainLoop, MainLoopRequest, Rendering
from standfast.optimize.loops.worker import WorkerLoop, error_text
from standfast.optimize.mailboxes.mailbox import Mailbox


class EvalLoop(WorkerLoop[EvalRequest[InputT, ExpectedT], EvalResult], Generic[InputT, ExpectedT]):
    """Evaluates samples with the agent of a ``MainLoop``. A failure gives an error result, not a failed sample.

    Args:
        evaluator: Grades the outputs; ``Exact()`` by default.
        cache: Results found here are not computed again.
    """

    takes: ClassVar[type] = EvalRequest
    name = "eval"

    def __init__(
        self,
        *,
        loop: MainLoop[Any],
        requests: Mailbox[EvalRequest[InputT, ExpectedT], EvalResult],
        evaluator: Evaluator | None = None,
        cache: ResultCache | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(requests=requests, clock=clock)
        self._loop = loop
        self._evaluator: Evaluator = evaluator or Exact()
        self._cache = cache

    def handle(self, request: EvalRequest[InputT, ExpectedT]) -> EvalResult:
        """Evaluate one sample."""
        agent_request: MainLoopRequest[Any] = MainLoopRequest(
            request=request.sample.params,
            experiment=request.experiment,
            repeat=request.repeat,
            request_id=request.request_id,
            created_at=request.created_at,
        )
        with self._loop.rendered(agent_request) as rendering:
            key = self._key(request, rendering)
            grade = None if self._cache is None else self._cache.get(key)
            calls = 0
            if grade is None:
                answer = self._loop.answer(rendering, beat=self.beat)
                score = self._evaluator(answer.output, request.sample.expected)
                calls, usage = answer.calls + score.calls, answer.usage + score.usage
                graded = CachedGrade(key=key, output=answer.output, score=score, usage=usage)
                grade = store_grade(self._cache, graded)
            else:
                self._loop.answer_again(rendering, grade.output)
        return grade.result(request_id=request.request_id, sample=request.sample, calls=calls)

    def failed(self, request: EvalRequest[InputT, ExpectedT], error: Exception) -> EvalResult:
        """Return an error result, which says nothing about the prompt."""
        return EvalResult(
            request_id=request.request_id,
            sample_id=request.sample.id,
            repeat=request.repeat,
            outcome=Outcome.ERROR,
            error=error_text(error),
        )

    def _key(self, request: EvalRequest[InputT, ExpectedT], rendering: Rendering) -> CacheKey:
        return CacheKey(
            prompt_digest=rendering.prompt.prompt_digest,
            rendered_digest=rendering.prompt.rendered_digest,
            sample_digest=request.sample.digest,
            model_config_id=self._loop.adapter.config.config_id,
            tools_digest=self._loop.tools_digest,
            evaluator_id=self._evaluator.evaluator_id,
            repeat=request.repeat,
        )
