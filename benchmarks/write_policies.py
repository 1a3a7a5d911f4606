"""The write-policy benchmark against the method of the public reference release, against itself at length,
and in memory.

Times are of this process's own cores (``process_time``), so that neighbours on the machine do not count.
"""

import gc
import json
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import naive_write_policies as naive
from benchmarks.measure import Ratio, at_least, at_most, shown
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import episode_line, locate_episodes, read_episode, write_jsonl
from standfast.bench.grid import PRIMARY_BUDGETS, plan_grid, run_unit
from standfast.bench.metrics import oracle_curve
from standfast.bench.runner import PricedEpisode, run_policy
from standfast.bench.sources.synthetic import DriftSettings, Regime, generate
from standfast.policies.byte_model import ByteModel
from standfast.policies.byte_store import ByteBudget
from standfast.policies.knapsack import best_subset
from standfast.policies.write_policy import Hindsight, Track, policy_names

TITLE = "Write policies, against the reference release's method"
ROUNDS = 5
BOTH_TRACKS = ("NeverWrite", "AlwaysWrite", "UniformSample", "RecencyBias", "MergeAggressive")
TWELVE = [
    *BOTH_TRACKS,
    *(f"{name}@privileged" for name in BOTH_TRACKS),
    "PriorityThreshold",
    "PriorityGreedy",
]
LONG = {
    "PriorityGreedy": ("greedy", "privileged"),
    "MergeAggressive": ("merging", "unprivileged"),
    "RecencyBias": ("newest", "unprivileged"),
}
REGIMES = [regime for regime in Regime if regime is not Regime.ADVERSARIAL]
MEGABYTE = 1 << 20
SLICE_STEPS = 12
# Beside the project, where a machine has them.
FROZEN = sorted((Path(__file__).parents[2] / "shared" / "data" / "wpb").glob("*.jsonl"))


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _grid(files: list[Path]) -> tuple[float, float]:
    """Return the seconds for 4 regimes of 10 episodes of 200 steps, 4 budgets, 12 policy-tracks, from file to
    figures.

    Both take turns and are measured in pieces: ours by episode, theirs by episode and budget. The sum is over
    the best of several rounds of each piece, so that a busy machine affects neither.
    """
    own = other = 0.0
    for file in files:
        plan = partial(plan_grid, [file], policies=TWELVE, byte_model=ByteModel.INDEXED, curves=False)
        own += min(_seconds(plan) for _ in range(ROUNDS))
        other += min(_seconds(partial(_read, file)) for _ in range(ROUNDS))
        grid, units = plan()
        for unit, episode in zip(units, _episodes(file), strict=True):
            pieces: list[Callable[[], object]] = [partial(run_unit, grid, unit)]
            pieces += [partial(_naive, episode, max_bytes) for max_bytes in PRIMARY_BUDGETS]
            best = [inf] * len(pieces)
            for _ in range(ROUNDS):
                for place, piece in enumerate(pieces):
                    best[place] = min(best[place], _seconds(piece))
            own += best[0]
            other += sum(best[1:])
    return own, other


def _read(file: Path) -> list[dict[str, Any]]:
    return list(_episodes(file))


def _naive(episode: dict[str, Any], max_bytes: int) -> None:
    for track, policies in naive.POLICIES.items():
        for policy in policies:
            naive.run(policy, episode, max_bytes, track)


def _episodes(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _long(policy: str, file: Path) -> tuple[float, float, float]:
    """Return the seconds for one parsed episode of 10,000 steps at 1 MB.

    Ours, with prices and the exact oracle; the release's, with its greedy oracle; and the release's with its
    only exact oracle, dynamic programming, measured over a slice of the steps and scaled to all of them.
    """
    episode = read_episode(locate_episodes(file)[0])
    plain = next(_episodes(file))
    name, track = LONG[policy]

    def ours() -> None:
        PricedEpisode(episode, ByteModel.INDEXED).run(Entrant.parse(policy), MEGABYTE)

    sizes, values = PricedEpisode(episode, ByteModel.INDEXED).sizes_and_worth(Track.UNPRIVILEGED)
    released = _seconds(lambda: naive.run(name, plain, MEGABYTE, track))
    sliced = _seconds(
        lambda: naive.dense_programme(sizes[:SLICE_STEPS], [float(v) for v in values[:SLICE_STEPS]], MEGABYTE)
    )
    exact = released + sliced * len(sizes) / SLICE_STEPS
    return min(_seconds(ours) for _ in range(ROUNDS)), released, exact


def _flatness(policy: str, episode: PricedEpisode) -> float:
    """Return the cost of a step in a stream of 100,000 over that in the same steps as a hundred streams of
    1,000.

    Both use the same steps, so that caches affect them alike. The first step of a stream is not counted,
    because an oracle makes its plan there.
    """
    entrant = Entrant.parse(policy)
    steps, prices = episode.shown(entrant.track), episode.priced_steps(entrant.track)
    feedback = episode.utility_of if entrant.track is Track.BANDIT else None

    def seconds(start: int, stop: int) -> float:
        made, store = entrant.spec.build(), episode.new_store(entrant.track, ByteBudget(20_000))
        some, priced = steps[start:stop], prices[start:stop]
        hindsight = (
            Hindsight(steps=some, worth=episode.episode.labels.worth)
            if entrant.track is Track.ORACLE
            else None
        )
        run_policy(made, some[:1], store, feedback=feedback, hindsight=hindsight, prices=priced[:1])
        begun = time.process_time()
        run_policy(made, some[1:], store, feedback=feedback, prices=priced[1:])
        return time.process_time() - begun

    best = []
    for _ in range(2):
        pieces = sum(seconds(start, start + 1_000) for start in range(0, len(steps), 1_000))
        best.append(seconds(0, len(steps)) / pieces)
    return min(best)


def _dense(sizes: list[int], values: list[int], max_bytes: int) -> int:
    """Solve the knapsack by dense dynamic programming with numpy."""
    best = np.zeros(max_bytes + 1, dtype=np.int64)
    for size, value in zip(sizes, values, strict=True):
        np.maximum(best[size:], best[:-size] + value, out=best[size:])
    return int(best[-1])


def _oracle(file: Path) -> list[Ratio]:
    episode = read_episode(locate_episodes(file)[0])
    sizes, values = PricedEpisode(episode, ByteModel.SPEC).sizes_and_worth(Track.UNPRIVILEGED)
    answers: list[int] = []
    ours = min(
        _seconds(lambda: answers.append(best_subset(sizes, values, MEGABYTE)[0])) for _ in range(ROUNDS)
    )
    dense = _seconds(lambda: answers.append(_dense(sizes, values, MEGABYTE)))
    curve = _seconds(lambda: answers.append(oracle_curve(sizes, values, MEGABYTE)[-1]))
    assert len(set(answers)) == 1, "all three are exact"
    detail = f"{len(sizes):,} items; {ours * 1e3:.0f} ms against {dense:.1f} s with numpy"
    return [
        at_most(
            "exact oracle at 1 MB against dense dynamic programming", 100 * ours / dense, 2, detail, unit=" %"
        ),
        shown(
            "  and the optimum after each of those steps", 100 * curve / dense, f"in %; {curve * 1e3:.0f} ms"
        ),
    ]


def _memory(file: Path) -> Ratio:
    """Return the peak memory of a grid over several long episodes, relative to one."""
    grid, units = plan_grid(
        [file], policies=["RecencyBias", "MergeAggressive"], budgets=(MEGABYTE,), curves=False
    )
    peaks = []
    for some in (units[:1], units):
        gc.collect()
        tracemalloc.start()
        for unit in some:
            run_unit(grid, unit)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    detail = f"{len(units)} episodes of 10,000 steps; peak {peaks[1] / 1e6:.0f} MB"
    return at_most("memory of many long episodes against one", peaks[1] / peaks[0], 1.2, detail)


def run() -> list[Ratio]:
    """Return all figures."""
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for regime in REGIMES:
            files.append(Path(folder) / f"{regime}.jsonl")
            # As the reference release's own: eight endpoints, schemas only.
            settings = DriftSettings(steps=200, regime=regime, endpoints=8, docs_share=0.0)
            write_jsonl(files[-1], (generate(settings, number) for number in range(10)))
        for name, some in (("its own frozen episodes", FROZEN), ("episodes of ours", files)):
            if some:
                ours, theirs = _grid(some)
                detail = f"1,920 runs of 200 steps: {ours:.2f} s against {theirs:.1f} s"
                label = f"the grid of 12 policy-tracks, {name}"
                ratios.append(at_least(label, theirs / ours, 15, detail))
        long = Path(folder) / "long.jsonl"
        settings = DriftSettings(steps=10_000, regime=Regime.BURSTS_REDUNDANCY)
        write_jsonl(long, (generate(settings, number) for number in range(3)))
        for policy in LONG:
            ours, released, exact = _long(policy, long)
            detail = (
                f"{ours * 1e3:.0f} ms against {exact:.0f} s (its dynamic programming scaled from"
                f" {SLICE_STEPS} steps)"
            )
            ratios.append(
                at_least(f"10,000 steps at 1 MB, regret exact, {policy}", exact / ours, 200, detail)
            )
            detail = f"{released:.1f} s as released, with a greedy oracle"
            ratios.append(shown("  the same, its regret not exact", released / ours, detail))
        endless = DriftSettings(steps=100_000, regime=Regime.BURSTS_REDUNDANCY, endpoints=80)
        episode = PricedEpisode(generate(endless, 0), ByteModel.SPEC, name="flat")
        slowest = max((_flatness(policy, episode), policy) for policy in policy_names())
        ratios.append(
            at_most("a step among 100,000 against one among 1,000", slowest[0], 1.5, f"worst: {slowest[1]}")
        )
        ratios += _oracle(long)
        ratios.append(_memory(long))
        line_bytes = len(episode_line(read_episode(locate_episodes(long)[0])))
        parse = min(_seconds(lambda: read_episode(locate_episodes(long)[0])) for _ in range(3))
        ratios.append(shown("reading a long episode, MB/s", line_bytes / parse / 1e6))
    return ratios
