"""Sessions, read back: the messages of a conversation in order, and the list of conversations.

Each passage of a message is one record. Its id is made from the session and the position, ``s-<session>-<position>``, so that a
session is one range of keys. The row ``session/scope//<session>`` says how far the session has come.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from standfast.canon import fingerprint, normal_string, parse
from standfast.govern.judge.judge import STRICTNESS
from standfast.limits import MAX_MESSAGE_POSITION, SCAN_PAGE_RECORDS
from standfast.origins import Origin
from standfast.scopes import name_in, prefix_of, scope_in, scoped_key
from standfast.store.audit import verified
from standfast.store.protocol import Version
from standfast.store.records import SESSION, record_of
from standfast.store.store import Store
from standfast.vocabulary import Band, JsonScalar, Record, Value, Verdict

# A message is in LEDGER, whatever its verdict, unless it was rejected.
MESSAGE_BANDS: Final = (Band.LEDGER, Band.VOID)
ACCEPTED_VERDICTS: Final = (Verdict.SEAL, Verdict.SABAR)
_MESSAGE_ID: Final = re.compile(r"s-[0-9a-f]{20}-([0-9]{9})")


class SessionMessage(Value, frozen=True, kw_only=True):
    """A message as it is read back. ``text`` is None if it was not accepted: ``verdict`` says what became of it.

    A message in which a tool's result and a user's words stood together is read back as two, at one position.
    """

    position: int
    speaker: str
    text: str | None
    time: str | None
    verdict: Verdict
    origin: Origin
    memory_ids: tuple[str, ...]
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    tags: tuple[str, ...] = ()


class SessionInfo(Value, frozen=True, kw_only=True):
    """A session in a list: how many messages it has, the position behind the last one, and when it began and ended."""

    session: str
    scope: str
    messages: int
    next_position: int
    first_time: str
    last_time: str

    @property
    def key(self) -> str:
        """The key of the session's row, by which lists of sessions are ordered."""
        return scoped_key(SESSION, self.scope, session_digest(self.session))


class SessionReader:
    """Reads the sessions of one namespace."""

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace

    def messages(self, session: str, *, scope: str, at: int, after: str = "") -> Iterator[SessionMessage]:
        """Yield the messages of a session, in order. They are read in pages.

        Args:
            after: Only messages behind the one whose first record has this id.
        """
        start = position_of(after) if after else 0
        while stored := self.stored(
            scope, session, range(start, MAX_MESSAGE_POSITION + 1), at, limit=SCAN_PAGE_RECORDS
        ):
            for position, records in stored.items():
                for _, group in groupby(records, key=lambda one: (one.origin, one.speaker)):
                    message = _read_back(position, list(group))
                    if message.memory_ids[0] > after:
                        yield message
            start = max(stored) + 1

    def sessions(self, *, scope: str, at: int, after: str = "") -> Iterator[SessionInfo]:
        """Yield the sessions of a scope and all below it, by scope and then in a fixed order.

        Args:
            after: Only sessions behind the one with this ``key``.
        """
        prefix = prefix_of(SESSION, scope)
        for version in self._store.scan(self._namespace, prefix=prefix, after=after, at=at):
            row = parse(version.content or b"")
            yield SessionInfo(
                session=row["session"],
                scope=scope_in(version.key),
                messages=row["messages"],
                next_position=row["next"],
                first_time=row["first"],
                last_time=row["last"],
            )

    def stored(
        self, scope: str, session: str, positions: range, at: int, *, limit: int | None = None
    ) -> dict[int, list[Record]]:
        """The records of a session at these positions, at most so many positions; each position's by part."""
        session = normal_string(session)
        found: dict[int, dict[str, Record]] = {}
        for band in MESSAGE_BANDS:
            seen: set[int] = set()
            for version in self.versions(band, scope, session, positions, at):
                if verified(version).content is not None:
                    position = position_of(name_in(version.key))
                    seen.add(position)
                    if limit is not None and len(seen) > limit:
                        break
                    record = record_of(version)
                    # What was decided later is what holds; only its own id has no suffix.
                    found.setdefault(position, {}).setdefault(plain_id(record.memory_id), record)
        return {
            position: [parts[memory_id] for memory_id in sorted(parts)]
            for position, parts in sorted(found.items())[:limit]
        }

    def versions(self, band: Band, scope: str, session: str, positions: range, at: int) -> Iterator[Version]:
        """The newest versions of a session's rows in a band, by position, also those that ended."""
        prefix = scoped_key(band, scope, f"s-{session_digest(session)}-")
        # Suffixes of ids begin with "." or "~", so this is behind everything of the position before.
        after = f"{prefix}{positions.start - 1:09}~~" if positions.start else ""
        for version in self._store.newest_versions(self._namespace, prefix=prefix, after=after, at=at):
            if position_of(name_in(version.key)) not in positions:
                return
            yield version

    def row(self, scope: str, session: str, at: int) -> dict[str, Any] | None:
        """What is noted about a session: how many messages it has, and the position behind the last one."""
        key = scoped_key(SESSION, scope, session_digest(session))
        found = self._store.read(self._namespace, [key], at=at)
        return parse(found[key].content or b"") if key in found else None


def session_digest(session: str) -> str:
    """What stands for a session in keys and ids."""
    return fingerprint(["session/v1", session])[:20]


def message_id(session: str, position: int, part: int) -> str:
    """The id of a message's record; ``part`` counts from 1 if it has several, and is 0 otherwise."""
    whole = f"s-{session_digest(session)}-{position:09}"
    return f"{whole}.{part:04}" if part else whole


def position_of(memory_id: str) -> int:
    """The position in an id that ``message_id`` made; 0 if it made none."""
    found = _MESSAGE_ID.match(memory_id)
    return int(found[1]) if found else 0


def plain_id(memory_id: str) -> str:
    """The id without the suffix of a version that was only logged."""
    return memory_id.partition("~")[0]


def strictest(verdicts: Iterable[Verdict | None]) -> Verdict | None:
    """The strictest of these verdicts; None if there is none."""
    return max((one for one in verdicts if one is not None), key=STRICTNESS.__getitem__, default=None)


def _read_back(position: int, records: Sequence[Record]) -> SessionMessage:
    first = records[0]
    verdict = strictest(one.verdict for one in records) or Verdict.SEAL
    is_accepted = all(one.verdict in ACCEPTED_VERDICTS for one in records)
    return SessionMessage(
        position=position,
        speaker=first.speaker or "",
        text="".join(one.text for one in records) if is_accepted else None,
        time=first.ts_utc,
        verdict=verdict,
        origin=first.origin,
        memory_ids=tuple(plain_id(one.memory_id) for one in records),
        metadata=first.metadata,
        tags=first.tags,
    )
