"""What erasures reach, and those that are pending: asked for, and not at their end.

An erasure is asked for at a snapshot and takes the versions up to it. Until it ends, these are still there,
but nothing new may rest on them: a text that repeats one of them is no repetition.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from msgspec.structs import replace

from standfast.records.canon import parse
from standfast.records.requests import ForgetRequest
from standfast.records.rows import ERASED_KINDS, RULES, SYSTEM_NAMESPACE, Place, RowKind
from standfast.records.scopes import ALL_SCOPES, SHARED, is_within, prefix_in, prefix_of, scope_in
from standfast.records.vocabulary import Record, Value
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.stored_records import is_band_row, record_of

_SCOPED_KINDS: Final = frozenset(kind for kind in ERASED_KINDS if RULES[kind].place is Place.SCOPE)


class ErasureTarget(Value, frozen=True, kw_only=True):
    """What to erase: everything in a scope and below it, or only what comes from a source there."""

    scope: str
    source: dict[str, str] | None = None

    @classmethod
    def of(cls, request: ForgetRequest) -> Self | None:
        """What a request asks to erase; None if it names one record."""
        if request.name:
            return None
        everywhere = ALL_SCOPES if request.source is not None else SHARED
        return cls(scope=request.scope or everywhere, source=request.source)

    def is_source_of(self, record: Record) -> bool:
        """Whether a record comes from the source. A document is the source of each place in it."""
        if self.source is None:
            return True
        source = record.source if isinstance(record.source, dict) else {}
        name = str(source.get("id", ""))
        return source.get("kind") == self.source["kind"] and self.source["id"] in (
            name,
            name.partition("#")[0],
        )

    def __str__(self) -> str:
        place = "every scope" if self.scope == ALL_SCOPES else f"scope {self.scope}"
        return place if self.source is None else f"{self.source['kind']}:{self.source['id']} in {place}"


class ErasureIntent(Value, frozen=True, kw_only=True):
    """How far an erasure has come.

    ``at`` is when its last page was committed. It takes the versions up to the snapshot ``until``: the one
    before the commit that stored the intent. So whatever was judged by a snapshot that does not show the
    intent comes before it.
    """

    erasure_id: str
    namespace: str
    target: ErasureTarget
    reason: str
    by: str
    at: str
    until: int = 0
    """0 in the row that stores the intent: its commit is not numbered yet; see ``read``."""
    stage: int = 0
    after: str = ""
    records: int = 0
    rows: int = 0
    commits: int = 1

    @classmethod
    def read(cls, row: Version) -> Self:
        """The intent that a row holds."""
        intent = cls.from_json(parse(row.content or b""))
        return intent if intent.until else replace(intent, until=row.memory_snapshot_id - 1)

    def dooms(self, version: Version) -> bool:
        """Whether a row of a scope will be erased.

        Of the rows about a record from a source, some may be named that will not be.
        """
        if version.memory_snapshot_id > self.until or prefix_in(version.key) not in _SCOPED_KINDS:
            return False
        if not is_within(scope_in(version.key), self.target.scope):
            return False
        is_record = is_band_row(version.key) and version.content is not None
        return not is_record or self.target.is_source_of(record_of(version))


class PendingErasures(NamedTuple):
    """The erasures of one namespace that have not ended."""

    intents: tuple[ErasureIntent, ...]

    def doomed(self, versions: Iterable[Version]) -> set[str]:
        """The keys of those rows that will be erased."""
        return {one.key for one in versions if any(intent.dooms(one) for intent in self.intents)}


def pending_erasures(store: Store, namespace: str, *, at: int | None = None) -> PendingErasures:
    """The erasures that a snapshot shows as begun; by default the newest."""
    rows = store.scan(SYSTEM_NAMESPACE, prefix=prefix_of(RowKind.FORGETTING), at=at)
    intents = (ErasureIntent.read(row) for row in rows)
    return PendingErasures(tuple(one for one in intents if one.namespace == namespace))
