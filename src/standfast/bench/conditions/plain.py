"""The document's own condition: one budget, one policy, every metric of section 4."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from standfast.bench.episodes import Episode
from standfast.bench.stage import Entrant, Scene, Stage, curve_points, row_of
from standfast.policies.bytes import ByteModel

METRIC: Final = "recall"
HIGHER_IS_BETTER: Final = True
has_curves: Final = True


def records(
    episode: Episode,
    entrants: Sequence[Entrant],
    budgets: Sequence[int],
    *,
    name: str,
    seed: int,
    model: ByteModel,
    curves: bool,
) -> Iterator[dict[str, Any]]:
    """One row for each budget and policy, and after each budget its curves."""
    scene = Scene(episode, model, seed=seed, name=name)
    for max_bytes in sorted(budgets):
        stage = Stage(scene, max_bytes, curves=curves)
        drawn = {}
        for entrant in entrants:
            run = stage.run(entrant)
            yield {"budget_bytes": max_bytes, **row_of(entrant, run)}
            if run.curve:
                drawn[str(entrant)] = run.curve
        if drawn:
            points = [episode.steps[point].t for point in curve_points(len(episode.steps))]
            yield {"budget_bytes": max_bytes, "curve": {"t": points, "regret": drawn}}
