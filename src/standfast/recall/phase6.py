"""``memory.read``, controller ``phase6-v1``: open every store, rank, fit the budget, seal the package.

The same request over the same bytes gives the same package. No clock, network, environment or randomness is
consulted, and nothing is written.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from standfast.errors import NotCanonical, RecallError, UnreadableStore
from standfast.limits import MAX_TOLD_FAULTS, READ_CHUNK_BYTES
from standfast.recall.answers import ExplainedItem, Explanation, LineFault, RecallAnswer, RecordView
from standfast.recall.candidates import BadLine, Candidate
from standfast.recall.jsonl import JsonlSource, LongLine, Source, blocks, open_store_file, read_chunks
from standfast.recall.package import ContextPackage, DroppedItem
from standfast.recall.request import (
    CONTROLLER_VERSION,
    DroppedForm,
    MemoryControllerInput,
    Scoring,
    TrustFilter,
)
from standfast.recall.selection import DropReason, Fit, RankedCandidate, Ranking, ScoredQuery, fit
from standfast.recall.tokens import TokenCounter
from standfast.records.canon import parse
from standfast.records.requests import RecallRequest


@dataclass(frozen=True, slots=True)
class Denials:
    """What a trust snapshot explicitly denies."""

    memory_ids: frozenset[str] = frozenset()
    record_hashes: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.memory_ids or self.record_hashes)

    def deny(self, candidate: Candidate) -> bool:
        """Whether a record is denied, by its id or by its hash."""
        if candidate.memory_id in self.memory_ids:
            return True
        return bool(self.record_hashes) and candidate.record_hash in self.record_hashes


def read_denials(trust: TrustFilter) -> Denials:
    """Read the denials of a request's trust filter; none without a snapshot."""
    path = trust.trust_snapshot_path
    if path is None:
        return Denials()
    ids: set[str] = set()
    hashes: set[str] = set()
    for place, mark in _marks(path):
        if mark["classification"] in trust.deny_classifications:
            ids.update(_named(mark, "memory_id", path, place))
            hashes.update(_named(mark, "record_hash", path, place))
    return Denials(frozenset(ids), frozenset(hashes))


def _marks(path: str) -> Iterable[tuple[int, dict[str, Any]]]:
    for place, line in _lines(path):
        try:
            mark = parse(line)
        except NotCanonical as error:
            raise RecallError(
                "recall_trust_snapshot", trust_snapshot_path=path, problem=f"line {place}: {error}"
            ) from None
        if not (
            isinstance(mark, dict)
            and isinstance(mark.get("classification"), str)
            and not {"memory_id", "record_hash"}.isdisjoint(mark)
        ):
            problem = (
                f"line {place}: a mark is an object with a classification and a memory_id or record_hash"
            )
            raise RecallError("recall_trust_snapshot", trust_snapshot_path=path, problem=problem)
        yield place, mark


def _named(mark: dict[str, Any], name: str, path: str, place: int) -> list[str]:
    if name not in mark:
        return []
    if not isinstance(mark[name], str):
        raise RecallError(
            "recall_trust_snapshot",
            trust_snapshot_path=path,
            problem=f"line {place}: {name} must be a string",
        )
    return [mark[name]]


def _lines(path: str) -> Iterable[tuple[int, bytes]]:
    try:
        descriptor, status = open_store_file(path)
    except UnreadableStore as error:
        problem = error.facts.get("problem", "there is no such file")
        raise RecallError("recall_trust_snapshot", trust_snapshot_path=path, problem=problem) from None
    with os.fdopen(descriptor, "rb", buffering=0):
        place = 1
        for block in blocks(read_chunks(descriptor, status.st_size, READ_CHUNK_BYTES)):
            if isinstance(block, LongLine):
                raise RecallError(
                    "recall_trust_snapshot", trust_snapshot_path=path, problem=f"line {place}: it is too long"
                )
            for line in block.split(b"\n")[:-1]:
                if line and not line.isspace():
                    yield place, line
                place += 1


Opener = Callable[[str], Source]
"""Gives the source that a store path names: a JSONL file, or whatever the caller puts in its place."""


def read(request: MemoryControllerInput, open_source: Opener = JsonlSource) -> ContextPackage:
    """Answer a request in full, or raise a ``RecallError``."""
    package = explain(request, open_source).package
    assert isinstance(package, ContextPackage), "phase6-v1 makes the contract's package"
    return package


def explain(request: MemoryControllerInput, open_source: Opener = JsonlSource) -> RecallAnswer:
    """Answer a request, and explain the answer."""
    sources = [open_source(path) for path in request.store_paths]
    query = ScoredQuery.of(request)
    lists_all = request.dropped is DroppedForm.FULL
    # One more than can be selected, to know whether selection stopped before the end.
    ranking = Ranking(query, None if lists_all else request.budget.max_items + 1)
    dropped = _Dropped(read_denials(request.trust_filter), lists_all)
    candidates = 0
    for source in sources:
        for batch in source.batches():
            eligible = dropped.filter(batch, source.store_path)
            candidates += len(eligible)
            ranking.offer(eligible, source.store_path)
    best = ranking.best()
    chosen = fit(best, request.budget)
    counts = dropped.counts(chosen, candidates)
    package = ContextPackage.of(request, chosen, list(dropped.items(best, chosen)) if lists_all else counts)
    items = _explained(best[: request.budget.max_items], query, chosen)
    faults = tuple(dropped.bad_lines[:MAX_TOLD_FAULTS])
    return RecallAnswer(package, Explanation(query.terms, items, faults, counts))


@dataclass(slots=True)
class _Dropped:
    """What is dropped before anything is ranked: lines that hold no record, and records that are denied."""

    denials: Denials
    lists_all: bool
    invalid: int = 0
    denied: int = 0
    bad_lines: list[LineFault] = field(default_factory=list)
    denied_records: list[tuple[str, Candidate]] = field(default_factory=list)

    def filter(self, batch: Sequence[Candidate | BadLine], store_path: str) -> Sequence[Candidate]:
        """Return the records that may be ranked, and note the others."""
        if not self.denials and BadLine not in set(map(type, batch)):
            return cast("Sequence[Candidate]", batch)
        eligible: list[Candidate] = []
        for record in batch:
            if isinstance(record, BadLine):
                self.invalid += 1
                if self.lists_all or self.invalid <= MAX_TOLD_FAULTS:
                    self.bad_lines.append(LineFault(store_path, record))
            elif self.denials and self.denials.deny(record):
                self.denied += 1
                if self.lists_all:
                    self.denied_records.append((store_path, record))
            else:
                eligible.append(record)
        return eligible

    def counts(self, chosen: Fit, candidates: int) -> dict[str, int]:
        """How many records were dropped, for each reason."""
        counts = dict.fromkeys(map(str, DropReason), 0)
        counts[DropReason.INVALID], counts[DropReason.DENIED] = self.invalid, self.denied
        if chosen.stopped_by is not None:
            counts[chosen.stopped_by] = candidates - len(chosen.selected)
        return counts

    def items(self, ranked: list[RankedCandidate], chosen: Fit) -> Iterator[DroppedItem]:
        """Everything dropped: bad lines and denied records in read order, then the rest in rank order."""
        for fault in self.bad_lines:
            line = fault.line
            yield _dropped(line.memory_id, line.record_hash, fault.store_path, DropReason.INVALID)
        for store_path, candidate in self.denied_records:
            yield _dropped(candidate.memory_id, candidate.record_hash, store_path, DropReason.DENIED)
        for one in ranked[len(chosen.selected) :]:
            assert chosen.stopped_by is not None, "candidates are left over only if selection stopped"
            yield _dropped(one.memory_id, one.record_hash, one.store_path, chosen.stopped_by)


def _dropped(memory_id: str, record_hash: str, store_path: str, reason: DropReason) -> DroppedItem:
    return DroppedItem(memory_id=memory_id, record_hash=record_hash, store_path=store_path, reason=reason)


def _explained(best: list[RankedCandidate], query: ScoredQuery, chosen: Fit) -> tuple[ExplainedItem, ...]:
    items = []
    for rank, ranked in enumerate(best, 1):
        score = query.score(ranked.candidate)
        assert score.total == ranked.score, "the ranking counts points as the explanation does"
        items.append(
            ExplainedItem(rank, ranked, score, None if rank <= len(chosen.selected) else chosen.stopped_by)
        )
    return tuple(items)


class Phase6Controller:
    """``phase6-v1`` as a controller. The contract's estimate bounds the excerpts, not the whole text."""

    version = CONTROLLER_VERSION

    def answer(
        self,
        request: RecallRequest,
        view: RecordView,
        counter: TokenCounter,  # noqa: ARG002  # Part of the protocol; this version has its own estimate.
    ) -> RecallAnswer:
        """Read the view's sources as ``memory.read`` reads stores. The counter is not used."""
        sources = {source.store_path: source for source in view.sources}
        contract_request = MemoryControllerInput(
            query=request.query,
            store_paths=tuple(sources),
            budget=request.budget,
            scoring=Scoring(enable_recency_weight=request.now_utc is not None),
            now_utc=request.now_utc,
            dropped=DroppedForm.COUNTS,
        )
        return explain(contract_request, sources.__getitem__)
