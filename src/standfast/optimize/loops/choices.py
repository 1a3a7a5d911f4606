"""Strategies and evaluators by the names that people call them by."""

from collections.abc import Sequence
from typing import Any

from standfast.limits import EVALUATOR_NAMES, STRATEGY_NAMES
from standfast.optimize.evals.cache import ResultCache
from standfast.optimize.evals.evaluators import AllOf, Contains, Evaluator, Exact, JsonSchema, Numeric
from standfast.optimize.evals.judge import ModelJudge
from standfast.optimize.loops.strategies.ablation import Ablation
from standfast.optimize.loops.strategies.compress import LLMCompressStrategy
from standfast.optimize.loops.strategies.duplicates import DuplicateRemoval
from standfast.optimize.loops.strategies.proposals import CompressStrategy, Strategies
from standfast.optimize.loops.strategies.recall import RecallBudget
from standfast.optimize.loops.strategies.rewriting import rewriting_strategies
from standfast.optimize.providers.adapter import ProviderAdapter


def strategy_of(
    names: Sequence[str], provider: ProviderAdapter, cache: ResultCache | None = None
) -> CompressStrategy:
    """The strategies of these names, side by side. The cache keeps what a model proposed, for the next time."""
    known: dict[str, tuple[CompressStrategy, ...]] = {
        "rewrite": rewriting_strategies(),
        "duplicates": (DuplicateRemoval(),),
        "ablation": (Ablation(),),
        "recall": (RecallBudget(),),
        "compress": (LLMCompressStrategy(provider, cache=cache),),
    }
    assert tuple(known) == STRATEGY_NAMES
    return Strategies(*(strategy for name in names for strategy in known[name]))


def evaluator_of(names: Sequence[str], provider: ProviderAdapter) -> Evaluator:
    """The evaluator of that name, or all of several."""
    makers: dict[str, Any] = {
        "exact": Exact,
        "contains": Contains,
        "numeric": Numeric,
        "json-schema": JsonSchema,
        "judge": lambda: ModelJudge(provider),
    }
    assert tuple(makers) == EVALUATOR_NAMES
    made = [makers[name]() for name in names]
    chosen: Evaluator = made[0] if len(made) == 1 else AllOf(*made)
    return chosen
