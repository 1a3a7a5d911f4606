"""Operations on what belongs to no namespace: recorded traces, benchmark results, prompt overrides.

A trace may contain what its run read in any namespace, so traces need a key for all namespaces.

The source of a prompt lives in the program that uses it. Whoever changes an override sends the source along,
and every override is checked against it before anything is written.
"""

import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from standfast.bench.leaderboard import (
    ResultRow,
    budgets_of,
    column_mean,
    entrants_of,
    leaderboard_budget,
    rank_policies,
    select_rows,
)
from standfast.errors import BadFile, InvalidValue, NotFound, TraceError, TraceFolderFailed
from standfast.limits import MAX_NAME_CHARS, MAX_RESULTS_BYTES
from standfast.optimize.prompts.overrides import PromptOverride, PromptOverridesStore
from standfast.optimize.prompts.template import PromptTemplate
from standfast.server.access.permissions import Caller, Permission
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.schemas import decode_name, paginate
from standfast.server.operations.store_schemas import (
    BenchQuery,
    BenchResponse,
    BudgetReport,
    ComparisonQuery,
    PolicyReport,
    PromptQuery,
    PutPromptBody,
    RollbackBody,
    TracesPage,
    TracesQuery,
    TraceSummary,
)
from standfast.traces.artifact import Trace
from standfast.traces.equivalence import Comparison, compare_artifacts
from standfast.traces.folder import TraceFolder, read_artifact

RANKED_CONDITION: Final = "plain"
# Reading a large grid takes much memory, so only one caller does it at a time.
_results_lock: Final = threading.Lock()

# Traces.


def list_traces(gateway: Gateway, caller: Caller, query: TracesQuery) -> TracesPage:
    """List the recorded traces by file name. A page reads a bounded number of bytes."""
    folder = _folder(gateway, caller)
    after = decode_name(query.cursor)
    page, cursor = paginate(
        _summaries(folder, after),
        limit=query.limit,
        size=lambda trace: trace.size_bytes,
        position=lambda trace: trace.file,
    )
    return TracesPage(traces=page, next=cursor)


def _summaries(folder: TraceFolder, after: str) -> Iterator[TraceSummary]:
    for file in folder.run_files():
        if file.name <= after:
            continue
        size_bytes = 0
        try:
            text = read_artifact(file)
            size_bytes = len(text)
            trace = Trace.read(text)
        except TraceError as error:
            # The message would contain a path on the server.
            yield TraceSummary(file=file.name, size_bytes=size_bytes, problem=error.code)
            continue
        yield TraceSummary(
            file=file.name,
            size_bytes=size_bytes,
            run_id=trace.run_id,
            workflow_id=trace.workflow_id,
            memory_snapshot_id=trace.memory_snapshot_id,
            started_at=trace.metadata.started_at,
            finished_at=trace.metadata.finished_at,
            events=len(trace.events),
            complete=trace.metadata.complete,
            artifact_hash=trace.artifact_hash,
        )


def get_trace(gateway: Gateway, caller: Caller, run_id: str) -> Trace:
    """Return the trace of a run, verified."""
    return Trace.read(_artifact(_folder(gateway, caller), run_id))


def compare_traces(gateway: Gateway, caller: Caller, query: ComparisonQuery) -> Comparison:
    """Compare two runs. Returns every difference; a damaged trace is never equivalent."""
    folder = _folder(gateway, caller)
    return compare_artifacts(_artifact(folder, query.left), _artifact(folder, query.right))


def _folder(gateway: Gateway, caller: Caller) -> TraceFolder:
    folder = gateway.authorize_store(caller, Permission.READ_TRACES).traces
    if folder is None:
        raise NotFound("not_configured", what="trace folder", setting="traces")
    return folder


def _artifact(folder: TraceFolder, run_id: str) -> bytes:
    file = folder.file_of(run_id)
    if len(run_id) > MAX_NAME_CHARS or not file.is_file():
        raise NotFound(what=f"trace of a run {run_id!r:.80}")
    try:
        return read_artifact(file)
    except TraceFolderFailed:
        # A sweep may have deleted the file after it was looked up.
        if file.is_file():
            raise
        raise NotFound(what=f"trace of a run {run_id!r:.80}") from None


# Benchmark results.


def bench(gateway: Gateway, caller: Caller, query: BenchQuery) -> BenchResponse:
    """Return the leaderboard at a budget, and the reports at all budgets."""
    gateway.authorize_store(caller, Permission.READ_BENCH)
    if not gateway.bench_results:
        raise NotFound("not_configured", what="folder of bench results", setting="bench.results")
    from standfast.bench.grid import RESULTS  # noqa: PLC0415  # Loads numpy; only this operation needs it.

    file = Path(gateway.bench_results) / RESULTS
    try:
        stat = file.stat()
    except OSError:
        raise NotFound(what="finished grid; run 'standfast bench run'") from None
    if stat.st_size > MAX_RESULTS_BYTES:
        raise BadFile(file=str(file), problem="it is too large for a response; use 'standfast bench report'")
    with _results_lock:
        return _results(gateway.bench_results, (stat.st_mtime_ns, stat.st_size), query.budget_bytes)


@lru_cache(maxsize=8)
def _results(folder: str, _written: tuple[int, int], budget_bytes: int | None) -> BenchResponse:
    """Read and summarise a results folder. Cached until the file changes."""
    from standfast.bench.grid import read_results  # noqa: PLC0415  # As above.

    rows = read_results(folder)
    if not rows:
        raise NotFound(what="finished grid; run 'standfast bench run'")
    if rows[0]["condition"] != RANKED_CONDITION:
        raise NotFound(what=f"leaderboard of a grid under condition {rows[0]['condition']!r:.80}")
    budgets = budgets_of(rows)
    if budget_bytes is not None and budget_bytes not in budgets:
        problem = f"no run had {budget_bytes} bytes; there are {', '.join(map(str, budgets))}"
        raise InvalidValue(what="budget_bytes", problem=problem)
    budget = leaderboard_budget(rows, budget_bytes)
    return BenchResponse(
        budget_bytes=budget,
        budgets_bytes=budgets,
        episodes=len({(row["file"], row["line"]) for row in rows}),
        leaderboard=rank_policies(rows, budget),
        reports=[
            PolicyReport(
                policy=policy,
                track=track,
                budgets=[
                    _report(size, select_rows(rows, policy=policy, track=track, budget_bytes=size))
                    for size in budgets
                ],
            )
            for policy, track in entrants_of(rows)
        ],
    )


def _report(budget_bytes: int, rows: list[ResultRow]) -> BudgetReport:
    return BudgetReport(
        budget_bytes=budget_bytes,
        recall=column_mean(rows, "recall"),
        f1=column_mean(rows, "f1"),
        utility_per_kb=column_mean(rows, "utility_per_kb"),
        true_positives=sum(row["true_positives"] for row in rows),
        false_positives=sum(row["false_positives"] for row in rows),
        false_negatives=sum(row["false_negatives"] for row in rows),
        true_negatives=sum(row["true_negatives"] for row in rows),
    )


# Prompt overrides.


def get_prompt(
    gateway: Gateway, caller: Caller, ns: str, prompt_key: str, query: PromptQuery
) -> PromptOverride:
    """Return the current overrides of a tag."""
    override = _overrides(gateway, caller, Permission.READ_PROMPT).resolve(
        ns=ns, prompt_key=prompt_key, tag=query.tag
    )
    if override is None:
        raise NotFound(what=f"override of prompt {ns!r:.80} {prompt_key!r:.80} with tag {query.tag!r:.80}")
    return override


def put_prompt(
    gateway: Gateway, caller: Caller, ns: str, prompt_key: str, body: PutPromptBody, *, if_version: int
) -> PromptOverride:
    """Replace all overrides of a tag if it still has version ``if_version``.

    The previous ones can be restored.
    """
    from standfast.optimize.loops.apply import LedgerSealer, set_overrides  # noqa: PLC0415  # Slow to import.

    store = _overrides(gateway, caller, Permission.CHANGE_PROMPT)
    _require_same(body.prompt, ns, prompt_key)
    if len({override.path for override in body.overrides}) != len(body.overrides):
        raise InvalidValue(what="overrides", problem="a section is overridden twice")
    return set_overrides(
        store,
        body.prompt,
        body.overrides,
        tag=body.tag,
        if_version=if_version,
        sealer=LedgerSealer(gateway.store),
    )


def roll_back_prompt(
    gateway: Gateway, caller: Caller, ns: str, prompt_key: str, body: RollbackBody, *, if_version: int
) -> PromptOverride:
    """Restore an earlier version of a tag if it still has version ``if_version``."""
    from standfast.optimize.loops.apply import LedgerSealer, restore  # noqa: PLC0415  # Slow to import.

    store = _overrides(gateway, caller, Permission.CHANGE_PROMPT)
    _require_same(body.prompt, ns, prompt_key)
    return restore(
        store,
        body.prompt,
        tag=body.tag,
        if_version=if_version,
        to_version=body.to_version,
        sealer=LedgerSealer(gateway.store),
    )


def _overrides(gateway: Gateway, caller: Caller, permission: Permission) -> PromptOverridesStore:
    gateway.authorize_store(caller, permission)
    if gateway.overrides is None:
        raise NotFound("not_configured", what="store of prompt overrides", setting="prompts.overrides")
    return gateway.overrides()


def _require_same(prompt: PromptTemplate, ns: str, prompt_key: str) -> None:
    if (prompt.ns, prompt.key) != (ns, prompt_key):
        raise InvalidValue(what="prompt", problem="it is another prompt than the path names")
