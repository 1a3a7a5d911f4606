"""Analysis of ``lexical-v1``: the words and terms of a text, and what the index has of a record, the same on
every machine.

Words: case fold, NFKD, marks of Latin, Greek, Hebrew and Arabic letters removed, split at everything that is
no letter, digit or mark, without a possessive 's. Scripts that put no spaces between words are cut into pairs
of characters. Terms: the Snowball stems of the words that are no function words. Unicode is that of version
14.0: what came later separates words.
"""

import hashlib
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple

import msgspec

from standfast.errors import InvalidValue
from standfast.recall.cues import ROLE_NAMES, SpeakerRole, addressed_names, is_standing_instruction, may_stand
from standfast.recall.dates import spoken_dates
from standfast.recall.filters import EvidenceFacts, trust_code
from standfast.recall.word_lists import word_lines, word_sections
from standfast.records.canon import lowered
from standfast.records.filters import LAW, RecordFacts, trust_of
from standfast.records.origins import CITING_KINDS, Origin, kind_of
from standfast.records.statements import PlainStatement
from standfast.records.timestamps import MISSING, day_of, local_time, time_of

ANALYSIS_VERSION: Final = "snowball-3.1, forms-1, cues-2"
"""Part of every package: another stemmer, or other lists of irregular forms or cues, may give other terms."""

DEFAULT_LANGUAGE: Final = "english"
NO_LANGUAGE: Final = "none"
LANGUAGES: Final = (*word_sections("stop_words"), NO_LANGUAGE)
"""``none`` keeps every word as it is, for code and for mixed languages."""

FREQUENCY_BITS: Final = 20
MAX_FREQUENCY: Final = (1 << FREQUENCY_BITS) - 1
"""The most that a term frequency or a length counts, so that every product stays below 2^63."""
COLUMNS: Final = (
    "first",
    "end",
    "scope",
    "thread",
    "position",
    "words",
    "length",
    "time",
    "subject_words",
    "speaker_words",
    "trust",
    "size",
    "bounds",
    "role",
    "pinned",
)
"""What a segment says of each row in numbers.

``first`` and ``end`` are the snapshots between which it is shown.
"""

MAX_STEMMED_CHARS: Final = 64
"""A longer word is kept as it is."""
MAX_TERM_CHARS: Final = 256
"""A longer word is cut."""

# All letters, digits and marks that came after Unicode 14.0 (to 18.0).
_LATER_RANGES: Final = (
    "558 58B-58C 5C8-5C9 88F 897 B53-B54 C5C CDC CF3 ECE 1ACF-1AF0 1C89-1C8A 208F 209D-209F A7CB-A7CF A7D2"
    " A7D4 A7DA-A7F1 AB6C-AB6D 105C0-105F3 107BB-107BF 10940-10959 10D40-10D85 10EC2-10EFF 1123F-11241"
    " 11380-113E2 116D0-116E3 11B0A-11BF9 11DB0-11DF1 11F00-11F5A 1246F 12475-1247F 12550-12686 1342F"
    " 13440-143FA 16100-16139 16D40-16D79 16EA0-16ED3 16FF2-16FF6 187F8-187FF 18CD6-18CFF 18D09-191D2"
    " 1B123-1B132 1B155 1B168 1CCF0-1CCF9 1D127-1D128 1D250-1D2D3 1D6A6 1DF1F-1DFFF 1E030-1E08F 1E4D0-1E6FF"
    " 2B739-2B73F 2B81E 2CEA2-2CEAD 2EBF0-2EE5D 31350-3FC3F"
)
LATER: Final = re.compile(
    "["
    + "".join(
        f"{chr(int(first, 16))}-{chr(int(last or first, 16))}"
        for first, _, last in (span.partition("-") for span in _LATER_RANGES.split())
    )
    + "]"
)
_MARKS: Final = re.compile(
    "(?<=[a-z\u0370-\u03ff\u1f00-\u1fff])[\u0300-\u036f]+|[\u0591-\u05bd\u064b-\u065f\u0670]+"
)
_SENTENCE: Final = re.compile(
    r"[^\n.!?。！？]*(?:[.!?。！？]+(?=\s|$|[^\s\w])|[。！？]+|[.!?]|\n|$)[\"'”’)\]]*\s*"
)
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)


WHOLE_WORDS: Final = 100
"""A text of at most so many words is one passage."""
PASSAGE_WORDS: Final = 60
"""A passage is as many whole sentences as have so many words, and at least one."""
MAX_PASSAGES: Final = 256
"""The passages of an enormous text are longer, so that there are no more of them."""
MASKED_PASSAGES: Final = FREQUENCY_BITS
"""The index tells so many passages of a text apart; those of a longer text are taken together."""


class _Separators(dict[int, str]):
    """What each code point becomes: itself in a word, an apostrophe, or a space. Filled when asked."""

    def __missing__(self, code_point: int) -> str:
        char = chr(code_point)
        is_part = char.isalnum() or unicodedata.category(char)[0] == "M"
        self[code_point] = found = char if is_part else "'" if char in "'\u2019" else " "
        return found


_separators: Final = _Separators()
_ASCII_SEPARATORS: Final = bytes(
    ord(_separators[ord(chr(code).lower())]) if code < 128 else 0 for code in range(256)
)
"""The same for the bytes of a text in ASCII, which are folded at once."""


def words_of(text: str) -> list[str]:
    """The words of a text in order, folded."""
    if text.isascii():
        spaced = text.encode().translate(_ASCII_SEPARATORS).decode()
        if "'" not in spaced:
            # Most texts. No word of a short one needs a cut.
            words = spaced.split()
            return words if len(text) <= MAX_TERM_CHARS else [word[:MAX_TERM_CHARS] for word in words]
    else:
        decomposed = unicodedata.normalize("NFKD", LATER.sub(" ", text).casefold())
        # Folding again: a decomposition may bring out a capital letter.
        folded = unicodedata.normalize("NFC", _MARKS.sub("", decomposed.casefold()))
        spaced = folded.translate(_separators)
    words = []
    for word in spaced.split():
        if "'" in word:
            words += [part[:MAX_TERM_CHARS] for part in word.strip("'").removesuffix("'s").split("'") if part]
        elif word.isascii() or not _UNSPACED.search(word):
            words.append(word[:MAX_TERM_CHARS])
        else:
            words += _pairs(word)
    return words


def sentences_of(text: str) -> list[str]:
    """The sentences of a text with what stands between them, in order; together they are the text."""
    return [found for found in _SENTENCE.findall(text) if found]


def passages_of(text: str) -> list[str]:
    """A text in passages of whole sentences, in order; together they are the text."""
    words = len(text.split())
    if words <= WHOLE_WORDS:
        return [text]
    limit = max(PASSAGE_WORDS, -(-2 * words // MAX_PASSAGES))
    passages, taken, size = list[str](), list[str](), 0
    for sentence in sentences_of(text):
        for piece, count in _bounded(sentence, limit):
            if taken and size + count > limit:
                passages.append("".join(taken))
                taken, size = [], 0
            taken.append(piece)
            size += count
    return [*passages, "".join(taken)]


def _bounded(sentence: str, limit: int) -> list[tuple[str, int]]:
    """A sentence with its number of words, cut if it is too long for one passage."""
    words = sentence.split()
    if len(words) <= 2 * limit:
        return [(sentence, len(words))]
    return [
        (" ".join(words[start : start + limit]) + " ", min(limit, len(words) - start))
        for start in range(0, len(words), limit)
    ]


def _pairs(word: str) -> list[str]:
    """A word of a script without spaces as overlapping pairs of characters; other runs in it stay whole."""
    found, at = [], 0
    for match in _UNSPACED.finditer(word):
        if match.start() > at:
            found.append(word[at : match.start()])
        run, at = match.group(), match.end()
        found += [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    return [*found, word[at:]] if at < len(word) else found


class Analyzer:
    """Terms of texts in one language. Threads may share it; ``analyzer_of`` gives one for each language."""

    def __init__(self, language: str = DEFAULT_LANGUAGE) -> None:
        if language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            problem = f"there is no language {language!r:.40}; known: {known}"
            raise InvalidValue(what="language", problem=problem)
        self.language = language
        self.name = language if language == NO_LANGUAGE else f"{language}, {ANALYSIS_VERSION}"
        self._stop_words = _folded("stop_words", language)
        self._articles = _folded("articles", language)
        self._base_forms = _base_forms(language)
        self._stemmers = threading.local()
        self._stem = lru_cache(maxsize=1 << 17)(self._uncached_stem)
        # Sources, speakers and tags repeat.
        self.terms_of_labels = lru_cache(maxsize=1 << 12)(self._uncached_terms_of_labels)

    def terms_of(self, words: list[str]) -> list[str]:
        """The terms of the words of a text, in order: stems of all words but function words."""
        if self.language == NO_LANGUAGE:
            return words
        stop_words, stem = self._stop_words, self._stem
        return [stem(word) for word in words if word not in stop_words]

    def _uncached_terms_of_labels(self, labels: str) -> dict[str, int]:
        """The terms of other fields than the text, as the index has them, and how often each occurs.

        The answer is shared: do not change it.
        """
        return {FIELD + term: count for term, count in Counter(self.terms_of(words_of(labels))).items()}

    def gist_of(self, words: list[str]) -> list[str]:
        """The words of a text in order, without articles."""
        if self.language == NO_LANGUAGE:
            return words
        return [word for word in words if word not in self._articles]

    def gist_stems(self, words: list[str]) -> tuple[str, ...]:
        """What two texts that say the same have in common: the stems of the gist, in order."""
        if self.language == NO_LANGUAGE:
            return tuple(words)
        return tuple(self._stem(word) for word in self.gist_of(words))

    def is_same_word(self, word: str, other: str) -> bool:
        """Whether two words have one stem."""
        return word == other or (self.language != NO_LANGUAGE and self._stem(word) == self._stem(other))

    def _uncached_stem(self, word: str) -> str:
        # No stemmer has an ending of digits.
        if len(word) > MAX_STEMMED_CHARS or (word.isascii() and word.isdecimal()):
            return word
        word = self._base_forms.get(word, word)
        # A stemmer holds the word that it works on, so each thread has its own.
        stemmer: Any = getattr(self._stemmers, "stemmer", None)
        if stemmer is None:
            module = import_module(f"snowballstemmer.{self.language}_stemmer")
            stemmer = self._stemmers.stemmer = getattr(module, f"{self.language.capitalize()}Stemmer")()
        return str(stemmer.stemWord(word))


def _folded(name: str, language: str) -> frozenset[str]:
    """The words of a list in a language, folded as texts are."""
    return frozenset(words_of(" ".join(word_sections(name).get(language, ()))))


def _base_forms(language: str) -> dict[str, str]:
    """The word behind each irregular form of a language."""
    lines = [words_of(" ".join(line)) for line in word_lines("irregular_forms").get(language, ())]
    return {form: word for word, *forms in lines for form in forms}


@lru_cache(maxsize=len(LANGUAGES))
def analyzer_of(language: str) -> Analyzer:
    """The analyzer of a language; ``InvalidValue`` with the known languages if there is none."""
    return Analyzer(language)


# Prefixes of the terms of other fields than the text. No term of a text begins with a control character.
FIELD: Final = "\x01"
SUBJECT_WORD: Final = "\x02"
SPEAKER_WORD: Final = "\x03"
_FILTERED: Final = "\x04"
PASSAGE_TERM: Final = "\x05"
"""Before a term of a long text: the postings have a bit for each passage that it is in."""
DATE_TERM: Final = "\x06"
"""Before a date that a text speaks of."""
MATTER_TERM: Final = "\x07"
"""Before the hash of a matter that a record has a statement on."""
ADDRESSED_WORD: Final = "\x0b"
"""Before a name that a message addresses somebody by."""
STANDING_TERM: Final = "\x0c"
"""The term of records with a standing instruction of a user."""


class IndexedRecord(RecordFacts, frozen=True, kw_only=True, gc=False):
    """The fields of a stored record that recall uses. Others are ignored."""

    memory_id: str
    text: str
    refs: tuple[dict[str, Any], ...] = ()
    position: int | None = None
    evidence: EvidenceFacts | None = None
    pinned: bool | None = None
    several: bool | None = None
    statements: tuple[PlainStatement, ...] = ()
    utc_offset: int | None = None

    @property
    def role(self) -> SpeakerRole:
        """Who said it. What an agent remembers outside a conversation is no message of the assistant."""
        kind = (self.source or {}).get("kind")
        if kind == "user":
            return SpeakerRole.USER
        return SpeakerRole.ASSISTANT if kind == "agent" and self.is_threaded else SpeakerRole.NONE

    @property
    def time(self) -> int:
        """When it was said, in microseconds since the start of year 1; ``MISSING`` without a timestamp."""
        return MISSING if self.ts_utc is None else time_of(self.ts_utc)

    @property
    def local_time(self) -> int:
        """The same as a clock showed it where it was said; not for a record without a timestamp."""
        return local_time(self.time, self.utc_offset)

    @property
    def is_threaded(self) -> bool:
        """Whether it is part of a conversation, and has neighbours there."""
        return self.session is not None and self.position is not None

    @property
    def date(self) -> str | None:
        """Its date where it was said, as YYYY-MM-DD."""
        return None if self.time == MISSING else day_of(self.local_time).isoformat()

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
    role: int
    """Who said it; see ``SpeakerRole``."""
    pinned: int
    """1 if it is shown first."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Its columns, in the order in which segments have them."""
        return self[1:]


assert COLUMNS[-len(AnalysedRecord._fields) + 1 :] == AnalysedRecord._fields[1:]


def analysed(record: IndexedRecord, analyzer: Analyzer) -> AnalysedRecord:
    """Take a record apart for the index."""
    passages = passages_of(record.text)
    words_by_passage = [words_of(passage) for passage in passages]
    words = [word for of_passage in words_by_passage for word in of_passage]
    terms = analyzer.terms_of(words)
    counts = dict(Counter(terms))
    if len(passages) > 1:
        masks = dict.fromkeys(counts, 0)
        for number, of_passage in enumerate(words_by_passage):
            bit = 1 << number * MASKED_PASSAGES // max(len(passages), MASKED_PASSAGES)
            for term in analyzer.terms_of(of_passage):
                masks[term] |= bit
        counts.update({PASSAGE_TERM + term: mask for term, mask in masks.items()})
    for statement in record.statements:
        counts[matter_term(statement)] = 1
    counts.update(dict.fromkeys(_cues_of(record, words, analyzer.language), 1))
    if (time := record.time) != MISSING:
        day = day_of(local_time(time, record.utc_offset))
        for spoken in spoken_dates(record.text, day, analyzer.language, words):
            counts.update({DATE_TERM + name: 1 for name in spoken.names})
    labels = " ".join([*record.tags, record.subject or "", record.source_name, record.speaker or ""])
    counts.update(analyzer.terms_of_labels(labels))
    subject = sorted(set(words_of(record.subject))) if record.subject else ()
    speaker = sorted(set(words_of(record.speaker)).difference(ROLE_NAMES)) if record.speaker else ()
    for word in subject:
        counts[SUBJECT_WORD + word] = 1
    for word in speaker:
        counts[SPEAKER_WORD + word] = 1
    for term in _filtered_terms(record):
        counts[term] = 1
    return AnalysedRecord(
        counts,
        (record.position or 0) if record.is_threaded else 0,
        len(words),
        min(len(terms), MAX_FREQUENCY),
        time,
        len(subject),
        len(speaker),
        trust_code(record, record.evidence),
        min(len(record.text.strip().encode()), MAX_FREQUENCY),
        int(record.valid_from is not None or record.valid_until is not None),
        record.role,
        int(record.pinned is True and trust_of(record) in (LAW, Origin.TRUSTED)),
    )


def _cues_of(record: IndexedRecord, words: list[str], language: str) -> Iterator[str]:
    """Terms for whom a message addresses, and for an instruction that stands.

    Args:
        words: The words of the record's text.
    """
    if record.is_threaded and record.role is not SpeakerRole.NONE:
        for name in addressed_names(record.text, language):
            yield from (ADDRESSED_WORD + word for word in words_of(name))
    is_own_word = record.role is SpeakerRole.USER and trust_of(record) in (LAW, Origin.TRUSTED)
    if is_own_word and may_stand(words, language):
        sentences = (words_of(sentence) for sentence in sentences_of(record.text))
        if any(is_standing_instruction(sentence, language) for sentence in sentences if sentence):
            yield STANDING_TERM


def matter_term(statement: PlainStatement) -> str:
    """The term of the index for what a statement is on."""
    return MATTER_TERM + hashlib.blake2b(statement.matter.encode(), digest_size=6).hexdigest()


def _filtered_terms(record: IndexedRecord) -> Iterator[str]:
    """Terms for what filters ask of a record: its tags, the kind of its source, who said it where, its
    metadata; and for what investigations ask: its source, and the records that it cites.
    """
    for tag in record.tags:
        yield filtered_term("tag", tag)
    kind = (record.source or {}).get("kind")
    if isinstance(kind, str):
        yield filtered_term("kind", lowered(kind.strip()))
        name = (record.source or {}).get("id")
        if isinstance(name, str):
            yield source_term(kind, name)
    if record.session is not None:
        yield filtered_term("session", record.session)
    if record.speaker is not None:
        yield filtered_term("speaker", lowered(record.speaker))
    for field, value in record.metadata.items():
        yield filtered_term(f"metadata {field}", value)
    for scope, memory_id in cited_by(record):
        yield cites_term(scope, memory_id)


def source_term(kind: str, name: str) -> str:
    """The term of the index for what comes from a source, or from any place in the same document."""
    return filtered_term(f"source {kind}", name.partition("#")[0])


def cites_term(scope: str, memory_id: str) -> str:
    """The term of the index for what cites a record."""
    return filtered_term(f"cites {scope}", memory_id)


def cited_by(record: IndexedRecord) -> list[tuple[str, str]]:
    """Scope and id of the records that a record cites, by its source or its refs."""
    named = [
        (one["scope"] if isinstance(one.get("scope"), str) else record.scope, one["id"])
        for one in (record.source or {}, *record.refs)
        if kind_of(one) in CITING_KINDS and isinstance(one.get("id"), str)
    ]
    return list(dict.fromkeys(named))


def filtered_term(field: str, value: object) -> str:
    """A short term for a value. Two values may share one, so what it finds is still to be checked."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return _hashed_term(f"{field}\0{type(value).__name__}\0{value}")


@lru_cache(maxsize=1 << 12)
def _hashed_term(named: str) -> str:
    return _FILTERED + hashlib.blake2b(named.encode(errors="replace"), digest_size=6).hexdigest()
