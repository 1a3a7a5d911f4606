"""Adversarial drift: the same steps in the order that is worst for the policy.

Drift can't be foreseen, so neither can its order. Each pattern moves steps inside windows of fifty, which keeps the history
plausible; a policy is graded by its worst pattern. The metric is that recall; beside it stands what it loses against the order
that really was. (``bench generate --regime adversarial`` goes further: it makes new streams against one policy.)
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.stage import Entrant, Scene, alone
from standfast.policies.bytes import ByteModel, json_bytes
from standfast.vocabulary import Step

METRIC: Final = "worst_recall"
HIGHER_IS_BETTER: Final = True
has_curves: Final = False
WINDOW_STEPS: Final = 50

# What a pattern sorts a window by: whether a step is critical, its length, and its place.
_Key = Callable[[bool, int, int], tuple[int, ...]]
PATTERNS: Final[dict[str, _Key]] = {
    "as_it_was": lambda _critical, _size, place: (place,),
    "critical_first": lambda critical, _size, place: (not critical, place),
    "critical_last": lambda critical, _size, place: (critical, place),
    "longest_last": lambda _critical, size, place: (size, place),
    "longest_first": lambda _critical, size, place: (-size, place),
    "critical_buried": lambda critical, size, place: (not critical, size, place),
}


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
    scenes = {
        pattern: Scene(reordered(episode, pattern), model, seed=seed, name=name) for pattern in PATTERNS
    }
    for max_bytes in sorted(budgets):
        for entrant in entrants:
            recalls = {}
            for pattern, scene in scenes.items():
                critical = scene.episode.labels.critical_steps
                store = alone(scene, entrant, scene.shown(entrant.track)[0], max_bytes)
                recalls[pattern] = len(critical & store.retained()) / len(critical) if critical else 0.0
            worst = min(recalls, key=lambda pattern: (recalls[pattern], pattern))
            yield {
                "budget_bytes": max_bytes,
                "policy": str(entrant.spec),
                "track": str(entrant.track),
                METRIC: recalls[worst],
                "worst_pattern": worst,
                "recall": recalls["as_it_was"],
                "lost_recall": recalls["as_it_was"] - recalls[worst],
            }


def reordered(episode: Episode, pattern: str) -> Episode:
    """The episode with its steps moved inside their windows; timesteps stay in order, labels move with their steps."""
    key, critical = PATTERNS[pattern], episode.labels.critical_steps
    steps = episode.steps
    sizes = [json_bytes(step.observation) for step in steps]
    order = sorted(
        range(len(steps)),
        key=lambda place: (place // WINDOW_STEPS, key(steps[place].t in critical, sizes[place], place)),
    )
    times = [step.t for step in steps]
    moved = {steps[place].t: times[rank] for rank, place in enumerate(order)}
    labels = {
        **episode.labels.given,
        "critical_steps": sorted(moved[t] for t in critical),
        "utility_by_step": {str(moved[t]): utility for t, utility in episode.labels.utility_by_step.items()},
    }
    labels.pop("breaking_changes", None)
    return Episode(tuple(_at(steps[place], times[rank]) for rank, place in enumerate(order)), labels)


def _at(step: Step, t: int) -> Step:
    return msgspec.structs.replace(step, t=t)
