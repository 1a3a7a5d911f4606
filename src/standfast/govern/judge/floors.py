"""The floors that compare a claim with its sources, with what is known, and with who may say it.

    F1_Amanah      ProvenanceFloor     soft   it names its source, if it is meant as law
    F2_Truth       TruthFloor          hard   it does not contradict what is sealed
    F3_Witness     CorroborationFloor  soft   a source other than the agent supports what is meant as law
    F4_Clarity     ClarityFloor        hard   it is text, and all of it is visible (text_floors.py)
    F5_Secrecy     SecrecyFloor        hard   it holds no secrets and no personal data (text_floors.py)
    F6_Injection   InjectionFloor      hard   it states a fact and gives no orders (injection.py)
    F7_Humility    CalibrationFloor    soft   it is no more certain than its sources
    F8_Novelty     NoveltyFloor        hard   it is short enough and was not rejected before
    F9_Authority   AuthorityFloor      hard   it does not claim to be law (text_floors.py)

All are deterministic. They compare words and forms, not meaning; each docstring says what its floor does not catch.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from standfast.canon import fingerprint
from standfast.errors import InvalidValue, NotCanonical
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
from standfast.govern.judge.similarity import KnownText, says_nothing_new
from standfast.govern.judge.text_reading import (
    AMBIGUOUS_MONTHS,
    MONTHS,
    OPPOSITES,
    READ_CHARS,
    WEEKDAYS,
    TextReading,
    word_set,
)
from standfast.origins import Origin
from standfast.vocabulary import Band, Record

ATTACKS_OF_A_PATTERN: Final = 3
"""How many rejected injections from one source make a pattern."""
PATTERN_DAYS: Final = 30
"""How long an attack counts, and how long a pattern applies after the last one."""
RECALLED: Final = "recalled"
"""What stands for the known record if the excerpts of a context do not name theirs."""

# F1_Amanah.

_PLACEHOLDERS: Final = word_set("unknown none null n/a na tbd ? - anonymous somewhere internet web")
_PLACEHOLDER_KINDS: Final = _PLACEHOLDERS - {"internet", "web"}
_NO_SOURCE: Final = "no source. Name one by kind and id, such as kind 'doc' and id 'handbook'"
_HALF_A_SOURCE: Final = "incomplete source. Give both its kind and its id"
_PLACEHOLDER_SOURCE: Final = "placeholder instead of a source. Give an id that can be looked up"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceFloor:
    """The source has a kind and an id, and both name something.

    Without a source, a text is the agent's own word. That is accepted with a lower score, and fails only what is meant as law.
    Set the threshold to 0.75 to require a source of everything. It does not look the source up, so an invented one passes.
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
    if not (_is_filled(kind) and _is_filled(source_id)):
        return _HALF_A_SOURCE
    if str(source_id).strip().lower() in _PLACEHOLDERS or str(kind).strip().lower() in _PLACEHOLDER_KINDS:
        return _PLACEHOLDER_SOURCE
    return None


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


# F2_Truth.

# The share of the shorter text's topic that both must have to be about the same thing. Without a subject, more is needed.
_MIN_SHARED: Final = 0.5
_MIN_SHARED_WITHOUT_SUBJECT: Final = 0.7
_MIN_WORDS_WITHOUT_SUBJECT: Final = 3
# From this share on, a replaced word changes the statement.
_MIN_SHARED_FOR_A_REPLACEMENT: Final = 0.6
_MIN_SHARED_FOR_AN_UNEVEN_REPLACEMENT: Final = 0.75
_MAX_REPLACED_WORDS: Final = 2
_ADDITION: Final = "adds to sealed memory"
_NO_WORDS: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthFloor:
    """Does not contradict sealed memory of the same subject: no other number, date, weekday or month, no negation, no opposite.

    Two texts of one subject that share most words, but for one or two in each, contradict each other as well. Otherwise the
    claim adds to the subject and passes with a lower score. Without a subject, the claim is compared with everything sealed,
    and must be closer to contradict it. A proposal to amend the sealed text (meant for PHOENIX, or for VAULT by a human)
    passes, because a human decides it. Words are compared, not meaning: a contradiction in other words passes.
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
    """Sealed records that may be about the same thing: they share a word even without the most common shared ones."""
    by_word = context.sealed_by_word
    shared = sorted((len(by_word[word]), word) for word in text.topic if word in by_word)
    rarest = shared[: max(0, len(shared) - _MIN_WORDS_WITHOUT_SUBJECT + 1)]
    return list({id(known): known for _, word in rarest for known in by_word[word]}.values())


def _worst_contradiction(text: TextReading, sealed: Iterable[KnownText], has_subject: bool) -> Finding:
    """The finding with the lowest score; among equals, the one with the smallest memory id."""
    findings = [
        (score, known.memory_id, problem)
        for known in sealed
        for score, problem in [_contradiction(text, known.reading, has_subject)]
        if score < 1
    ]
    if not findings:
        return CLEAN
    score, memory_id, problem = min(findings)
    if problem == _ADDITION:
        return Finding(score, f"{problem} {memory_id}")
    return Finding(
        score, f"contradicts sealed memory {memory_id} ({problem}). Correct it, or propose an amendment"
    )


def _contradiction(text: TextReading, sealed: TextReading, has_subject: bool) -> tuple[float, str]:
    ours, theirs = text.topic, sealed.topic
    shared = ours & theirs
    share = len(shared) / max(1, min(len(ours), len(theirs)))
    addition = (0.8, _ADDITION) if has_subject else (1.0, "")
    if has_subject and share < _MIN_SHARED:
        return (1.0, "") if text.words == sealed.words else addition
    if not has_subject and (share < _MIN_SHARED_WITHOUT_SUBJECT or len(shared) < _MIN_WORDS_WITHOUT_SUBJECT):
        return addition
    if text.words == sealed.words or says_nothing_new(text, sealed):
        return 1.0, ""
    if _has_other_figure(text, sealed):
        return 0.0, "another number or date"
    if _has_other_member(text, sealed, WEEKDAYS) or _has_other_member(text, sealed, MONTHS):
        return 0.0, "another day or month"
    if ("not" in text.qualifiers) != ("not" in sealed.qualifiers) and share >= _MIN_SHARED_FOR_A_REPLACEMENT:
        return 0.0, "its negation"
    if any(
        not OPPOSITES.get(word, _NO_WORDS).isdisjoint(sealed.vocabulary - text.vocabulary)
        for word in text.vocabulary
    ):
        return 0.1, "its opposite"
    if _replaces_words(text, sealed, share):
        return 0.2, "another statement in its place"
    return addition


def _replaces_words(text: TextReading, sealed: TextReading, share: float) -> bool:
    """Whether one or two words replace others: in the same places, or in a text that is similar enough."""
    only_ours, only_theirs = text.topic - sealed.topic, sealed.topic - text.topic
    if not 0 < len(only_ours) <= _MAX_REPLACED_WORDS or not 0 < len(only_theirs) <= _MAX_REPLACED_WORDS:
        return False
    if len(only_ours) != len(only_theirs):
        return share >= _MIN_SHARED_FOR_AN_UNEVEN_REPLACEMENT
    if share >= _MIN_SHARED_FOR_A_REPLACEMENT:
        return True
    pairs = zip(text.carrying, sealed.carrying, strict=False)
    same_places = all(one == other or (one in only_ours and other in only_theirs) for one, other in pairs)
    return same_places and len(text.carrying) == len(sealed.carrying)


def _has_other_figure(text: TextReading, sealed: TextReading) -> bool:
    """Whether a shared unit has no number in common; or each has one number, not both of them with a unit."""
    ours, theirs = text.quantities, sealed.quantities
    both = ours.keys() & theirs.keys()
    if both:
        return any(ours[unit].isdisjoint(theirs[unit]) for unit in both)
    return len(text.numbers) == len(sealed.numbers) == 1 and ("" in ours or "" in theirs)


def _has_other_member(text: TextReading, sealed: TextReading, members: dict[str, int]) -> bool:
    certain = members.keys() - AMBIGUOUS_MONTHS
    ours = {members[word] for word in text.vocabulary & certain}
    theirs = {members[word] for word in sealed.vocabulary & certain}
    return bool(ours) and bool(theirs) and ours.isdisjoint(theirs)


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

    The agent's own word scores 0.25, one source 0.5, two 0.75, three or more 1. What is meant as law needs a source, and so does
    what comes from a source with a pattern of attacks: another source than that one. Pages of one document or site are one
    source; the agent, a model and memory itself are none. An untrusted source is none for its own site, nor for what others say.
    Soft; set the threshold to 0.5 to require a source, to 0.75 for two. It
    counts names, so two names for one source count twice, and it does not read the sources.
    """

    name: str = "F3_Witness"
    threshold: float = 0.25
    hard: bool = False

    def check(self, claim: Claim, context: JudgingContext) -> Finding:
        """0 for too few, 0.25 for the agent's own word, 0.5 for one source, 0.75 for two, 1 for more."""
        witnesses = claim.witnesses
        is_untrusted = claim.record.origin is Origin.UNTRUSTED
        if 0 < len(witnesses) < 3 and context.knows_any:
            similar = [known for known in context.similar_to(claim) if not known.refused]
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
                f"{ATTACKS_OF_A_PATTERN} or more writes from {named} were rejected as injections (since {since}). Confirm it "
                f"from another source, or lift the pattern: standfast patterns lift {named}",
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
    return {
        source: days[0]
        for source in sources_of(record)
        if (days := [day for day in context.attack_days.get(source, ()) if day > oldest])
    }


def day_after(day: str, days: int) -> str:
    """The day that many days after ``day`` (``YYYY-MM-DD``); before it, if the number is negative."""
    return (date.fromisoformat(day) + timedelta(days=days)).isoformat()


# F7_Humility.

# Words that allow no exception, folded.
_ABSOLUTE: Final = word_set(
    "always never guaranteed guarantees guarantee impossible certainly undoubtedly definitely unquestionably absolutely "
    "infallible flawless undeniable irrefutable everyone nobody everybody forever perfectly invariably unbreakable "
    "unhackable bulletproof proven immer niemals garantiert unmoglich zweifellos definitiv jeder niemand unfehlbar "
    "toujours jamais garanti garantie impossible certainement indubitablement infaillible siempre nunca garantizado "
    "imposible indudablemente sempre mai garantito impossibile sicuramente nessuno garantido impossivel altijd nooit "
    "gegarandeerd onmogelijk всегда никогда гарантированно невозможно دائما أبدا مستحيل"
)
_ABSOLUTE_UNSPACED: Final = re.compile("总是|永远|绝对|从不|保证|不可能|必ず|絶対|決して|항상|절대")
_HUNDRED_PERCENT: Final = re.compile(r"(?<![\d.,])100(?:[.,]0+)? ?(?:%|percent|prozent)")
# After one of these, an absolute word is not absolute.
_HEDGES: Final = word_set(
    "not almost nearly virtually practically hardly seldom rarely usually isn't aren't wasn't doesn't don't won't can't "
    "nicht fast beinahe presque pas casi no quasi quase bijna не почти"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFloor:
    """Absolute words (always, never, guaranteed, 100 %) need a source other than the agent, where they are meant as law.

    Anywhere else they only lower the score. Soft. It knows the words of some European languages, Chinese, Japanese, Korean and Arabic. It does not check whether the
    source really says so, and does not recognise certainty in other words.
    """

    name: str = "F7_Humility"
    threshold: float = 0.5
    hard: bool = False

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """1 without absolute words, 0.9 with a source for them, 0.6 without, 0.4 or less without in a proposal of law."""
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
    if not _ABSOLUTE.isdisjoint(claim.whole.vocabulary):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NoveltyFloor:
    """Short enough for one memory, not rejected before; and if it is known already, it says by which record.

    What is known is no violation. A claim is known if it adds nothing to a record (see ``similarity.py``) of its own subject and
    with its tags, or consists of what this run recalled. Content that was rejected before is recognised by its fingerprint
    (through changes of case, spacing, punctuation, accents and lookalike letters), and by similarity while the rejected record
    exists; a human may submit it again. Words are compared: a paraphrase or a translation is new.
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
        if not claim.is_human and (context.refused or context.knows_any):
            if _is_refused(claim, context.refused):
                return Finding(0.0, "rejected before: the same content. A human may submit it again")
            if refused := [known.memory_id for known in context.similar_to(claim) if known.refused]:
                return Finding(
                    0.0, f"rejected before: it says what {refused[0]} says. A human may submit it again"
                )
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
        found = (known for known in context.similar_to(claim) if not known.refused and _covers(known, claim))
        return next((known.memory_id for known in found), None)


def _is_refused(claim: Claim, refused: frozenset[str]) -> bool:
    """Whether the content, or the exact text, has the fingerprint of rejected content."""
    if claim.reading.fingerprint in refused:
        return True
    try:
        return fingerprint(claim.record.text) in refused
    except NotCanonical:
        return False


def _covers(known: KnownText, claim: Claim) -> bool:
    """Whether a known record is found wherever the claim would be: under its subject, if it has one, and all of its tags.

    A record that is trusted less does not, or poison could keep a fact out by saying it first.
    """
    if known.origin.rank < claim.record.origin.rank:
        return False
    return claim.record.subject in (None, known.subject) and known.tags.issuperset(claim.record.tags)
