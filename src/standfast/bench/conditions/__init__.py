"""Conditions of the grid: the document's plain one, and its extensions, each small, apart, and with a metric of its own."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, Final, Protocol

from standfast.bench.episodes import Episode
from standfast.bench.stage import Entrant
from standfast.errors import InvalidValue
from standfast.policies.bytes import ByteModel


class Condition(Protocol):
    """One way of running policies over an episode. A module with these names."""

    METRIC: str
    """The figure that the condition is about."""

    HIGHER_IS_BETTER: bool
    has_curves: bool

    def records(
        self,
        episode: Episode,
        entrants: Sequence[Entrant],
        budgets: Sequence[int],
        *,
        name: str,
        seed: int,
        model: ByteModel,
        curves: bool,
    ) -> Iterator[dict[str, Any]]:
        """The rows, budget by budget and policy by policy; a record with ``curve`` holds curves."""
        ...


CONDITIONS: Final = ("plain", "hierarchical", "latency", "compression", "retrieval", "shared", "adversarial")


def condition_named(name: str) -> Any:
    """The module of a condition."""
    if name not in CONDITIONS:
        raise InvalidValue(
            what="Grid", problem=f"there is no condition {name!r:.40}; there are {', '.join(CONDITIONS)}"
        )
    return import_module(f"standfast.bench.conditions.{name}")
