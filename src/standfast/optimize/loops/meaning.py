"""What a sentence of a prompt commits to: its numbers, negations, modals, comparisons and names, compared sentence by sentence.

A shorter sentence must have exactly the marks of the sentence it comes from, in their order. So "Refund in 30 days. Ship in 5." can't
become "Refund in 5 days. Ship in 30.", and "Never share keys. Share your name." can't become "Share keys. Never share your name."
The word lists cover English, German, French and Spanish. Texts in other languages are compared by numbers, names and exchanged words.
The check errs on the side of refusing.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Mark = tuple[str, str]
"""Kind and normalized content: ``("number", "30")``."""

NUMBER, NUMBER_WORD, NEGATION, MODAL, NAME = "number", "number word", "negation", "modal", "name"
COMPARISON = "comparison"
_STRICT: Final = frozenset({NUMBER, NEGATION})

LANGUAGES: Final = ("English", "German", "French", "Spanish")
"""The languages whose negations, modals, comparisons and number words are known."""

_NEGATIONS: Final = frozenset(
    [
        "not",
        "never",
        "no",
        "none",
        "nobody",
        "nothing",
        "neither",
        "nor",
        "without",
        "unless",
        "except",
        "cannot",
        "avoid",
        "refuse",
        "forbidden",
        "prohibited",
        "stop",
        "nicht",
        "nie",
        "niemals",
        "kein",
        "keine",
        "keinen",
        "keinem",
        "keiner",
        "keines",
        "nichts",
        "niemand",
        "weder",
        "ohne",
        "außer",
        "vermeide",
        "verboten",
        "ne",
        "pas",
        "jamais",
        "aucun",
        "aucune",
        "rien",
        "sans",
        "sauf",
        "évitez",
        "évite",
        "interdit",
        "non",
        "ni",
        "nunca",
        "jamás",
        "ningún",
        "ninguna",
        "ninguno",
        "nada",
        "nadie",
        "tampoco",
        "sin",
        "excepto",
        "evita",
        "evite",
        "prohibido",
    ]
)
_MODALS: Final = frozenset(
    [
        "must",
        "shall",
        "should",
        "may",
        "might",
        "can",
        "could",
        "will",
        "would",
        "ought",
        "always",
        "only",
        "required",
        "optional",
        "sometimes",
        "muss",
        "müssen",
        "musst",
        "müsst",
        "soll",
        "sollen",
        "sollst",
        "sollte",
        "sollten",
        "darf",
        "dürfen",
        "darfst",
        "kann",
        "können",
        "kannst",
        "könnte",
        "immer",
        "nur",
        "manchmal",
        "doit",
        "doivent",
        "devez",
        "dois",
        "devrait",
        "peut",
        "peuvent",
        "pouvez",
        "peux",
        "toujours",
        "seulement",
        "uniquement",
        "faut",
        "parfois",
        "debe",
        "deben",
        "debes",
        "debería",
        "puede",
        "pueden",
        "puedes",
        "siempre",
        "solo",
        "sólo",
        "solamente",
        "únicamente",
        "hay",
    ]
)
_COMPARISONS: Final = frozenset(
    word
    for words in (
        "before after until since more less fewer most least above below under over larger smaller higher lower first last or",
        "vor nach bis seit mehr weniger mindestens höchstens über unter größer kleiner höher niedriger zuerst zuletzt oder",
        "avant après jusqu depuis plus moins minimum maximum supérieur inférieur premier dernier ou",
        "antes después hasta desde más menos mínimo máximo mayor menor primero último o",
    )
    for word in words.split()
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
_FUNCTION_WORDS: Final = frozenset(
    [
        "the",
        "and",
        "for",
        "you",
        "your",
        "that",
        "this",
        "with",
        "from",
        "are",
        "was",
        "were",
        "has",
        "have",
        "had",
        "its",
        "they",
        "them",
        "their",
        "when",
        "then",
        "than",
        "into",
        "any",
        "all",
        "der",
        "die",
        "das",
        "und",
        "für",
        "sie",
        "ihr",
        "ihre",
        "mit",
        "von",
        "dem",
        "den",
        "des",
        "ein",
        "eine",
        "einen",
        "ist",
        "sind",
        "war",
        "wenn",
        "dann",
        "als",
        "auf",
        "bei",
        "les",
        "des",
        "une",
        "pour",
        "vous",
        "votre",
        "avec",
        "dans",
        "est",
        "sont",
        "que",
        "qui",
        "par",
        "sur",
        "leur",
        "aux",
        "los",
        "las",
        "una",
        "para",
        "con",
        "por",
        "del",
        "que",
        "son",
        "está",
        "sus",
    ]
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
        """Return whether both have the same marks. A name that starts a sentence can't be told from another word, so it counts as one."""
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
    """A sentence that no longer commits to the same; ``about`` is the kind of mark that differs, or ``exchange``."""

    about: str
    detail: str


def meaning_change(before: Sequence[Sentence], after: Sequence[Sentence]) -> MeaningChange | None:
    """Return the first change of meaning between two prompts, or None. Dropped sentences are ``dropped``'s business."""
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
