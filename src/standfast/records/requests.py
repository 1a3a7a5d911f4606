"""What a caller asks to remember, validated before anything else happens."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Self

import msgspec

from standfast.errors import InvalidValue, StandfastError
from standfast.records.canon import utc_text
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED, checked_scope
from standfast.records.vocabulary import Band, JsonScalar, Record, Value, normal_tags, shown

_LISTS: Final = (list, tuple, set, frozenset)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})"
)


class RememberRequest(Value, frozen=True, kw_only=True):
    """What a caller says about one thing to remember. Build it with ``of``."""

    text: str
    subject: str | None = None
    source: dict[str, Any] | None = None
    tags: tuple[str, ...] = ()
    refs: tuple[dict[str, Any], ...] = ()
    propose: bool = False
    role: str = "agent"
    hold: str | None = None
    scope: str = SHARED
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    session: str | None = None
    position: int | None = None
    speaker: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    supersedes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        text: str,
        *,
        subject: str | None = None,
        source: Mapping[str, Any] | None = None,
        tags: Sequence[str] = (),
        refs: Sequence[Mapping[str, Any]] = (),
        propose: bool = False,
        role: str = "agent",
        hold: str | None = None,
        scope: str | None = None,
        metadata: Mapping[str, JsonScalar] | None = None,
        session: str | None = None,
        position: int | None = None,
        speaker: str | None = None,
        valid_from: str | datetime | None = None,
        valid_until: str | datetime | None = None,
        supersedes: str | Sequence[str] = (),
    ) -> Self:
        """Build a request. The parameters are those of ``Run.remember``."""
        _refuse_unless(isinstance(text, str) and text.strip(), "text must be a non-empty string", text)
        if isinstance(tags, str):
            _refuse_unless(False, f"tags must be a list of strings: pass [{tags!r:.80}]", tags)
        _refuse_unless(_is_list_of(tags, str), "tags must be a list of strings", tags)
        is_source = source is None or isinstance(source, Mapping)
        _refuse_unless(is_source, 'source must be a mapping such as {"kind": "doc", "id": "x#4"}', source)
        _refuse_unless(_is_list_of(refs, Mapping), "refs must be a list of mappings", refs)
        _refuse_unless(isinstance(propose, bool), "propose must be True or False", propose)
        _refuse_unless(isinstance(role, str) and role, "role must be a non-empty string", role)
        _refuse_unless(
            hold is None or (isinstance(hold, str) and hold.strip()), "hold must be a reason", hold
        )
        is_metadata = metadata is None or isinstance(metadata, Mapping)
        _refuse_unless(is_metadata, 'metadata must be a mapping such as {"plan": "gold"}', metadata)
        superseded = [supersedes] if isinstance(supersedes, str) else supersedes
        _refuse_unless(_is_list_of(superseded, str), "supersedes must be an id, or a list of ids", supersedes)
        return cls(
            text=text,
            subject=subject,
            source=dict(source) if source else None,
            tags=tuple(sorted(set(tags))),
            refs=tuple([dict(ref) for ref in refs]),
            propose=propose,
            role=str(role),
            hold=hold,
            scope=SHARED if scope is None else checked_scope(scope),
            metadata=dict(metadata or {}),
            session=session,
            position=position,
            speaker=speaker,
            valid_from=None if valid_from is None else instant_text(valid_from, what="valid_from"),
            valid_until=None if valid_until is None else instant_text(valid_until, what="valid_until"),
            supersedes=tuple([one for one in dict.fromkeys(superseded) if one != subject]),
        )

    def __post_init__(self) -> None:
        if self.subject is not None:
            self._require_name("subject", self.subject)
        # The record checks the fields that it takes over.
        self.record("-", None)

    def record(
        self,
        memory_id: str,
        ts_utc: str | None,
        *,
        source: dict[str, Any] | None = None,
        origin: Origin = Origin.ORDINARY,
        band: Band = Band.LEDGER,
    ) -> Record:
        """The record that is judged: with this id, unless the request names a subject.

        ``source`` is for a request without one.
        """
        return Record(
            memory_id=self.subject or memory_id,
            text=self.text,
            ts_utc=ts_utc,
            tags=normal_tags(self.tags) if self.tags else (),
            refs=self.refs,
            subject=self.subject,
            source=self.source or source,
            band=band,
            scope=self.scope,
            metadata=self.metadata,
            session=self.session,
            position=self.position,
            speaker=self.speaker,
            origin=origin,
            valid_from=self.valid_from,
            valid_until=self.valid_until,
            supersedes=self.supersedes,
        )

    def as_json(self) -> dict[str, Any]:
        """Only what is set, as a trace records it."""
        plain = {name: value for name, value in super().as_json().items() if value or value == 0}
        if self.scope == SHARED:
            del plain["scope"]
        if not self.propose:
            del plain["propose"]
        return plain


def instant_text(instant: object, *, what: str) -> str:
    """A moment as records store it.

    Takes an aware datetime, or ISO 8601 text with a time zone, or a date, which means its start in UTC.
    """
    try:
        if isinstance(instant, datetime):
            return utc_text(instant)
        if isinstance(instant, str) and _DATE.fullmatch(instant):
            return utc_text(datetime.fromisoformat(instant).replace(tzinfo=UTC))
        if isinstance(instant, str) and _INSTANT.fullmatch(instant):
            return utc_text(datetime.fromisoformat(instant))
    except (ValueError, StandfastError):
        pass
    problem = (
        f"it must be an ISO 8601 instant such as '2026-11-16T09:30:00Z', or a date, not {shown(instant)}"
    )
    raise InvalidValue(what=what, problem=problem)


def _is_list_of(given: object, kind: type[Any]) -> bool:
    return isinstance(given, _LISTS) and (not given or all(isinstance(one, kind) for one in given))


def _refuse_unless(condition: object, problem: str, given: object) -> None:
    if not condition:
        raise InvalidValue(what="RememberRequest", problem=f"{problem}, not {shown(given)}")
