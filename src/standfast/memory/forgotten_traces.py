"""Traces that record forgotten texts: those to remove when something is forgotten, and those not to store
because it was forgotten while their run went on.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from standfast.memory.erasure_targets import ErasureTarget
from standfast.memory.run_dependencies import RunServices
from standfast.records.canon import canonical_bytes
from standfast.records.rows import RowKind
from standfast.records.scopes import ALL_SCOPES, SHARED, is_within, row_key, scoped_key
from standfast.records.vocabulary import Band, Record, Verdict
from standfast.store.protocol import Version
from standfast.store.stored_records import keys_of, record_of
from standfast.traces.artifact import ToolCall, Trace
from standfast.traces.recorder import REMEMBER


def traces_about(
    services: RunServices,
    target: ErasureTarget,
    memory_id: str | None = None,
    *,
    seen: set[tuple[Path, int, int]] | None = None,
) -> list[Callable[[], None]]:
    """For each trace that records a text of the target, the function that removes it.

    Args:
        memory_id: Only texts of the record with this subject or id, in the target's scope.
        seen: See ``TraceFolder.readable``.
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
        for file, trace in folder.readable(holding=holding, seen=seen)
        if any(_is_about(services, call, target, memory_id) for call in _remembering(trace))
    ]


def has_forgotten_text(services: RunServices, trace: Trace, *, since: int = 0) -> bool:
    """Whether a text that a run remembered was forgotten, after a snapshot or at all."""
    calls = list(_remembering(trace))
    keys = _keys_of_rejected(services, [call for call in calls if not _is_accepted(call)])
    # Only erasures of what is indexed are noted there, and what was rejected or held is not.
    if services.store.segments.last_erasure(services.namespace) > since:
        keys |= {key for call in calls for key in _keys_of(call)}
    found = _versions_under(services, keys)
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


def _is_accepted(call: ToolCall) -> bool:
    result = _result_of(call)
    return result.get("verdict") == Verdict.SEAL.value and result.get("proposal_id") is None


def _keys_of(call: ToolCall) -> set[str]:
    """The keys of what a call remembered, if it was accepted."""
    return {scoped_key(Band.LEDGER, _scope_of(call), name) for name in _names_in(call)}


def _keys_of_rejected(services: RunServices, calls: Sequence[ToolCall]) -> set[str]:
    """The keys of what was not accepted: with a suffix, or those of proposals."""
    proposals = {_result_of(call).get("proposal_id") for call in calls}
    known = {row_key(RowKind.PHOENIX, one) for one in proposals if isinstance(one, str)}
    names = {(_scope_of(call), name) for call in calls for name in _names_in(call)}
    if not names:
        return known
    store, bands = services.store, (Band.LEDGER, Band.VOID)
    at = store.head()
    found = (keys_of(store, services.namespace, name, bands, scope=scope, at=at) for scope, name in names)
    return known.union(*found)


def _versions_under(
    services: RunServices, keys: Collection[str], *, with_content: bool = False
) -> list[Version]:
    if not keys:
        return []
    found = services.store.versions_under(services.namespace, sorted(keys), with_content=with_content)
    return list(found)


def _is_about(services: RunServices, call: ToolCall, target: ErasureTarget, memory_id: str | None) -> bool:
    """Whether a recorded call remembered a text of the target; with an id, one of that record."""
    scope = _scope_of(call)
    if memory_id is not None:
        return scope == target.scope and memory_id in _names_in(call)
    if not is_within(scope, target.scope):
        return False
    source = _args_of(call).get("source")
    if target.source is None or isinstance(source, Mapping):
        asked = Record(
            memory_id="asked", text="", source=dict(source) if isinstance(source, Mapping) else None
        )
        return target.is_source_of(asked)
    # Without a source it is the agent's own word, and a trace does not say whose that is.
    keys = _keys_of(call) if _is_accepted(call) else _keys_of_rejected(services, [call])
    return any(
        one.erased_by is not None or (one.content is not None and target.is_source_of(record_of(one)))
        for one in _versions_under(services, keys, with_content=True)
    )
