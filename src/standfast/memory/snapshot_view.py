"""Memory as of one snapshot: time travel is a plain read, and gives the same package as it did then."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from standfast.govern import stages
from standfast.limits import DEFAULT_MAX_ITEMS
from standfast.recall.controller import Reading, explain
from standfast.recall.explanation import Ceiling
from standfast.recall.package import ContextPackage
from standfast.recall.request import CONTROLLER_VERSION, DroppedForm, MemoryControllerInput, Scoring
from standfast.recall.sources.proved import Source
from standfast.recall.sources.snapshot import StoreCorpus, path_of
from standfast.store.records import record_of
from standfast.traces.artifact import SelectedRecord
from standfast.vocabulary import Band, Budget, Record

if TYPE_CHECKING:
    from standfast.memory.memory import Memory

# What is canonical. ACTIVE repeats LEDGER for a while; PHOENIX is undecided, WITNESS is for judges, VOID is never recalled.
RECALLED_BANDS: Final = (Band.VAULT, Band.LEDGER)


class Past:
    """What one snapshot holds. ``Memory.at`` gives it."""

    def __init__(self, memory: "Memory", memory_snapshot_id: int) -> None:
        self._memory = memory
        self.memory_snapshot_id = memory_snapshot_id

    def recall(
        self,
        query: str,
        *,
        tokens: int,
        max_items: int = DEFAULT_MAX_ITEMS,
        bands: Sequence[Band | str] = RECALLED_BANDS,
    ) -> ContextPackage:
        """``memory.read`` over this snapshot: the best excerpts within a token budget, the same bytes every time."""
        return self.read(query, tokens=tokens, max_items=max_items, bands=bands).package

    def explain(
        self,
        query: str,
        *,
        tokens: int,
        max_items: int = DEFAULT_MAX_ITEMS,
        bands: Sequence[Band | str] = RECALLED_BANDS,
    ) -> Reading:
        """111_SENSE: the same, with why each was chosen and how far it may be trusted now, by the memory's clock."""
        reading = self.read(query, tokens=tokens, max_items=max_items, bands=bands)
        memory = self._memory
        records = [
            self.record_at(item.candidate.store_path, item.candidate.record.memory_id)
            for item in reading.explanation.items
        ]
        ceilings: list[Ceiling | None] = []
        for record in records:
            sensed = stages.sense([record] if record else [], now=memory.store.clock.now())
            told = [Ceiling(one.confidence_ceiling, tuple(one.floor_warnings)) for one in sensed]
            ceilings.append(told[0] if told else None)
        return Reading(reading.package, reading.explanation.with_ceilings(ceilings))

    def read(
        self,
        query: str,
        *,
        tokens: int,
        max_items: int,
        bands: Sequence[Band | str],
        terms: tuple[str, ...] | None = None,
    ) -> Reading:
        """The controller's reading of these bands; where VAULT and another hold the same thing, the law is shown."""
        memory, chosen = self._memory, [Band(band) for band in bands]
        request = MemoryControllerInput(
            query=query,
            store_paths=tuple(path_of(memory.namespace, band) for band in chosen),
            budget=Budget(max_excerpt_tokens=tokens, max_items=max_items),
            scoring=Scoring(query_terms=terms),
            dropped=DroppedForm.COUNTS,
        )
        sources = {source.store_path: source for source in (self.source(band, chosen) for band in chosen)}
        return explain(request, sources.__getitem__)

    def source(self, band: Band, beside: Sequence[Band] = RECALLED_BANDS) -> Source:
        """A band to read from; where VAULT is read beside it, what law says is not said otherwise."""
        memory, hiding = self._memory, set[str]()
        if band is not Band.VAULT and Band.VAULT in beside:
            hiding = {law.memory_id for law in memory.judging_context(self.memory_snapshot_id).vault}
        return memory.corpus(band).source(self.memory_snapshot_id, hiding=hiding)

    def records(self, *, band: Band | None = None) -> Iterator[Record]:
        """Every record that the snapshot shows, by band and id."""
        return self._memory.records(band=band, at=self.memory_snapshot_id)

    def record_at(self, store_path: str, memory_id: str) -> Record | None:
        """The record behind an item of a package."""
        memory, band = self._memory, store_path.rpartition("/")[2]
        key = f"{band}/{memory_id}"
        found = memory.store.read(memory.namespace, [key], at=self.memory_snapshot_id)
        return record_of(found[key]) if key in found else None

    def retrieval_facts(self, package: ContextPackage) -> Mapping[str, Any]:
        """How a trace tells of a package."""
        return {
            "policy_id": "memory.read",
            "policy_version": CONTROLLER_VERSION,
            "query_fingerprint": package.query.query_hash,
            "query_normalization_version": CONTROLLER_VERSION,
            "retrieval_mode": "text_terms",
            "candidate_count": len(package.selection.selected) + sum(_counts(package).values()),
            "selected_records": [
                SelectedRecord(
                    record_id=item.memory_id,
                    record_type=item.store_path.rpartition("/")[2],
                    score=item.score,
                    rank=rank,
                )
                for rank, item in enumerate(package.selection.selected, 1)
            ],
            "filters": {"namespace": self._memory.namespace, "budget": package.budget.max_excerpt_tokens},
        }


def _counts(package: ContextPackage) -> dict[str, int]:
    dropped = package.selection.dropped
    return dropped if isinstance(dropped, dict) else {}


def corpus_of(memory: "Memory", band: Band) -> StoreCorpus:
    """A band kept in memory, for reading again and again."""
    return StoreCorpus(memory.store, memory.namespace, band=band)
