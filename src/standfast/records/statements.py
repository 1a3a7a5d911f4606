"""Plain statements: who has which value for what, read from a text without a model.

    I moved to Lisbon last week.                 @  home              lisbon
    My favourite colour is green now.            @  favourite colour  green
    Ada prefers answers in French.               ada  prefers answers  french
    The weekly standup is at 10:15.                 n weekly standup  10:15
    I no longer drink coffee.                    @  does dri coffee   no

Two statements of one holder and attribute with different values speak of one matter and disagree: one of them
was said later. It is a guess, so nothing is hidden by it; recall shows both and marks the older one.

Patterns are data, in ``statements.txt``; this file is their reader. English, German, French and Spanish have
patterns. In other languages only statements that differ in a number are recognised.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec

from standfast.limits import MAX_STATEMENTS

_DATA: Final = "statements.txt"

LANGUAGES: Final = ("english", "german", "french", "spanish")
SELF: Final = "@"
"""The holder of what the user of a scope says about themselves."""
YES: Final = "yes"
NO: Final = "no"
_USER_NAMES: Final = frozenset(("user", "human", ""))
_MAX_READ_CHARS: Final = 2_000
_MAX_FACT_WORDS: Final = 60
_MAX_CLAUSE_WORDS: Final = 16
_MAX_VALUE_WORDS: Final = 5
_MAX_PLAIN_WORDS: Final = 9
"""A clause with more words is no plain sentence that a denial could be about."""
_MAX_DENIED_WORDS: Final = 4
_MAX_NUMBER_WORDS: Final = 14
_MAX_NUMBERS: Final = 3
_COLUMN: Final = 14
"""Where the pattern of a line of the data begins."""
_END: Final = re.compile(r"[.!;?]+(?=\s|$)|\n+")
_NO_END: Final = re.compile(r"(?:\b\d{1,2}|\b(?:Dr|Mr|Mrs|Ms|St|No|Prof))$")
"""Before a full stop that ends no sentence: "3. Mai", "Dr. Blum"."""
_CLAUSE: Final = re.compile(
    r",\s+|\s+(?:and|but|und|aber|et|mais|y|pero)\s+(?=(?:i|we|my|our|ich|wir|meine?|je|j['’]|mon|ma|mi|me)\b)",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[jnl]['’](?=\w)|\w+(?:[:.,/'’-]\w+)*")
_FORMULA: Final = re.compile(r"[=^\\<>≤≥{}|]")
_LETTERS: Final = re.compile(r"[^\W\d_]+")
_ASCII_LETTERS: Final = bytes(
    ord(char.lower()) if (char := chr(code)).isascii() and char.isalpha() else ord(" ") for code in range(256)
)
_DIGIT: Final = re.compile(r"\d")
_CONTRACTIONS: Final = (
    (re.compile(r"\b(i|we)'m\b"), r"\1 am"),
    (re.compile(r"\b(i|we|you|they)'re\b"), r"\1 are"),
    (re.compile(r"\bcan't\b"), "can not"),
    (re.compile(r"n't\b"), " not"),
)


class PlainStatement(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Who has which value for what.

    Attributes:
        holder: Who or what it is about; ``"@"`` is the user of the scope.
        attribute: What about them, e.g. ``"home"``.
        value: The value, folded; ``"yes"`` or ``"no"`` for what somebody does or is.
    """

    holder: str
    attribute: str
    value: str

    @property
    def matter(self) -> str:
        """What it is a statement on. Two of one matter with different values disagree."""
        return f"{self.holder}\n{self.attribute}"


class _Pattern(NamedTuple):
    attribute: str
    value: str
    """What stands for the value if the pattern has none of its own."""
    needs: tuple[frozenset[str], ...]
    """Of each of these sets a clause that it matches has a word; the first has the cues."""
    regex: re.Pattern[str]
    needs_name: bool
    is_change: bool
    """Whether it is about a number: people also say that one changed on the way to a question."""


@cache
def sections_of(file: str) -> Mapping[str, tuple[str, ...]]:
    """The lines of each section of a data file of this package."""
    text = files("standfast.records").joinpath(file).read_text(encoding="utf-8")
    sections: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("["):
            lines = sections.setdefault(line.strip("[] "), [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return {name: tuple(lines) for name, lines in sections.items()}


@cache
def _words(section: str) -> frozenset[str]:
    """The words and phrases of a section; the words of a phrase are joined by _."""
    return frozenset(word for line in sections_of(_DATA)[section] for word in line.casefold().split())


def letter_runs(text: str) -> frozenset[str]:
    """The runs of letters of a text, folded."""
    if text.isascii():
        return frozenset(text.encode().translate(_ASCII_LETTERS).decode().split())
    return frozenset(_LETTERS.findall(text.casefold()))


def longest_runs(phrases: Iterable[str]) -> frozenset[str]:
    """The longest run of letters of each word or phrase. A text that has one of them has that run, too."""
    return frozenset(max(_LETTERS.findall(one), key=len) for one in phrases)


class JoinedPhrases:
    """Makes one word of each phrase of some data.

    Args:
        phrases: The phrases, their words joined by _.
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        written = sorted({one.replace("_", " ") for one in phrases})
        self._runs = [frozenset(_LETTERS.findall(one)) for one in written]
        self._longest_runs = longest_runs(written)
        self._regex = re.compile(rf"\b(?:{_any_of(written)})(?!\w)")

    def in_text(self, text: str, runs: frozenset[str] | None = None) -> str:
        """The folded text with its phrases joined.

        Args:
            runs: Its ``letter_runs``, or those of a longer text, if they are known. Most texts have no
                phrase, which is then found out quickly.
        """
        if runs is not None and not self.may_be_in(runs):
            return text
        return self._regex.sub(lambda found: found.group().replace(" ", "_"), text)

    def may_be_in(self, runs: frozenset[str]) -> bool:
        """Whether a text with these runs may have one of the phrases."""
        return not self._longest_runs.isdisjoint(runs) and any(map(runs.issuperset, self._runs))


@cache
def _phrases() -> JoinedPhrases:
    """The phrases of all sections."""
    names = [name for name in sections_of(_DATA) if name not in LANGUAGES]
    return JoinedPhrases(one for name in names for one in _words(name) if "_" in one)


def _any_of(words: Iterable[str]) -> str:
    """A pattern for one of some words and phrases, the longest first."""
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    return "|".join(re.escape(word.replace("_", " ")) for word in longest_first)


@cache
def _patterns() -> tuple[_Pattern, ...]:
    now = f"(?:(?:{_any_of(_words('now'))}) )?"
    articles = [word for word in _words("articles") if not word.endswith(("'", "’"))]
    the = rf"(?:(?:{_any_of(articles)}) |l['’])?"
    holder = r"(?P<h>j['’]|(?:[\w.-]+ ){0,2}?[\w.-]+?)"
    value = r"[^,;:!?()\"]{1,60}?"
    macros = {"{now}": now, "{the}": the, "{H}": holder, "{A}": r"(?P<a>[\w'’ -]{2,40}?)"}
    macros |= {"{V0}": rf"(?P<v0>{value})", "{V}": rf"(?P<v>{value})", "{name}": rf"(?P<v>{value})"}
    macros["{number}"] = r"[$€£]?(?P<v>\d[\w.,:%/]*)(?:[ -][^,;:!?()\"]*)?"
    found = []
    for language in LANGUAGES:
        for line in sections_of(_DATA)[language]:
            attribute, _, fixed = line[:_COLUMN].strip().partition("=")
            source = line[_COLUMN:]
            needs = _needs_of(source)
            for name, macro in macros.items():
                source = source.replace(name, macro)
            regex = re.compile(rf"{source}(?=$|[,;:!?()\"])", re.IGNORECASE)
            found.append(_Pattern(attribute, fixed, needs, regex, "{name}" in line, "{number}" in line))
    return tuple(found)


def _needs_of(source: str) -> tuple[frozenset[str], ...]:
    """The words of which a clause has one if a pattern matches it, set by set.

    The cues come first. They are those of the first group that must be there, or all others. If one of those
    is a single letter, as most texts have, a long word alone.
    """
    # What may be missing leaves a mark, so that what is attached to it does not stand alone.
    needed = re.sub(r"\(\?:[^()]*\)\?|\{\w+\}", "\0", source)
    groups = re.findall(r"\(\?:([^()]*)\)", needed)
    cues, *others = map(_forms_in, groups or [needed])
    alone = re.findall(r"(?<![^ ])[^\W\d_]{4,}(?![^ ])", re.sub(r"\(.*?\)", "\0", needed))
    if alone and min(map(len, cues)) == 1:
        cues = frozenset((alone[0].casefold(),))
    return cues - _words("common") or cues, *others


def _forms_in(part: str) -> frozenset[str]:
    """The words of a part of a pattern, folded; two for a word whose last letter may be missing."""
    return frozenset(
        form.casefold()
        for word, may_be_shorter in re.findall(r"([^\W\d_]+)(\??)", part)
        for form in ([word, word[:-1]] if may_be_shorter else [word])
    )


@cache
def _patterns_by_cue() -> Mapping[str, tuple[int, ...]]:
    """The places of the patterns that may match a clause with a word."""
    by_cue: dict[str, list[int]] = {}
    for place, pattern in enumerate(_patterns()):
        for cue in pattern.needs[0]:
            by_cue.setdefault(cue, []).append(place)
    return {cue: tuple(places) for cue, places in by_cue.items()}


def _possible_patterns(runs: frozenset[str]) -> list[int]:
    """The places of the patterns that may match in a text with these ``letter_runs``, in order."""
    by_cue, patterns = _patterns_by_cue(), _patterns()
    if by_cue.keys().isdisjoint(runs):
        return []
    places = {place for cue in by_cue.keys() & runs for place in by_cue[cue]}
    return sorted(
        place for place in places if not any(need.isdisjoint(runs) for need in patterns[place].needs[1:])
    )


def statements_of(
    text: str,
    *,
    speaker: str | None = None,
    scope: str = "",
    is_message: bool = False,
    runs: frozenset[str] | None = None,
) -> tuple[PlainStatement, ...]:
    """The plain statements of a text, in order, each once.

    Args:
        speaker: Who said it; they are the holder of what it says in the first person.
        scope: Where it is remembered. In ``user/ada``, Ada is the user.
        is_message: It is a message of a conversation. People say more there than they mean to be remembered,
            so denials and numbers are read more strictly.
        runs: Its ``letter_runs``, if they are known.
    """
    if not is_message and len(text.split()) > _MAX_FACT_WORDS:
        return ()
    owner = scope.rpartition("/")[2].casefold()
    me = "" if speaker is None else speaker.casefold()
    holder = SELF if me in _USER_NAMES or me == owner else me
    reading = _StatementReader(holder, owner, is_message, letter_runs(text) if runs is None else runs)
    found: dict[PlainStatement, None] = {}
    text = text[:_MAX_READ_CHARS]
    if reading.finds_nothing_in_long_sentences and is_one_long_sentence(text, _MAX_NUMBER_WORDS):
        return ()
    for sentence, is_question in _sentences(text):
        for statement in reading.of_sentence(sentence, is_question):
            found.setdefault(statement)
    return tuple(found)[:MAX_STATEMENTS]


def plain_sentences(text: str) -> Iterator[str]:
    """The sentences of a text that say something; questions do not."""
    return (sentence for sentence, is_question in _sentences(text) if not is_question)


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """The sentences of a text, each with whether it is a question."""
    start = 0
    for end in [*_END.finditer(text, max(len(text) - 1, 0) if _is_one_sentence(text) else 0), None]:
        stop = len(text) if end is None else end.start()
        if end is not None and end.group() == "." and _NO_END.search(text, max(start, stop - 5), stop):
            continue
        sentence = text[start:stop].strip(" \t\"'“”‘’«»–—-*")
        if sentence:
            is_question = (end is not None and "?" in end.group()) or sentence.startswith("¿")
            yield " ".join(sentence.split()), is_question
        start = len(text) if end is None else end.end()


def _is_one_sentence(text: str) -> bool:
    """Whether only the last character can end a sentence, as in most texts."""
    return not any(map(text[:-1].__contains__, ".!;?\n"))


def is_one_long_sentence(text: str, most: int) -> bool:
    """Whether a text without phrases is one sentence that surely has more words than this."""
    return _is_one_sentence(text) and has_more_words(text, most)


def tokens_of(text: str, runs: frozenset[str] | None = None) -> list[str]:
    """The words of a text, folded; a phrase of the data is one word.

    Args:
        runs: Its ``letter_runs``, or those of a longer text, if they are known.
    """
    folded = text.casefold().replace("’", "'")
    if "'" in folded:
        runs = None
        for contraction, words in _CONTRACTIONS:
            folded = contraction.sub(words, folded)
    return _WORD.findall(_phrases().in_text(folded, runs))


def has_more_words(sentence: str, most: int) -> bool:
    """Whether a sentence surely has more words than this, however they are counted, if it has no phrase.

    Words that may stand before it, such as "well", are not counted.
    """
    words = sentence.casefold().split()
    if len(words) <= most or "'" in sentence or "’" in sentence:
        return False
    count = sum(map(str.isalnum, words))
    openers = _words("openers")
    if count > most and not openers.isdisjoint(words):
        count -= sum(map(openers.__contains__, words))
    return count > most


def _is_in(word: str, section: str) -> bool:
    return word in _words(section)


def _has(words: Iterable[str], section: str) -> bool:
    """Whether one of some words is in a section."""
    return not _words(section).isdisjoint(words)


def has_word_of(sentence: str, section: str) -> bool:
    """Whether a sentence has a word of a section of the data, such as "unsure"."""
    return _has(tokens_of(sentence), section)


@cache
def _unsure_runs() -> frozenset[str]:
    """Of these a text without a contraction has one if it has a word such as "perhaps"."""
    return longest_runs(_words("unsure"))


class _StatementReader:
    """Reads sentences of one text, by one speaker.

    Args:
        runs: The ``letter_runs`` of the text.
    """

    def __init__(self, me: str, owner: str, is_message: bool, runs: frozenset[str]) -> None:
        self._me, self._owner, self._is_message, self._runs = me, owner, is_message, runs
        self._has_cue = bool(_possible_patterns(runs))
        self._has_phrases = _phrases().may_be_in(runs)
        self._may_be_unsure = not _unsure_runs().isdisjoint(runs)

    @property
    def finds_nothing_in_long_sentences(self) -> bool:
        """Whether no sentence of the text matches a pattern, and each of its words counts."""
        return not (self._has_cue or self._has_phrases)

    def of_sentence(self, sentence: str, is_question: bool) -> Iterator[PlainStatement]:
        """The statements of a sentence. In a question, or next to an "if", only changes are told."""
        if is_question and not (self._is_message and self._has_cue):
            return
        # A long sentence, as most are, is neither a denial nor about a number.
        is_long = not self._has_phrases and has_more_words(sentence, _MAX_NUMBER_WORDS)
        if is_long and not self._has_cue:
            return
        if self._is_message and _FORMULA.search(sentence):
            return
        # A contraction hides the words that it stands for: "wouldn't".
        may_be_unsure = self._may_be_unsure or "'" in sentence or "’" in sentence
        is_sure = not (is_question or (may_be_unsure and has_word_of(sentence, "unsure")))
        for clause in _CLAUSE.split(sentence) if self._has_cue and (is_sure or self._is_message) else ():
            if is_sure or not has_word_of(clause, "unsure"):
                yield from self._by_pattern(clause, only_changes=not is_sure)
        if is_long or not is_sure:
            return
        words = tokens_of(sentence, self._runs)
        openers = _words("openers")
        while words and words[0] in openers:
            words.pop(0)
        yield from self._denial(words)
        yield from self._number(words)

    def _by_pattern(self, clause: str, *, only_changes: bool) -> Iterator[PlainStatement]:
        clause = _without_openers(clause)
        words = clause.split()
        if len(words) > _MAX_CLAUSE_WORDS:
            clause = " ".join(words[:_MAX_CLAUSE_WORDS])
        for place in _possible_patterns(letter_runs(clause)):
            pattern = _patterns()[place]
            if only_changes and not pattern.is_change:
                continue
            if (match := pattern.regex.match(clause)) and (found := self._statement(pattern, match)):
                yield found

    def _statement(self, pattern: _Pattern, match: re.Match[str]) -> PlainStatement | None:
        groups = match.groupdict()
        holder = self._holder(groups.get("h"))
        written = groups.get("v") or ""
        value = _value_of(written)
        attribute = pattern.attribute
        # In a conversation "my result is 7" is said of many results; that it was changed to 7, of one.
        may_be_number = not (self._is_message and attribute == "{A}")
        if holder is None or not value or (pattern.needs_name and not _is_name(written, may_be_number)):
            return None
        if "{A}" in attribute:
            named = [word for word in tokens_of(groups["a"]) if not _is_in(word, "articles")]
            is_open = attribute == "{A}"
            if (
                not named
                or len(named) > 4
                or (is_open and any(_is_in(word, "not attributes") for word in named))
            ):
                return None
            attribute = attribute.replace("{A}", " ".join(named))
        for slot, group in (("{V0}", "v0"), ("{V}", "v")):
            if slot in attribute:
                attribute = attribute.replace(slot, _value_of(groups[group]))
        return PlainStatement(holder, attribute, pattern.value or value)

    def _holder(self, written: str | None) -> str | None:
        """Who a statement is about; None if it does not say, or it is nobody in particular."""
        words = [] if written is None else _WORD.findall(written.casefold().replace("’", "'"))
        if not words or "_".join(words) in _words("self") or words == ["j"]:
            return self._me
        if any(_is_in(word, "not holders") or _is_in(word, "first person") for word in words):
            return None
        assert written is not None
        if not (written.split()[-1][0].isupper() or _is_in(words[0], "possessive")):
            return None
        named = [word for word in words if not (_is_in(word, "articles") or _is_in(word, "possessive"))]
        return SELF if named == [self._owner] else " ".join(named) or None

    def _denial(self, words: list[str]) -> Iterator[PlainStatement]:
        """What somebody does or is, or no longer does or is: of two such sentences one may be a denial."""
        if not 1 <= len(words) <= _MAX_PLAIN_WORDS or _has(words, "then"):
            return
        is_ended = _has(words, "no longer")
        is_denied = is_ended or _has(words, "no")
        is_disliked = _has(words, "dislike")
        first = next((word for word in words if not (_is_in(word, "no") or _is_in(word, "no longer"))), "")
        is_mine = _is_in(first, "first person") or _is_in(words[0], "first person")
        if not is_mine and (self._is_message or not (_is_in(first, "articles") or is_ended)):
            return
        if self._is_message and is_denied and not (is_ended or is_disliked or _has(words, "like")):
            # "I don't have time" denies nothing that was to be remembered.
            return
        kept: list[str] = []
        for word in words:
            if _is_in(word, "named"):
                break
            if not any(_is_in(word, section) for section in _PASSED_OVER):
                kept.append("like" if _is_in(word, "like") or _is_in(word, "dislike") else word)
        if not 1 <= len(kept) <= _MAX_DENIED_WORDS or kept == ["like"] or any(map(_is_volatile, kept)):
            return
        # Only the beginning of a verb: "I smoke" and "I quit smoking" are about the same.
        verb = kept[0] if kept[0] == "like" else kept[0][:3]
        value = NO if is_denied != is_disliked else YES
        yield PlainStatement(self._me if is_mine else "", " ".join(["does", verb, *kept[1:]]), value)

    def _number(self, words: list[str]) -> Iterator[PlainStatement]:
        """A sentence that holds a number or a day: another one that differs only there is about the same.

        What stands before the verb names the thing: shelf 5 and shelf 6 are two.
        """
        if len(words) > _MAX_NUMBER_WORDS:
            return
        verb = next(
            (at for at, word in enumerate(words) if _is_in(word, "states") or _is_in(word, "changes")), 0
        )
        volatile = [word for word in words[verb:] if _is_volatile(word)]
        if not 1 <= len(volatile) <= _MAX_NUMBERS:
            return
        if (
            not (_has(words, "states") or _has(words, "changes"))
            or _has(words, "no")
            or _has(words, "no longer")
        ):
            return
        first = words[0]
        is_mine = _is_in(first, "first person") or _is_in(first, "possessive")
        if _is_in(first, "not holders") or (self._is_message and not (is_mine or _is_in(first, "articles"))):
            return
        said = [*words[:verb], *(word for word in words[verb:] if not _is_volatile(word))]
        kept = [word for word in said if not any(_is_in(word, section) for section in _NOT_IN_MATTERS)]
        if kept:
            yield PlainStatement(self._me if is_mine else "", f"n {' '.join(kept)}", " ".join(volatile))


_PASSED_OVER: Final = ("no", "no longer", "often", "now", "articles", "small words", "self")
_NOT_IN_MATTERS: Final = (*_PASSED_OVER[3:], "changes", "new", "possessive")


def _is_volatile(word: str) -> bool:
    """Whether a word is a number, a time or a day: what changes in a statement."""
    return _DIGIT.search(word) is not None or _is_in(word, "days")


def _is_name(written: str, may_be_number: bool) -> bool:
    """Whether a value begins like a name, perhaps after a title, or has a digit."""
    first, _, rest = written.partition(" ")
    name = rest if _is_in(first.casefold().strip("."), "titles") else first
    if _DIGIT.search(written) is not None:
        return may_be_number
    return name[:1].isupper() and len(name) > 1


def _value_of(written: str) -> str:
    """A value in the form in which it is compared: folded, without articles, up to a word that goes on."""
    kept: list[str] = []
    for word in tokens_of(written):
        if kept and _is_in(word, "cut"):
            break
        if not (_is_in(word, "articles") or _is_in(word, "now")):
            kept.append(word.replace("_", " "))
    return " ".join(kept[:_MAX_VALUE_WORDS]) if len(kept) <= 2 * _MAX_VALUE_WORDS else ""


def _without_openers(clause: str) -> str:
    """A clause without words such as "by the way"."""
    opener = _openers()
    while (match := opener.match(clause)) is not None:
        clause = clause[match.end() :]
    return clause


@cache
def _openers() -> re.Pattern[str]:
    return re.compile(rf"(?:{_any_of(_words('openers'))})\b[,:!]*(?:\s+|$)", re.IGNORECASE)


def differs(one: str, other: str) -> bool:
    """Whether two values of an attribute disagree. "Berlin" and "Berlin in Germany" do not."""
    words, others = one.split(), other.split()
    if any(map(_is_volatile, (*words, *others))) or {one, other} <= {YES, NO}:
        return words != others
    return not (set(words) <= set(others) or set(others) <= set(words))
