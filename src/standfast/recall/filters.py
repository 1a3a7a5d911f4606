"""Filters: which records a recall may choose from, besides scopes and bands."""

from collections.abc import Mapping
from typing import Any, Final, Protocol, Self, TypedDict

import msgspec

from standfast.casing import lowered
from standfast.errors import InvalidValue
from standfast.recall.timestamps import MISSING, time_of
from standfast.remember_request import instant_text
from standfast.vocabulary import JsonScalar, Record, Value, normal_tags


class Where(TypedDict, total=False):
    """A filter as a plain dict, e.g. ``{"tag": "billing", "metadata": {"plan": "gold"}}``; see ``Filter``."""

    tag: str
    source_kind: str
    subject_prefix: str
    after: str
    before: str
    metadata: Mapping[str, JsonScalar]


class FilteredFields(Protocol):
    """The fields that a filter looks at."""

    @property
    def ts_utc(self) -> str | None:
        """When it was said."""
        ...

    @property
    def tags(self) -> tuple[str, ...]:
        """The record's tags."""
        ...

    @property
    def subject(self) -> str | None:
        """What it is about."""
        ...

    @property
    def source(self) -> dict[str, Any] | None:
        """Where it comes from."""
        ...

    @property
    def metadata(self) -> dict[str, Any]:
        """The caller's own fields."""
        ...


class RecordFacts(msgspec.Struct, frozen=True, gc=False):
    """The fields of a record that a filter looks at."""

    band: str = "LEDGER"
    ts_utc: str | None = None
    tags: tuple[str, ...] = ()
    subject: str | None = None
    source: dict[str, Any] | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class Filter(Value, frozen=True, kw_only=True):
    """Which records may be chosen: those for which everything that is given holds. Build one from a dict with ``of``.

    Args:
        tag: They have this tag.
        source_kind: Their source is of this kind, e.g. ``"doc"``.
        subject_prefix: Their subject begins with this.
        after: They are from this instant or later.
        before: They are from before this instant. Records without a time match neither ``after`` nor ``before``.
        metadata: They have these fields with these values.
    """

    tag: str | None = None
    source_kind: str | None = None
    subject_prefix: str | None = None
    after: str | None = None
    before: str | None = None
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for field in ("tag", "source_kind", "subject_prefix"):
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

    def matches(self, facts: FilteredFields) -> bool:
        """Whether a record may be chosen."""
        kind = facts.source.get("kind") if isinstance(facts.source, dict) else None
        return (
            (self.tag is None or self.tag in facts.tags)
            and (self.subject_prefix is None or (facts.subject or "").startswith(self.subject_prefix))
            and (self.source_kind is None or _is_kind(kind, self.source_kind))
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

    def as_json(self) -> dict[str, Any]:
        """Only what is set."""
        return {name: value for name, value in super().as_json().items() if value not in (None, {})}


NO_FILTER: Final = Filter()


def _is_kind(kind: object, wanted: str) -> bool:
    return isinstance(kind, str) and lowered(kind.strip()) == lowered(wanted.strip())


def _has(metadata: Mapping[str, Any], name: str, value: JsonScalar) -> bool:
    """Whether a field is there and equal. 1 and 1.0 are equal, 1 and true are not."""
    found = metadata.get(name)
    return name in metadata and found == value and isinstance(found, bool) == isinstance(value, bool)
