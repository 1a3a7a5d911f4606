"""Small episodes for tests, and where real ones are if the machine has them."""

from pathlib import Path
from typing import Any

from standfast import Step
from standfast.bench.episodes import Episode
from standfast.bench.sources.synthetic import DriftSettings, Regime, generate

DATA = Path(__file__).parents[3] / "shared" / "data"
REAL = sorted((DATA / "episodes").glob("*.jsonl"))
REFERENCE = sorted((DATA / "wpb").glob("*.jsonl"))


def small_episode(steps: int = 60, *, regime: Regime = Regime.BURSTS_REDUNDANCY, number: int = 0) -> Episode:
    """A synthetic episode."""
    return generate(DriftSettings(steps=steps, regime=regime), number)


def episode_of(
    *observations: Any, critical: tuple[int, ...] = (), utility: dict[int, float] | None = None
) -> Episode:
    """An episode of these observations, at timesteps from 0 on."""
    steps = tuple(Step(t=t, observation=observation) for t, observation in enumerate(observations))
    utilities = {str(t): (utility or {}).get(t, 1.0) for t in range(len(steps))}
    return Episode(steps, {"critical_steps": list(critical), "utility_by_step": utilities})
