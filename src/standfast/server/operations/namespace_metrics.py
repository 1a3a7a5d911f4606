"""Metrics by namespace, in Prometheus' text format: calls, verdicts, commits, the index, waiting proposals, byte budgets.

Labels come from closed sets, so that callers cannot make them grow. Of namespaces, the first ones that calls name have their own; the
rest are counted together.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from standfast.canon import parse
from standfast.limits import MAX_METRIC_NAMESPACES, MAX_NAME_CHARS, SCAN_PAGE_RECORDS
from standfast.memory import Memory
from standfast.vocabulary import Receipt, Verdict

OTHER_NAMESPACES: Final = ""
"""The label of namespaces that have none of their own. No namespace can have this name, and no key for some namespaces covers it."""
Labels = tuple[tuple[str, str], ...]
Samples = dict[Labels, float]


class NamespaceMetrics:
    """Counts what is done in each namespace. Safe to share between threads."""

    def __init__(self, max_namespaces: int = MAX_METRIC_NAMESPACES) -> None:
        self._lock = threading.Lock()
        self._max_namespaces = max_namespaces
        self._names: set[str] = set()
        self._answered: Counter[tuple[str, str]] = Counter()
        self._seconds: Counter[str] = Counter()
        self._judged: Counter[tuple[str, str]] = Counter()
        self._commits: Counter[str] = Counter()

    def answered(self, namespace: str, status: int, seconds: float) -> None:
        """Count an authorized call that was answered."""
        with self._lock:
            label = self._label_of(namespace)
            self._answered[label, str(status)] += 1
            self._seconds[label] += seconds  # type: ignore[assignment]  # A counter adds fractions too.

    def wrote(
        self,
        namespace: str,
        verdicts: Iterable[Verdict | None] = (),
        receipts: Iterable[Receipt | None] = (),
    ) -> None:
        """Count the verdicts and the commits of a call; None stands for none. What was done before is not counted again."""
        given = [receipt for receipt in receipts if receipt is not None]
        if any(receipt.replayed for receipt in given):
            return
        with self._lock:
            label = self._label_of(namespace)
            self._judged.update((label, verdict.value) for verdict in verdicts if verdict is not None)
            self._commits[label] += len(given)

    def _label_of(self, namespace: str) -> str:
        is_name = 0 < len(namespace) <= MAX_NAME_CHARS and namespace.isprintable()
        if is_name and len(self._names) < self._max_namespaces:
            self._names.add(namespace)
        return namespace if namespace in self._names else OTHER_NAMESPACES

    def text(self, memories: Mapping[str, Memory], is_shown: Callable[[str], bool]) -> str:
        """All metrics of the namespaces that the caller may know of.

        Args:
            memories: The memories whose present state is told, by namespace; of those that have a label.
        """
        with self._lock:
            answered = {_namespace(name, status=status): n for (name, status), n in self._answered.items()}
            seconds = {_namespace(name): float(value) for name, value in self._seconds.items()}
            judged = {_namespace(name, verdict=verdict): n for (name, verdict), n in self._judged.items()}
            commits = {_namespace(name): n for name, n in self._commits.items() if n}
            named = sorted(self._names & memories.keys())
        shown = [memories[name] for name in named if is_shown(name)]
        families: list[tuple[str, str, str, Mapping[Labels, float]]] = [
            ("namespace_requests_total", "counter", "Answered calls, by namespace and status.", answered),
            ("namespace_request_seconds_total", "counter", "Time that calls took, by namespace.", seconds),
            ("judged_total", "counter", "Verdicts on texts and messages, by namespace.", judged),
            ("commits_total", "counter", "Commits that calls made, by namespace.", commits),
            *_present(shown),
        ]
        lines: list[str] = []
        for name, kind, description, samples in families:
            lines += [f"# HELP standfast_{name} {description}", f"# TYPE standfast_{name} {kind}"]
            for labels in sorted(samples):
                if is_shown(dict(labels)["namespace"]):
                    lines.append(f"standfast_{name}{{{_text_of(labels)}}} {_number(samples[labels])}")
        return "\n".join(lines) + "\n"


def _present(memories: Iterable[Memory]) -> Iterator[tuple[str, str, str, Samples]]:
    """The present state of memories."""
    behind, rows, index_bytes = Samples(), Samples(), Samples()
    waiting, limits, used = Samples(), Samples(), Samples()
    for memory in memories:
        own = _namespace(memory.namespace)
        status = memory.reader.index.upkeep.status()
        behind[own] = status.behind
        rows[own] = sum(band.rows for band in status.bands)
        index_bytes[own] = sum(band.size_bytes for band in status.bands)
        waiting[own] = sum(1 for _ in islice(memory.approvals().waiting(), SCAN_PAGE_RECORDS))
        budgets = memory.band_budgets.budgets
        keys = {band: f"budget/{band}" for band in budgets}
        stored = memory.store.read(memory.namespace, sorted(keys.values())) if keys else {}
        for band, key in keys.items():
            labels = _namespace(memory.namespace, band=band.value)
            limits[labels] = budgets[band].max_bytes
            used[labels] = parse(stored[key].content or b"{}").get("used_bytes", 0) if key in stored else 0
    yield "index_behind_snapshots", "gauge", "Newest snapshots that the stored index does not have.", behind
    yield "index_rows", "gauge", "Rows of the stored index, by namespace.", rows
    yield "index_bytes", "gauge", "Bytes of the stored index, by namespace.", index_bytes
    yield "proposals_waiting", "gauge", f"Proposals that wait, up to {SCAN_PAGE_RECORDS}.", waiting
    yield "budget_max_bytes", "gauge", "The byte budget of a band.", limits
    yield "budget_used_bytes", "gauge", "Bytes that a band's records use of its budget.", used


def _namespace(name: str, **labels: str) -> Labels:
    return (("namespace", name), *sorted(labels.items()))


def _text_of(labels: Labels) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.6f}"
