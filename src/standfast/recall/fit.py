"""What fits the budget: excerpts, what they cost, and where selection stops. Pure functions of candidates and budget.

Selection stops at the first candidate that would overflow the budget, or when as many are selected as may be; what comes
after is dropped for the reason that stopped it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from standfast.recall.rank import Candidate
from standfast.vocabulary import Budget

BYTES_PER_TOKEN: Final = 4


class Reason(StrEnum):
    """Why a record was not selected."""

    INVALID = "invalid_record_schema"
    DENIED = "trust_denied"
    BUDGET = "budget_exhausted"
    ITEMS = "max_items_reached"


@dataclass(frozen=True, slots=True)
class Fitted:
    """A candidate that was selected, with what is shown of it."""

    candidate: Candidate
    excerpt: str
    excerpt_tokens: int


@dataclass(frozen=True, slots=True)
class Fit:
    """The outcome: what was selected, what it costs, and why selection stopped, if it did before the end."""

    selected: tuple[Fitted, ...]
    used_tokens: int
    stopped_by: Reason | None


def token_cost(text: str) -> int:
    """Tokens by the contract's estimator: a quarter of the UTF-8 bytes, rounded up. No model's own count."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


def excerpt_of(text: str, max_tokens: int) -> str:
    """The start of a text, without white space around it, cut before the code point that would not fit whole."""
    stripped = text.strip()
    encoded = stripped.encode()
    max_bytes = max_tokens * BYTES_PER_TOKEN
    return stripped if len(encoded) <= max_bytes else encoded[:max_bytes].decode(errors="ignore")


def per_item_tokens(budget: Budget) -> int:
    """How many tokens one excerpt may cost."""
    given = budget.per_item_max_excerpt_tokens
    return budget.max_excerpt_tokens if given is None else min(given, budget.max_excerpt_tokens)


def fit(candidates: Sequence[Candidate], budget: Budget) -> Fit:
    """Select from candidates that are in order, until the budget is spent."""
    selected: list[Fitted] = []
    used, stopped_by = 0, None
    for candidate in candidates:
        if len(selected) == budget.max_items:
            stopped_by = Reason.ITEMS
            break
        excerpt = excerpt_of(candidate.record.text, per_item_tokens(budget))
        cost = token_cost(excerpt)
        if used + cost > budget.max_excerpt_tokens:
            stopped_by = Reason.BUDGET
            break
        selected.append(Fitted(candidate, excerpt, cost))
        used += cost
    return Fit(tuple(selected), used, stopped_by)
