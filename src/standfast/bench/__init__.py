"""The write-policy benchmark: episodes, runs, grids, leaderboards and reports.

Example:
    Grade two policies on a synthetic episode::

        episode = PricedEpisode(generate(DriftSettings(steps=100), 0))
        for name in ("RecencyBias", "DriftValue"):
            print(name, episode.run(Entrant.parse(name), 1_024).metrics.recall)
"""

from standfast.bench.entrants import Entrant
from standfast.bench.episodes import Episode, load_jsonl, write_jsonl
from standfast.bench.grid import (
    Grid,
    GridEstimate,
    GridSummary,
    ResultsFolder,
    dask_cluster,
    estimate_grid,
    in_process,
    plan_grid,
    process_pool,
    read_results,
    run_grid,
    summarise_grid,
    usable_cores,
)
from standfast.bench.kept_memory import ModelAnswers, ask_model
from standfast.bench.leaderboard import LeaderboardRow, deployment_settings, graded_budget, rank_policies
from standfast.bench.metrics import EpisodeMetrics
from standfast.bench.report import write_report
from standfast.bench.runner import EpisodeRun, PricedEpisode, run_policy
from standfast.bench.sources.conversations import conversation_episode
from standfast.bench.sources.git_history import SourceVersion, file_version, git_versions
from standfast.bench.sources.interfaces import (
    ApiOperation,
    InterfaceVersion,
    interface_episode,
    interface_versions,
)
from standfast.bench.sources.markdown import changelog_episode, docs_episode
from standfast.bench.sources.synthetic import DriftSettings, Regime, generate, generate_against
from standfast.bench.statistics import Mean, PolicyComparison, compare
from standfast.bench.submission import PolicySubmission, SubmissionCheck, verify_submission

__all__ = [
    "ApiOperation",
    "DriftSettings",
    "Entrant",
    "Episode",
    "EpisodeMetrics",
    "EpisodeRun",
    "Grid",
    "GridEstimate",
    "GridSummary",
    "InterfaceVersion",
    "LeaderboardRow",
    "Mean",
    "ModelAnswers",
    "PolicyComparison",
    "PolicySubmission",
    "PricedEpisode",
    "Regime",
    "ResultsFolder",
    "SourceVersion",
    "SubmissionCheck",
    "ask_model",
    "changelog_episode",
    "compare",
    "conversation_episode",
    "dask_cluster",
    "deployment_settings",
    "docs_episode",
    "estimate_grid",
    "file_version",
    "generate",
    "generate_against",
    "git_versions",
    "graded_budget",
    "in_process",
    "interface_episode",
    "interface_versions",
    "load_jsonl",
    "plan_grid",
    "process_pool",
    "rank_policies",
    "read_results",
    "run_grid",
    "run_policy",
    "summarise_grid",
    "usable_cores",
    "verify_submission",
    "write_jsonl",
    "write_report",
]
