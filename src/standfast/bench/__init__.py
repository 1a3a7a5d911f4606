"""The write-policy benchmark: episodes, runs, grids, leaderboards and reports.

Example:
    Grade two policies on a synthetic episode::

        episode = PricedEpisode(generate(DriftSettings(steps=100), 0))
        for name in ("RecencyBias", "DriftValue"):
            print(name, episode.run(Entrant.parse(name), 1_024).metrics.recall)
"""

from standfast.bench.deployment import deployment_settings, graded_budget
from standfast.bench.engines import dask_cluster, in_process, process_pool
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import Episode, load_jsonl, write_jsonl
from standfast.bench.grid import Grid, ResultsFolder, plan_grid, read_results, run_grid
from standfast.bench.leaderboard import LeaderboardRow, rank_policies
from standfast.bench.metrics import EpisodeMetrics
from standfast.bench.report import write_report
from standfast.bench.runner import EpisodeRun, PricedEpisode, run_policy
from standfast.bench.sources.adversarial import generate_against
from standfast.bench.sources.markdown import changelog_episode, docs_episode
from standfast.bench.sources.openapi import SpecVersion, openapi_episode, versions_from_git
from standfast.bench.sources.synthetic import DriftSettings, Regime, generate
from standfast.bench.statistics import Mean, PolicyComparison, compare

__all__ = [
    "DriftSettings",
    "Entrant",
    "Episode",
    "EpisodeMetrics",
    "EpisodeRun",
    "Grid",
    "LeaderboardRow",
    "Mean",
    "PolicyComparison",
    "PricedEpisode",
    "Regime",
    "ResultsFolder",
    "SpecVersion",
    "changelog_episode",
    "compare",
    "dask_cluster",
    "deployment_settings",
    "docs_episode",
    "generate",
    "generate_against",
    "graded_budget",
    "in_process",
    "load_jsonl",
    "openapi_episode",
    "plan_grid",
    "process_pool",
    "rank_policies",
    "read_results",
    "run_grid",
    "run_policy",
    "versions_from_git",
    "write_jsonl",
    "write_report",
]
