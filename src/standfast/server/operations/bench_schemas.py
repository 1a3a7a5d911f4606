"""The request and the response of the benchmark's leaderboard."""

from standfast.bench.leaderboard import LeaderboardRow
from standfast.bench.statistics import Mean
from standfast.vocabulary import Value


class BenchQuery(Value, frozen=True, kw_only=True):
    """The budget to rank at. Without one it is 10 KB, or the middle budget of the grid."""

    budget_bytes: int | None = None


class BudgetReport(Value, frozen=True, kw_only=True):
    """The scores of a policy at one budget; the counts are sums over all episodes."""

    budget_bytes: int
    recall: Mean
    f1: Mean
    utility_per_kb: Mean
    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int


class PolicyReport(Value, frozen=True, kw_only=True):
    """The scores of one policy, smallest budget first."""

    policy: str
    track: str
    budgets: list[BudgetReport]


class BenchResponse(Value, frozen=True, kw_only=True):
    """The finished benchmark: the leaderboard at one budget, and the report of each policy at all budgets."""

    budget_bytes: int
    budgets_bytes: list[int]
    episodes: int
    leaderboard: list[LeaderboardRow]
    reports: list[PolicyReport]
