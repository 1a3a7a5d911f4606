"""``lexical-v1``: windowed BM25 in whole numbers, boosts for subjects, speakers and dates, packing that bounds the whole text.

``docs/controllers/lexical-v1.md`` has the formula. A change of any number here changes packages and needs a new version.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, pairwise
from typing import Final

import numpy as np

from standfast.recall.analysis import Analyzer, words_of
from standfast.recall.controller import (
    ExplainedMatch,
    Explanation,
    RecallAnswer,
    RecallRequest,
    RecordView,
)
from standfast.recall.excerpts import excerpt_of, limit_of
from standfast.recall.lexical_index import (
    SPEAKER_WORD,
    SUBJECT_WORD,
    TRUST_TENTHS,
    Flags,
    IndexedRecord,
    IndexView,
    LexicalView,
    Numbers,
    trust_of,
)
from standfast.recall.query_dates import QueryDate, date_quarters, dates_in
from standfast.recall.recall_package import (
    MARK_CHARS,
    PackageRequest,
    RecallItem,
    RecallPackage,
    excerpt_line,
    group_line,
    heading,
)
from standfast.recall.records import Candidate
from standfast.recall.timestamps import MISSING, time_of
from standfast.recall.tokens import BYTES_PER_TOKEN, EstimatedCounter, TokenCounter

LEXICAL_VERSION: Final = "lexical-v1"
BEST_SCORE: Final = 1 << 20
NAMED_TENTHS: Final = 16
"""What the score is multiplied by, in tenths, where the query names the record's subject or speaker."""
FIELD_SIXTHS: Final = 3
"""What a term in tags, subject, source or speaker counts, in sixths of one in the text."""
LOOKED_AT: Final = 4
"""Packing looks at no more than so many times ``max_items`` candidates."""
READ_AT_ONCE: Final = 64


def log2_fixed(numerator: int, denominator: int, bits: int = 16) -> int:
    """``floor(2^bits * log2(numerator / denominator))``, by repeated squaring of whole numbers."""
    whole = numerator.bit_length() - denominator.bit_length()
    if (numerator << max(0, -whole)) < (denominator << max(0, whole)):
        whole -= 1
    result, scale = whole << bits, 1 << 62
    mantissa = (numerator << max(0, -whole)) * scale // (denominator << max(0, whole))
    for bit in range(bits - 1, -1, -1):
        mantissa = mantissa * mantissa // scale
        if mantissa >= 2 * scale:
            mantissa //= 2
            result |= 1 << bit
    return result


@dataclass(frozen=True, slots=True)
class LexicalQuery:
    """A query as ``lexical-v1`` reads it."""

    words: list[str]
    terms: list[str]
    dates: list[QueryDate]

    @classmethod
    def of(cls, request: RecallRequest, analyzer: Analyzer) -> "LexicalQuery":
        """The query of a request."""
        words = words_of(request.query)
        time = MISSING if request.now_utc is None else time_of(request.now_utc)
        today = None if time == MISSING else datetime.fromordinal(time // 86_400_000_000 + 1).date()
        return cls(
            words, list(dict.fromkeys(analyzer.terms_of(words))), dates_in(request.query, words, today)
        )


@dataclass(frozen=True, slots=True)
class LexicalRanking:
    """Rows that match, the best score first, with what their scores are made of. ``ordered`` orders rows of equal score."""

    view: IndexView
    weights: dict[str, int]
    """The worth of each term of the query that occurs at all: its idf."""
    rows: Numbers
    scores: Numbers
    named: Flags
    quarters: Numbers

    @classmethod
    def of(cls, query: LexicalQuery, view: IndexView) -> "LexicalRanking":
        """Score every row that has a term of the query."""
        totals = np.zeros(len(view.shown), dtype=np.int64)
        weights: dict[str, int] = {}
        norms = 72 * 1024 * view.count * view.lengths // max(1, view.total_length)
        for term in query.terms:
            found, sixths = view.term(term, FIELD_SIXTHS)
            if len(found):
                weights[term] = idf = log2_fixed(2 * view.count + 2, 2 * len(found) + 1)
                totals[found] += idf * 22 * sixths * 1024 // (10240 * sixths + norms[found])
        rows = np.flatnonzero(totals > 0)
        scores = totals[rows] * BEST_SCORE // max(1, int(totals.max(initial=0)))
        named = (
            view.named_by(query.words, SUBJECT_WORD)[rows] | view.named_by(query.words, SPEAKER_WORD)[rows]
        )
        scores = np.where(named, scores * NAMED_TENTHS // 10, scores)
        quarters = date_quarters(query.dates, view.days(rows))
        scores = scores * (4 + quarters) // 4 * view.trust_tenths(rows) // 10
        order = np.argsort(-scores, kind="stable")[: int((scores > 0).sum())]
        return cls(view, weights, rows[order], scores[order], named[order], quarters[order])

    def ordered(self) -> Iterator[int]:
        """Places in ``rows``, best first: by score, then by record id. Only what is asked for is ordered."""
        ids, keys = self.view.index.ids, self.view.index.keys
        bounds = [0, *(np.flatnonzero(np.diff(self.scores)) + 1).tolist(), len(self.rows)]
        for start, end in pairwise(bounds):
            yield from sorted(
                range(start, end), key=lambda place: (ids[self.rows[place]], keys[self.rows[place]])
            )


class LexicalController:
    """``lexical-v1`` as a controller. ``tokens`` bounds the whole text, frames included, by the counter in use."""

    version = LEXICAL_VERSION

    def answer(self, request: RecallRequest, view: RecordView, counter: TokenCounter) -> RecallAnswer:
        """Rank the records of the view, pack the best, and explain the result."""
        lexical = view.lexical()
        analyzer = lexical.index.index.analyzer
        query = LexicalQuery.of(request, analyzer)
        ranking = LexicalRanking.of(query, lexical.index)
        packing = _Packing(request, ranking, analyzer, counter)
        for candidate in _candidates(ranking, lexical):
            if packing.is_over:
                break
            if request.where and not request.where.matches(candidate.record):
                continue
            packing.offer(candidate)
        package = packing.package()
        return RecallAnswer(package, lambda: packing.explanation(package, query))


def _candidates(ranking: LexicalRanking, view: LexicalView) -> Iterator["_Looked"]:
    """What matches, best first, read in batches."""
    places = enumerate(ranking.ordered(), 1)
    while batch := list(islice(places, READ_AT_ONCE)):
        found = view.read([int(ranking.rows[place]) for _, place in batch])
        for (rank, place), record in zip(batch, found, strict=True):
            if record is not None:
                yield _Looked(rank, place, *record)


@dataclass(slots=True)
class _Looked:
    """A candidate that packing looks at, and what became of it. ``place`` is where the ranking has it."""

    rank: int
    place: int
    store_path: str
    record: IndexedRecord
    outcome: str = "budget_exhausted"
    excerpt: str = ""
    also: tuple[str, ...] = ()


class _Packing:
    """Takes candidates best first while they fit, and passes over what overflows or repeats what is there."""

    def __init__(
        self, request: RecallRequest, ranking: LexicalRanking, analyzer: Analyzer, counter: TokenCounter
    ) -> None:
        self._request, self._ranking, self._analyzer, self._counter = request, ranking, analyzer, counter
        is_estimate = isinstance(counter, EstimatedCounter)
        # The estimate adds up exactly in bytes. A tokeniser's counts of parts do not, so the whole is counted at the end.
        self._cost: Callable[[str], int] = _bytes_of if is_estimate else counter.count
        self._left = request.tokens * (BYTES_PER_TOKEN if is_estimate else 1)
        self._excerpt_tokens = limit_of(request.tokens)
        self._mark = "0" * MARK_CHARS
        self._left -= self._cost(heading(self._mark))
        self._groups: set[tuple[str, str, str]] = set()
        self._said: dict[str, _Looked] = {}
        self._looked: list[_Looked] = []
        self._taken: list[_Looked] = []

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be taken or looked at."""
        most = self._request.max_items
        return len(self._taken) >= most or len(self._looked) >= LOOKED_AT * most or self._left <= 0

    def offer(self, looked: _Looked) -> None:
        """Take a candidate if it fits."""
        record = looked.record
        self._looked.append(looked)
        looked.excerpt = excerpt_of(
            record.text, self._ranking.weights, self._analyzer, self._counter.count, self._excerpt_tokens
        )
        item = self._item(looked)
        cost = self._cost(excerpt_line(self._mark, item))
        if item.group not in self._groups:
            cost += self._cost(group_line(self._mark, item))
        if not looked.excerpt or cost > self._left:
            return
        said = " ".join([record.subject or "", "\0", record.speaker or "", "\0", *words_of(record.text)])
        if said in self._said:
            looked.outcome = f"says the same as {self._said[said].record.memory_id}"
            self._said[said].also += (record.memory_id,)
        else:
            looked.outcome = "selected"
            self._left -= cost
            self._groups.add(item.group)
            self._said[said] = looked
            self._taken.append(looked)

    def package(self) -> RecallPackage:
        """The package of what was taken. The last excerpts are given back if the whole text is longer than its parts."""
        request = self._request
        asked = PackageRequest(
            query=request.query,
            tokens=request.tokens,
            max_items=request.max_items,
            counter=self._counter.name,
            analysis=self._analyzer.name,
            bands=tuple(band.value for band in request.bands),
            scopes=request.scopes,
            where=request.where.as_json(),
            now_utc=request.now_utc,
        )
        while True:
            items = [self._item(one, record_hash_of(one.record)) for one in self._taken]
            package = RecallPackage.sealed(LEXICAL_VERSION, asked, items, len(self._ranking.rows))
            if self._counter.count(package.text) <= request.tokens:
                return package
            self._taken.pop().outcome = "budget_exhausted"

    def _item(self, looked: _Looked, record_hash: str = "") -> RecallItem:
        record = looked.record
        return RecallItem(
            memory_id=record.memory_id,
            record_hash=record_hash,
            store_path=looked.store_path,
            rank=looked.rank,
            score=int(self._ranking.scores[looked.place]),
            excerpt=looked.excerpt,
            date=record.date,
            source=record.source_name,
            trust=trust_of(record),
            session=record.session,
            position=record.position,
            speaker=record.speaker,
            also=looked.also,
        )

    def explanation(self, package: RecallPackage, query: LexicalQuery) -> Explanation:
        """Why each candidate that was looked at has its rank, and what became of it."""
        items = tuple(self._explained(looked) for looked in self._looked)
        selected = len(package.items)
        counts = {
            "budget_exhausted": sum(one.outcome == "budget_exhausted" for one in self._looked),
            "same": len(self._looked)
            - selected
            - sum(one.outcome == "budget_exhausted" for one in self._looked),
            "not_looked_at": len(self._ranking.rows) - len(self._looked),
        }
        return Explanation(tuple(query.terms), items, (), counts)

    def _explained(self, looked: _Looked) -> ExplainedMatch:
        record, weights = looked.record, self._ranking.weights
        labels = " ".join([*record.tags, record.subject or "", record.source_name, record.speaker or ""])
        own = set(self._analyzer.terms_of(words_of(f"{record.text} {labels}")))
        boosts = {}
        if self._ranking.named[looked.place]:
            boosts["named"] = NAMED_TENTHS / 10
        if quarters := int(self._ranking.quarters[looked.place]):
            boosts["date"] = (4 + quarters) / 4
        if (trust := TRUST_TENTHS[trust_of(record)]) != 10:
            boosts["trust"] = trust / 10
        return ExplainedMatch(
            rank=looked.rank,
            memory_id=record.memory_id,
            record_hash=record_hash_of(record),
            store_path=looked.store_path,
            ts_utc=record.ts_utc,
            score=int(self._ranking.scores[looked.place]),
            matched={term: weight for term, weight in weights.items() if term in own},
            boosts=boosts,
            outcome=looked.outcome,
        )


def _bytes_of(text: str) -> int:
    return len(text.encode())


def record_hash_of(record: IndexedRecord) -> str:
    """The fingerprint that ``phase6-v1`` gives the record."""
    return Candidate(
        memory_id=record.memory_id,
        text=record.text,
        written_ts_utc=record.ts_utc,
        written_tags=list(record.tags),
        written_refs=list(record.refs),
    ).record_hash
