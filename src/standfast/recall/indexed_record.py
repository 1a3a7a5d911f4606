"""A record as the index of ``lexical-v1`` sees it: the fields that recall uses, its terms, and what filters ask of it."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from standfast.casing import lowered
from standfast.recall.analysis import Analyzer, words_of
from standfast.recall.index_segment import MAX_FREQUENCY
from standfast.recall.item_trust import EvidenceFacts, RecordFacts, trust_code
from standfast.recall.timestamps import MISSING, time_of

_DAY_MICROSECONDS: Final = 86_400_000_000
# Prefixes of the terms of other fields than the text. No term of a text begins with a control character.
FIELD: Final = "\x01"
SUBJECT_WORD: Final = "\x02"
SPEAKER_WORD: Final = "\x03"
_FILTERED: Final = "\x04"


class IndexedRecord(RecordFacts, frozen=True, kw_only=True, gc=False):
    """The fields of a stored record that recall uses. Others are ignored."""

    memory_id: str
    text: str
    refs: tuple[dict[str, Any], ...] = ()
    position: int | None = None
    evidence: EvidenceFacts | None = None

    @property
    def time(self) -> int:
        """When it was said, in microseconds since the start of year 1; ``MISSING`` without a timestamp."""
        return MISSING if self.ts_utc is None else time_of(self.ts_utc)

    @property
    def is_threaded(self) -> bool:
        """Whether it is part of a conversation, and has neighbours there."""
        return self.session is not None and self.position is not None

    @property
    def date(self) -> str | None:
        """Its date, as YYYY-MM-DD."""
        time = self.time
        # Both count from the first day of year 1, whose ordinal is 1.
        return (
            None
            if time == MISSING
            else datetime.fromordinal(time // _DAY_MICROSECONDS + 1).date().isoformat()
        )

    @property
    def source_name(self) -> str:
        """Its source in a few words: kind and id."""
        source = self.source or {}
        parts = [part for part in (source.get("kind"), source.get("id")) if isinstance(part, str) and part]
        return ":".join(parts)


decode_record: Final = msgspec.json.Decoder(IndexedRecord).decode


class AnalysedRecord(NamedTuple):
    """What the index has of a record: how often which term is in it, and its columns."""

    terms: dict[str, int]
    position: int
    words: int
    length: int
    time: int
    subject_words: int
    speaker_words: int
    trust: int
    size: int
    """The bytes of its text, without spaces around it."""
    bounds: int
    """1 if it holds only from or until some time."""

    @property
    def columns(self) -> Iterator[tuple[str, int]]:
        """Its columns by name."""
        return zip(self._fields[1:], self[1:], strict=True)


def analysed(record: IndexedRecord, analyzer: Analyzer) -> AnalysedRecord:
    """Take a record apart for the index."""
    words = words_of(record.text)
    terms = analyzer.terms_of(words)
    counts: dict[str, int] = Counter(terms)
    labels = " ".join([*record.tags, record.subject or "", record.source_name, record.speaker or ""])
    for term, count in Counter(analyzer.terms_of(words_of(labels))).items():
        counts[FIELD + term] = count
    subject, speaker = set(words_of(record.subject or "")), set(words_of(record.speaker or ""))
    counts.update({SUBJECT_WORD + word: 1 for word in subject})
    counts.update({SPEAKER_WORD + word: 1 for word in speaker})
    counts.update(dict.fromkeys(_filtered_terms(record), 1))
    return AnalysedRecord(
        counts,
        (record.position or 0) if record.is_threaded else 0,
        len(words),
        min(len(terms), MAX_FREQUENCY),
        record.time,
        len(subject),
        len(speaker),
        trust_code(record, record.evidence),
        min(len(record.text.strip().encode()), MAX_FREQUENCY),
        int(record.valid_from is not None or record.valid_until is not None),
    )


def _filtered_terms(record: IndexedRecord) -> Iterator[str]:
    """Terms for what filters ask of a record: its tags, the kind of its source, who said it where, its metadata."""
    for tag in record.tags:
        yield filtered_term("tag", tag)
    kind = (record.source or {}).get("kind")
    if isinstance(kind, str):
        yield filtered_term("kind", lowered(kind.strip()))
    if record.session is not None:
        yield filtered_term("session", record.session)
    if record.speaker is not None:
        yield filtered_term("speaker", lowered(record.speaker))
    for name, value in record.metadata.items():
        yield filtered_term(f"metadata {name}", value)


def filtered_term(field: str, value: object) -> str:
    """A short term for a value. Two values may share one, so what it finds is still to be checked."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    named = f"{field}\0{type(value).__name__}\0{value}".encode(errors="replace")
    return _FILTERED + hashlib.blake2b(named, digest_size=6).hexdigest()
