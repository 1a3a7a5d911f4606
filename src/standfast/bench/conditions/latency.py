"""Write latency: bytes reach memory at a limited rate, and what comes too late was not there when it was needed.

A store takes 256 bytes a timestep, in the order in which things were written. The metric is timely recall: the critical steps
that are retained and were durable at most ten timesteps after they were seen. Who writes everything is late for what matters.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from standfast.bench.episodes import Episode
from standfast.bench.play import Turn
from standfast.bench.stage import Entrant, Scene, alone
from standfast.policies.byte_store import ByteMemoryStore
from standfast.policies.bytes import ByteModel
from standfast.vocabulary import Step

METRIC: Final = "timely_recall"
HIGHER_IS_BETTER: Final = True
has_curves: Final = False
BYTES_PER_STEP: Final = 256
DEADLINE_STEPS: Final = 10


class Queue:
    """When each thing that was written is durable. Times are in bytes of the queue's rate, so that they are whole."""

    def __init__(self) -> None:
        self._free_at = 0
        self.delay: dict[int, int] = {}

    def after(self, step: Step, turn: Turn, store: ByteMemoryStore) -> None:  # noqa: ARG002  # A watcher's signature.
        """What was stored at this step takes its turn."""
        item = store.item_at(step.t)
        if item is not None:
            now = step.t * BYTES_PER_STEP
            self._free_at = max(now, self._free_at) + item.byte_cost
            self.delay[step.t] = self._free_at - now

    def timely(self, t: int) -> bool:
        """Whether what was written at a timestep was durable in time."""
        return self.delay[t] <= DEADLINE_STEPS * BYTES_PER_STEP


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
            queue = Queue()
            store = alone(scene, entrant, scene.shown(entrant.track)[0], max_bytes, watcher=queue)
            hits = critical & store.retained()
            timely = sum(queue.timely(t) for t in hits)
            delays = list(queue.delay.values())
            yield {
                "budget_bytes": max_bytes,
                "policy": str(entrant.spec),
                "track": str(entrant.track),
                METRIC: timely / len(critical) if critical else 0.0,
                "recall": len(hits) / len(critical) if critical else 0.0,
                "mean_delay_steps": sum(delays) / len(delays) / BYTES_PER_STEP if delays else 0.0,
                "late_share": sum(not queue.timely(t) for t in queue.delay) / len(delays) if delays else 0.0,
            }
