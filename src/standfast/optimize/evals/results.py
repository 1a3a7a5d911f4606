"""What is asked of an eval worker, and what comes back: a pass, a fail, or an error, which is neither."""

from enum import StrEnum
from typing import Any, Generic

import msgspec

from standfast.canon import utc_text
from standfast.clock import RandomIds, SystemClock
from standfast.optimize.evals.evaluators import Score
from standfast.optimize.evals.samples import ExpectedT, InputT, Sample
from standfast.optimize.mailboxes.wire import message_kind
from standfast.optimize.providers.adapter import TokenUsage
from standfast.vocabulary import Experiment, Value


def _now() -> str:
    return utc_text(SystemClock().now())


class Outcome(StrEnum):
    """How one evaluation ended."""

    PASS = "pass"  # noqa: S105  # The opposite of fail.
    FAIL = "fail"
    ERROR = "error"


@message_kind("EvalRequest")
class EvalRequest(Value, Generic[InputT, ExpectedT], frozen=True, kw_only=True):
    """Evaluate one sample, under an experiment's tag if there is one."""

    sample: Sample[InputT, ExpectedT]
    experiment: Experiment | None = None
    repeat: int = 0
    request_id: str = msgspec.field(default_factory=RandomIds().new_id)
    created_at: str = msgspec.field(default_factory=_now)

    def __post_init__(self) -> None:
        self._require_name("request_id", self.request_id)
        self._require_whole("repeat", self.repeat, least=0)


@message_kind("EvalResult")
class EvalResult(Value, frozen=True, kw_only=True):
    """One evaluation, with the digest of the prompt that was really used. An error has no score and is no fail."""

    request_id: str
    sample_id: str
    repeat: int = 0
    outcome: Outcome
    score: Score | None = None
    prompt_digest: str | None = None
    rendered_digest: str | None = None
    output: str = ""
    error: str | None = None
    usage: TokenUsage = TokenUsage()

    def __post_init__(self) -> None:
        self._coerce("outcome", Outcome)
        graded = self.outcome is not Outcome.ERROR
        self._require(graded == (self.score is not None), "a pass or a fail has a score, an error has none")
        self._require(graded == (self.error is None), "an error says what it is, and nothing else does")
        if self.score is not None:
            self._require(self.score.passed == (self.outcome is Outcome.PASS), "score and outcome agree")

    @property
    def success(self) -> bool:
        """Whether the evaluation took place; not whether it was passed."""
        return self.outcome is not Outcome.ERROR

    @property
    def passed(self) -> bool:
        """Whether the evaluation took place and was passed."""
        return self.outcome is Outcome.PASS


class EvalReport(Value, frozen=True, kw_only=True):
    """The results of one run over a dataset."""

    results: tuple[EvalResult, ...]

    @property
    def graded(self) -> tuple[EvalResult, ...]:
        """Those that were passes or fails."""
        return tuple(result for result in self.results if result.success)

    @property
    def errors(self) -> tuple[EvalResult, ...]:
        """Those that were neither."""
        return tuple(result for result in self.results if not result.success)

    @property
    def pass_rate(self) -> float:
        """The share of passes among what was graded; 0 if nothing was."""
        graded = self.graded
        return sum(result.passed for result in graded) / len(graded) if graded else 0.0

    def as_json(self) -> dict[str, Any]:
        """The results with the pass rate, for readers."""
        return {"pass_rate": self.pass_rate, "results": [msgspec.to_builtins(one) for one in self.results]}
