"""Requests to evaluation workers and their results: pass, fail, or error, which counts as neither."""

from datetime import datetime
from enum import StrEnum
from typing import Any, Generic

import msgspec

from standfast.clock import UUID, SystemClock, fresh_uuid
from standfast.optimize.evals.evaluators import Score
from standfast.optimize.evals.samples import ExpectedT, InputT, Sample
from standfast.optimize.mailboxes.wire import message_kind
from standfast.optimize.prompts.prompt import Experiment
from standfast.optimize.providers.adapter import TokenUsage
from standfast.vocabulary import Value


class Outcome(StrEnum):
    """How one evaluation ended."""

    PASS = "pass"  # noqa: S105  # The opposite of fail.
    FAIL = "fail"
    ERROR = "error"


@message_kind("EvalRequest")
class EvalRequest(Value, Generic[InputT, ExpectedT], frozen=True, kw_only=True):
    """Evaluate one sample, with the overrides of an experiment if there is one."""

    sample: Sample[InputT, ExpectedT]
    experiment: Experiment | None = None
    repeat: int = 0
    request_id: UUID = msgspec.field(default_factory=fresh_uuid)
    created_at: datetime = msgspec.field(default_factory=SystemClock().now)

    def __post_init__(self) -> None:
        self._require_aware("created_at", self.created_at)
        self._require_whole("repeat", self.repeat, least=0)


@message_kind("EvalResult")
class EvalResult(Value, frozen=True, kw_only=True):
    """The result of one evaluation, with the digest of the prompt that was really used. An error has no score."""

    request_id: UUID
    sample_id: str
    repeat: int = 0
    outcome: Outcome
    score: Score | None = None
    prompt_digest: str | None = None
    rendered_digest: str | None = None
    output: str = ""
    error: str | None = None
    usage: TokenUsage = TokenUsage()
    calls: int = 0
    """How many calls of a model this result took; none if it was cached."""

    def __post_init__(self) -> None:
        self._coerce("outcome", Outcome)
        graded = self.outcome is not Outcome.ERROR
        self._require(
            graded == (self.score is not None), "a pass or a fail needs a score, and an error has none"
        )
        self._require(
            graded == (self.error is None), "an error needs a message, and a graded result has none"
        )
        if self.score is not None:
            self._require(
                self.score.passed == (self.outcome is Outcome.PASS), "score.passed and outcome must agree"
            )

    @property
    def success(self) -> bool:
        """Whether the evaluation was completed, passed or not."""
        return self.outcome is not Outcome.ERROR

    @property
    def passed(self) -> bool:
        """Whether the sample passed."""
        return self.outcome is Outcome.PASS


class EvalReport(Value, frozen=True, kw_only=True):
    """The results of one run over a dataset."""

    results: tuple[EvalResult, ...]

    @property
    def graded(self) -> tuple[EvalResult, ...]:
        """The passes and fails."""
        return tuple(result for result in self.results if result.success)

    @property
    def errors(self) -> tuple[EvalResult, ...]:
        """The errors."""
        return tuple(result for result in self.results if not result.success)

    @property
    def pass_rate(self) -> float:
        """The share of passes among the graded results; 0 if there are none."""
        graded = self.graded
        return sum(result.passed for result in graded) / len(graded) if graded else 0.0

    def as_json(self) -> dict[str, Any]:
        """Return the results with the pass rate."""
        return {"pass_rate": self.pass_rate, "results": [msgspec.to_builtins(one) for one in self.results]}
