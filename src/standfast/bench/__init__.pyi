# The names of standfast.bench. Each is listed here and nowhere else; see lazy_names.py.

from standfast.bench.entrants import Entrant as Entrant
from standfast.bench.episodes import (
    Episode as Episode,
    load_jsonl as load_jsonl,
    write_jsonl as write_jsonl,
)
from standfast.bench.grid import (
    Grid as Grid,
    GridEstimate as GridEstimate,
    GridSummary as GridSummary,
    ResultsFolder as ResultsFolder,
    dask_cluster as dask_cluster,
    estimate_grid as estimate_grid,
    in_process as in_process,
    plan_grid as plan_grid,
    process_pool as process_pool,
    read_results as read_results,
    run_grid as run_grid,
    summarise_grid as summarise_grid,
    usable_cores as usable_cores,
)
from standfast.bench.kept_memory import (
    ModelAnswers as ModelAnswers,
    ask_model as ask_model,
)
from standfast.bench.leaderboard import (
    LeaderboardRow as LeaderboardRow,
    deployment_settings as deployment_settings,
    graded_budget as graded_budget,
    rank_policies as rank_policies,
)
from standfast.bench.metrics import EpisodeMetrics as EpisodeMetrics
from standfast.bench.report import write_report as write_report
from standfast.bench.runner import (
    EpisodeRun as EpisodeRun,
    PricedEpisode as PricedEpisode,
    run_policy as run_policy,
)
from standfast.bench.sources.conversations import conversation_episode as conversation_episode
from standfast.bench.sources.git_history import (
    SourceVersion as SourceVersion,
    file_version as file_version,
    git_versions as git_versions,
)
from standfast.bench.sources.interfaces import (
    ApiOperation as ApiOperation,
    InterfaceVersion as InterfaceVersion,
    interface_episode as interface_episode,
    interface_versions as interface_versions,
)
from standfast.bench.sources.markdown import (
    changelog_episode as changelog_episode,
    docs_episode as docs_episode,
)
from standfast.bench.sources.synthetic import (
    DriftSettings as DriftSettings,
    Regime as Regime,
    generate as generate,
    generate_against as generate_against,
)
from standfast.bench.statistics import (
    Mean as Mean,
    PolicyComparison as PolicyComparison,
    compare as compare,
)
from standfast.bench.submission import (
    PolicySubmission as PolicySubmission,
    SubmissionCheck as SubmissionCheck,
    verify_submission as verify_submission,
)
