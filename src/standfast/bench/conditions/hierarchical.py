"""Hierarchical budgets: APIs and documentation have half of the bytes each, and a policy of the same kind each.

The metric is the worse of the two recalls: a policy that starves one of them gains nothing from the other.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from standfast.bench.episodes import Episode
from standfast.bench.stage import Entrant, Scene, alone
from standfast.policies.bytes import ByteModel
from standfast.policies.features import ObservationKind, kind_of
from standfast.vocabulary import Step

METRIC: Final = "balanced_recall"
HIGHER_IS_BETTER: Final = True
has_curves: Final = False
DOCS: Final = frozenset((ObservationKind.DOCUMENTATION, ObservationKind.MIGRATION_GUIDE))


def records(
    episode: Episode,
    entrants: Sequence[Entrant],
    budgets: Sequence[int],
    *,
    name: str,
    seed: int,
    model: ByteModel,
    curves: bool,  # noqa: ARG001  # A condition's signature.
) -> Iterator[dict[str, Any]]:
    """One row for each budget and policy."""
    scene = Scene(episode, model, seed=seed, name=name)
    critical = episode.labels.critical_steps
    for max_bytes in sorted(budgets):
        for entrant in entrants:
            row: dict[str, Any] = {
                "budget_bytes": max_bytes,
                "policy": str(entrant.spec),
                "track": str(entrant.track),
            }
            retained: set[int] = set()
            recalls = []
            for part, wanted in (("api", False), ("docs", True)):
                steps = tuple(step for step in scene.shown(entrant.track)[0] if _is_docs(step) is wanted)
                store = alone(scene, entrant, steps, max(1, max_bytes // 2)) if steps else None
                kept = store.retained() if store is not None else set()
                due = critical & {step.t for step in steps}
                row[f"bytes_{part}"] = store.held_bytes if store is not None else 0
                row[f"recall_{part}"] = len(due & kept) / len(due) if due else None
                if due:
                    recalls.append(len(due & kept) / len(due))
                retained |= kept
            row["recall"] = len(critical & retained) / len(critical) if critical else 0.0
            row[METRIC] = min(recalls, default=0.0)
            yield row


def _is_docs(step: Step) -> bool:
    return kind_of(step.observation) in DOCS
