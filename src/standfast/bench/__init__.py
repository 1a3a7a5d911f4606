"""The write-policy benchmark: episodes, runs, grids, leaderboards and reports.

Example:
    Grade two policies on a synthetic episode::

        episode = PricedEpisode(generate(DriftSettings(steps=100), 0))
        for name in ("RecencyBias", "DriftValue"):
            print(name, episode.run(Entrant.parse(name), 1_024).metrics.recall)
"""

from standfast.bench.deployment import deployment_settings, graded_budget
from standfast.bench.engines import dask_cluster, in_process, process_pool, usable_cores
from standfast.bench.entrants import Entrant
from standfast.bench.episodes import Episode, load_jsonl, write_jsonl
from standfast.bench.grid import (
    Grid,
    GridEstimate,
    GridSummary,
    ResultsFolder,
    estimate_grid,
    plan_grid,
    read_results,
    run_grid,
    summarise_grid,
)
from standfast.bench.leaderboard import LeaderboardRow, rank_policies
from standfast.bench.metrics import EpisodeMetrics
from standfast.bench.model_answers import ModelAnswers, ask_model
from standfast.bench.report import write_report
from standfast.bench.runner import EpisodeRun, PricedEpisode, run_policy
from standfast.bench.sources.adversarial import generate_against
from standfast.bench.sources.conversations import conversation_episode
from standfast.bench.sources.git_history import SourceVersion, file_version, git_versions
from standfast.bench.sources.interfaces import (
    ApiOperation,
    InterfaceVersion,
    interface_episode,
    interface_versions,
)
from standfast.bench.sources.markdown import changelog_episode, docs_episode
from standfast.bench.sources.synthetic import DriftSettings, Regime, generate
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
