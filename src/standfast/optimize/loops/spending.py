"""What an optimization may spend, what it has spent, and what it is likely to spend."""

from collections.abc import Sequence
from typing import Any

from standfast.optimize.evals.samples import Dataset
from standfast.optimize.loops.gate import GateSettings
from standfast.optimize.loops.proposals import CompressStrategy, StrategySession
from standfast.optimize.loops.protected_text import prompt_tokens
from standfast.optimize.prompts.template import PromptDescriptor, as_text
from standfast.optimize.providers.adapter import TokenUsage
from standfast.recall.tokens import TokenCounter
from standfast.vocabulary import Value

_EXPECTED_OUTPUT_TOKENS = 100


class SpendingLimits(Value, frozen=True, kw_only=True):
    """What an optimization may spend on models, and their prices per million tokens. Without a value there is no limit.

    The evaluations in flight when a limit is reached are finished, so that a limit on money is kept up to a few calls.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    input_price: float = 0.0
    output_price: float = 0.0

    def __post_init__(self) -> None:
        if self.max_calls is not None:
            self._require_whole("max_calls", self.max_calls, least=1)
        self._require(self.input_price >= 0 and self.output_price >= 0, "prices must be 0 or more")
        if self.max_cost is not None:
            self._require(self.max_cost > 0, "max_cost must be above 0")
            self._require(
                self.input_price + self.output_price > 0, "max_cost needs input_price and output_price"
            )

    def cost(self, usage: TokenUsage) -> float:
        """Return the price of tokens."""
        return (usage.input_tokens * self.input_price + usage.output_tokens * self.output_price) / 1e6


class ModelSpending(Value, frozen=True, kw_only=True):
    """What was really spent: calls of models with their tokens, and how many evaluations came from the cache."""

    calls: int = 0
    cached: int = 0
    usage: TokenUsage = TokenUsage()

    def __add__(self, other: "ModelSpending") -> "ModelSpending":
        return ModelSpending(
            calls=self.calls + other.calls, cached=self.cached + other.cached, usage=self.usage + other.usage
        )


class SpendingEstimate(Value, frozen=True, kw_only=True):
    """What an optimization is likely to spend, computed without a model."""

    candidates: int
    calls: int
    """If every candidate is decided after one run of every sample."""
    most_calls: int
    """If nothing is decided before the last repeat of the last round."""
    usage: TokenUsage
    """The tokens of ``calls``."""
    problem: str | None = None
    """Why no call would be made: the samples could prove nothing."""


def estimate_spending(
    prompt: PromptDescriptor,
    dataset: Dataset[Any, Any],
    *,
    strategy: CompressStrategy,
    gate: GateSettings,
    counter: TokenCounter,
    asked_sections: int = 0,
    use: int = 1,
) -> SpendingEstimate:
    """Estimate what an optimization spends. The strategies must not need a model; ``asked_sections`` counts sections for one that does.

    ``use`` says which use of the held-out samples it would be.
    """
    screened = 0

    def survives(prompts: Sequence[PromptDescriptor]) -> list[bool]:
        nonlocal screened
        screened += len(prompts)
        return [False] * len(prompts)

    session = StrategySession(counter=counter, survives=survives)
    candidates = len(strategy.propose(prompt, adapter=None, session=session)) + asked_sections
    choose, confirm = dataset.split(gate.held_out_share)
    choosing, confirming = len(choose) * (1 + candidates + screened), 2 * len(confirm)
    calls = choosing + confirming + asked_sections
    most = ((choosing + asked_sections) * gate.max_rounds + confirming) * gate.max_repeats
    inputs = sum(counter.count(as_text(sample.input)) for sample in dataset) // max(len(dataset), 1)
    usage = TokenUsage(
        input_tokens=calls * (prompt_tokens(prompt, counter) + inputs),
        output_tokens=calls * _EXPECTED_OUTPUT_TOKENS,
    )
    return SpendingEstimate(
        candidates=candidates,
        calls=calls,
        most_calls=most,
        usage=usage,
        problem=gate.too_few(choosing=len(choose), held_out=len(confirm), use=use),
    )
