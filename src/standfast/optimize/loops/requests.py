"""What is asked of the loops, and what they answer. All of it travels through mailboxes."""

import re
from typing import Any, Final, Generic, TypeVar

import msgspec

from standfast.canon import utc_text
from standfast.clock import RandomIds, SystemClock
from standfast.optimize.evals.samples import Dataset, ExpectedT, InputT
from standfast.optimize.loops.trials.report import OptimizationReport
from standfast.optimize.mailboxes.wire import message_kind
from standfast.optimize.prompts.overrides import STABLE
from standfast.optimize.providers.adapter import TokenUsage
from standfast.vocabulary import Budget, Experiment, Value

UserRequestT = TypeVar("UserRequestT")
_DEADLINE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def _now() -> str:
    return utc_text(SystemClock().now())


@message_kind("MainLoopRequest")
class MainLoopRequest(Value, Generic[UserRequestT], frozen=True, kw_only=True):
    """One request to the agent. An experiment decides which overrides are used, and that nothing is remembered.

    A budget caps what memory hands back, whatever the prompt allows; after the deadline nothing is done.
    """

    request: UserRequestT
    budget: Budget | None = None
    deadline: str | None = None
    experiment: Experiment | None = None
    repeat: int = 0
    request_id: str = msgspec.field(default_factory=RandomIds().new_id)
    created_at: str = msgspec.field(default_factory=_now)

    def __post_init__(self) -> None:
        self._require_name("request_id", self.request_id)
        if self.deadline is not None:
            self._require(
                _DEADLINE.fullmatch(self.deadline) is not None, "deadline must be as utc_text() writes it"
            )


@message_kind("MainLoopResult")
class MainLoopResult(Value, frozen=True, kw_only=True):
    """The agent's answer, with what it was made of: prompt, memory, model, tokens, and the run whose trace tells it."""

    request_id: str
    output: str = ""
    prompt_digest: str | None = None
    rendered_digest: str | None = None
    package_hash: str | None = None
    fell_back: str | None = None
    model: str = ""
    usage: TokenUsage = TokenUsage()
    remembered: int = 0
    run_id: str | None = None
    error: str | None = None


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


def error_text(error: Exception) -> str:
    """An error as a reply tells it: its code and its words."""
    code: Any = getattr(error, "code", None)
    return f"{code or type(error).__name__}: {error}"
