"""The watch on sources: which of them had much more refused, disputed or quarantined lately than before.

It counts what is recorded, commit by commit, by a rule that anybody can check by hand. It reads the newest
commits only, so its cost has a bound however large the store is.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from standfast.limits import MAX_CACHED_WATCHES, MAX_WATCHED_COMMITS, SCAN_PAGE_RECORDS
from standfast.records.conversion import decoded
from standfast.records.origins import disputed_in
from standfast.records.scopes import name_in, prefix_in, scope_in
from standfast.records.vocabulary import ActionType, Band, Value, shown
from standfast.store.protocol import AppliedCommit, Version
from standfast.store.store import Store

RECENT: Final = timedelta(days=7)
BEFORE: Final = timedelta(days=28)
LEAST_TROUBLED: Final = 5
JUMP: Final = 3
_FEW_COMMITS: Final = 500
_STALE: Final = timedelta(minutes=1)
_BANDS: Final = (Band.VOID, Band.VAULT, Band.LEDGER, Band.ACTIVE)


class WrittenCount(Value, frozen=True, kw_only=True):
    """The writes of a source in a span of time, and how many of them are in trouble.

    Attributes:
        writes: Versions of records that name the source, each once.
        refused: Those that were rejected.
        disputed: Those that name in ``supersedes`` what a trusted user said, and did not end it.
        quarantined: Those that are in quarantine now.
        troubled: Those that are any of the three.
    """

    writes: int = 0
    refused: int = 0
    disputed: int = 0
    quarantined: int = 0
    troubled: int = 0


class WatchedSource(Value, frozen=True, kw_only=True):
    """A source whose trouble jumped: its counts in the last 7 days, and in the 28 days before."""

    namespace: str
    source: str
    recent: WrittenCount
    before: WrittenCount

    @property
    def summary(self) -> str:
        """One line for people."""
        now = self.recent
        return (
            f"source {shown(self.source)} in namespace {self.namespace}:"
            f" {now.troubled} of {now.writes} writes of the last {RECENT.days} days are refused"
            f" ({now.refused}), disputed ({now.disputed}) or in quarantine ({now.quarantined});"
            f" {self.before.troubled} of {self.before.writes} in the {BEFORE.days} days before"
        )


class Watch(Value, frozen=True, kw_only=True):
    """What the watch found.

    Attributes:
        commits: How many commits it read.
        is_cut: Whether the time it looks at has more commits than it reads; it read the newest.
        sources: By namespace and source.
    """

    commits: int
    is_cut: bool
    sources: tuple[WatchedSource, ...]


@dataclass(slots=True)
class _Written:
    """One write: what a commit did under an id of a scope, in whichever bands."""

    source: str
    is_recent: bool
    refused: bool = False
    disputed: bool = False
    quarantined: bool = False


class _Content(msgspec.Struct, frozen=True, gc=False):
    """The fields of a record that are counted."""

    source: dict[str, Any] | None = None
    refs: tuple[dict[str, Any], ...] = ()


def named_source(source: dict[str, Any] | None) -> str:
    """A source as ``kind:id``; empty without one."""
    return f"{source.get('kind', '')}:{source.get('id', '')}" if source else ""


def commit_pages(store: Store, after: int, until: int) -> Iterator[list[AppliedCommit]]:
    """The commits after a snapshot, up to another one, a page at a time."""
    while after < until:
        page = store.commits(after=after, limit=min(SCAN_PAGE_RECORDS, until - after))
        yield page
        after = page[-1].memory_snapshot_id


def committed_rows(
    store: Store, namespace: str, pages: Iterable[Sequence[AppliedCommit]], *, bands: Sequence[str]
) -> Iterator[tuple[AppliedCommit, list[Version]]]:
    """What each commit wrote in bands of a namespace; commits that wrote nothing there are left out."""
    for page in pages:
        rows: dict[int, list[Version]] = {}
        first, last = page[0].memory_snapshot_id, page[-1].memory_snapshot_id
        for row in store.versions_between(namespace, first - 1, last, bands=bands):
            rows.setdefault(row.memory_snapshot_id, []).append(row)
        for commit in page:
            if commit.memory_snapshot_id in rows:
                yield commit, rows[commit.memory_snapshot_id]


def watch_sources(
    store: Store, namespaces: Sequence[str], *, now: datetime, max_commits: int = MAX_WATCHED_COMMITS
) -> Watch:
    """Find the sources whose trouble jumped.

    A source is named if at least 5 of its writes of the last 7 days are refused, disputed or in quarantine,
    and their share is at least three times that of the 28 days before, or nothing was in trouble then.

    Args:
        max_commits: How many of the newest commits are read at most.
    """
    head = store.head()
    start = max(0, head - max_commits)
    since = now - RECENT - BEFORE
    pages = [
        [one for one in page if datetime.fromisoformat(one.committed_at) >= since]
        for page in commit_pages(store, start, head)
    ]
    pages = [page for page in pages if page]
    is_cut = start > 0 and bool(pages) and pages[0][0].memory_snapshot_id == start + 1
    found = [
        one
        for namespace in sorted(set(namespaces))
        for one in _jumps(namespace, _written(store, namespace, pages, head, now - RECENT))
    ]
    return Watch(commits=sum(map(len, pages)), is_cut=is_cut, sources=tuple(found))


class CachedWatch:
    """The watch for a server, which is asked often: after each commit if that is cheap, otherwise at most
    once a minute. Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, ...], tuple[int, datetime, Watch]] = {}

    def of(self, store: Store, namespaces: Sequence[str]) -> Watch:
        """What the watch says of some namespaces, up to a minute ago."""
        names, head, now = tuple(sorted(set(namespaces))), store.head(), store.clock.now()
        with self._lock:
            known_head, read_at, watch = self._known.get(names, (-1, now, None))
            is_young = abs(now - read_at) < _STALE
            # What was written leaves the span of the watch by the passing of time alone, too.
            if watch is not None and is_young and (head == known_head or watch.commits > _FEW_COMMITS):
                return watch
            found = watch_sources(store, names, now=now)
            if len(self._known) >= MAX_CACHED_WATCHES:
                self._known.clear()
            self._known[names] = head, now, found
            return found


def _written(
    store: Store, namespace: str, pages: Sequence[Sequence[AppliedCommit]], head: int, recent_since: datetime
) -> Iterator[_Written]:
    hidden = store.hidden_at(namespace, head)
    for commit, rows in committed_rows(store, namespace, pages, bands=_BANDS):
        is_recent = datetime.fromisoformat(commit.committed_at) >= recent_since
        of_commit: dict[tuple[str, str], _Written] = {}
        for row in rows:
            if row.action is ActionType.EXPIRE or row.content is None:
                continue
            content = decoded(row.content, _Content)
            # What was forgotten has no content, and what names no source is nobody's.
            if source := named_source(content.source):
                place = scope_in(row.key), name_in(row.key)
                one = of_commit.setdefault(place, _Written(source, is_recent))
                one.refused |= prefix_in(row.key) == Band.VOID
                one.disputed |= bool(disputed_in(content.refs))
                one.quarantined |= hidden.hides(row)
        yield from of_commit.values()


def _jumps(namespace: str, written: Iterable[_Written]) -> Iterator[WatchedSource]:
    sources: dict[str, list[_Written]] = {}
    for one in written:
        sources.setdefault(one.source, []).append(one)
    for source, writes in sorted(sources.items()):
        recent = _count(one for one in writes if one.is_recent)
        before = _count(one for one in writes if not one.is_recent)
        # Shares are compared as products of whole numbers, so that no rounding decides.
        jumped = recent.troubled * before.writes >= JUMP * before.troubled * recent.writes
        if recent.troubled >= LEAST_TROUBLED and (before.troubled == 0 or jumped):
            yield WatchedSource(namespace=namespace, source=source, recent=recent, before=before)


def _count(writes: Iterable[_Written]) -> WrittenCount:
    listed = list(writes)
    return WrittenCount(
        writes=len(listed),
        refused=sum(one.refused for one in listed),
        disputed=sum(one.disputed for one in listed),
        quarantined=sum(one.quarantined for one in listed),
        troubled=sum(one.refused or one.disputed or one.quarantined for one in listed),
    )
