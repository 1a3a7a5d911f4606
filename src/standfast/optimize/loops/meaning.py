"""What a sentence of a prompt commits to: its numbers, negations, modals, comparisons and names, compared
sentence by sentence.

A shorter sentence must have exactly the marks of the sentence it comes from, in their order. So "Refund in 30
days. Ship in 5." can't become "Refund in 5 days. Ship in 30.", and "Never share keys. Share your name." can't
become "Share keys. Never share your name." Protected text must still occur somewhere in the prompt:
placeholders, negations with the word they negate, commands in capitals, numbers, addresses and code. The word
lists cover English, German, French and Spanish. Texts in other languages are compared by numbers, names and
exchanged words. The check errs on the side of refusing. Nothing here needs a model.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from standfast.optimize.loops.gate import RejectReason
from standfast.optimize.prompts.template import (
    PromptDescriptor,
    SectionDescriptor,
    path_text,
    placeholder_spans,
    placeholders,
)
from standfast.recall.tokens import TokenCounter

Mark = tuple[str, str]
"""Kind and normalized content: ``("number", "30")``."""

NUMBER, NUMBER_WORD, NEGATION, MODAL, NAME = "number", "number word", "negation", "modal", "name"
COMPARISON = "comparison"
_STRICT: Final = frozenset({NUMBER, NEGATION})

LANGUAGES: Final = ("English", "German", "French", "Spanish")
"""The languages whose negations, modals, comparisons and number words are known."""


def _words(*texts: str) -> frozenset[str]:
    return frozenset(" ".join(texts).split())


_ENGLISH_NEGATIONS: Final = (
    "not never no none nobody nothing neither nor without unless except cannot avoid refuse forbidden"
    " prohibited"
)
_NEGATIONS: Final = _words(
    _ENGLISH_NEGATIONS,
    "stop",
    "nicht nie niemals kein keine keinen keinem keiner keines nichts niemand weder ohne außer vermeide"
    " verboten",
    "ne pas jamais aucun aucune rien sans sauf évitez évite interdit",
    "non ni nunca jamás ningún ninguna ninguno nada nadie tampoco sin excepto evita evite prohibido",
)
_MODALS: Final = _words(
    "must shall should may might can could will would ought always only required optional sometimes",
    "muss müssen musst müsst soll sollen sollst sollte sollten darf dürfen darfst kann können kannst könnte"
    " immer nur manchmal",
    "doit doivent devez dois devrait peut peuvent pouvez peux toujours seulement uniquement faut parfois",
    "debe deben debes debería puede pueden puedes siempre solo sólo solamente únicamente hay",
)
_COMPARISONS: Final = _words(
    "before after until since more less fewer most least above below under over larger smaller higher lower"
    " first last or",
    "vor nach bis seit mehr weniger mindestens höchstens über unter größer kleiner höher niedriger zuerst"
    " zuletzt oder",
    "avant après jusqu depuis plus moins minimum maximum supérieur inférieur premier dernier ou",
    "antes después hasta desde más menos mínimo máximo mayor menor primero último o",
)
"""Words that order or choose. ``plus`` also negates in French, which is as good a reason to keep it."""
_MODAL_PHRASES: Final = (
    (re.compile(r"\b(?:prior to|in advance of)\b", re.IGNORECASE), "before"),
    (re.compile(r"\b(?:subsequent to|following)\b", re.IGNORECASE), "after"),
    (re.compile(r"\b(?:is|are|be) able to\b|\bha(?:s|ve) the ability to\b", re.IGNORECASE), "can"),
    (re.compile(r"\bat all times\b", re.IGNORECASE), "always"),
    (re.compile(r"\b(?:ha(?:s|ve)|needs?) to\b", re.IGNORECASE), "must"),
    (re.compile(r"\bcan['\u2019]t\b", re.IGNORECASE), "can not"),
    (re.compile(r"\bwon['\u2019]t\b", re.IGNORECASE), "will not"),
    (re.compile(r"n['\u2019]t\b", re.IGNORECASE), " not"),
    (re.compile(r"\bcannot\b", re.IGNORECASE), "can not"),
)
_NUMBER_WORDS: Final = {
    word: str(value)
    for words, value in (
        ("zero null zéro cero", 0),
        ("two zwei deux dos", 2),
        ("three drei trois tres", 3),
        ("four vier quatre cuatro", 4),
        ("five fünf cinq cinco", 5),
        ("six sechs seis", 6),
        ("seven sieben sept siete", 7),
        ("eight acht huit ocho", 8),
        ("nine neun neuf nueve", 9),
        ("ten zehn dix diez", 10),
        ("eleven elf onze once", 11),
        ("twelve zwölf douze doce", 12),
        ("fourteen vierzehn quatorze catorce", 14),
        ("fifteen fünfzehn quinze quince", 15),
        ("twenty zwanzig vingt veinte", 20),
        ("thirty dreißig trente treinta", 30),
        ("sixty sechzig soixante sesenta", 60),
        ("ninety neunzig noventa", 90),
        ("hundred hundert cent cien", 100),
        ("thousand tausend mille mil", 1_000),
    )
    for word in words.split()
}
# Words that say nothing about what a sentence is about.
_FUNCTION_WORDS: Final = _words(
    "the and for you your that this with from are was were has have had its they them their when then than"
    " into any all",
    "der die das und für sie ihr ihre mit von dem den des ein eine einen ist sind war wenn dann als auf bei",
    "les des une pour vous votre avec dans est sont que qui par sur leur aux",
    "los las una para con por del que son está sus",
)

_CODE: Final = re.compile(r"```.*?```|~~~.*?~~~", re.DOTALL)
_BREAK: Final = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+#|>]|\d+[.)])[ \t])")
_SENTENCE: Final = re.compile(r"(?<=[.!?;:。！？])[\"'»”)\]]*\s+")  # Full-width marks end sentences too.
_TOKEN: Final = re.compile(r"\d[\d.,:/]*\d%?|\d%?|[^\W\d_][\w'\u2019-]*")
_BULLET: Final = re.compile(r"^[ \t]*(?:[-*+#>|]+|\d+[.)])[ \t]+")
_STEM_CHARS: Final = 6
_KEPT_SHARE: Final = 0.5
_REPEATED_SHARE: Final = 0.8


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with its marks in order and the words that say what it is about."""

    text: str
    marks: tuple[Mark, ...]
    words: frozenset[str]
    first_word: str = ""

    def has_marks_of(self, other: "Sentence") -> bool:
        """Return whether both have the same marks.

        A name that starts a sentence can't be told from another word, so it counts as one.
        """
        as_names = [((NAME, one.first_word), *one.marks) for one in (self, other)]
        return self.marks == other.marks or self.marks == as_names[1] or as_names[0] == other.marks

    @property
    def strict_marks(self) -> tuple[Mark, ...]:
        """The marks that must survive even if nothing else of the sentence does."""
        return tuple(mark for mark in self.marks if mark[0] in _STRICT)


def sentences_of(body: str) -> list[Sentence]:
    """Split a text into sentences. Code blocks are left out; they are protected as a whole."""
    parts = [
        part
        for block in _BREAK.split(_CODE.sub("\n\n", body))
        for part in _SENTENCE.split(_BULLET.sub("", " ".join(block.split())))
    ]
    return [_sentence(part.strip()) for part in parts if part.strip(" \t-*_#|>")]


def _sentence(text: str) -> Sentence:
    plain = text
    for phrase, modal in _MODAL_PHRASES:
        plain = phrase.sub(modal, plain)
    marks: list[Mark] = []
    words: set[str] = set()
    for place, found in enumerate(_TOKEN.finditer(plain)):
        token = found[0]
        lower = token.casefold().strip("'\u2019-")
        if token[0].isdigit():
            marks.append((NUMBER, token))
        elif lower in _NUMBER_WORDS:
            marks.append((NUMBER_WORD, _NUMBER_WORDS[lower]))
        elif lower in _NEGATIONS:
            marks.append((NEGATION, lower))
        elif lower in _MODALS:
            marks.append((MODAL, lower))
        elif lower in _COMPARISONS:
            marks.append((COMPARISON, lower))
        elif token[0].isupper() and place > 0:
            marks.append((NAME, lower))
        elif len(lower) >= 3 and lower not in _FUNCTION_WORDS:
            words.add(lower[:_STEM_CHARS])
    first = _TOKEN.search(plain)
    return Sentence(text, tuple(marks), frozenset(words), first[0].casefold() if first else "")


@dataclass(frozen=True, slots=True)
class MeaningChange:
    """A sentence that no longer commits to the same; ``about`` is the kind of mark that differs, or
    ``exchange``.
    """

    about: str
    detail: str


def meaning_change(before: Sequence[Sentence], after: Sequence[Sentence]) -> MeaningChange | None:
    """Return the first change of meaning between two prompts, or None.

    Dropped sentences are ``dropped``'s business.
    """
    known = {(sentence.marks, sentence.words) for sentence in before}
    changed = [sentence for sentence in after if (sentence.marks, sentence.words) not in known]
    parents = [(sentence, _parents(sentence, before)) for sentence in changed]
    for sentence, candidates in parents:
        if sentence.marks and not candidates:
            return MeaningChange(sentence.marks[0][0], f"{sentence.text!r:.120} is new")
        if candidates and not any(parent.has_marks_of(sentence) for parent in candidates):
            return _difference(candidates[0], sentence)
    for sentence in before:
        if sentence.strict_marks and not any(_keeps(sentence, other) for other in after):
            kind = sentence.strict_marks[0][0]
            return MeaningChange(kind, f"{sentence.text!r:.120} lost {sentence.strict_marks[0][1]!r}")
    return _exchange(_paired(parents))


def dropped(before: Sequence[Sentence], after: Sequence[Sentence]) -> list[str]:
    """Return the sentences that have no counterpart any more."""
    unchanged = {(sentence.marks, sentence.words) for sentence in before}
    fresh = [other for other in after if (other.marks, other.words) not in unchanged]
    stayed = [other for other in after if (other.marks, other.words) in unchanged]
    return [
        sentence.text
        for sentence in before
        if (sentence.words or sentence.marks)
        and not any(_is_about(sentence, other) for other in fresh)
        and not any(_repeats(sentence, other) for other in stayed)
    ]


def _parents(sentence: Sentence, before: Sequence[Sentence]) -> list[Sentence]:
    """Return the sentences that share most with this one; none if nothing is shared."""
    scores = [
        len(sentence.words & other.words) / max(len(sentence.words | other.words), 1) for other in before
    ]
    best = max(scores, default=0.0)
    if best == 0:
        return [other for other in before if sentence.marks and other.marks == sentence.marks]
    return [other for other, score in zip(before, scores, strict=True) if score == best]


def _is_about(sentence: Sentence, other: Sentence) -> bool:
    fewer = min(len(sentence.words), len(other.words))
    if not fewer:
        return sentence.marks == other.marks
    return len(sentence.words & other.words) / fewer >= _KEPT_SHARE


def _repeats(sentence: Sentence, other: Sentence) -> bool:
    """Return whether a sentence that stayed says the same, so that nothing is lost with this one."""
    common, either = len(sentence.words & other.words), len(sentence.words | other.words)
    return sentence.marks == other.marks and common >= _REPEATED_SHARE * either


def _keeps(sentence: Sentence, other: Sentence) -> bool:
    return sentence.strict_marks == other.strict_marks and _is_about(sentence, other)


def _difference(old: Sentence, new: Sentence) -> MeaningChange:
    was, now = Counter(old.marks), Counter(new.marks)
    changed = sorted((was - now) + (now - was)) or sorted(was)
    # A negation matters most.
    kind = next(
        (
            kind
            for kind in (NEGATION, NUMBER, NUMBER_WORD, MODAL, COMPARISON, NAME)
            if any(one[0] == kind for one in changed)
        ),
        NAME,
    )
    return MeaningChange(kind, f"{old.text!r:.120} became {new.text!r:.120}")


def _paired(
    parents: Sequence[tuple[Sentence, Sequence[Sentence]]],
) -> list[tuple[Sentence, Sentence]]:
    """Return each sentence with one parent: the first of its candidates that no earlier sentence has."""
    pairs: list[tuple[Sentence, Sentence]] = []
    for sentence, candidates in parents:
        taken = {old.text for _, old in pairs}
        free = [old for old in candidates if old.text not in taken] or list(candidates)
        if free:
            pairs.append((sentence, free[0]))
    return pairs


def _exchange(pairs: Sequence[tuple[Sentence, Sentence]]) -> MeaningChange | None:
    """Return two sentences that exchanged words: what one gained the other lost, and the other way round."""
    moves = [
        (new.words - old.words, old.words - new.words, new) for new, old in pairs if new.words != old.words
    ]
    for number, (gained, lost, new) in enumerate(moves):
        for other_gained, other_lost, other in moves[number + 1 :]:
            if gained & other_lost and other_gained & lost:
                return MeaningChange("exchange", f"{new.text!r:.120} and {other.text!r:.120} exchanged words")
    return None


FENCED: Final = re.compile(r"(```|~~~)(\w*)[ \t]*\n(.*?)\n?[ \t]*\1", re.DOTALL)
"""A code block: its fence, language and content."""


class _Literal(str):
    """A number as it was written: 1.10 stays 1.10."""

    __slots__ = ()


def compact_json(text: str) -> str | None:
    """Return a JSON object or array on one line; None if the text is neither or repeats a key."""
    try:
        value = json.loads(text, parse_int=_Literal, parse_float=_Literal, object_pairs_hook=_unrepeated)
    except (ValueError, RecursionError):
        return None
    return _dumped(value) if isinstance(value, dict | list) else None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is repeated")
    return members


def _dumped(value: object) -> str:
    if isinstance(value, _Literal):
        return str(value)
    if isinstance(value, dict):
        members = (
            f"{json.dumps(key, ensure_ascii=False)}:{_dumped(member)}" for key, member in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


_NEGATION: Final = "|".join((*_ENGLISH_NEGATIONS.split(), r"[a-z]+n['\u2019]t"))
_KINDS: Final = (
    ("code", re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]+`", re.DOTALL)),
    ("address", re.compile(r"\b(?:https?|ftp|mailto):\S+|\b[\w.+-]+@[\w-]+\.[\w.]+", re.IGNORECASE)),
    ("negation", re.compile(rf"\b(?:{_NEGATION})\b(?:[^\w\n]+\w+)?", re.IGNORECASE)),
    (
        "command",
        re.compile(r"\b(?:MUST|SHALL|ALWAYS|ONLY|REQUIRED|MANDATORY|IMPORTANT|WARNING)\b(?:[^\w\n]+\w+)?"),
    ),
    ("number", re.compile(r"\d[\d.,:/]*\d%?|\d%?")),
)


def protected_spans(body: str) -> list[tuple[int, int, str, str]]:
    """Return what must not be lost in a text: start, end, kind, and normalized content."""
    found = [(start, end, "placeholder", body[start:end]) for start, end in placeholder_spans(body)]
    code: list[tuple[int, int]] = []
    for kind, pattern in _KINDS:
        for match in pattern.finditer(body):
            if kind == "code":
                code.append(match.span())
            elif any(start <= match.start() < end for start, end in code):
                continue  # The code block protects it.
            found.append((*match.span(), kind, _normal(kind, match[0])))
    return sorted(found)


def _normal(kind: str, text: str) -> str:
    """Normalize white space, and case where it carries no meaning."""
    if kind == "code":
        fenced = FENCED.fullmatch(text)
        compact = None if fenced is None else compact_json(fenced[3])
        return compact if compact is not None else "\n".join(line.strip() for line in text.splitlines())
    words = " ".join(re.findall(r"\S+", text))
    if kind == "negation":
        return " ".join(re.findall(r"[\w'\u2019]+", words.casefold()))
    return " ".join(re.findall(r"\w+", words)) if kind == "command" else words


def protected(body: str) -> set[tuple[str, str]]:
    """Return the set of (kind, content) that must not be lost in a text."""
    return {(kind, content) for _, _, kind, content in protected_spans(body)}


def static_objection(
    before: PromptDescriptor, after: PromptDescriptor, *, counter: TokenCounter
) -> tuple[RejectReason, str] | None:
    """Return why a shorter prompt is rejected without running it, or None."""
    for old, new in zip(before.sections, after.sections, strict=True):
        if placeholders(new.body) != old.placeholders:
            lost = sorted(set(old.placeholders) - set(placeholders(new.body)))
            detail = f"lost {', '.join(lost)}" if lost else "has placeholders that the source does not have"
            return RejectReason.PLACEHOLDER_DROPPED, f"section {path_text(old.path)}: {detail}"
        if old.protected and old.body_hash != new.body_hash:
            return RejectReason.PROTECTED_SECTION, f"section {path_text(old.path)} is declared protected"
    needed = {one for section in before.sections for one in protected(section.body)}
    present = {one for section in after.sections for one in protected(section.body)}
    if lost_text := sorted(needed - present):
        negations = [content for kind, content in lost_text if kind == "negation"]
        if negations:
            return RejectReason.NEGATION_REMOVED, f"lost {', '.join(map(repr, negations[:5]))}"
        detail = ", ".join(f"{kind} {content!r:.60}" for kind, content in lost_text[:5])
        return RejectReason.PROTECTED_TEXT_LOST, f"lost {detail}"
    change = meaning_change(_sentences(before), _sentences(after))
    if change is not None:
        is_negation = change.about == NEGATION
        return RejectReason.NEGATION_REMOVED if is_negation else RejectReason.MEANING_CHANGED, change.detail
    old_tokens, new_tokens = prompt_tokens(before, counter), prompt_tokens(after, counter)
    if new_tokens >= old_tokens:
        return (
            RejectReason.NOT_SHORTER,
            f"{new_tokens} tokens by {counter.name}, and the baseline has {old_tokens}",
        )
    return None


def addition_objection(
    before: PromptDescriptor,
    after: PromptDescriptor,
    *,
    counter: TokenCounter,  # noqa: ARG001  # As for static_objection.
) -> tuple[RejectReason, str] | None:
    """Return why an addition is rejected without running it, or None.

    What was there must stay, word for word.
    """
    for old, new in zip(before.sections, after.sections, strict=True):
        where = f"section {path_text(old.path)}"
        if old.protected and old.body_hash != new.body_hash:
            return RejectReason.PROTECTED_SECTION, f"{where} is declared protected"
        if not new.body.startswith(old.body.rstrip("\n")) or old.recall_tokens != new.recall_tokens:
            return (
                RejectReason.MEANING_CHANGED,
                f"{where}: an addition must keep the text and the recall budget",
            )
        if placeholders(new.body) != old.placeholders:
            return RejectReason.PLACEHOLDER_DROPPED, f"{where} has placeholders that the source does not have"
    return None


def dropped_sentences(before: PromptDescriptor, after: PromptDescriptor) -> list[str]:
    """Return the sentences of a prompt that have no counterpart in another."""
    return dropped(_sentences(before), _sentences(after))


def _sentences(prompt: PromptDescriptor) -> list[Sentence]:
    return [sentence for section in prompt.sections for sentence in sentences_of(section.body)]


def section_tokens(section: SectionDescriptor, counter: TokenCounter) -> int:
    """Return the tokens of a section's body and of what memory may add to it."""
    return counter.count(section.body) + (section.recall_tokens or 0)


def section_cost(section: SectionDescriptor, counter: TokenCounter) -> int:
    """Return the tokens of a section with its heading, which an empty section does not have."""
    return section_tokens(section, counter) + (counter.count(section.title) if section.body.strip() else 0)


def prompt_tokens(prompt: PromptDescriptor, counter: TokenCounter) -> int:
    """Return the tokens of a prompt before values are bound."""
    return sum(section_cost(section, counter) for section in prompt.sections)
