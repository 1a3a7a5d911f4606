"""What a floor is, and what it may look at: the claim, and the context that are handed in with it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol, Self

from standfast.errors import InvalidValue
from standfast.govern.authority import Role
from standfast.govern.judge.reading.lexicon import word_set
from standfast.govern.judge.reading.likeness import KnownText, RecalledText, SimilarityIndex
from standfast.govern.judge.reading.once import once
from standfast.govern.judge.reading.words import READ_CHARS, TextReading
from standfast.vocabulary import Band, Record

# A source of one of these kinds is the agent itself, or memory itself: it vouches for nothing.
HEARSAY_KINDS: Final = word_set(
    "agent assistant model llm self inference inferred generated guess recall recalled memory context summary"
)
_MOST_VALUES: Final = 2_048
_PLACE_KEYS: Final = ("url", "uri", "path", "doc", "document")


class Finding(NamedTuple):
    """What a floor says: a score from 0 (as bad as can be) to 1 (nothing found), and why, without repeating the text."""

    score: float
    reason: str = ""


CLEAN: Final = Finding(1.0)


class Floor(Protocol):
    """One named check. A floor is passed if its score reaches the threshold; hard ones forbid, soft ones send to review.

    ``check`` reads what it is handed and nothing else, and gives the same answer for the same input. One that raises,
    or scores outside 0 to 1, has failed; it never stops the judge.
    """

    @property
    def name(self) -> str:
        """The floor's name in evidence, unique in a judge."""
        ...

    @property
    def threshold(self) -> float:
        """The least score that passes."""
        ...

    @property
    def hard(self) -> bool:
        """Whether failing makes the verdict VOID; otherwise it makes it PARTIAL."""
        ...

    def check(self, claim: "Claim", context: "JudgingContext") -> tuple[float, str]:
        """A score and a reason."""
        ...


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What is to be remembered, in the band it is meant for, and the role of who wants it remembered."""

    record: Record
    role: Role | str = Role.AGENT

    @once
    def reading(self) -> TextReading:
        """The text, read once for all floors."""
        return TextReading(self.record.text)

    @once
    def whole(self) -> TextReading:
        """The text with subject, tags, source and refs, which are remembered too, a line each: what floors guard."""
        record = self.record
        lines = [record.subject or "", *record.tags]
        if record.source:
            lines += _lines(record.source)
        if record.refs:
            lines += _lines(record.refs)
        return self.reading.followed_by(TextReading("\n".join(lines)))

    @property
    def is_overlong(self) -> bool:
        """Whether there is more of it than the floors read."""
        return self.whole.is_cut

    @once
    def witnesses(self) -> frozenset[str]:
        """The independent sources that vouch for it; pages of one document are one, hearsay is none."""
        return witnesses_of(self.record)

    @property
    def is_human(self) -> bool:
        """Whether a human wants it remembered."""
        return self.role == Role.HUMAN


OVERLONG: Final = Finding(0.0, f"overlong: more than the {READ_CHARS} characters that are read; split it")


@dataclass(frozen=True, kw_only=True)
class JudgingContext:
    """What the judge may look at, handed in; the order of records and excerpts never shows.

    ``vault`` are sealed records, ``related`` others of the same subject or with like words, ``recalled`` the excerpts
    that this run was handed, ``patterns`` WITNESS records of what went wrong before. ``refused`` are fingerprints
    (``TextReading.fingerprint``) of content that was refused for what it says, and not for being a duplicate.
    """

    vault: tuple[Record, ...] = ()
    related: tuple[Record, ...] = ()
    recalled: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()
    patterns: tuple[Record, ...] = ()

    def with_accepted(self, claim: Claim) -> Self:
        """The context of a run's next claim, once this one was accepted. Cheap, and changes nothing here."""
        indexes = [*self.indexes, SimilarityIndex([known_from(claim.record, claim.reading)])]
        while len(indexes) > 1 and len(indexes[-1].known) >= len(indexes[-2].known):
            last, before = indexes.pop(), indexes.pop()
            indexes.append(SimilarityIndex([*before.known, *last.known]))
        grown = replace(self, related=(*self.related, claim.record))
        self._hand_on(grown, "sealed", "sealed_by_topic", "recollection", "troubled")
        grown.__dict__["indexes"] = tuple(indexes)
        return grown

    def updated(self, *, refused: frozenset[str], recalled: tuple[str, ...]) -> Self:
        """The same context with other refused and recalled content; all else that was worked out stays."""
        if refused == self.refused and recalled == self.recalled:
            return self
        seen = replace(self, refused=refused, recalled=recalled)
        self._hand_on(seen, "sealed", "sealed_by_topic", "troubled", "indexes")
        if recalled == self.recalled:
            self._hand_on(seen, "recollection")
        return seen

    def precomputed(self) -> Self:
        """The same, with all done that no claim makes a difference to, so that whoever is handed this need not do it."""
        for name in ("indexes", "sealed", "sealed_by_topic", "recollection", "troubled"):
            getattr(self, name)
        return self

    def _hand_on(self, other: Self, *names: str) -> None:
        other.__dict__.update({name: self.__dict__[name] for name in names if name in self.__dict__})

    @once
    def indexes(self) -> tuple[SimilarityIndex, ...]:
        """All known records, findable by what they say."""
        known = [known_from(record) for record in (*self.vault, *self.related)]
        return (SimilarityIndex(known),) if known else ()

    @once
    def recollection(self) -> RecalledText | None:
        """The recalled excerpts as one body of text."""
        return RecalledText(self.recalled) if self.recalled else None

    @once
    def sealed(self) -> dict[str | None, tuple[KnownText, ...]]:
        """What is sealed, by subject."""
        by_subject: dict[str | None, list[KnownText]] = {}
        for record in self.vault:
            by_subject.setdefault(record.subject, []).append(known_from(record))
        return {
            subject: tuple(sorted(known, key=lambda one: one.place)) for subject, known in by_subject.items()
        }

    @once
    def sealed_by_topic(self) -> dict[str, list[KnownText]]:
        """What is sealed, by each word of its topic."""
        by_word: dict[str, list[KnownText]] = {}
        for known in (one for group in self.sealed.values() for one in group):
            for word in known.reading.topic:
                by_word.setdefault(word, []).append(known)
        return by_word

    @once
    def troubled(self) -> frozenset[str]:
        """The subjects and sources that patterns point at."""
        subjects = {f"subject {pattern.subject}" for pattern in self.patterns if pattern.subject}
        return frozenset(subjects.union(*(_sources(pattern) for pattern in self.patterns)))


NOTHING_KNOWN: Final = JudgingContext()


def alike(claim: Claim, context: JudgingContext) -> list[KnownText]:
    """What already says what the claim says, but for the claim's own record. Looked up once for all floors."""
    kept: tuple[JudgingContext, list[KnownText]] | None = claim.__dict__.get("alike")
    if kept is None or kept[0] is not context:
        found = [known for index in context.indexes for known in index.alike(claim.reading)]
        others = [known for known in found if known.memory_id != claim.record.memory_id]
        kept = claim.__dict__["alike"] = (context, sorted(others, key=lambda known: known.place))
    return kept[1]


def known_from(record: Record, reading: TextReading | None = None) -> KnownText:
    """A record as it stands on a index."""
    return KnownText(
        memory_id=record.memory_id,
        reading=reading or TextReading(record.text),
        witnesses=witnesses_of(record),
        refused=record.band is Band.VOID and _was_refused_for_what_it_says(record),
    )


def witnesses_of(record: Record) -> frozenset[str]:
    """The independent sources of a record, hearsay left out."""
    return frozenset(key for key in _sources(record) if key.partition(" ")[0] not in HEARSAY_KINDS)


def pattern_keys(record: Record) -> frozenset[str]:
    """What a pattern would have to point at to touch this record."""
    sources = _sources(record)
    return sources | {f"subject {record.subject}"} if record.subject else sources


def _sources(record: Record) -> frozenset[str]:
    keys = [_source_key(one) for one in (record.source, *record.refs)]
    return frozenset(filter(None, keys))


def _source_key(source: object) -> str:
    """Kind and id, without the place inside a document: two pages of one handbook are one witness."""
    if not isinstance(source, Mapping):
        return ""
    kind, named = source.get("kind"), source.get("id")
    if not isinstance(named, str) or not named.strip():
        named = next(
            (place for key in _PLACE_KEYS if isinstance(place := source.get(key), str) and place.strip()), ""
        )
        kind = kind or "place"
    if not isinstance(kind, str) or not kind.strip() or not named:
        return ""
    return f"{kind.strip().lower()} {named.strip().partition('#')[0].lower()}"


def _was_refused_for_what_it_says(record: Record) -> bool:
    """A VOID record that was only a duplicate must not bar what it duplicated."""
    if record.evidence is None:
        return True
    failed = {
        check.floor for check in record.evidence.floor_checks if not check.passed and check.hard is not False
    }
    return not failed or failed != {"F8_Novelty"}


def _lines(value: object) -> list[str]:
    """The strings inside a JSON value, each with its key, in order. Raises if there are more than anyone would refer to."""
    if type(value) is dict and all(type(member) is str for member in value.values()):
        return [f"{key}: {member}" for key, member in value.items()]
    lines: list[str] = []
    waiting: list[object] = [value]
    for _ in range(_MOST_VALUES):
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
        what="Claim", problem=f"more than {_MOST_VALUES} values in its source and refs; name fewer"
    )
