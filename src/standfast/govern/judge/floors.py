"""Seven of the nine floors: what a claim is compared with, whether it is text, and who may say it.

    F1_Amanah      ProvenanceFloor     soft   it names its source, if it is meant as law
    F2_Truth       TruthFloor          hard   it does not contradict what is sealed
    F3_Witness     CorroborationFloor  soft   a source other than the agent supports what is meant as law
    F4_Clarity     ClarityFloor        hard   it is text, and all of it is visible
    F5_Secrecy     SecrecyFloor        hard   it holds no secrets and no personal data (secrecy.py)
    F6_Injection   InjectionFloor      hard   it states a fact and gives no orders (injection.py)
    F7_Humility    CalibrationFloor    soft   it is no more certain than its sources
    F8_Novelty     NoveltyFloor        hard   it is short enough and was not rejected before
    F9_Authority   AuthorityFloor      hard   it does not claim to be law

All are deterministic. They compare words and forms, not meaning; each docstring says what its floor does not
catch.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Final

from standfast.errors import InvalidValue
from standfast.govern.judge.claim import (
    CLEAN,
    NOVELTY_FLOOR,
    OVERLONG,
    Claim,
    Finding,
    JudgingContext,
    sites_of,
    sources_of,
)
from standfast.govern.judge.memory_orders import is_order_to_memory
from standfast.govern.judge.phrases import Phrase, Phrasebook, spoken
from standfast.govern.judge.similarity import (
    ADDITION,
    MIN_WORDS_WITHOUT_SUBJECT,
    KnownText,
    contradiction,
)
from standfast.govern.judge.tables import WordTable, read_phrases
from standfast.govern.judge.text_reading import READ_CHARS, TextReading
from standfast.records.origins import Origin
from standfast.records.vocabulary import Band, Record

ATTACKS_OF_A_PATTERN: Final = 3
"""How many rejected injections from one source make a pattern."""
PATTERN_DAYS: Final = 30
"""How long an attack counts, and how long a pattern applies after the last one."""
RECALLED: Final = "recalled"
"""What stands for the known record if the excerpts of a context do not name theirs."""

_TABLE: Final = WordTable("floors.words")

# F1_Amanah.

_PLACEHOLDERS: Final = _TABLE.words("placeholders")
_PLACEHOLDER_KINDS: Final = _PLACEHOLDERS - {"internet", "web"}
_NO_SOURCE: Final = "no source. Name one by kind and id, such as kind 'doc' and id 'handbook'"
_HALF_A_SOURCE: Final = "incomplete source. Give both its kind and its id"
_PLACEHOLDER_SOURCE: Final = "placeholder instead of a source. Give an id that can be looked up"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceFloor:
    """The source has a kind and an id, and both name something.

    Without a source, a text is the agent's own word. That is accepted with a lower score, and fails only what
    is meant as law. Set the threshold to 0.75 to require a source of everything. It does not look the source
    up, so an invented one passes.
    """

    name: str = "F1_Amanah"
    threshold: float = 0.5
    hard: bool = False

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """1 for a kind and an id, 0.6 for less than that, 0 for less than that in a proposal of law."""
        problem = _problem_of_source(claim.record.source)
        if problem is None:
            return CLEAN
        return Finding(0.0 if claim.is_meant_as_law else 0.6, problem)


def _problem_of_source(source: object) -> str | None:
    if not isinstance(source, Mapping) or not source:
        return _NO_SOURCE
    kind, source_id = source.get("kind"), source.get("id")
    kind_word = kind.strip().lower() if isinstance(kind, str) else ""
    id_word = source_id.strip().lower() if isinstance(source_id, str) else ""
    if not kind_word or not id_word:
        return _HALF_A_SOURCE
    return _PLACEHOLDER_SOURCE if id_word in _PLACEHOLDERS or kind_word in _PLACEHOLDER_KINDS else None


# F2_Truth.


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthFloor:
    """Does not contradict sealed memory of the same subject: no other number, date, weekday or month, no
    negation, no opposite.

    Two texts of one subject that share most words, but for one or two in each, contradict each other as well.
    Otherwise the claim adds to the subject and passes with a lower score. Without a subject, the claim is
    compared with everything sealed, and must be closer to contradict it. A proposal to amend the sealed text
    (meant for PHOENIX, or for VAULT by a human) passes, because a human decides it. Words are compared, not
    meaning: a contradiction in other words passes.
    """

    name: str = "F2_Truth"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:
        """0 for a denial, 0.2 for a replaced statement, 0.6 for an amendment, 0.8 for an addition."""
        if not context.vault:
            return CLEAN
        record = claim.record
        subject = record.subject
        if subject is None:
            sealed = _sharing_words(claim.reading, context)
        else:
            sealed = [*context.sealed.get(subject, ()), *context.sealed.get(None, ())]
        amends = record.band is Band.PHOENIX or (record.band is Band.VAULT and claim.is_human)
        # An amendment may contradict the law that it replaces, but not other law.
        amended = (record.scope, record.memory_id) if amends else None
        others = (known for known in sealed if (known.scope, known.memory_id) != amended)
        found = _worst_contradiction(claim.reading, others, subject is not None)
        if found.score >= self.threshold or not amends:
            return found
        return Finding(0.6, f"amendment that {found.reason.partition('. ')[0]}")


def _sharing_words(text: TextReading, context: JudgingContext) -> list[KnownText]:
    """Sealed records that may be about the same thing: they share a word even without the most common shared
    ones.
    """
    by_word = context.sealed_by_word
    shared = sorted((len(by_word[word]), word) for word in text.topic if word in by_word)
    rarest = shared[: max(0, len(shared) - MIN_WORDS_WITHOUT_SUBJECT + 1)]
    return list({id(known): known for _, word in rarest for known in by_word[word]}.values())


def _worst_contradiction(text: TextReading, sealed: Iterable[KnownText], has_subject: bool) -> Finding:
    """The finding with the lowest score; among equals, the one with the smallest memory id."""
    findings = [
        (score, known.memory_id, problem)
        for known in sealed
        for score, problem in [contradiction(text, known.reading, has_subject)]
        if score < 1
    ]
    if not findings:
        return CLEAN
    score, memory_id, problem = min(findings)
    if problem == ADDITION:
        return Finding(score, f"{problem} {memory_id}")
    return Finding(
        score, f"contradicts sealed memory {memory_id} ({problem}). Correct it, or propose an amendment"
    )


# F3_Witness.

_OWN_WORD: Final = Finding(0.25, "the agent's own word")
_OWN_WORD_AS_LAW: Final = Finding(
    0.0, "no source but the agent's own word or memory itself. Name a document, a person or a system"
)
_UNTRUSTED_WORD: Final = Finding(0.25, "the word of one untrusted source")
_UNTRUSTED_WORD_AS_LAW: Final = Finding(
    0.0, "no source but an untrusted one. Name a document or a person that confirms it"
)
_WITNESSES: Final = {1: Finding(0.5, "one source"), 2: Finding(0.75, "two independent sources")}


@dataclass(frozen=True, slots=True, kw_only=True)
class CorroborationFloor:
    """Independent sources support the claim: its own source and refs, and those of records that say the same.

    The agent's own word scores 0.25, one source 0.5, two 0.75, three or more 1. What is meant as law needs a
    source, and so does what comes from a source with a pattern of attacks: another source than that one.
    Pages of one document or site are one source; the agent, a model and memory itself are none. An untrusted
    source is none for its own site, nor for what others say. Soft; set the threshold to 0.5 to require a
    source, to 0.75 for two. It counts names, so two names for one source count twice, and it does not read
    the sources.
    """

    name: str = "F3_Witness"
    threshold: float = 0.25
    hard: bool = False

    def check(self, claim: Claim, context: JudgingContext) -> Finding:
        """0 for too few, 0.25 for the agent's own word, 0.5 for one source, 0.75 for two, 1 for more."""
        witnesses = claim.witnesses
        is_untrusted = claim.record.origin is Origin.UNTRUSTED
        if 0 < len(witnesses) < 3 and context.knows_any:
            similar = context.similar_to(claim)
            if not is_untrusted:
                similar = [known for known in similar if known.origin is not Origin.UNTRUSTED]
            witnesses = witnesses.union(*(known.witnesses for known in similar))
        if not witnesses:
            return _OWN_WORD_AS_LAW if claim.is_meant_as_law else self._with_advice(_OWN_WORD)
        attackers = active_attackers(context, claim.record)
        if attackers and witnesses <= attackers.keys():
            source, since = min(attackers.items())
            named = source.replace(" ", ":", 1)
            return Finding(
                0.0,
                f"{ATTACKS_OF_A_PATTERN} or more writes from {named} were rejected as injections (since"
                f" {since}). Confirm it from another source, or lift the pattern: standfast patterns lift"
                f" {named}",
            )
        if is_untrusted:
            own = sites_of(claim.record)
            witnesses = frozenset(key for key in witnesses if key.partition(" ")[2] not in own)
            if not witnesses:
                return _UNTRUSTED_WORD_AS_LAW if claim.is_meant_as_law else self._with_advice(_UNTRUSTED_WORD)
        return self._with_advice(_WITNESSES.get(len(witnesses), CLEAN))

    def _with_advice(self, finding: Finding) -> Finding:
        """The finding; if the settings ask for more sources, it says what to do."""
        if finding.score >= self.threshold:
            return finding
        return Finding(
            finding.score,
            f"{finding.reason} is not enough here. Name a further source, such as a document or a person",
        )


def active_attackers(context: JudgingContext, record: Record) -> dict[str, str]:
    """The record's sources with a pattern of attacks that has not faded, each with the day that it began."""
    if not context.patterns:
        return {}
    oldest = day_after(context.today, -PATTERN_DAYS) if context.today else ""
    attackers = {}
    for source in sources_of(record):
        # What somebody of a lower origin wrote under this name says nothing about its owner.
        days = [
            day
            for day, origin in context.attack_days.get(source, ())
            if day > oldest and origin.rank >= record.origin.rank
        ]
        if days:
            attackers[source] = days[0]
    return attackers


def day_after(day: str, days: int) -> str:
    """The day that many days after ``day`` (``YYYY-MM-DD``); before it, if the number is negative."""
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


# F4_Clarity.

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Everything beyond ASCII that hides or reorders text. Most texts have none of it and need no further look.
_SUSPECT: Final = re.compile(
    "[\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-"
    "\u206f\u3164\ud800-\udfff"
    "\ue000-\uf8ff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_MOJIBAKE: Final = re.compile(
    "[\u00c3\u00c2][\u0080-\u00bf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152"
    "\u017d"
    "\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u017e\u0178]"
    "|\u00e2\u20ac.|\u00f0\u0178.|\u00ef\u00bb\u00bf|\u00d0[\u0080-\u00bf].?\u00d0[\u0080-\u00bf]|\ufffd"
)
_MOJIBAKE_STARTS: Final = (
    "\u00c3",
    "\u00c2",
    "\u00e2\u20ac",
    "\u00f0\u0178",
    "\u00ef\u00bb",
    "\u00d0",
    "\ufffd",
)
_OVERRIDE: Final = re.compile("[\u202a\u202b\u202d\u202e]")
_ISOLATE: Final = re.compile("[\u2066-\u2068]")
_RIGHT_TO_LEFT: Final = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
# The flags of England, Scotland and Wales are the only honest use of tag characters.
_FLAG: Final = re.compile(
    "\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074"
    "|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_TAG: Final = re.compile("[\U000e0000-\U000e007f]")
# One selector belongs to the character before it. A row of them, or one after a Latin letter, carries hidden
# bytes.
_SELECTORS: Final = re.compile(
    "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}|[\x20-\x7e][\ufe00-\ufe0d\U000e0100-\U000e01ef]"
)
# Zero-width characters have a use in some scripts and in emoji, and none between Latin letters.
_ZERO_WIDTH: Final = re.compile(
    "[\x21-\x7e\u00c0-\u024f][\u00ad\u034f\u115f\u1160\u180b-\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f"
    "\u3164\ufeff\uffa0]+[\x21-\x7e\u00c0-\u024f]"
    "|[\u200b-\u200f\u2060-\u2064\ufeff]{3}"
)
_PRIVATE: Final = re.compile("[\ue000-\uf8ff\ufdd0-\ufdef\ufff0-\ufffb\ufffe\uffff\U000f0000-\U0010ffff]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HIDING: Final = (
    (_SURROGATE, "half of a UTF-16 surrogate pair"),
    (_OVERRIDE, "characters that reverse the reading direction"),
    (_SELECTORS, "variation selectors without a character"),
    (_ZERO_WIDTH, "invisible characters inside words"),
    (_PRIVATE, "characters without a defined meaning"),
)

# A line drawn of one character, as between paragraphs and below headings.
_RULER: Final = re.compile(r"([-=_*~#+.])\1{3,}|[\u2500-\u259f]+")
_MAX_UNBROKEN_CHARS: Final = 1_000
_MIN_WORD_SHARE: Final = 0.25
_MIN_VARIETY: Final = 0.05
_MIN_MEASURED_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ClarityFloor:
    """Rejects control characters, hidden or reordered text, broken encoding, and noise instead of words.

    Zero-width joiners in emoji and in Indic and Arabic scripts, right-to-left marks, balanced isolates in
    right-to-left text and regional flags pass. Every field is checked for hidden text. It does
    not tell sense from nonsense: random words pass.
    """

    name: str = "F4_Clarity"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """0 for hidden text, less than 0.5 for what is mostly not text, 1 for plain text."""
        if claim.is_overlong:
            return OVERLONG
        for field in claim.fields:
            if (hidden := find_hidden(field.text)) is not None:
                return Finding(0.0, f"hidden characters ({hidden}). Remove them")
        text = claim.reading.text
        if not text.strip() or not claim.reading.folded.strip():
            return Finding(0.0, "empty. Give a text")
        if not text.isascii() and any(map(text.__contains__, _MOJIBAKE_STARTS)):
            broken = len(_MOJIBAKE.findall(text))
            if broken:
                score = max(0.1, 0.9 - 20 * broken / len(text))
                return Finding(
                    score, f"broken encoding in {broken} places. Read the source in its own encoding"
                )
        return _texture(claim) if len(text) >= _MIN_MEASURED_CHARS else CLEAN


def find_hidden(text: str) -> str | None:
    """What a reader of the text would not see, or None if all of it is visible."""
    if text.isascii():
        return "control characters" if _CONTROL.search(text) else None
    if _CONTROL.search(text):
        return "control characters"
    if not _SUSPECT.search(text):
        return None
    for pattern, name in _HIDING:
        if pattern.search(text):
            return name
    if _TAG.search(_FLAG.sub("", text)):
        return "tag characters, which spell text that no screen shows"
    if _ISOLATE.search(text):
        opened, closed = len(_ISOLATE.findall(text)), text.count("\u2069")
        if opened != closed or not _RIGHT_TO_LEFT.search(text):
            return "isolates that reverse the reading direction"
    return None


def _texture(claim: Claim) -> Finding:
    """Whether a longer text consists of words: not of symbols, one unbroken run, or a few repeated words."""
    reading = claim.reading
    if _word_share(reading) < _MIN_WORD_SHARE:
        return Finding(0.3, "noise: mostly symbols. Write it in words")
    for field in claim.fields:
        if (
            len(field.text) > _MAX_UNBROKEN_CHARS
            and field.longest_run_chars > _MAX_UNBROKEN_CHARS
            and field.text.isascii()
            and _has_long_run(field.text)
        ):
            return Finding(0.3, "noise: a run of characters longer than any word. Write it in words")
    pieces = reading.pieces
    if len(pieces) > 40 and len(reading.vocabulary) < _MIN_VARIETY * len(pieces):
        return Finding(0.3, "noise: a few words repeated. Say it once")
    return CLEAN


def _has_long_run(text: str) -> bool:
    """Whether a run of characters, rulers aside, is longer than any word.

    Links may be long: images and diagrams are written into them.
    """
    long = (run for run in text.split() if len(run) > _MAX_UNBROKEN_CHARS and "://" not in run[:200])
    return any(len(_RULER.sub("", run)) > _MAX_UNBROKEN_CHARS for run in long)


def _word_share(reading: TextReading) -> float:
    """The share of words in a text, spaces and rulers aside; 1 if it is enough even with them."""
    in_words = sum(map(len, reading.pieces))
    if in_words >= _MIN_WORD_SHARE * len(reading.text):
        return 1.0
    return in_words / max(1, len(_RULER.sub("", reading.text.replace(" ", ""))))


# F7_Humility.

# Words that allow no exception, folded.
_ABSOLUTE: Final = _TABLE.words("absolute")
_ABSOLUTE_UNSPACED: Final = re.compile("|".join(sorted(_TABLE.words("absolute unspaced"))))
_HUNDRED_PERCENT: Final = re.compile(r"(?<![\d.,])100(?:[.,]0+)? ?(?:%|percent|prozent)")
# After one of these, an absolute word is not absolute.
_HEDGES: Final = _TABLE.words("hedges")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFloor:
    """Absolute words (always, never, guaranteed, 100 %) need a source other than the agent, where they are
    meant as law.

    Anywhere else they only lower the score. Soft. It knows the words of some European languages, Chinese,
    Japanese, Korean and Arabic. It does not check whether the source really says so, and does not recognise
    certainty in other words.
    """

    name: str = "F7_Humility"
    threshold: float = 0.5
    hard: bool = False

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """1 without absolute words, 0.9 with a source for them, 0.6 without, 0.4 or less without in a
        proposal of law.
        """
        count = _count_absolutes(claim)
        if not count:
            return CLEAN
        if claim.witnesses:
            return Finding(0.9, "absolute words, with a source")
        return Finding(
            0.4 / count if claim.is_meant_as_law else 0.6,
            "absolute words without a source. Name a source, or say it less absolutely",
        )


def _count_absolutes(claim: Claim) -> int:
    reading = claim.reading
    count = 0
    if not _ABSOLUTE.isdisjoint(reading.vocabulary):
        words = reading.words
        count = sum(
            word in _ABSOLUTE and (index == 0 or words[index - 1] not in _HEDGES)
            for index, word in enumerate(words)
        )
    if "100" in reading.folded:
        count += len(_HUNDRED_PERCENT.findall(reading.folded))
    if not reading.folded.isascii():
        count += len(_ABSOLUTE_UNSPACED.findall(reading.folded))
    return count


# F8_Novelty.

_REJECTED_BEFORE: Final = Finding(
    0.0,
    "rejected before: the same content. A human may submit it again, or lift the refusal: standfast refusals"
    " list",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoveltyFloor:
    """Short enough for one memory, not rejected before; and if it is known already, it says by which record.

    What is known is no violation. A claim is known if it adds nothing to a record (see ``similarity.py``) of
    its own subject and with its tags, or consists of what this run recalled. Rejected before is what a human
    rejected (through changes of case, spacing, punctuation, accents and lookalike letters), and an attack by
    the same source in the same bytes; both for 90 days, and never for a claim of a higher origin. A human may
    submit it again. Words are compared: a paraphrase or a translation is new.
    """

    name: str = NOVELTY_FLOOR
    threshold: float = 0.5
    hard: bool = True
    max_chars: int = 16_384

    def __post_init__(self) -> None:
        if type(self.max_chars) is not int or not 0 < self.max_chars <= READ_CHARS:
            problem = (
                f"max_chars must be 1 to {READ_CHARS}, as much as floors read, not {self.max_chars!r:.80}"
            )
            raise InvalidValue(what="NoveltyFloor", problem=problem)

    def check(self, claim: Claim, context: JudgingContext) -> Finding:
        """0 for rejected content, 0.3 for too long, 0.7 for known content."""
        if claim.is_overlong:
            return OVERLONG
        length = len(claim.record.text)
        if length > self.max_chars:
            return Finding(0.3, f"too long: {length} characters, at most {self.max_chars}. Split it")
        if context.refused and not claim.is_human and not context.refused.isdisjoint(claim.binding_refusals):
            return _REJECTED_BEFORE
        known = self.known(claim, context)
        return CLEAN if known is None else Finding(0.7, f"known already: {known} says it")

    def known(self, claim: Claim, context: JudgingContext) -> str | None:
        """The id of the record that says what the claim says; None if it is new, as every message is."""
        if claim.is_message:
            return None
        recalled = context.recalled_text
        if recalled is not None and recalled.contains(claim.reading):
            return recalled.record_of(claim.reading) or RECALLED
        if not context.knows_any:
            return None
        for known in context.similar_to(claim):
            if _covers(known, claim):
                return known.memory_id
        return None


def _covers(known: KnownText, claim: Claim) -> bool:
    """Whether a known record is found wherever the claim would be: under its subject, if it has one, and all
    of its tags.

    A record that is trusted less does not, or poison could keep a fact out by saying it first.
    """
    if known.origin.rank < claim.record.origin.rank:
        return False
    return claim.record.subject in (None, known.subject) and known.tags.issuperset(claim.record.tags)


# F9_Authority.

# Tags and kinds of sources that only a human's seal gives.
_SEALS: Final = _TABLE.words("seals")

_STANDING_FROM_OUTSIDE: Final = Finding(
    0.3,
    "an order to memory from an untrusted source. If the user wants it, let the user say it, or remember it"
    " with the user as the source",
)


@cache
def authority_phrases() -> Phrasebook:
    """Phrases by which a text claims to be law. They are read when the first text is judged."""
    return Phrasebook(*read_phrases("authority.phrases"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityFloor:
    """Only a human may claim to make law: by band, tags, kind of source, a verdict of its own, or in words.

    What an untrusted source wants remembered about the user's wishes, or done from now on, is an order to
    memory, and is refused; it makes no proposal, so that no page floods the queue. Said by the user, it is a
    preference.

    An agent that wants something sealed proposes it for PHOENIX. A human's claim passes, because it still
    takes a signature to seal it. In words it recognises phrases, mostly English ones. It relies on the role
    that it is given; checking the role is the server's work.
    """

    name: str = "F9_Authority"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """0 for claiming a band or a verdict, 0.1 for a tag or source, 0.2 for words, 0.3 for a standing
        preference from outside.
        """
        if claim.is_human:
            return CLEAN
        if claim.is_overlong:
            return OVERLONG
        record = claim.record
        if record.band is Band.VAULT:
            return Finding(0.0, "claims authority: only a human may write to VAULT. Propose it instead")
        if record.verdict is not None or record.evidence is not None:
            return Finding(0.0, "claims authority: it brings a verdict of its own. Leave the verdict out")
        if not _SEALS.isdisjoint(record.tags):
            return Finding(
                0.1, "claims authority: it has a tag that only a human's seal gives. Remove the tag"
            )
        kind = record.source.get("kind") if isinstance(record.source, Mapping) else None
        if isinstance(kind, str) and kind.strip().lower() in _SEALS:
            return Finding(
                0.1, "claims authority: only a human's seal gives this kind of source. Name the real one"
            )
        for field in claim.fields:
            if (phrase := _first_phrase(authority_phrases(), field)) is not None:
                return Finding(0.2, f"claims authority: {phrase.kind}. State the fact, or propose it as law")
        if record.origin is Origin.UNTRUSTED and is_order_to_memory(claim):
            return _STANDING_FROM_OUTSIDE
        return CLEAN


def _first_phrase(book: Phrasebook, field: TextReading) -> Phrase | None:
    possible = book.possible(field.vocabulary)
    text = spoken(field) if possible else ""
    return next((phrase for phrase in possible if phrase.pattern.search(text)), None)
