"""The write-policy benchmark: episodes, runs, grids, leaderboards and reports.

Example:
    Grade two policies on synthetic episodes::

        episode = generate(DriftSettings(steps=100), 0)
        for name in ("RecencyBias", "DriftValue"):
            print(name, PricedEpisode(episode).run(Entrant.parse(name), 1_024).metrics.recall)
"""

from standfast.bench.conditions import CONDITIONS, Condition
from standfast.bench.engines import Engine, dask_cluster, in_process, process_pool
from standfast.bench.episodes import (
    Episode,
    Labels,
    check_manifest,
    file_hash,
    iter_jsonl,
    load_jsonl,
    manifest_of,
    write_jsonl,
)
from standfast.bench.grid import (
    PRIMARY_BUDGETS,
    Grid,
    GridUnit,
    ResultsFolder,
    plan_grid,
    read_results,
    run_grid,
    run_unit,
)
from standfast.bench.leaderboard import LeaderboardRow, Mean, deployment_settings, rank_policies
from standfast.bench.metrics import ActionCounts, EpisodeMetrics, evaluate
from standfast.bench.oracle import oracle_curve, oracle_worth
from standfast.bench.report import write_report
from standfast.bench.runner import Entrant, EpisodeRun, PricedEpisode, run_policy
from standfast.bench.sources.adversarial import generate_against
from standfast.bench.sources.markdown import changelog_episode, docs_episode
from standfast.bench.sources.openapi import SpecVersion, openapi_episode, versions_from_git
from standfast.bench.sources.synthetic import (
    DriftSettings,
    Regime,
    default_files,
    episode_files,
    generate,
    synthetic_name,
)

__all__ = [
    "CONDITIONS",
    "PRIMARY_BUDGETS",
    "ActionCounts",
    "Condition",
    "DriftSettings",
    "Engine",
    "Entrant",
    "Episode",
    "EpisodeMetrics",
    "EpisodeRun",
    "Grid",
    "GridUnit",
    "Labels",
    "LeaderboardRow",
    "Mean",
    "PricedEpisode",
    "Regime",
    "ResultsFolder",
    "SpecVersion",
    "changelog_episode",
    "check_manifest",
    "dask_cluster",
    "default_files",
    "deployment_settings",
    "docs_episode",
    "episode_files",
    "evaluate",
    "file_hash",
    "generate",
    "generate_against",
    "in_process",
    "iter_jsonl",
    "load_jsonl",
    "manifest_of",
    "openapi_episode",
    "oracle_curve",
    "oracle_worth",
    "plan_grid",
    "process_pool",
    "rank_policies",
    "read_results",
    "run_grid",
    "run_policy",
    "run_unit",
    "synthetic_name",
    "versions_from_git",
    "write_jsonl",
    "write_report",
]
