"""What floors judge: the claim, the context that it is judged in, and the protocol of a floor."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol, Self

from standfast.errors import InvalidValue, NotCanonical
from standfast.govern.authority import Role
from standfast.govern.judge.similarity import IndexSnapshot, KnownText, RecalledText, SimilarityIndex
from standfast.govern.judge.tables import WordTable
from standfast.govern.judge.text_reading import READ_CHARS, TextReading, computed_once
from standfast.records.canon import fingerprint
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED
from standfast.records.vocabulary import Band, Record

NOVELTY_FLOOR: Final = "F8_Novelty"
_TABLE: Final = WordTable("floors.words")
# Kinds of sources that are the agent itself or memory itself. They do not count as witnesses.
HEARSAY_KINDS: Final = _TABLE.words("hearsay kinds")
WITNESS_OF: Final = "memory"
"""The kind of the reference by which a witness row names the record that it vouches for."""
_MAX_VALUES: Final = 2_048
_MAX_SHARED_NAME_CHARS: Final = 40
_SITE: Final = re.compile(r"(?:https?:)?//(?:[^/@]*@)?([^/?#:]+)")
_WEB_KINDS: Final = _TABLE.words("web kinds")
_HOST: Final = re.compile(r"([a-z0-9-]+(?:\.[a-z0-9-]+)+)(?:[:/?#].*)?")
_SHARED_HOSTS: Final = _TABLE.words("shared hosts")
# Shorter than any issued key, so that no key passes unread as a name.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_.@-]{0,18}", re.IGNORECASE)
_LOCATION_KEYS: Final = ("url", "uri", "path", "doc", "document")


class Finding(NamedTuple):
    """What a floor found: a score from 0 (certain violation) to 1 (nothing found), and the reason.

    Reasons are stored in evidence, so they name a kind or a memory id and never repeat the text.
    """

    score: float
    reason: str = ""


class NeedsReview(Finding):
    """A finding that a human should decide on, also if its floor is hard."""

    __slots__ = ()


CLEAN: Final = Finding(1.0)
OVERLONG: Final = Finding(0.0, f"longer than the {READ_CHARS} characters that can be checked. Split it")


class Floor(Protocol):
    """One named check. It passes if its score reaches the threshold.

    A hard floor that fails makes the verdict VOID, a soft one PARTIAL. ``check`` must be deterministic and
    read only its arguments. A floor that raises, or scores outside 0 to 1, has failed; it never stops the
    judge.
    """

    @property
    def name(self) -> str:
        """The floor's name in evidence, unique in a judge."""
        ...

    @property
    def threshold(self) -> float:
        """The lowest score that passes."""
        ...

    @property
    def hard(self) -> bool:
        """Whether failing makes the verdict VOID (True) or PARTIAL (False)."""
        ...

    def check(self, claim: "Claim", context: "JudgingContext") -> tuple[float, str]:
        """Returns a score and a reason."""
        ...


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A record to remember, in the band it is meant for, and the role of whoever wants it remembered.

    A message is a turn of a conversation. It is never known already: a second "Thanks!" is a turn of its own.
    """

    record: Record
    role: Role | str = Role.AGENT
    is_message: bool = False
    given_tags: tuple[str, ...] = ()
    """The tags as they were given. Those of the record are in lower case, which hides forms of keys."""
    read_fields: dict[str, TextReading] | None = None
    """What the claims of one call share, so that a field that many of them have is read once."""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags as they are judged."""
        return self.given_tags or self.record.tags

    @computed_once
    def reading(self) -> TextReading:
        """The record's text, read once for all floors."""
        return TextReading(self.record.text)

    @computed_once
    def fields(self) -> tuple[TextReading, ...]:
        """The text, then every other field that will be stored, each read by itself.

        A floor that guards against something looks at all of them one by one, so that what it finds in one
        does not depend on another.
        """
        known = self.read_fields
        if known is None:
            return (self.reading, *map(_field_reading, self._other_fields))
        for one in self._other_fields:
            if one not in known:
                known[one] = _field_reading(one)
        return (self.reading, *map(known.__getitem__, self._other_fields))

    @property
    def whole(self) -> str:
        """Everything that will be stored, one field per line."""
        return "\n".join([self.record.text, *self._other_fields])

    def of_record(self, record: Record, role: Role | str) -> "Claim":
        """The claim of this record. What was read of the words is shared if they are the same."""
        claim = Claim(record=record, role=role, given_tags=self.given_tags)
        if record.text == self.record.text and claim._other_fields == self._other_fields:
            claim.__dict__.update(reading=self.reading, fields=self.fields)
        return claim

    @computed_once
    def _other_fields(self) -> tuple[str, ...]:
        record = self.record
        named = (record.subject, record.session, record.speaker)
        lines = [*self.tags, *record.supersedes, *(name for name in named if name)]
        if record.scope != SHARED:
            lines.append(record.scope)
        if record.metadata:
            lines += _lines(record.metadata)
        if record.source and not _is_own_word(record.source):
            # A message is its own source, by its session, which is read already, and its number.
            own = f"id: {record.session}#{record.position}" if record.session else ""
            lines += [line for line in _lines(record.source) if line != own]
        if record.refs:
            lines += _lines(record.refs)
        return tuple(lines)

    @computed_once
    def is_overlong(self) -> bool:
        """Whether it is longer than what the floors read."""
        return len(self.record.text) + sum(map(len, self._other_fields)) > READ_CHARS

    @computed_once
    def witnesses(self) -> frozenset[str]:
        """The independent sources of the record. Pages of one document are one source; hearsay is none."""
        return witnesses_of(self.record)

    @computed_once
    def binding_refusals(self) -> frozenset[str]:
        """The digests of all earlier refusals that would bind this claim, see ``govern/refusals.py``.

        A refusal of a lower origin binds no higher one, or an outsider could keep a user's words out.
        """
        record = self.record
        origins = [origin for origin in Origin if origin.rank >= record.origin.rank]
        digests = [refused_by_human(self.reading.fingerprint, origin) for origin in origins]
        digests += [refused_as_attack(record, origin) or "" for origin in origins]
        return frozenset(filter(None, digests))

    @property
    def is_meant_as_law(self) -> bool:
        """Whether it is proposed as law, which needs more than the agent's own word."""
        return self.record.band in (Band.PHOENIX, Band.VAULT)

    @property
    def is_human(self) -> bool:
        """Whether a human wants it remembered."""
        return self.role == Role.HUMAN


@dataclass(frozen=True, kw_only=True)
class JudgingContext:
    """What the floors may compare a claim with. The order of records and excerpts makes no difference.

    Attributes:
        scope: The scope of the claims. Only records of this scope are known, so that a claim can repeat them.
        vault: Sealed records that apply: those of the scope, and shared ones.
        related: Other records of the scope about the same subject or with similar words.
        recalled: The excerpts that this run recalled.
        recalled_ids: The records they are from, in the same order; may be left out.
        refused: Those of the claim's ``binding_refusals`` that were given and have not faded.
        patterns: WITNESS records of repeated attacks in the scope, see ``govern/patterns.py``.
        forgotten: Ids of records that this run forgets. They are known no more.
        today: The day of the judgement (``YYYY-MM-DD``), by which patterns fade. Without one, none has faded.
    """

    vault: tuple[Record, ...] = ()
    related: tuple[Record, ...] = ()
    recalled: tuple[str, ...] = ()
    recalled_ids: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()
    patterns: tuple[Record, ...] = ()
    forgotten: frozenset[str] = frozenset()
    today: str = ""
    scope: str = SHARED

    def in_scope(self, scope: str, *, patterns: tuple[Record, ...] = ()) -> Self:
        """The same law for the claims of a scope that has no law of its own.

        What was computed about the law is shared.
        """
        return self._changed(
            ("_given", "attack_days"), scope=scope, patterns=patterns, related=(), _accepted=None
        )

    def with_accepted(self, claim: Claim) -> Self:
        """The context for a run's next claim, after this one was accepted. Cheap: indexes are shared."""
        one, accepted, given = _known_text(claim.record, claim), self._accepted, self._given
        return self._changed(
            (),
            related=(*self.related, claim.record),
            _given=given,
            _accepted=IndexSnapshot(SimilarityIndex([one])) if accepted is None else accepted.with_text(one),
        )

    def updated(
        self,
        *,
        refused: frozenset[str],
        recalled: tuple[str, ...],
        recalled_ids: tuple[str, ...] = (),
        forgotten: frozenset[str] = frozenset(),
        today: str = "",
    ) -> Self:
        """The context with other ``refused`` and ``recalled`` content.

        Everything else that was computed is shared.
        """
        if (refused, recalled, forgotten, today) == (self.refused, self.recalled, self.forgotten, self.today):
            return self
        return self._changed(
            () if recalled == self.recalled else ("recalled_text",),
            refused=refused,
            recalled=recalled,
            recalled_ids=recalled_ids,
            forgotten=forgotten,
            today=today,
        )

    def precomputed(self) -> Self:
        """The context itself, with everything computed that does not depend on a claim."""
        for name in ("_given", "sealed", "sealed_by_word", "recalled_text", "attack_days"):
            getattr(self, name)
        return self

    def similar_to(self, claim: Claim) -> list[KnownText]:
        """Known records that already say what the claim says, ordered by id.

        Of the claim's own record, only one with the very same text does: any other text is a new version of
        it.
        """
        # Several floors ask for the same claim, one after the other.
        asked: tuple[Claim, list[KnownText]] | None = self.__dict__.get("_asked")
        if asked is None or asked[0] is not claim:
            asked = self.__dict__["_asked"] = claim, self._similar_to(claim)
        return list(asked[1])

    def _similar_to(self, claim: Claim) -> list[KnownText]:
        found = [] if self._given is None else self._given.similar_to(claim.reading)
        if self._accepted is not None:
            found += self._accepted.similar_to(claim.reading)
        if not found:
            return found
        return sorted(
            (
                known
                for known in found
                if known.memory_id not in self.forgotten
                and (known.memory_id != claim.record.memory_id or known.reading.text == claim.reading.text)
            ),
            key=lambda known: known.sort_key,
        )

    def _changed(self, outdated: Sequence[str], **fields: object) -> Self:
        """A copy with other fields.

        What was computed is shared, but for what is outdated and for the last answer.
        """
        changed = object.__new__(type(self))
        values = changed.__dict__
        values.update(self.__dict__)
        values.update(fields)
        values.pop("_asked", None)
        for name in outdated:
            values.pop(name, None)
        return changed

    @property
    def knows_any(self) -> bool:
        """Whether any record of the scope is known."""
        return self._given is not None or self._accepted is not None

    @computed_once
    def _given(self) -> SimilarityIndex | None:
        """The known records of the scope that the context was made with, findable by what they say."""
        records = (*self.vault, *self.related)
        own = (one for one in records if one.scope == self.scope and one.band is not Band.VOID)
        known = [_known_text(record) for record in own]
        return SimilarityIndex(known) if known else None

    @computed_once
    def _accepted(self) -> IndexSnapshot | None:
        """The records that were accepted since."""
        return None

    @computed_once
    def recalled_text(self) -> RecalledText | None:
        """The recalled excerpts as one body of text."""
        return RecalledText(self.recalled, self.recalled_ids) if self.recalled else None

    @computed_once
    def sealed(self) -> dict[str | None, tuple[KnownText, ...]]:
        """Sealed records by subject."""
        by_subject: dict[str | None, list[KnownText]] = {}
        for record in self.vault:
            by_subject.setdefault(record.subject, []).append(_known_text(record))
        return {
            subject: tuple(sorted(known, key=lambda one: one.sort_key))
            for subject, known in by_subject.items()
        }

    @computed_once
    def sealed_by_word(self) -> dict[str, list[KnownText]]:
        """Sealed records by each word of their topic."""
        by_word: dict[str, list[KnownText]] = {}
        for known in (one for group in self.sealed.values() for one in group):
            for word in known.reading.topic:
                by_word.setdefault(word, []).append(known)
        return by_word

    @computed_once
    def attack_days(self) -> dict[str, tuple[tuple[str, Origin], ...]]:
        """The days of the patterns of attacks by their source, oldest first, each with its origin."""
        days: dict[str, set[tuple[str, Origin]]] = {}
        for pattern in self.patterns:
            for source in sources_of(pattern):
                days.setdefault(source, set()).add(((pattern.ts_utc or "")[:10], pattern.origin))
        return {source: tuple(sorted(listed)) for source, listed in days.items()}


NOTHING_KNOWN: Final = JudgingContext()


def _field_reading(text: str) -> TextReading:
    """A field, read. Names that many records share are read once; a secret, which has digits, is not kept."""
    if len(text) <= _MAX_SHARED_NAME_CHARS and not any(map(str.isdigit, text)):
        return _shared_reading(text)
    return TextReading(text)


@lru_cache(maxsize=1 << 12)
def _shared_reading(text: str) -> TextReading:
    return TextReading(text)


def refused_by_human(reading: str, origin: Origin) -> str:
    """The digest of what a human rejected: by what it says (``TextReading.fingerprint``), and its origin."""
    return fingerprint(["refused-by-human/v1", origin.value, reading])


def refused_as_attack(record: Record, origin: Origin) -> str | None:
    """The digest of an attack: by its exact text, its source and its origin. None without a source."""
    source = source_key(record.source)
    try:
        return fingerprint(["refused-attack/v1", origin.value, source, record.text]) if source else None
    except NotCanonical:
        return None


def sources_of(record: Record) -> frozenset[str]:
    """The sources of a record: its own and those that it refers to, each as its kind and its id."""
    keys = map(source_key, (record.source, *record.refs))
    return frozenset(filter(None, keys))


def sites_of(record: Record) -> frozenset[str]:
    """Where a record comes from, whatever kind of source it says that is."""
    key = source_key(record.source)
    return frozenset([key.partition(" ")[2]] if key else ())


def witnesses_of(record: Record) -> frozenset[str]:
    """The independent sources of a record, without hearsay."""
    if record.refs:
        return _without_hearsay(sources_of(record))
    return _without_hearsay(frozenset([source_key(record.source)]))


# Many records have the same source.
@lru_cache(maxsize=1 << 10)
def _without_hearsay(sources: frozenset[str]) -> frozenset[str]:
    return frozenset(key for key in sources if key and key.partition(" ")[0] not in HEARSAY_KINDS)


def _known_text(record: Record, claim: Claim | None = None) -> KnownText:
    """A record as something known; ``claim`` is its claim, if it was read before."""
    memory_id = record.memory_id
    if record.band is Band.WITNESS:
        # A witness row says what another record says, and stands for that one.
        vouched = [
            ref.get("id") for ref in record.refs if isinstance(ref, dict) and ref.get("kind") == WITNESS_OF
        ]
        memory_id = str(vouched[0]) if vouched else memory_id
    return KnownText(
        memory_id=memory_id,
        reading=TextReading(record.text) if claim is None else claim.reading,
        subject=record.subject,
        tags=frozenset(record.tags),
        witnesses=witnesses_of(record) if claim is None else claim.witnesses,
        scope=record.scope,
        origin=Origin.TRUSTED if record.band is Band.VAULT else record.origin,
    )


def _is_own_word(source: object) -> bool:
    """Whether a source is just the name of the agent or user.

    Such a name says nothing, and must not be read as words for a reader.
    """
    if not isinstance(source, dict) or source.keys() != {"kind", "id"}:
        return False
    name = source["id"]
    return source["kind"] in ("agent", "user") and isinstance(name, str) and _NAME.fullmatch(name) is not None


def source_key(source: object) -> str:
    """Kind and id without the place inside the document: two pages of one handbook, or of one site, are one
    source.
    """
    if type(source) is not dict and not isinstance(source, Mapping):
        return ""
    kind, source_id = source.get("kind"), source.get("id")
    if not isinstance(source_id, str) or not source_id.strip():
        source_id = next(
            (place for key in _LOCATION_KEYS if isinstance(place := source.get(key), str) and place.strip()),
            "",
        )
        kind = kind or "place"
    return _named_source(kind, source_id) if isinstance(kind, str) and kind.strip() and source_id else ""


@lru_cache(maxsize=1 << 10)
def _named_source(kind: str, source_id: str) -> str:
    name = source_id.strip().partition("#")[0].lower()
    kind = kind.strip().lower()
    site = _SITE.match(name) or (_HOST.fullmatch(name) if kind in _WEB_KINDS else None)
    return f"{kind} {_registered_name(site[1]) if site else name}"


def _registered_name(host: str) -> str:
    """The part of a host name that somebody registered, because whoever has it can make any number of names
    below it.

    The public suffix list says where names are given out: below ``co.uk``, and below ``github.io``, where
    each name is somebody else's.
    """
    name = host.strip(".")
    if name.rpartition(".")[2].isdigit():
        return host
    registered: str = _public_suffixes().privatesuffix(name) or name
    if registered in _SHARED_HOSTS and name != registered:
        below = name.removesuffix(f".{registered}").rpartition(".")[2]
        return f"{below}.{registered}"
    return registered


@cache
def _public_suffixes() -> Any:
    """The list as the installed package has it. It loads when the first web page is judged."""
    return import_module("publicsuffixlist").PublicSuffixList()


def _lines(value: object) -> list[str]:
    """The strings inside a JSON value, each with its key, in order."""
    if type(value) is dict and all(type(member) is str for member in value.values()):
        return [f"{key}: {member}" for key, member in value.items()]
    lines: list[str] = []
    waiting: list[object] = [value]
    for _ in range(_MAX_VALUES):
        if not waiting:
            return lines
        one = waiting.pop()
        if isinstance(one, str):
            lines.append(one)
        elif isinstance(one, Mapping):
            lines += [
                f"{key}: {member}" if isinstance(member, str) else str(key) for key, member in one.items()
            ]
            waiting.extend(member for member in reversed(list(one.values())) if not isinstance(member, str))
        elif isinstance(one, list | tuple):
            waiting.extend(reversed(one))
    raise InvalidValue(
        what="Claim", problem=f"source and refs hold more than {_MAX_VALUES} values; give fewer"
    )
