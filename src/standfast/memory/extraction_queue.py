"""The conversations of a namespace that wait for a model: temporary rows, which survive a restart.

A row names messages by their positions and holds no text, so nothing of a message that is forgotten stays
here. Whoever works on one takes it for a while (``due``): if the process dies, another one takes it then.
Extracting twice has one effect, because the facts are remembered in a run whose id is made from the messages.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from standfast.limits import (
    EXTRACTION_KEEP_SECONDS,
    EXTRACTION_LEASE_SECONDS,
    MAX_EXTRACTION_RETRY_SECONDS,
    MAX_PENDING_EXTRACTIONS,
)
from standfast.records.canon import fingerprint
from standfast.records.conversion import decoded
from standfast.records.origins import Origin
from standfast.records.vocabulary import Value
from standfast.store.protocol import TemporaryRow
from standfast.store.store import Store

EXTRACTION_KIND: Final = "extraction"
"""The kind of the temporary rows."""
_FIRST_RETRY_SECONDS: Final = 60.0


class PendingExtraction(Value, frozen=True, kw_only=True):
    """Messages whose facts are still to be found.

    Attributes:
        key: The idempotency key of the call that added them.
        max_origin: The most that the facts may be trusted.
        queued_at: When it was added, in seconds since 1970.
        tries: How often a model was asked in vain.
        due: From when on anybody may take it, in seconds since 1970.
        problem: Why the last try failed.
    """

    namespace: str
    scope: str
    session: str
    positions: tuple[int, ...]
    key: str | None
    workflow: str
    agent: str | None
    max_origin: Origin
    queued_at: float = 0.0
    tries: int = 0
    due: float = 0.0
    problem: str = ""

    @property
    def row_id(self) -> str:
        """The id of its row: the same for the same messages and key."""
        named = [self.scope, self.session, self.key, self.max_origin.value, list(self.positions)]
        return f"{_folder_of(self.namespace)}{fingerprint(named)[:32]}"


class ExtractionQueue:
    """What waits in one namespace. Any process may add to it and take from it."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._rows, self._clock, self._namespace = store.temporary, store.clock, namespace

    def waiting(self) -> list[PendingExtraction]:
        """What waits or is worked on, in the order in which it was added."""
        rows = self._rows.scan(
            EXTRACTION_KIND, _folder_of(self._namespace), limit=MAX_PENDING_EXTRACTIONS + 1
        )
        found = [decoded(row.content, PendingExtraction) for row in rows]
        return sorted(found, key=lambda one: (one.queued_at, one.row_id))

    def add(self, pending: PendingExtraction) -> bool:
        """Let it wait, as taken by this process; False if too many wait already."""
        if len(self.waiting()) >= MAX_PENDING_EXTRACTIONS:
            return False
        # One that is there already waits for the same messages.
        queued = replace(pending, queued_at=self._now())
        self._rows.put(self._row(self._taken(queued), version=1), replaces=None)
        return True

    def take(self, pending: PendingExtraction) -> bool:
        """Take one that is due; False if somebody else has it."""
        row = self._rows.get(EXTRACTION_KIND, pending.row_id)
        if row is None or decoded(row.content, PendingExtraction).due > self._now():
            return False
        return self._rows.put(self._row(self._taken(pending), version=row.version + 1), replaces=row.version)

    def retry_later(self, pending: PendingExtraction, problem: str, *, after_seconds: float | None) -> None:
        """Note that a try failed. Without ``after_seconds``, each wait is twice as long as the one before."""
        tries = pending.tries + 1
        wait = min(_FIRST_RETRY_SECONDS * 2.0**pending.tries, MAX_EXTRACTION_RETRY_SECONDS)
        if after_seconds is not None:
            tries, wait = pending.tries, after_seconds
        failed = replace(pending, tries=tries, due=self._now() + wait, problem=problem)
        row = self._rows.get(EXTRACTION_KIND, pending.row_id)
        version = None if row is None else row.version
        self._rows.put(self._row(failed, version=(version or 0) + 1), replaces=version)

    def done(self, pending: PendingExtraction) -> None:
        """Remove it."""
        self._rows.remove(EXTRACTION_KIND, pending.row_id)

    def is_due(self, pending: PendingExtraction) -> bool:
        """Whether anybody may take it now."""
        return pending.due <= self._now()

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def _taken(self, pending: PendingExtraction) -> PendingExtraction:
        return replace(pending, due=self._now() + EXTRACTION_LEASE_SECONDS)

    def _row(self, pending: PendingExtraction, *, version: int) -> TemporaryRow:
        return TemporaryRow(
            kind=EXTRACTION_KIND,
            row_id=pending.row_id,
            content=msgspec.json.encode(pending),
            keep_seconds=EXTRACTION_KEEP_SECONDS,
            version=version,
        )


def namespaces_waiting(store: Store) -> list[str]:
    """The namespaces of a store in which something waits and is due, by name."""
    now = store.clock.now().timestamp()
    found, after = set[str](), ""
    while page := store.temporary.scan(EXTRACTION_KIND, "", after=after, limit=MAX_PENDING_EXTRACTIONS):
        waiting = [decoded(row.content, PendingExtraction) for row in page]
        found.update(one.namespace for one in waiting if one.due <= now)
        after = page[-1].row_id
    return sorted(found)


def _folder_of(namespace: str) -> str:
    """The beginning of the ids of a namespace's rows. A name may have any character, so it is hashed."""
    return f"{fingerprint(['extractions-of/v1', namespace])[:16]}/"
