"""The page of a record: its current text, the timeline of its subject with what superseded what, and the
judge's reasons.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from standfast.errors import NotFound, TraceError
from standfast.limits import CONSOLE_PAGE_ITEMS
from standfast.memory import Memory
from standfast.records.scopes import name_in, prefix_in
from standfast.records.vocabulary import ActionType, Band, Receipt, Record, Verdict
from standfast.server.access.permissions import KeyRole, Permission
from standfast.server.console.rendering import Page, PageRequest
from standfast.server.operations import memory_operations
from standfast.server.operations.schemas import HistoryQuery
from standfast.store.store import Store
from standfast.store.stored_records import HistoryEntry, record_of, superseded_keys

_CURRENT_BANDS: Final = (Band.VAULT, Band.LEDGER)
"""The bands in which a later text of a subject supersedes the one before it."""
_CHECK: Final = re.compile(r"(.*) \[([\w]+)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JudgeReason:
    """A reason that the judge gave, and the check that it comes from, if it names one."""

    text: str
    check: str = ""

    @classmethod
    def of(cls, reason: str) -> "JudgeReason":
        """Read a reason as the ledger has it: ``text [check]``."""
        found = _CHECK.fullmatch(reason)
        return cls(found[1], found[2]) if found else cls(reason)


@dataclass(frozen=True, slots=True)
class CommitNotes:
    """The run of a commit, and the reasons by band and id."""

    run_id: str
    reasons: dict[tuple[str, str], tuple[JudgeReason, ...]]

    def reasons_of(self, key: str) -> tuple[JudgeReason, ...]:
        """The reasons for the row with a key."""
        name = key.partition("/")[2] if prefix_in(key) == Band.PHOENIX else name_in(key)
        return self.reasons.get((prefix_in(key), name), ())


def notes_of(store: Store, snapshot: int) -> CommitNotes:
    """What the ledger says about the commit that made a snapshot."""
    commit = store.commit_of(snapshot)
    reasons = {
        (write["band"], write["entry_id"]): tuple(JudgeReason.of(one) for one in write["reasons"])
        for write in _judged(store, commit.ledger_seq)
        if write.get("reasons")
    }
    return CommitNotes(commit.run_id, reasons)


def _judged(store: Store, seq: int) -> Iterator[dict[str, Any]]:
    """The judged rows of a commit. Its facts stand right before its own entry, which counts them."""
    (entry,) = store.entries_page(after=seq - 1, limit=1)
    count = entry.read()["body"]["facts"]
    for fact in store.entries_page(after=seq - 1 - count, limit=count) if count else ():
        content = fact.read()
        if content["kind"] == "audit":
            yield from content["body"]["told"]["writes"]


@dataclass(slots=True)
class TimelineStep:
    """What one commit did with one text of a subject."""

    snapshot: int
    committed_at: str
    entries: list[HistoryEntry]
    record: Record | None
    before: Record | None = None
    replaces: int | None = None
    superseded_by: int | None = None
    is_ended: bool = False
    """Whether ``superseded_by`` ended the text, instead of putting another in its place."""
    is_current: bool = False
    is_hidden: bool = False
    """Whether it is in quarantine."""
    ended_by: tuple[str, ...] = ()
    """The ids of the records that named this one as what they supersede."""
    reasons: tuple[JudgeReason, ...] = ()
    run_id: str = ""
    run_name: str = ""
    receipt: Receipt | None = None

    @property
    def bands(self) -> list[str]:
        """The bands that the commit wrote the text to."""
        return list(dict.fromkeys(prefix_in(one.key) for one in self.entries))

    @property
    def erased_by(self) -> int | None:
        """The snapshot that erased the content, if one did."""
        return next((one.erased_by for one in self.entries if one.erased_by is not None), None)

    @property
    def title(self) -> str:
        """What happened, in plain words."""
        if self.record is None:
            return "erased since" if self.erased_by is not None else "ended"
        bands = {Band(band) for band in self.bands}
        if Band.VAULT in bands:
            return "law changed" if self.replaces else "became law"
        if Band.VOID in bands:
            return "rejected"
        if self.record.verdict in (Verdict.PARTIAL, Verdict.HOLD):
            return "waits for a decision"
        if bands <= {Band.WITNESS}:
            return "said by another source"
        return "superseded the text before" if self.replaces else "accepted"


@dataclass(slots=True)
class _Timeline:
    """Puts the versions of a subject, oldest first, into steps."""

    subject: str
    steps: list[TimelineStep] = field(default_factory=list)
    newest: dict[str, TimelineStep] = field(default_factory=dict)

    def add(self, entry: HistoryEntry) -> None:
        """Add a version to the step of its commit and text."""
        text = None if entry.record is None else entry.record.text
        step = next(
            (
                one
                for one in self.steps
                if one.snapshot == entry.memory_snapshot_id
                and (None if one.record is None else one.record.text) == text
            ),
            None,
        )
        if step is None:
            step = TimelineStep(entry.memory_snapshot_id, entry.committed_at, [], entry.record)
            self.steps.append(step)
        step.entries.append(entry)
        band = prefix_in(entry.key)
        if band in _CURRENT_BANDS and name_in(entry.key) == self.subject:
            before = self.newest.get(band)
            if before is not None and before is not step:
                before.superseded_by = step.snapshot
                before.is_ended = entry.action is ActionType.EXPIRE
                before.is_current = False
                step.before, step.replaces = before.record, before.snapshot
            step.is_current = entry.record is not None
            self.newest[band] = step


def timeline_of(versions: Sequence[HistoryEntry], subject: str) -> list[TimelineStep]:
    """The steps of a subject's history, oldest first."""
    timeline = _Timeline(subject)
    for entry in versions:
        timeline.add(entry)
    return timeline.steps


def record(request: PageRequest) -> Page:
    """A record with the timeline of its subject: each text, its evidence, run and receipt."""
    subject = request.query.get("id", "")
    query = request.parse_query(HistoryQuery, subject=subject, limit=CONSOLE_PAGE_ITEMS)
    history = memory_operations.history(*request.target, query)
    if not history.versions:
        raise NotFound(what=f"record {subject!r:.80}")
    memory = request.memory(Permission.GET_RECORD)
    scope = request.own_scope(Permission.GET_RECORD, query.scope)
    steps = timeline_of(history.versions, subject)
    names = dict[str, str]()
    hidden = memory.store.hidden_at(memory.namespace, memory.store.head()).versions
    for step in steps:
        step.is_hidden = any(one.memory_snapshot_id in hidden.get(one.key, ()) for one in step.entries)
        step.is_current = step.is_current and not step.is_hidden
        _annotate(request, memory, step, names)
    found = memory_operations.records_of(memory, subject, scope=scope)
    context = {
        "subject": subject,
        "scope": scope,
        "current_records": _current(
            [one for one in found if memory_operations.may_read(request.caller, one.key)]
        ),
        "steps": steps[::-1],
        "is_hidden": any(step.is_hidden for step in steps),
        "sees_quarantine": request.may(Permission.LIST_QUARANTINES),
        "next": history.next,
        "done": request.query.get("done"),
        "may_remember": request.may(Permission.REMEMBER),
        "may_forget": request.may(Permission.FORGET),
        "may_investigate": request.caller.role is not KeyRole.AGENT,
    }
    return Page(template="record.html", context=context)


def _current(found: Sequence[Record]) -> list[tuple[Record, list[str]]]:
    """Each text of a record once, with the bands that hold it."""
    texts = dict[str, tuple[Record, list[str]]]()
    for one in found:
        texts.setdefault(one.text, (one, []))[1].append(str(one.band))
    return list(texts.values())


def _annotate(request: PageRequest, memory: Memory, step: TimelineStep, names: dict[str, str]) -> None:
    notes = notes_of(memory.store, step.snapshot)
    step.receipt = memory.store.receipt_of(step.snapshot)
    step.reasons = next((found for one in step.entries if (found := notes.reasons_of(one.key))), ())
    step.ended_by = _superseding(request, memory, step)
    step.run_id = notes.run_id
    if notes.run_id not in names:
        names[notes.run_id] = _run_name(request, notes.run_id)
    step.run_name = names[notes.run_id]


def _superseding(request: PageRequest, memory: Memory, step: TimelineStep) -> tuple[str, ...]:
    """The records of the same commit and scope that supersede the text that ends here by its id."""
    ended = {one.key for one in step.entries if one.action is ActionType.EXPIRE}
    if not ended:
        return ()
    found = dict[str, None]()
    for version in memory.store.versions_of(step.snapshot):
        key = version.key
        is_written = version.content is not None and prefix_in(key) in _CURRENT_BANDS
        if (
            is_written
            and version.namespace == memory.namespace
            and memory_operations.may_read(request.caller, key)
        ):
            record = record_of(version)
            if ended.intersection(superseded_keys(record)):
                found[record.memory_id] = None
    return tuple(found)


def _run_name(request: PageRequest, run_id: str) -> str:
    """The workflow of a run, if its trace is there and the caller may see traces."""
    folder = request.whole_store().traces if request.sees_whole_store else None
    if folder is None or not folder.file_of(run_id).is_file():
        return ""
    try:
        return folder.get(run_id).workflow_id
    except TraceError:
        return ""
