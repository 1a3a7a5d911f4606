"""Search over everything that a caller may see: records of all readable bands, and proposals, in all
namespaces of the key.

A search reads rows in their stored order and keeps what matches, so that it finds parts of words, names and
sources that no index knows. One request reads a bounded number of rows; a cursor goes on from there.
"""

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from standfast.errors import Corruption, Forbidden
from standfast.govern.approvals.approvals import Proposal, ProposalState
from standfast.limits import CONSOLE_PAGE_ITEMS, MAX_CONSOLE_FACETS, MAX_CONSOLE_SEARCHED_ROWS
from standfast.memory import Memory
from standfast.records.canon import lowered
from standfast.records.conversion import decoded
from standfast.records.filters import Filter, RecordFacts
from standfast.records.scopes import ALL_SCOPES, is_within, name_in, prefix_of, scope_in
from standfast.records.timestamps import MISSING, time_of
from standfast.records.vocabulary import Band, Record, Value, Verdict
from standfast.server.access.permissions import KeyRole, Permission
from standfast.server.access.scope_limits import listed_scopes
from standfast.server.console.record_pages import CommitNotes, JudgeReason, notes_of
from standfast.server.console.rendering import Page, PageRequest
from standfast.server.operations.memory_operations import readable_bands
from standfast.server.operations.schemas import decode_name, encode_cursor, wrong_cursor
from standfast.store.protocol import Version

_WORDS: Final = re.compile(r'"([^"]+)"|(\S+)')
_PROPOSALS: Final = prefix_of(Band.PHOENIX)


class SearchOrder(StrEnum):
    """How the results are sorted."""

    NEWEST = "newest"
    OLDEST = "oldest"
    NAME = "name"


class SearchKind(StrEnum):
    """What is searched."""

    RECORDS = "records"
    FACTS = "facts"
    """Records that are no messages of a conversation."""
    MESSAGES = "messages"
    PROPOSALS = "proposals"


class SearchQuery(Filter, frozen=True, kw_only=True):
    """The words of a search and its filters; everything that is given must hold.

    All of it is in the address of the page. A search has the filters of a recall, and more.

    Args:
        q: Words and "quoted phrases" that the text, id, subject, tags, source, speaker, session, scope or
            metadata contain.
        within: One namespace; without it, all that the key is for.
        scope: A scope, with all below it.
        begin: The index of the first result to show.
        cursor: Where an earlier search stopped reading.
    """

    q: str = ""
    within: str = ""
    scope: str = ""
    verdict: Verdict | None = None
    band: Band | None = None
    kind: SearchKind | None = None
    sort: SearchOrder = SearchOrder.NEWEST
    begin: int = 0
    cursor: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """The words and filters that are set, for the addresses of other pages of the results."""
        named = {name: str(getattr(self, name) or "") for name in self.__struct_fields__}
        return {name: text for name, text in named.items() if text and name not in ("begin", "cursor")}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is searched for, so that everything matches."""
        return not self.fields.keys() - {"sort"}

    @property
    def has_filters(self) -> bool:
        """Whether more than words is given."""
        return bool(self.fields.keys() - {"q", "sort"}) or self.sort is not SearchOrder.NEWEST


class SearchedFields(RecordFacts, frozen=True, kw_only=True, gc=False):
    """The fields of a stored record that a search looks at. Decoding only them is far faster."""

    memory_id: str
    text: str
    position: int | None = None
    supersedes: tuple[str, ...] = ()


@dataclass(slots=True)
class SearchHit:
    """A record, with the bands that hold this text of it; or a proposal."""

    namespace: str
    scope: str
    name: str
    row: SearchedFields
    bands: list[str] = field(default_factory=list)
    key: str = ""
    """The key of the row that was found first."""
    proposal: Proposal | None = None

    @property
    def place(self) -> tuple[str, str, str, str]:
        """A unique place among all results."""
        identity = self.proposal.proposal_id if self.proposal else f"{self.row.verdict} {self.row.text}"
        return self.namespace, self.scope, self.name, identity


@dataclass(frozen=True, slots=True)
class SearchResults:
    """One page of results, how many there are, and where to go on if not everything was read."""

    hits: list[SearchHit]
    found: int
    read: int
    facets: dict[str, list[tuple[str, int]]]
    next_begin: int | None
    next_cursor: str | None


class _Matcher:
    """Decides which rows match a query. Raises ``InvalidValue`` for a query that can't match anything."""

    def __init__(self, query: SearchQuery, scopes: Sequence[str]) -> None:
        self._query = query
        self._scopes = scopes
        self._words = [lowered(phrase or word) for phrase, word in _WORDS.findall(query.q)]

    def fits(self, row: SearchedFields, scope: str, more: Iterable[str] = ()) -> bool:
        """Whether a row matches; ``more`` are further texts that may contain the words."""
        query = self._query
        return (
            any(is_within(scope, own) for own in self._scopes)
            and query.matches(row)
            and (query.verdict is None or row.verdict == query.verdict)
            and (query.kind is not SearchKind.FACTS or row.session is None)
            and (query.kind is not SearchKind.MESSAGES or row.session is not None)
            and (not self._words or self._has_words(row, scope, more))
        )

    def _has_words(self, row: SearchedFields, scope: str, more: Iterable[str]) -> bool:
        named = (row.memory_id, row.subject, scope, row.text, row.session, row.speaker, *row.tags, *more)
        values = (*(row.source or {}).values(), *row.metadata.values())
        haystack = lowered("\n".join([*(text for text in named if text), *map(str, values)]))
        return all(word in haystack for word in self._words)


class Search:
    """One search over several namespaces.

    Args:
        namespaces: The namespaces to search.
        open_memory: Opens the memory of a namespace for the caller. Only those that are read are opened.
        bands: The bands that the caller may read.
        scopes: The scopes to search, each with all below it, none below another; ``*`` for all.
    """

    def __init__(
        self,
        query: SearchQuery,
        *,
        namespaces: Iterable[str],
        open_memory: Callable[[str], Memory],
        bands: Sequence[Band],
        scopes: Sequence[str],
    ) -> None:
        self._query = query
        self._namespaces = sorted(namespaces)
        self._open_memory = open_memory
        self._last_read = ("", "")
        self._matcher = _Matcher(query, scopes)
        self._read = 0
        self._hits: dict[tuple[str, ...], SearchHit] = {}
        self._next_cursor: str | None = None
        self._prefixes = self._wanted_prefixes(bands, scopes)

    def _wanted_prefixes(self, bands: Sequence[Band], scopes: Sequence[str]) -> list[str]:
        query = self._query
        readable = sorted(
            band
            for band in bands
            if query.band in (None, band) and query.kind is not SearchKind.PROPOSALS and band != Band.PHOENIX
        )
        prefixes = sorted(prefix_of(band, scope) for band in readable for scope in scopes)
        if query.kind in (None, SearchKind.PROPOSALS) and query.band in (None, Band.PHOENIX):
            prefixes.append(_PROPOSALS)
        return prefixes

    def run(self) -> SearchResults:
        """Read rows up to the limit, and return one page of what matches."""
        after_namespace, after = _place(self._query.cursor)
        for namespace in self._namespaces:
            if namespace >= after_namespace and self._next_cursor is None:
                self._search_in(self._open_memory(namespace), after if namespace == after_namespace else "")
        begin = max(0, self._query.begin)
        ordered = self._ordered(begin + CONSOLE_PAGE_ITEMS)
        found = len(self._hits)
        return SearchResults(
            hits=ordered[begin:],
            found=found,
            read=self._read,
            facets=_facets(self._hits.values()),
            next_begin=begin + CONSOLE_PAGE_ITEMS if begin + CONSOLE_PAGE_ITEMS < found else None,
            next_cursor=self._next_cursor,
        )

    def _ordered(self, count: int) -> list[SearchHit]:
        """The first results. Records without a time come last, whatever the order."""
        sign = -1 if self._query.sort is SearchOrder.NEWEST else 1

        def key(hit: SearchHit) -> tuple[Any, ...]:
            if self._query.sort is SearchOrder.NAME:
                return (hit.name, *hit.place)
            time = MISSING if hit.row.ts_utc is None else time_of(hit.row.ts_utc)
            return (time == MISSING, sign * time, sign * (hit.row.position or 0), *hit.place)

        return heapq.nsmallest(count, self._hits.values(), key=key)

    def _search_in(self, memory: Memory, after: str) -> None:
        for prefix in self._prefixes:
            if prefix == _PROPOSALS:
                self._search_proposals(memory)
                continue
            if after and prefix < after and not after.startswith(prefix):
                continue
            start = after if after.startswith(prefix) else ""
            for version in memory.store.scan(memory.namespace, prefix=prefix, after=start):
                if self._read >= MAX_CONSOLE_SEARCHED_ROWS:
                    self._next_cursor = encode_cursor("\n".join(self._last_read))
                    return
                self._read += 1
                self._last_read = memory.namespace, version.key
                self._consider(memory.namespace, version)

    def _consider(self, namespace: str, version: Version) -> None:
        row, scope = _decoded(version), scope_in(version.key)
        if not self._matcher.fits(row, scope):
            return
        band = version.key.partition("/")[0]
        # The same text in two bands is one result, under its subject: the id may have a suffix that only one
        # band needs.
        name = row.subject or row.memory_id
        identity = (namespace, scope, name, row.text, row.verdict or "")
        hit = self._hits.get(identity)
        if hit is None:
            hit = self._hits[identity] = SearchHit(namespace, scope, name, row, key=version.key)
        if band not in hit.bands:
            hit.bands.append(band)

    def _search_proposals(self, memory: Memory) -> None:
        queue = memory.approvals
        for waiting in queue.waiting():
            self._read += 1
            self._consider_proposal(memory.namespace, waiting.proposal, waiting.record)
        for decided in queue.decided():
            self._read += 1
            self._consider_proposal(memory.namespace, decided.proposal, None)

    def _consider_proposal(self, namespace: str, proposal: Proposal, record: Record | None) -> None:
        scope, name = scope_in(proposal.key), name_in(proposal.key)
        row = SearchedFields(
            memory_id=name,
            text=record.text if record else proposal.summary or "",
            ts_utc=proposal.proposed_at,
            tags=record.tags if record else (),
            subject=record.subject if record else None,
            source=record.source if record else None,
            verdict=proposal.verdict.value,
            speaker=record.speaker if record else None,
        )
        if self._matcher.fits(row, scope, [proposal.author, proposal.proposal_id]):
            bands = [Band.PHOENIX.value] if proposal.state is ProposalState.PENDING else []
            hit = SearchHit(namespace, scope, name, row, bands, proposal=proposal)
            self._hits[namespace, proposal.proposal_id] = hit


def _decoded(version: Version) -> SearchedFields:
    try:
        return decoded(version.content or b"", SearchedFields)
    except msgspec.DecodeError as error:
        raise Corruption(what=f"{version.namespace}/{version.key}", problem=str(error)) from None


def _place(cursor: str) -> tuple[str, str]:
    """The namespace and the key at which an earlier search stopped."""
    if not cursor:
        return "", ""
    try:
        namespace, newline, key = decode_name(cursor).partition("\n")
    except ValueError:
        raise wrong_cursor() from None
    if not newline:
        raise wrong_cursor()
    return namespace, key


def _facets(hits: Iterable[SearchHit]) -> dict[str, list[tuple[str, int]]]:
    """How many results there are of each scope, tag, source, verdict and band: the most frequent of each."""
    counts: dict[str, Counter[str]] = {
        name: Counter() for name in ("scope", "tag", "source_kind", "verdict", "band")
    }
    for hit in hits:
        counts["scope"][hit.scope] += 1
        counts["tag"].update(hit.row.tags)
        counts["band"].update(hit.bands)
        if kind := (hit.row.source or {}).get("kind"):
            counts["source_kind"][str(kind)] += 1
        if hit.row.verdict:
            counts["verdict"][hit.row.verdict] += 1
    return {name: _most_common(count) for name, count in counts.items()}


def _most_common(count: Counter[str]) -> list[tuple[str, int]]:
    return sorted(count.items(), key=lambda one: (-one[1], one[0]))[:MAX_CONSOLE_FACETS]


def search(request: PageRequest) -> Page:
    """Everything that the key may see and that matches the words and filters in the address."""
    query = request.parse_query(SearchQuery)
    bands = readable_bands(request.caller)
    memory = request.memory(Permission.LIST_RECORDS)
    memory.require_readable("search")
    namespaces = [query.within] if query.within else request.namespaces()
    results = Search(
        query,
        namespaces=namespaces,
        open_memory=lambda name: request.gateway.authorize(request.caller, Permission.LIST_RECORDS, name),
        bands=bands,
        scopes=listed_scopes(request.caller, Permission.LIST_RECORDS, query.scope or ALL_SCOPES),
    ).run()
    context = {
        "query": query,
        "fields": query.fields,
        "results": results,
        "orders": tuple(SearchOrder),
        "kinds": tuple(SearchKind),
        "verdicts": tuple(Verdict),
        "bands": (*bands, Band.PHOENIX),
    }
    return Page(template="search.html", context=context)


class RefusedPageQuery(Value, frozen=True, kw_only=True):
    """The filters of the page, as those of a search."""

    q: str = ""
    scope: str = ""
    source_kind: str | None = None
    begin: int = 0


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A rejected text with the judge's reasons."""

    hit: SearchHit
    reasons: tuple[JudgeReason, ...]


def refused(request: PageRequest) -> Page:
    """What the judge rejected, newest first, with the reasons."""
    memory = request.memory(Permission.LIST_RECORDS)
    if request.caller.role is KeyRole.AGENT:
        problem = "rejected content is shown to people, with a key of role operator or auditor"
        raise Forbidden(
            role=request.caller.role.value, act="list_records", where="band VOID", problem=problem
        )
    memory.require_readable("list records")
    query = request.parse_query(RefusedPageQuery)
    results = Search(
        SearchQuery(
            q=query.q,
            scope=query.scope,
            source_kind=query.source_kind,
            begin=query.begin,
            band=Band.VOID,
            kind=SearchKind.RECORDS,
        ),
        namespaces=[request.namespace],
        open_memory=lambda _: memory,
        bands=[Band.VOID],
        scopes=listed_scopes(request.caller, Permission.LIST_RECORDS, query.scope or ALL_SCOPES),
    ).run()
    notes = dict[int, CommitNotes]()
    context = {
        "query": query,
        "results": results,
        "lines": [_refused_line(memory, hit, notes) for hit in results.hits],
        "fields": {name: text for name in ("q", "scope", "source_kind") if (text := getattr(query, name))},
    }
    return Page(template="refused.html", context=context)


def _refused_line(memory: Memory, hit: SearchHit, notes: dict[int, CommitNotes]) -> RefusedLine:
    (row,) = memory.store.read(memory.namespace, [hit.key]).values()
    snapshot = row.memory_snapshot_id
    if snapshot not in notes:
        notes[snapshot] = notes_of(memory.store, snapshot)
    return RefusedLine(hit, notes[snapshot].reasons_of(hit.key))
