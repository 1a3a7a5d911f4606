"""Retrieval: after the stream, memory is asked about each endpoint that had something critical.

The question is an endpoint's name; the answer is the newest k retained steps of that endpoint; the last critical step of the
endpoint must be among them. Retaining is not enough: what is kept on top of it may bury it.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from standfast.bench.episodes import Episode
from standfast.bench.stage import Entrant, Scene, alone
from standfast.policies.bytes import ByteModel, endpoint_of

METRIC: Final = "retrieval_at_5"
HIGHER_IS_BETTER: Final = True
has_curves: Final = False
DEPTHS: Final = (1, 5)


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
    api_of = {step.t: endpoint_of(step.observation) for step in episode.steps}
    wanted = {api_of[t]: t for t in sorted(episode.labels.critical_steps) if api_of[t] is not None}
    for max_bytes in sorted(budgets):
        for entrant in entrants:
            store = alone(scene, entrant, scene.shown(entrant.track)[0], max_bytes)
            newest: dict[str | None, list[int]] = {}
            for t in sorted(store.retained(), reverse=True):
                newest.setdefault(api_of[t], []).append(t)
            places = [_place(newest.get(api, []), t) for api, t in wanted.items()]
            row: dict[str, Any] = {
                "budget_bytes": max_bytes,
                "policy": str(entrant.spec),
                "track": str(entrant.track),
                "queries": len(places),
            }
            for depth in DEPTHS:
                hits = sum(place is not None and place < depth for place in places)
                row[f"retrieval_at_{depth}"] = hits / len(places) if places else 0.0
            ranks = [1 / (place + 1) if place is not None else 0.0 for place in places]
            row["mean_reciprocal_rank"] = sum(ranks) / len(ranks) if ranks else 0.0
            yield row


def _place(answers: list[int], t: int) -> int | None:
    return answers.index(t) if t in answers else None
