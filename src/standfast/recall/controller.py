"""``memory.read``: the whole of it. Open every store, rank what they hold, fit the budget, seal the package.

Given the same bytes in the stores, the same request gives the same bytes. No clock, network, environment or chance is
consulted, and nothing is written.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from standfast.errors import Corruption
from standfast.limits import MAX_TOLD_FAULTS
from standfast.recall.explanation import Explanation, StoredFault
from standfast.recall.fit import Fit, Reason, fit
from standfast.recall.package import ContextPackage, DroppedItem
from standfast.recall.rank import Best, Candidate
from standfast.recall.records import Record
from standfast.recall.request import DroppedForm, MemoryControllerInput
from standfast.recall.scoring import Question, Score, score_of
from standfast.recall.sources.jsonl import JsonlSource
from standfast.recall.sources.proved import ProvedBlock, Source
from standfast.recall.sources.segment import Segment
from standfast.recall.trust import Denials, read_denials

Opener = Callable[[str], Source]
"""What finds the source that a store path names: a JSONL file, or whatever the caller put in its place."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A package, and why it is what it is."""

    package: ContextPackage
    explanation: Explanation


def read(request: MemoryControllerInput, open_source: Opener = JsonlSource) -> ContextPackage:
    """Answer a request. Raises a ``RecallError``, or answers in full."""
    return explain(request, open_source).package


def explain(request: MemoryControllerInput, open_source: Opener = JsonlSource) -> Reading:
    """Answer a request, and explain the answer."""
    sources = [open_source(path) for path in request.store_paths]
    question = Question.of(request)
    gathered = _Gathered(read_denials(request.trust_filter), tells_all=request.dropped is DroppedForm.FULL)
    # One more than can be selected, so that it shows whether selection stopped before the end.
    best = Best(question, None if gathered.tells_all else request.budget.max_items + 1)
    for source in sources:
        for segment in source.segments():
            if isinstance(segment, ProvedBlock) and not gathered.looks_at_rows:
                gathered.candidates += len(segment)
                best.offer_block(segment, source.store_path)
            else:
                rows = segment.taken_apart() if isinstance(segment, ProvedBlock) else segment
                best.offer(rows, source.store_path, gathered.take(rows, source.store_path))
                del rows
            del segment
    candidates = best.ranked()
    scored = _scored_again(candidates[: request.budget.max_items], question)
    chosen = fit(candidates, request.budget)
    counts = gathered.counts(chosen)
    dropped = gathered.told(candidates, chosen) if gathered.tells_all else counts
    return Reading(
        ContextPackage.of(request, chosen, dropped),
        Explanation.of(question, scored, chosen, gathered.faults(), counts),
    )


@dataclass(slots=True)
class _Gathered:
    """What is dropped before anything is ranked: lines that hold no record, and records that are denied."""

    denials: Denials
    tells_all: bool
    candidates: int = 0
    invalid: int = 0
    denied: int = 0
    bad_lines: list[StoredFault] = field(default_factory=list)
    denied_rows: list[tuple[str, Segment, int]] = field(default_factory=list)

    @property
    def looks_at_rows(self) -> bool:
        """Whether more of a record must be known than that it is one."""
        return self.tells_all or self.denials != Denials()

    def take(self, segment: Segment, store_path: str) -> list[int]:
        """Note what a segment drops, and give its rows that are denied."""
        room = len(segment.bad_lines) if self.tells_all else MAX_TOLD_FAULTS - len(self.bad_lines)
        self.bad_lines += [StoredFault(store_path, line) for line in segment.bad_lines[:room]]
        self.invalid += len(segment.bad_lines)
        denied = self.denials.rows(segment)
        self.denied += len(denied)
        self.candidates += len(segment) - len(segment.hidden) - len(denied)
        if self.tells_all:
            self.denied_rows += [(store_path, segment, row) for row in denied]
        return denied

    def counts(self, chosen: Fit) -> dict[str, int]:
        """How many were dropped, for each reason."""
        counts = dict.fromkeys(map(str, Reason), 0)
        counts[Reason.INVALID], counts[Reason.DENIED] = self.invalid, self.denied
        if chosen.stopped_by is not None:
            counts[chosen.stopped_by] = self.candidates - len(chosen.selected)
        return counts

    def faults(self) -> list[StoredFault]:
        """The first bad lines."""
        return self.bad_lines[:MAX_TOLD_FAULTS]

    def told(self, candidates: list[Candidate], chosen: Fit) -> list[DroppedItem]:
        """Everything that was dropped: bad lines and denied records in read order, then the rest in rank order."""
        return [*self._told_bad_lines(), *self._told_denied(), *_told_rest(candidates, chosen)]

    def _told_bad_lines(self) -> Iterator[DroppedItem]:
        for fault in sorted(self.bad_lines, key=lambda fault: (fault.store_path, fault.line.place)):
            yield DroppedItem(
                memory_id=fault.line.memory_id,
                record_hash=fault.line.record_hash,
                store_path=fault.store_path,
                reason=Reason.INVALID,
            )

    def _told_denied(self) -> Iterator[DroppedItem]:
        for store_path, segment, row in sorted(
            self.denied_rows, key=lambda denied: (denied[0], denied[1].place(denied[2]))
        ):
            yield _dropped(store_path, segment.record(row), Reason.DENIED)


def _scored_again(candidates: list[Candidate], question: Question) -> list[tuple[Candidate, Score]]:
    """Score again, from the records themselves, what may be selected: a cache that lies must not get away with it."""
    scored = [(candidate, score_of(candidate.record, question)) for candidate in candidates]
    for candidate, score in scored:
        if score.total != candidate.score:
            what = f"what is kept of {candidate.store_path}"
            problem = f"it gives {candidate.record.memory_id!r} another score than its record; delete the cache folder"
            raise Corruption(what=what, problem=problem)
    return scored


def _told_rest(candidates: list[Candidate], chosen: Fit) -> Iterator[DroppedItem]:
    for candidate in candidates[len(chosen.selected) :]:
        assert chosen.stopped_by is not None, "what comes after the selected was dropped for a reason"
        yield _dropped(candidate.store_path, candidate.record, chosen.stopped_by)


def _dropped(store_path: str, record: Record, reason: Reason) -> DroppedItem:
    return DroppedItem(
        memory_id=record.memory_id, record_hash=record.record_hash, store_path=store_path, reason=reason
    )
