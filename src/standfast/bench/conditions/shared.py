"""One budget for several policies: all entrants see the same stream, and whoever writes takes bytes from all.

Each has a store of its own under the one budget; who moves first goes round from step to step. The metric is a policy's own
recall in that company; its share of the bytes, the recall of all together and Jain's fairness index stand beside it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from standfast.bench.episodes import Episode
from standfast.bench.play import play
from standfast.bench.stage import Entrant, Scene
from standfast.policies.budget import ByteBudget
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.bytes import ByteModel
from standfast.policies.protocol import Hindsight, Track

METRIC: Final = "recall_in_company"
HIGHER_IS_BETTER: Final = True
has_curves: Final = False


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
        budget = ByteBudget(max_bytes)
        stores = _played_together(scene, entrants, budget)
        kept = [store.retained() for store in stores]
        held = [store.held_bytes for store in stores]
        together = set[int]().union(*kept) & critical
        for entrant, retained, own_bytes in zip(entrants, kept, held, strict=True):
            yield {
                "budget_bytes": max_bytes,
                "policy": str(entrant.spec),
                "track": str(entrant.track),
                METRIC: len(critical & retained) / len(critical) if critical else 0.0,
                "share_of_bytes": own_bytes / budget.used_bytes if budget.used_bytes else 0.0,
                "joint_recall": len(together) / len(critical) if critical else 0.0,
                "fairness": sum(held) ** 2 / (len(held) * sum(size**2 for size in held))
                if any(held)
                else 0.0,
            }


def _played_together(scene: Scene, entrants: Sequence[Entrant], budget: ByteBudget) -> list[ByteMemoryStore]:
    labels = scene.episode.labels
    players = []
    for entrant in entrants:
        steps, prices = scene.shown(entrant.track)
        policy = entrant.spec.build(seed=partial(scene.policy_seed, entrant))
        if entrant.track is Track.ORACLE:
            told: Any = policy
            told.foresee(Hindsight(steps=steps, worth=labels.worth))
        players.append((entrant, policy, steps, ByteMemoryStore(budget, prices=prices)))
    for number in range(len(scene.episode.steps)):
        first = number % len(players)
        for entrant, policy, steps, store in players[first:] + players[:first]:
            play(
                policy,
                steps[number : number + 1],
                store,
                feedback=scene.utility_of if entrant.track is Track.BANDIT else None,
                names=(str(entrant), scene.name),
            )
    return [store for _, _, _, store in players]
