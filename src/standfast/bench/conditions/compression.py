"""Compression: observations are stored deflated where that is shorter, so that the same budget holds more.

The metric is the gain in recall over the plain condition. Lengths come from the machine's zlib, whose version is in each row,
because another implementation may deflate a little differently.
"""

import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from standfast.bench.episodes import Episode
from standfast.bench.stage import Entrant, Scene, alone
from standfast.policies.bytes import ByteModel, json_bytes

METRIC: Final = "recall_gain"
HIGHER_IS_BETTER: Final = True
has_curves: Final = False
LEVEL: Final = 9


def deflated_bytes(observation: object) -> int:
    """The length of an observation as it would be stored: deflated, or as it is if that is shorter; a byte tells which."""
    text = json.dumps(observation).encode("ascii")
    return 1 + min(len(text), len(zlib.compress(text, LEVEL)))


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
    plain = Scene(episode, model, seed=seed, name=name)
    small = Scene(episode, model, seed=seed, name=name, measure=deflated_bytes)
    critical = episode.labels.critical_steps
    before = sum(json_bytes(step.observation) for step in episode.steps)
    after = sum(deflated_bytes(step.observation) for step in episode.steps)
    for max_bytes in sorted(budgets):
        for entrant in entrants:
            recalls = []
            for scene in (plain, small):
                store = alone(scene, entrant, scene.shown(entrant.track)[0], max_bytes)
                recalls.append(len(critical & store.retained()) / len(critical) if critical else 0.0)
            yield {
                "budget_bytes": max_bytes,
                "policy": str(entrant.spec),
                "track": str(entrant.track),
                METRIC: recalls[1] - recalls[0],
                "recall": recalls[1],
                "recall_plain": recalls[0],
                "compression_ratio": before / after,
                "zlib": zlib.ZLIB_RUNTIME_VERSION,
            }
