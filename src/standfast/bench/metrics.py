"""The document's metrics, all of section 4, for one run.

Utilities are summed in whole units and divided once, so that sums do not depend on their order. Where a denominator is
empty, the figure is 0.
"""

import msgspec

from standfast.bench.episodes import Labels
from standfast.bench.play import Counts
from standfast.vocabulary import ActionType


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """What one policy did with one episode under one budget."""

    recall: float
    precision: float
    f1: float
    utility: float
    utility_per_kb: float
    oracle_utility: float
    regret: float
    avg_staleness: float
    drift_coverage: float
    expire_rate: float
    utilization: float
    write_density: float
    bytes_used: int
    retained: int
    true_positives: int
    false_positives: int
    false_negatives: int
    true_negatives: int


def evaluate(
    retained: set[int],
    labels: Labels,
    counts: Counts,
    *,
    steps: int,
    current_t: int,
    bytes_used: int,
    max_bytes: int,
    oracle_worth: int,
) -> Metrics:
    """Grade what was retained. ``oracle_worth`` is the WRITE-only optimum in the labels' units."""
    critical = labels.critical_steps
    hits = len(critical & retained)
    recall, precision = _share(hits, len(critical)), _share(hits, len(retained))
    own_worth = _worth_of(retained, labels, steps)
    utility = own_worth / labels.unit
    writes = counts.emitted[ActionType.WRITE]
    return Metrics(
        recall=recall,
        precision=precision,
        f1=_share(2 * precision * recall, precision + recall),
        utility=utility,
        utility_per_kb=utility / (bytes_used / 1024) if bytes_used else 0.0,
        oracle_utility=oracle_worth / labels.unit,
        regret=max(0, oracle_worth - own_worth) / labels.unit,
        avg_staleness=_share(current_t * len(retained) - sum(retained), len(retained)),
        drift_coverage=_share(hits, labels.total_drift_events),
        expire_rate=_share(counts.emitted[ActionType.EXPIRE], writes),
        utilization=bytes_used / max_bytes,
        write_density=_share(len(retained), steps),
        bytes_used=bytes_used,
        retained=len(retained),
        true_positives=hits,
        false_positives=len(retained) - hits,
        false_negatives=len(critical) - hits,
        true_negatives=steps - len(retained) - len(critical) + hits,
    )


def regraded(
    metrics: Metrics, retained: set[int], labels: Labels, *, steps: int, max_bytes: int, oracle_worth: int
) -> Metrics:
    """The metrics of the same run under another budget, which it did not feel either."""
    return msgspec.structs.replace(
        metrics,
        oracle_utility=oracle_worth / labels.unit,
        regret=max(0, oracle_worth - _worth_of(retained, labels, steps)) / labels.unit,
        utilization=metrics.bytes_used / max_bytes,
    )


def _worth_of(retained: set[int], labels: Labels, steps: int) -> int:
    """What the retained steps are worth in the labels' units; those without a label nothing."""
    worth = labels.worth
    if len(worth) < steps:
        return sum(worth.get(t, 0) for t in retained)
    return sum(map(worth.__getitem__, retained))


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
