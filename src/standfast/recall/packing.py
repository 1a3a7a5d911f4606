"""Packing: takes ranked records best first while they fit the token budget, cuts excerpts of long ones, and
explains what became of each.

``tokens`` bounds the whole text, frames included. Every controller after ``phase6-v1`` packs with it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

import msgspec

from standfast.recall.analysis import Analyzer, IndexedRecord, words_of
from standfast.recall.answers import Ceiling, ExplainedMatch, Explanation, reranking_of, vector_of
from standfast.recall.candidates import Candidate
from standfast.recall.dates import spoken_dates
from standfast.recall.excerpts import excerpt_of
from standfast.recall.filters import (
    TRUST_TENTHS,
    UNREVIEWED_VERDICTS,
    doubts_of,
    reasons_of,
    trust_code,
    validity_at,
)
from standfast.recall.newest_first import SaidLast
from standfast.recall.package import (
    MARK_CHARS,
    PackageRequest,
    RecallItem,
    RecallPackage,
    disagreement_line,
    excerpt_line,
    group_line,
    heading,
    untrusted_line,
)
from standfast.recall.ranking import (
    NAMED_TENTHS,
    PREFERENCE_TENTHS,
    ROLE_TENTHS,
    SNAPSHOT_BITS,
    RankedRow,
    Reader,
)
from standfast.recall.tokens import BYTES_PER_TOKEN, EstimatedCounter, TokenCounter
from standfast.records.filters import trust_of
from standfast.records.origins import MAX_RECALL_CONFIDENCE, Doubt, Origin, ceiling_of, disputed_in
from standfast.records.requests import RecallRequest
from standfast.records.timestamps import MISSING, day_of

READ_TIMES_MAX_ITEMS: Final = 4
"""Packing looks at no more than so many times ``max_items`` candidates."""
READ_AT_ONCE: Final = 16
_TYPICAL_MARK: Final = "9c7"
"""Stands for the mark, which is known at the end; most marks have as many tokens."""
assert len(_TYPICAL_MARK) == MARK_CHARS
EXCERPT_TOKENS: Final = 80
"""A longer text is shown by its best passages, in at most so many tokens."""
LEAST_EXCERPT_TOKENS: Final = 24
"""Less than this is not worth cutting out of a text, or looking for something that fits."""
LEAST_SHARE: Final = 20
"""Of a small budget, less than a twentieth is not worth looking further."""
PINNED_SHARE: Final = 5
"""What is pinned takes at most a fifth of the budget."""
LEAST_PINNED_TOKENS: Final = 8
"""So much of the first pinned record is shown beside its frame, even if that is more than a fifth."""
STANDING_SHARE: Final = 10
"""Standing instructions of a user take at most a tenth of the budget."""
OTHERS_SHARE: Final = 4
"""In a large scope, what shares no word with the query takes at most a quarter of the budget."""
UNTRUSTED_SHARE: Final = 4
"""While anything else waits, untrusted records take at most a quarter of the budget."""


@dataclass(slots=True)
class PackedCandidate:
    """A candidate that packing looks at, and what became of it."""

    ranked: RankedRow
    rank: int
    store_path: str
    record: IndexedRecord
    outcome: str = "budget_exhausted"
    excerpt: str = ""
    also: tuple[str, ...] = ()
    disagrees: bool = False
    is_pinned: bool = False
    is_standing: bool = False
    """Whether it was taken for a standing instruction."""
    item: RecallItem | None = None

    @property
    def snapshot(self) -> int:
        """The snapshot that wrote it."""
        return self.ranked.score & ((1 << SNAPSHOT_BITS) - 1)

    def disagrees_with(self, other: "PackedCandidate") -> bool:
        """Whether both are accepted, speak of the same subject, and say different things."""
        return (
            other is not self
            and self.record.subject is not None
            and self.record.subject == other.record.subject
            and not (self.record.several or other.record.several)
            and not any(
                one.is_untrusted or one.record.verdict in UNREVIEWED_VERDICTS for one in (self, other)
            )
        )

    @property
    def is_untrusted(self) -> bool:
        """Whether its origin is untrusted."""
        return trust_of(self.record) == Origin.UNTRUSTED


class Packing:
    """Takes candidates best first while they fit, and passes over what overflows or repeats what is there.

    Args:
        weights: The terms of the query and what each is worth.
        related: Terms that mean something alike.
        now: The time that age is measured from, or ``MISSING``.
        scope_bytes: The bytes of all texts. If they fit the budget, none is cut.
        bounds_others: Whether what shares no word with the query takes at most a share of the budget.
        asks_for_then: The query names a date, so that records which do not hold now are shown, and marked.
        parts: Says what the score of a slot was added up from, if it has several parts.
        focus: Gives the passage of a slot's text that matches best, if words alone do not say.
        means_alike: Says whether the vector of a slot itself is like the query's.
    """

    def __init__(
        self,
        request: RecallRequest,
        weights: Mapping[str, int],
        related: Collection[str],
        analyzer: Analyzer,
        counter: TokenCounter,
        *,
        now: int,
        scope_bytes: int,
        bounds_others: bool,
        asks_for_then: bool,
        parts: Callable[[int], dict[str, int]],
        focus: Callable[[int, str], str],
        means_alike: Callable[[int], bool],
    ) -> None:
        self._parts, self._focus, self._related = parts, focus, related
        self._means_alike = means_alike
        self._request, self._weights, self._analyzer, self._counter = request, weights, analyzer, counter
        self._now = now
        self._asks_for_then = asks_for_then
        self._not_valid = 0
        self._is_estimate = is_estimate = isinstance(counter, EstimatedCounter)
        # The estimate adds up exactly in bytes. A tokeniser's counts of parts do not, so the whole is counted
        # at the end.
        self._unit = BYTES_PER_TOKEN if is_estimate else 1
        self._cost: Callable[[str], int] = _bytes_of if is_estimate else counter.count
        self._left = whole = request.tokens * self._unit
        self._untrusted_left = whole // UNTRUSTED_SHARE
        self._first_left = whole // PINNED_SHARE
        self._mark = _TYPICAL_MARK
        self._left -= self._cost(heading(self._mark))
        self._others_left = self._left - whole + whole // OTHERS_SHARE if bounds_others else whole
        is_whole = scope_bytes <= request.tokens * BYTES_PER_TOKEN
        self._excerpt_tokens = request.tokens if is_whole else min(EXCERPT_TOKENS, request.tokens)
        self._least_left = min(LEAST_EXCERPT_TOKENS, request.tokens // LEAST_SHARE) * self._unit
        self._frame_bytes = len(f"[{self._mark}] \n")
        self._line_cost = self._cost(f"[{self._mark}] \n")
        # Texts up to this size are shown whole. Filters look at records, and only the estimate counts bytes.
        self._whole_bytes = self._excerpt_tokens * BYTES_PER_TOKEN if is_estimate and not request.where else 0
        self._groups: set[tuple[str, ...]] = set()
        self._by_duplicate_key: dict[tuple[object, ...], PackedCandidate] = {}
        self._read: Reader = lambda rows: [None] * len(rows)
        self._candidates_read: list[PackedCandidate] = []
        self._too_large: list[tuple[RankedRow, int]] = []
        """What was passed over without being read, because it could not fit, with its rank."""
        self._taken: list[PackedCandidate] = []
        self._said_last = SaidLast()
        self._pins_waiting: dict[int, int] = {}
        """The pinned rows that were not offered yet, and about what each needs."""
        self.taken_first: set[int] = set()
        """The rows that were taken because they are pinned, or instructions that stand."""

    def pin(self, rows: Sequence[RankedRow], read: Reader) -> None:
        """Take the pinned records, each cut to what their share holds.

        A long one leaves to each that comes after it what that one needs, up to an equal part.
        """
        self._read = read
        self._pins_waiting = {
            row.row: row.size * self._unit // BYTES_PER_TOKEN + self._line_cost for row in rows
        }
        # They are read whatever their size, because they can be cut.
        self._take_first((row._replace(size=0) for row in rows), is_pinned=True)

    def stand(self, rows: Iterator[RankedRow], read: Reader) -> None:
        """Take the standing instructions that fit their share."""
        self._read, self._first_left = read, self._request.tokens * self._unit // STANDING_SHARE
        self._take_first(rows, is_pinned=False)

    def _take_first(self, rows: Iterator[RankedRow], *, is_pinned: bool) -> None:
        for candidate in self._candidates(rows):
            if self._taken and self._first_left <= self._line_cost:
                return
            self._pins_waiting.pop(candidate.ranked.row, None)
            candidate.rank = len(self.taken_first) + 1
            candidate.is_pinned, candidate.is_standing = is_pinned, not is_pinned
            if self._is_wanted(candidate.record) and self._offer(candidate):
                self._said_last.note(candidate.record, candidate.snapshot)
                self._candidates_read.append(candidate)
                self.taken_first.add(candidate.ranked.row)

    def take(self, rows: Iterator[RankedRow], read: Reader) -> None:
        """Take what fits. Untrusted records that went beyond their share are tried again at the end.

        Args:
            rows: The candidates, best first.
            read: Reads the records of rows. What can't fit is not read.
        """
        self._read = read
        waiting = []
        for candidate in self._candidates(rows):
            if not self._is_wanted(candidate.record):
                continue
            self._candidates_read.append(candidate)
            if not self._validity(candidate.record):
                self._said_last.note(candidate.record, candidate.snapshot)
            if not self._offer(candidate) and candidate.is_untrusted:
                waiting.append(candidate)
        self._untrusted_left = self._left
        for candidate in waiting:
            if len(self._taken) < self._request.max_items:
                self._offer(candidate)

    def _is_wanted(self, record: IndexedRecord) -> bool:
        """Whether a record matches the filter, and holds at the time that is asked about."""
        if self._request.where and not self._request.where.matches(record):
            return False
        # What was only read from words hides nothing; it is marked.
        is_read = record.validity_words is not None
        is_valid = self._asks_for_then or is_read or not self._validity(record)
        self._not_valid += not is_valid
        return is_valid

    def _candidates(self, rows: Iterator[RankedRow]) -> Iterator[PackedCandidate]:
        """The candidates that were read, until nothing more can be taken or looked at.

        Each has the rank of its place, behind what was taken first.
        """
        rank = len(self.taken_first)
        while batch := list(islice(rows, READ_AT_ONCE)):
            wanted = [ranked.row for ranked in batch if self._may_fit(ranked.size)]
            found = dict(zip(wanted, self._read(wanted), strict=True)) if wanted else {}
            for ranked in batch:
                if self._is_over:
                    return
                rank += 1
                if ranked.row not in found:
                    self._too_large.append((ranked, rank))
                elif (record := found[ranked.row]) is not None:
                    yield PackedCandidate(ranked, rank, *record)

    def _may_fit(self, size: int) -> bool:
        """Whether a record has to be read: it may fit, or only the record says whether it counts as candidate
        at.

        The text of a record that needs no cut is its excerpt. If that is too large now, it stays so, because
        nothing is given back. Of a longer text at least a few words must fit.
        """
        if not self._whole_bytes or size == 0:
            return True
        least = min(size, LEAST_EXCERPT_TOKENS * BYTES_PER_TOKEN) if size > self._whole_bytes else size
        return least + self._frame_bytes <= self._left

    @property
    def _is_over(self) -> bool:
        """Whether nothing more can be taken or looked at."""
        most = self._request.max_items
        read = len(self._candidates_read) + len(self._too_large)
        is_full = self._left <= self._least_left
        return is_full or len(self._taken) >= most or read >= READ_TIMES_MAX_ITEMS * most

    def _offer(self, candidate: PackedCandidate) -> bool:
        """Take a candidate if it fits; False if it does not."""
        share_left = self._share_left(candidate)
        limit = (share_left - self._line_cost) // self._unit
        most, least = self._excerpt_tokens, LEAST_EXCERPT_TOKENS
        if candidate.is_pinned:
            most, least = limit, LEAST_EXCERPT_TOKENS if self._taken else 1
        is_cut = self._cost(candidate.record.text.strip()) > most * self._unit
        limit = min(most, limit)
        if limit < (least if is_cut else 1):
            return False
        candidate.excerpt = self._excerpt(candidate, limit) if is_cut else candidate.record.text.strip()
        if self._is_estimate and len(candidate.excerpt) > share_left:
            # It does not fit without its frame either. Most candidates end here.
            return False
        candidate.item = item = self._item(candidate)
        cost = self._cost_of(candidate, item)
        while cost > share_left and (is_cut or candidate.is_pinned):
            # The frame took more than was expected: a shorter excerpt may fit.
            limit -= -(-(cost - share_left) // self._unit)
            if limit < least:
                return False
            candidate.excerpt = self._excerpt(candidate, limit)
            candidate.item = item = self._item(candidate)
            cost = self._cost_of(candidate, item)
        if not candidate.excerpt or cost > share_left:
            return False
        same = self._by_duplicate_key.setdefault(self._duplicate_key(candidate), candidate)
        if same is not candidate:
            candidate.outcome = f"says the same as {same.record.memory_id}"
            same.also += (candidate.record.memory_id,)
            return True
        candidate.outcome = "selected"
        self._spend(candidate, cost)
        self._groups.add(item.group)
        self._taken.append(candidate)
        return True

    def _excerpt(self, candidate: PackedCandidate, limit: int) -> str:
        record = candidate.record
        # All of a pinned record matters, so it is shown from its beginning on, as far as its share goes.
        fills = candidate.is_pinned
        return excerpt_of(
            record.text,
            self._weights,
            self._analyzer,
            self._counter.count,
            limit,
            focus="" if fills else self._focus(candidate.ranked.slot, record.text),
            fills=fills,
        )

    def _share_left(self, candidate: PackedCandidate) -> int:
        """What a candidate may cost: what is left of the budget, and of each share that it counts to."""
        left = [self._left]
        if candidate.is_pinned:
            equal = self._first_left // (len(self._pins_waiting) + 1)
            share = self._first_left - sum(min(need, equal) for need in self._pins_waiting.values())
            if not self._taken:
                frame = self._cost_of(candidate, self._item(candidate))
                share = max(share, frame + LEAST_PINNED_TOKENS * self._unit)
            left.append(share)
        elif candidate.is_standing:
            left.append(self._first_left)
        elif not candidate.ranked.shares_word:
            left.append(self._others_left)
        if candidate.is_untrusted:
            left.append(self._untrusted_left)
        return min(left)

    def _spend(self, candidate: PackedCandidate, cost: int) -> None:
        self._left -= cost
        if candidate.is_pinned or candidate.is_standing:
            self._first_left -= cost
        elif not candidate.ranked.shares_word:
            self._others_left -= cost
        if candidate.is_untrusted:
            self._untrusted_left -= cost

    def _cost_of(self, candidate: PackedCandidate, item: RecallItem) -> int:
        """What a candidate adds to the text: its excerpt, its frame, and the lines that it brings with it."""
        cost = self._cost(excerpt_line(self._mark, item))
        first = self._taken[0].item if self._taken else None
        # The heading names the ceiling of the first item, so the first one pays for that.
        ceiling = item.ceiling if first is None else first.ceiling
        if first is None and ceiling != MAX_RECALL_CONFIDENCE:
            cost += self._cost(heading(self._mark, ceiling)) - self._cost(heading(self._mark))
        own_line = self._cost(group_line(self._mark, item, ceiling))
        if item.group not in self._groups:
            cost += own_line
        if candidate.is_untrusted and not any(one.is_untrusted for one in self._taken):
            cost += self._cost(untrusted_line(self._mark))
        if item.said_later:
            # The two stand together, so the groups of both may be named twice.
            cost += 2 * own_line
        if any(map(candidate.disagrees_with, self._taken)):
            # The line that says so, and a line of its own for each of the two.
            cost += self._cost(disagreement_line(self._mark, item)) + 2 * own_line
        return cost

    def _duplicate_key(self, candidate: PackedCandidate) -> tuple[object, ...]:
        """What a record and its repetitions share. What is untrusted never stands for what is not."""
        record = candidate.record
        gist = self._analyzer.gist_stems(words_of(record.text))
        return candidate.is_untrusted, record.subject or "", record.speaker or "", gist

    def package(
        self, version: str, matched: int, said_last: Callable[[Iterable[IndexedRecord]], list[RankedRow]]
    ) -> RecallPackage:
        """The package of what was taken. The last excerpts go back if the text is longer than its parts.

        Args:
            said_last: Gives the rows that were said last on the matters of records, wherever they rank, so
                that what holds no more is marked though the later one was not looked at.
        """
        request = self._request
        # Who asks for a date is answered by what held then.
        rows = [] if self._asks_for_then else said_last(candidate.record for candidate in self._taken)
        found = self._read_candidates([(ranked, 0) for ranked in rows])
        # Of two that were said at one instant, the first stays.
        for later in sorted(found, key=lambda one: (one.store_path, one.record.scope, one.record.memory_id)):
            if not self._validity(later.record):
                self._said_last.note(later.record, later.snapshot)
        asked = PackageRequest(
            query=request.query,
            tokens=request.tokens,
            max_items=request.max_items,
            counter=self._counter.name,
            analysis=self._analyzer.name,
            bands=tuple(band.value for band in request.bands),
            scopes=request.places,
            where=request.where.as_json(),
            now_utc=request.now_utc,
            include_unreviewed=request.include_unreviewed,
            vector=vector_of(request),
            reranking=reranking_of(request),
        )
        while True:
            for one in self._taken:
                one.disagrees = any(map(one.disagrees_with, self._taken))
            items = [self._final_item(one) for one in self._taken]
            package = RecallPackage(
                controller_version=version, request=asked, items=tuple(items), matched=matched
            ).with_hash()
            if self._counter.count(package.text) <= request.tokens:
                return package
            self._taken.pop().outcome = "budget_exhausted"

    def _read_candidates(self, rows: Sequence[tuple[RankedRow, int]]) -> list[PackedCandidate]:
        """The candidates of rows with their ranks."""
        records = self._read([ranked.row for ranked, _ in rows])
        found = zip(rows, records, strict=True)
        return [PackedCandidate(*ranked, *record) for ranked, record in found if record is not None]

    def _ceiling(self, record: IndexedRecord) -> Ceiling:
        return _ceiling_for(doubts_of(trust_code(record, record.evidence), record.time, self._now))

    def _validity(self, record: IndexedRecord) -> str:
        return validity_at(record.valid_from, record.valid_until, self._now)

    def _final_item(self, candidate: PackedCandidate) -> RecallItem:
        """The item with what was not known before all items were."""
        later = self._said_last.later_than(candidate.record, candidate.snapshot)
        return msgspec.structs.replace(
            candidate.item or self._item(candidate),
            said_later="" if later is None else later.text,
            later_id=None if later is None else later.memory_id,
            record_hash=record_hash_of(candidate.record),
            disagrees=candidate.disagrees,
            also=candidate.also,
        )

    def _item(self, candidate: PackedCandidate) -> RecallItem:
        record, ceiling = candidate.record, self._ceiling(candidate.record)
        later = self._said_last.later_than(record, candidate.snapshot)
        return RecallItem(
            memory_id=record.memory_id,
            record_hash="",
            store_path=candidate.store_path,
            rank=candidate.rank,
            score=candidate.ranked.score,
            excerpt=candidate.excerpt,
            date=record.date,
            source=record.source_name,
            verdict=record.verdict,
            trust=trust_of(record),
            ceiling=ceiling.confidence,
            reasons=ceiling.warnings,
            validity=self._validity(record),
            subject=record.subject,
            ts_utc=record.ts_utc,
            session=record.session,
            position=record.position,
            speaker=record.speaker,
            dates=_resolved_dates(
                record, candidate.excerpt, self._analyzer.language, is_valid=not self._validity(record)
            ),
            pinned=candidate.is_pinned,
            said_later="" if later is None else later.text,
            disputes=disputed_in(record.refs) if record.refs else (),
        )

    def explanation(
        self, terms: Sequence[str], ranked_count: int, left_out: Mapping[str, int]
    ) -> Explanation:
        """Why each candidate that was looked at has its rank, and what became of it.

        Args:
            ranked_count: How many candidates there were.
            left_out: How many records matched and could not be chosen, by reason.
        """
        candidates = sorted(
            [*self._candidates_read, *self._read_candidates(self._too_large)], key=lambda one: one.rank
        )
        exhausted = sum(one.outcome == "budget_exhausted" for one in candidates)
        counts = {
            "budget_exhausted": exhausted,
            "same": len(candidates) - len(self._taken) - exhausted,
            "not_looked_at": ranked_count - len(candidates) - self._not_valid,
            "not_valid": self._not_valid,
            **left_out,
        }
        return Explanation(tuple(terms), tuple(map(self._explained, candidates)), (), counts)

    def _explained(self, candidate: PackedCandidate) -> ExplainedMatch:
        record, ranked = candidate.record, candidate.ranked
        labels = " ".join([*record.tags, record.subject or "", record.source_name, record.speaker or ""])
        own = set(self._analyzer.terms_of(words_of(f"{record.text} {labels}")))
        ceiling = self._ceiling(record)
        boosts = {}
        if ranked.is_named:
            boosts["named"] = NAMED_TENTHS / 10
        if ranked.is_asked_role:
            boosts["role"] = ROLE_TENTHS / 10
        if ranked.is_preference:
            boosts["preference"] = PREFERENCE_TENTHS / 10
        if ranked.quarters:
            boosts["date"] = (4 + ranked.quarters) / 4
        if (trust := TRUST_TENTHS[trust_of(record)]) != 10:
            boosts["trust"] = trust / 10
        ranked_ceiling = ceiling_of(doubts_of(trust_code(record, record.evidence), MISSING, MISSING))
        if ranked_ceiling != MAX_RECALL_CONFIDENCE:
            boosts["ceiling"] = round(ranked_ceiling / MAX_RECALL_CONFIDENCE, 4)
        matched = {term: weight for term, weight in self._weights.items() if term in own}
        has_meaning = not own.isdisjoint(self._related) or self._means_alike(ranked.slot)
        return ExplainedMatch(
            rank=candidate.rank,
            memory_id=record.memory_id,
            record_hash=record_hash_of(record),
            store_path=candidate.store_path,
            ts_utc=record.ts_utc,
            score=ranked.score,
            matched=matched,
            boosts=boosts,
            parts=self._parts(ranked.slot),
            why=_why(candidate, has_word=bool(matched), has_meaning=has_meaning),
            outcome=candidate.outcome,
            verdict=record.verdict,
            trust=trust_of(record),
            ceiling=ceiling,
        )


def _why(candidate: PackedCandidate, *, has_word: bool, has_meaning: bool) -> tuple[str, ...]:
    """Why a candidate has its place, in a word for each reason.

    Args:
        has_word: Whether the record itself has a word of the query.
        has_meaning: Whether it has a word that means something alike, or a vector that is alike.
    """
    ranked = candidate.ranked
    has_points = ranked.score >> SNAPSHOT_BITS > 1
    reasons = {
        "pinned": candidate.is_pinned,
        "standing": candidate.is_standing,
        "words": has_word,
        "meaning": has_points and has_meaning,
        # What it has points for, if not for its own words or meaning, stands next to it.
        "neighbours": has_points
        and candidate.record.is_threaded
        and not has_word
        and (ranked.shares_word or not has_meaning),
        "speaker": ranked.is_named or ranked.is_asked_role,
        "date": ranked.quarters > 0,
    }
    found = tuple(reason for reason, holds in reasons.items() if holds)
    is_first = candidate.is_pinned or candidate.is_standing
    # What is there for nothing that it has itself is the newest, of the scope or of what is said on a matter.
    for_itself = {"words", "meaning", "neighbours"}.intersection(found)
    return found if is_first or for_itself else (*found, "newest")


@lru_cache(maxsize=1 << 8)
def _ceiling_for(doubts: tuple[Doubt, ...]) -> Ceiling:
    return Ceiling(ceiling_of(doubts), reasons_of(doubts))


def _resolved_dates(record: IndexedRecord, excerpt: str, language: str, *, is_valid: bool) -> tuple[str, ...]:
    """What words such as "yesterday" in an excerpt mean. The record's own day is shown already."""
    if record.time == MISSING:
        return ()
    if record.validity_words is not None and is_valid:
        return (f"holds {_span_shown(record)}",)
    found = spoken_dates(excerpt, day_of(record.local_time), language)
    return tuple(f"{one.words}: {one.shown}" for one in found if one.shown != record.date)


def _span_shown(record: IndexedRecord) -> str:
    """When a record holds, in days."""
    ends = (("from", record.valid_from), ("until", record.valid_until))
    return " ".join(f"{name} {instant[:10]}" for name, instant in ends if instant is not None)


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
