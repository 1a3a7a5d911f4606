"""Filters: which records a caller may ask for besides scopes and bands, and how far each may be trusted."""

from collections.abc import Mapping
from typing import Any, Final, Self, TypedDict

import msgspec

from standfast.errors import InvalidValue
from standfast.records.canon import lowered
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED
from standfast.records.timestamps import MISSING, instant_text, time_of
from standfast.records.vocabulary import Band, JsonScalar, Record, Value, normal_tags

LAW: Final = "law"
TRUST_LEVELS: Final = (LAW, Origin.TRUSTED.value, Origin.ORDINARY.value, Origin.UNTRUSTED.value)
"""From the most trusted to the least. The place of a record's level is the low bits of its trust code."""
_ORIGINS: Final = tuple(Origin)
"""From the most trusted to the least."""


class RecordFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of a stored record that trust and filters look at."""

    band: str = Band.LEDGER.value
    ts_utc: str | None = None
    tags: tuple[str, ...] = ()
    subject: str | None = None
    source: dict[str, Any] | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    session: str | None = None
    speaker: str | None = None
    scope: str = SHARED
    origin: str = Origin.ORDINARY.value
    verdict: str | None = None
    valid_from: str | None = None
    valid_until: str | None = None
    validity_words: str | None = None


def trust_of(record: RecordFacts | Record) -> str:
    """How far a record may be trusted, in one word: it is law, or has the trust of its origin."""
    if record.band == Band.VAULT:
        return LAW
    return record.origin if record.origin in TRUST_LEVELS[1:] else Origin.UNTRUSTED.value


def has_least_origin(record: RecordFacts | Record, least: Origin | None) -> bool:
    """Whether one record has at least this origin."""
    return least is None or TRUST_LEVELS.index(trust_of(record)) <= TRUST_LEVELS.index(least.value)


class Where(TypedDict, total=False):
    """A filter as a plain dict, e.g. ``{"tag": "billing", "metadata": {"plan": "gold"}}``; see ``Filter``."""

    tag: str
    source_kind: str
    subject_prefix: str
    after: str
    before: str
    metadata: Mapping[str, JsonScalar]
    session: str
    speaker: str
    least_origin: Origin | str


class Filter(Value, frozen=True, kw_only=True, omit_defaults=True):
    """Which records may be chosen: those for which everything that is given holds.

    Build one from a dict with ``of``.

    Args:
        tag: Only records with this tag.
        source_kind: Only records whose source is of this kind, such as doc.
        subject_prefix: Only records whose subject begins with this.
        after: Only records from this time or later, in ISO 8601. Records without a time never match.
        before: Only records from before this time. Records without a time never match.
        metadata: Only records that have these fields with these values.
        session: Only records of this conversation.
        speaker: Only what this speaker said; case makes no difference.
        least_origin: Only records of at least this origin: trusted or ordinary. Law has every origin.
            untrusted also shows what is untrusted next to other matches, which is left out by default.
    """

    tag: str | None = None
    source_kind: str | None = None
    subject_prefix: str | None = None
    after: str | None = None
    before: str | None = None
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    session: str | None = None
    speaker: str | None = None
    least_origin: Origin | None = None

    def __post_init__(self) -> None:
        if self.least_origin is not None:
            self._coerce("least_origin", Origin)
        for field in ("tag", "source_kind", "subject_prefix", "session", "speaker"):
            if (name := getattr(self, field)) is not None:
                self._require_name(field, name)
        if self.tag is not None:
            msgspec.structs.force_setattr(self, "tag", normal_tags([self.tag])[0])
        for field in ("after", "before"):
            if (instant := getattr(self, field)) is not None:
                msgspec.structs.force_setattr(self, field, instant_text(instant, what=f"where.{field}"))
        # A record checks metadata; it must be possible to have what is asked for.
        Record(memory_id="-", text="", metadata=self.metadata)

    @classmethod
    def of(cls, where: "Filter | Where | Mapping[str, Any] | None") -> Self:
        """The filter that a caller gave as a dict, or as a filter; without one, everything matches."""
        if isinstance(where, cls):
            return where
        if where is None:
            return cls()
        if not isinstance(where, Mapping):
            problem = f'it must be a filter such as {{"tag": "billing"}}, not {where!r:.80}'
            raise InvalidValue(what="where", problem=problem)
        unknown = sorted(set(map(str, where)).difference(cls.__struct_fields__))
        if unknown:
            known = ", ".join(cls.__struct_fields__)
            raise InvalidValue(
                what="where", problem=f"there is no filter {unknown[0]!r:.80}; filters are {known}"
            )
        return cls.from_json(dict(where))

    def __bool__(self) -> bool:
        return self != NO_FILTER

    def matches(self, facts: RecordFacts | Record) -> bool:
        """Whether a record may be chosen."""
        kind = facts.source.get("kind") if isinstance(facts.source, dict) else None
        return (
            (self.tag is None or self.tag in facts.tags)
            and (self.subject_prefix is None or (facts.subject or "").startswith(self.subject_prefix))
            and (self.source_kind is None or _is_kind(kind, self.source_kind))
            and (self.session is None or self.session == facts.session)
            and (self.speaker is None or lowered(self.speaker) == lowered(facts.speaker or ""))
            and has_least_origin(facts, self.least_origin)
            and all(_has(facts.metadata, name, value) for name, value in self.metadata.items())
            and (self.after is self.before is None or self._is_in_time(facts.ts_utc))
        )

    def _is_in_time(self, ts_utc: str | None) -> bool:
        time = MISSING if ts_utc is None else time_of(ts_utc)
        return (
            time != MISSING
            and (self.after is None or time >= time_of(self.after))
            and (self.before is None or time < time_of(self.before))
        )

    def at_least(self, origin: Origin | str | None) -> Self:
        """The same filter, for records that have at least this origin too. The stricter of two counts."""
        if origin is None:
            return self
        wanted = type(self)(least_origin=origin)  # type: ignore[arg-type]  # It is checked there.
        if self.least_origin is not None and _ORIGINS.index(self.least_origin) < _ORIGINS.index(
            wanted.least_origin
        ):
            return self
        return msgspec.structs.replace(self, least_origin=wanted.least_origin)


NO_FILTER: Final = Filter()


def _is_kind(kind: object, wanted: str) -> bool:
    return isinstance(kind, str) and lowered(kind.strip()) == lowered(wanted.strip())


def _has(metadata: Mapping[str, Any], name: str, value: JsonScalar) -> bool:
    """Whether a field is there and equal. 1 and 1.0 are equal, 1 and true are not."""
    found = metadata.get(name)
    return name in metadata and found == value and isinstance(found, bool) == isinstance(value, bool)
