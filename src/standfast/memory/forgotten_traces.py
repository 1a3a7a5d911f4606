"""Traces that record forgotten texts: those to remove when something is forgotten, and those not to store
because it was forgotten while their run went on.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from standfast.memory.erasure_targets import ErasureTarget
from standfast.memory.run_dependencies import RunServices
from standfast.records.canon import canonical_bytes
from standfast.records.scopes import ALL_SCOPES, SHARED, is_within, scoped_key
from standfast.records.vocabulary import Band, Record, Verdict
from standfast.traces.artifact import ToolCall, Trace
from standfast.traces.recorder import REMEMBER


def traces_about(
    services: RunServices, target: ErasureTarget, memory_id: str | None = None
) -> list[Callable[[], None]]:
    """For each trace that records a text of the target, the function that removes it.

    Args:
        memory_id: Only texts of the record with this subject or id, in the target's scope.
    """
    folder = services.traces
    if folder is None:
        return []
    # What killed processes left is no trace yet.
    recover_traces(services)
    # A call in ``shared`` is recorded without its scope.
    scope = "" if target.scope in (SHARED, ALL_SCOPES) else target.scope
    holding = canonical_bytes(memory_id or scope).strip(b'"')
    return [
        partial(file.unlink, missing_ok=True)
        for file, trace in folder.readable(holding=holding)
        if any(_is_about(call, target, memory_id) for call in _remembering(trace))
    ]


def has_forgotten_text(services: RunServices, trace: Trace, *, since: int = 0) -> bool:
    """Whether a record that a run remembered was forgotten, after a snapshot or at all."""
    store, namespace = services.store, services.namespace
    if store.segments.last_erasure(namespace) <= since:
        return False
    names = {(_scope_of(call), name) for call in _remembering(trace) for name in _names_in(call)}
    keys = {scoped_key(Band.LEDGER, scope, name) for scope, name in names}
    for call in _remembering(trace):
        if _result_of(call).get("verdict") == Verdict.VOID.value:
            logged = [scoped_key(Band.VOID, _scope_of(call), f"{name}~") for name in sorted(_names_in(call))]
            keys |= {row.key for prefix in logged for row in store.newest_versions(namespace, prefix=prefix)}
    found = store.versions_under(namespace, sorted(keys), with_content=False) if keys else []
    return any(one.erased_by is not None and one.erased_by > since for one in found)


def recover_traces(services: RunServices) -> None:
    """Store the traces of runs whose process was killed, but for those with a forgotten text."""
    if services.traces is not None:
        services.traces.recover(is_wanted=lambda trace: not has_forgotten_text(services, trace))


def _remembering(trace: Trace) -> Iterator[ToolCall]:
    for event in trace.events:
        for call in event.tool_calls:
            if call.tool_name == REMEMBER.tool_name and isinstance(call.normalized_args, Mapping):
                yield call


def _scope_of(call: ToolCall) -> str:
    return str(_args_of(call).get("scope", SHARED))


def _args_of(call: ToolCall) -> Mapping[str, object]:
    return call.normalized_args if isinstance(call.normalized_args, Mapping) else {}


def _result_of(call: ToolCall) -> Mapping[str, object]:
    return call.result if isinstance(call.result, Mapping) else {}


def _names_in(call: ToolCall) -> set[str]:
    """The subject and the id of the record of a call."""
    named = (_args_of(call).get("subject"), _result_of(call).get("memory_id"))
    return {name for name in named if isinstance(name, str)}


def _is_about(call: ToolCall, target: ErasureTarget, memory_id: str | None) -> bool:
    """Whether a recorded call remembered a text of the target; with an id, one of that record."""
    scope = _scope_of(call)
    if memory_id is not None:
        return scope == target.scope and memory_id in _names_in(call)
    source = _args_of(call).get("source")
    asked = Record(memory_id="asked", text="", source=dict(source) if isinstance(source, Mapping) else None)
    return is_within(scope, target.scope) and target.is_source_of(asked)
