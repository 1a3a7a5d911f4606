"""F6_Injection: a claim states a fact, and does not tell the model that reads it what to do.

Three things are looked for: phrases that give orders (the tables ``data/injection.*`` and
``data/unspaced.forms``), markup that breaks out of a prompt or a page, and both of them under disguises that
a model reads without effort.
"""

import base64
import binascii
import codecs
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Final, NamedTuple
from urllib.parse import unquote

from standfast.govern.judge.claim import CLEAN, OVERLONG, Claim, Finding, JudgingContext
from standfast.govern.judge.phrases import Phrasebook, spoken
from standfast.govern.judge.tables import WordTable, read_phrases
from standfast.govern.judge.text_reading import SIEVE, TextReading
from standfast.records.origins import Origin

# Signs further apart than two passages have nothing to do with each other; a long text has some of each by
# chance.
_PASSAGE_CHARS: Final = 300
_WINDOW_WORDS: Final = 9
_WINDOW_BACK_WORDS: Final = 7
_QUOTATION_WINDOW_CHARS: Final = 140
_QUOTED_FACTOR: Final = 0.35
# Kinds that a text may quote without giving the order.
_QUOTABLE: Final = frozenset({"override", "role", "mode", "hijack", "exfiltration", "concealment"})
_MIN_SQUEEZED_CHARS: Final = 14

# Verbs that discard instructions, words for instructions, and words that say which ones are meant.
_TABLE: Final = WordTable("injection.words")
_DISCARD_ENGLISH: Final = _TABLE.words("discard english")
_DISCARD: Final = _DISCARD_ENGLISH | _TABLE.words("discard")
_DISCARD_WEAK: Final = _TABLE.words("discard weak")
_DISCARDING: Final = _DISCARD | _DISCARD_WEAK
_ORDERS: Final = _TABLE.words("orders")
_ORDERS_WEAK: Final = _TABLE.words("orders weak")
_BEFORE: Final = _TABLE.words("before")
_ALL: Final = _TABLE.words("all")
_SAFETY: Final = _TABLE.words("safety")
_YOURS: Final = _TABLE.words("yours")
# Words around an English verb that is an imperative.
_BEFORE_AN_IMPERATIVE: Final = _TABLE.words("before an imperative")
_AFTER_A_SUBJECT: Final = _TABLE.words("after a subject")
_BEFORE_TO: Final = _TABLE.words("before to")
_YOU: Final = _TABLE.words("you")
# Words of texts about attacks.
_MENTIONS: Final = _TABLE.words("mentions")
_MENTIONS_UNSPACED: Final = _TABLE.words("mentions unspaced")
_SQUEEZED: Final = re.compile("|".join(_TABLE.lines("squeezed")))
_SQUEEZED_STARTS: Final = _TABLE.words("squeezed starts")
_UNSPACED_LETTERS: Final = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")


@cache
def order_phrases() -> Phrasebook:
    """The phrases that give orders. They are read when the first text is judged."""
    return Phrasebook(*read_phrases("injection.phrases"))


@cache
def unspaced_forms() -> tuple[tuple[str, float, re.Pattern[str]], ...]:
    """Orders in scripts without spaces: kind, weight and pattern of each."""
    lines: dict[tuple[str, float], list[str]] = {}
    for kind, weight, line in read_phrases("unspaced.forms"):
        lines.setdefault((kind, weight), []).append(line)
    return tuple((kind, weight, re.compile("|".join(ways))) for (kind, weight), ways in lines.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionFloor:
    """Gives no orders to the model that will read the memory: to drop its rules, play a role, call tools,
    leak or conceal.

    It recognises phrases (discarding instructions in some twenty languages, the rest mostly in English),
    prompt markup, hidden HTML and leaking links, also under lookalike letters, leet, spaced-out letters,
    base64, hex, escapes, ROT13 and backwards text. Every field is checked by itself. An
    order among words about attacks counts as a quotation. It does not recognise orders in new words: a
    polite, indirect or translated wish passes, and so does an attack that calls itself an example of one.
    """

    name: str = "F6_Injection"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """1 minus the certainty that the text gives orders."""
        if claim.is_overlong:
            return OVERLONG
        # What a user wants from now on is a preference.
        ignored = "standing" if claim.record.origin is Origin.TRUSTED else ""
        findings = [self._check_field(field, ignored) for field in claim.fields]
        worst = min(findings, key=lambda finding: finding.score)
        if claim.record.origin is Origin.UNTRUSTED:
            # What a user prefers is for the user to say.
            return worst._replace(reason=worst.reason.replace(_EXAMPLE, ""))
        return worst

    def _check_field(self, field: TextReading, ignored: str) -> Finding:
        worst = _combine([sign for sign in field.once(_signs_in) if sign.kind != ignored])
        if worst.score >= self.threshold:
            found = field.once(_finding_in_disguise)
            worst = found if found.score < worst.score else worst
        return worst


def _finding_in_disguise(field: TextReading) -> Finding:
    """The worst that is found in the other texts that a text holds."""
    found = [_combine(_signs_in(inside)) for inside in disguised_texts(field)]
    worst = min(found, key=lambda finding: finding.score, default=CLEAN)
    return worst if worst is CLEAN else Finding(worst.score, f"in disguise, {worst.reason}")


_EXAMPLE: Final = ", such as “The user prefers …”"
# What each kind of sign asks of the model, as people would say it.
_IN_WORDS: Final = {
    "address": "it speaks to the model",
    "chat markup": "it has turns of a chat",
    "concealment": "to hide something",
    "denial": "to deny something",
    "disclosure": "to show its instructions",
    "exfiltration": "to give away what it knows",
    "hidden passage": "in a passage that people do not see",
    "hijack": "to say or do something",
    "jailbreak": "to act without rules",
    "leaking link": "through a link that gives away data",
    "mode": "to act without rules",
    "new task": "to take up a new task",
    "notice": "it looks like a notice of the system",
    "override": "to drop its rules",
    "permission": "it gives permissions",
    "persistence": "to obey from now on",
    "persona": "to play a role",
    "prompt markup": "it has the markup of a prompt",
    "recital": "to recite something",
    "reset": "to forget what was before",
    "role": "to play a role or follow a rule",
    "standing": "to do something from now on",
    "self-approval": "it calls itself checked",
    "tool": "to use a tool",
    "unasked": "to act without asking",
    "weakening": "to do something dangerous",
    "wish": "it asks for something",
}


class Sign(NamedTuple):
    """Something that orders look like: its kind, a weight, and where in the spoken text it is.

    Markup counts everywhere.
    """

    kind: str
    weight: float
    start: int = -1
    end: int = -1


def _combine(signs: list[Sign]) -> Finding:
    """The score of the worst passage.

    Weak signs count together only if they are near each other and are not the same words.
    """
    if not signs:
        return CLEAN
    passages: dict[int, list[Sign]] = {}
    for sign in signs:
        if sign.start >= 0:
            first = sign.start // _PASSAGE_CHARS
            for passage in (first - 1, first):
                passages.setdefault(passage, []).append(sign)
    everywhere = [sign for sign in signs if sign.start < 0]
    return min(
        (_scored(everywhere + near) for near in passages.values()),
        default=_scored(everywhere),
        key=lambda finding: (finding.score, finding.reason),
    )


def _scored(signs: list[Sign]) -> Finding:
    """Combines the weights of all kinds in a passage into one score."""
    counted: dict[str, Sign] = {}
    for sign in sorted(signs, key=lambda one: -one.weight):
        if sign.kind not in counted and not any(_overlap(sign, other) for other in counted.values()):
            counted[sign.kind] = sign
    if not counted:
        return CLEAN
    score = prod(1 - sign.weight for sign in counted.values())
    orders = ", ".join(sorted({_IN_WORDS[kind] for kind in counted}))
    return Finding(
        score,
        f"gives orders to the model that reads it: {orders}. Say it as a fact{_EXAMPLE}, or leave it out",
    )


def _overlap(one: Sign, other: Sign) -> bool:
    return 0 <= one.start < other.end and other.start < one.end


def _signs_in(reading: TextReading) -> list[Sign]:
    return [*(Sign(kind, weight) for kind, weight in find_markup(reading)), *_find_orders(reading)]


def _find_orders(reading: TextReading) -> Iterator[Sign]:
    """Yields the signs of orders in the words."""
    folded, vocabulary = reading.folded, reading.vocabulary
    if not folded.isascii() and _UNSPACED_LETTERS.search(folded):
        for kind, weight, pattern in unspaced_forms():
            for found in pattern.finditer(folded):
                yield Sign(kind, weight * _quotation_factor(folded, found.start(), kind))
    is_plain = _is_plain(reading)
    if (
        not is_plain
        and reading.longest_run_chars >= _MIN_SQUEEZED_CHARS
        and any(map(folded.__contains__, _SQUEEZED_STARTS))
        and _SQUEEZED.search(folded)
    ):
        yield Sign("override", 0.9)
    discards = not (is_plain or vocabulary.isdisjoint(_DISCARDING))
    phrases = order_phrases().possible(vocabulary)
    if not discards and not phrases:
        return
    said = spoken(reading)
    if discards:
        yield from _find_discarding(said)
    for phrase in phrases:
        for found in phrase.pattern.finditer(said):
            weight = phrase.weight * _quotation_factor(said, found.start(), phrase.kind)
            yield Sign(phrase.kind, weight, *found.span())


def _quotation_factor(said: str, start: int, kind: str) -> float:
    """1, or less if the finding's own sentence speaks of attacks before it, or quotes it."""
    if kind not in _QUOTABLE or said[start : start + 2] == ". ":
        return 1.0
    before = said[max(0, start - _QUOTATION_WINDOW_CHARS) : start].rpartition(" . ")[2]
    quoted = before.endswith('" ') or said[start] == '"'
    after = said[start : start + _QUOTATION_WINDOW_CHARS].partition(" . ")[0] if quoted else ""
    sentence = f"{before} {after}"
    if _MENTIONS.isdisjoint(sentence.split()) and not any(map(sentence.__contains__, _MENTIONS_UNSPACED)):
        return 1.0
    return _QUOTED_FACTOR


def _find_discarding(said: str) -> Iterator[Sign]:
    """Finds a verb that discards, close to a word for instructions and to words that say which ones."""
    # Of a topic somebody is told, of an instruction nobody: "Forget what I told you about my diet."
    words = said.replace(" i told you about ", " i said you about ").split(" ")
    start = 0
    for index, word in enumerate(words):
        weak = word in _DISCARD_WEAK
        if weak or word in _DISCARD:
            near = set(words[index + 1 : index + 1 + _WINDOW_WORDS])
            if not weak and word not in _DISCARD_ENGLISH:
                near.update(words[max(0, index - _WINDOW_BACK_WORDS) : index])
            elif not _is_imperative(words, index):
                near.clear()
            if weight := _discarding_weight(near, weak, words[index + 1 : index + 3]):
                yield Sign(
                    "override", weight * _quotation_factor(said, start, "override"), start, start + len(word)
                )
        start += len(word) + 1


def _discarding_weight(near: set[str], weak: bool, next_words: list[str]) -> float:
    """The certainty that a verb with these words near it discards instructions."""
    readers_own = not near.isdisjoint(_YOURS) or not near.isdisjoint(_SAFETY)
    before = not near.isdisjoint(_BEFORE)
    if not near.isdisjoint(_ORDERS):
        if readers_own or before:
            return 0.8 if weak else 0.9
        if weak:
            return 0.0
        if not near.isdisjoint(_ALL):
            return 0.9
        return 0.0 if _ORDERS.isdisjoint(next_words) else 0.6
    if not near.isdisjoint(_ORDERS_WEAK):
        if readers_own:
            if weak:
                # People disable and drop settings of their own.
                return 0.45 if near.isdisjoint(_SAFETY) else 0.6
            return 0.8
        return 0.8 if before and not weak else 0.0
    return 0.0


def _is_imperative(words: list[str], index: int) -> bool:
    """Whether an English verb is an imperative: after a break, ``please``, ``you must`` and the like."""
    before = words[index - 1] if index else "."
    if before in _AFTER_A_SUBJECT:
        return (words[index - 2] if index > 1 else ".") in _YOU
    if before == "to":
        return (words[index - 2] if index > 1 else ".") in _BEFORE_TO
    return before in _BEFORE_AN_IMPERATIVE


# Markup. It counts whoever wrote it and why, because it breaks the frame that it is rendered into. All of it
# is matched in folded text, so that wide and lookalike letters make no difference.

_TOKENS: Final = (
    r"<\|(?:im_start|im_end|im_sep|system|user|assistant|endoftext|eot_id|begin_of_text|start_header_id|"
    r"end_header_id|eom_id|"
    r"endofprompt|tool_call|channel|message|start|end|return|python_tag)\|>|<<\/?sys>>|\[\/?inst\]|<"
    r"(?:start|end)_of_turn>|"
    r"<\|(?:begin|end|user|assistant)|<{2,3}"
    r" ?/?(?:system|instructions?|prompt|admin)[^<>\n]{0,20}>{2,3}|\{\{[#/]?(?:system|assistant)[~ ]?\}\}"
)
_XML_TAGS: Final = (
    r"<\/?(?:system|system[-_](?:prompt|message|reminder)|(?:admin[-_]|assistant[-_])?instructions?|tool_"
    r"(?:calls?|results?|"
    r"response|use)|function_(?:calls?|results?))(?:\s[^<>]{0,80})?>|<\/?(?:\w{1,12}:)?(?:invoke|function)"
    r"(?:\sname|=)[^<>]{0,80}>"
)
# Turns of a chat in JSON. Programs and their documentation are full of them, so they count only together with
# another sign.
_JSON_TURN: Final = re.compile(
    r"[\"']role[\"']\s{0,3}:\s{0,3}[\"'](?:system|developer|assistant|tool)[\"']|"
    r"[\"'](?:tool_calls?|function_call)[\"']\s{0,3}:\s{0,3}[\[{]"
)
_JSON: Final = (
    r"(?:^|\n)[ \t-]{0,8}role[ \t]{0,2}:[ \t]{0,2}(?:system|developer)[ \t]{0,4}(?:\n|$)|"
    r"```\s{0,2}(?:tool_code|tool_call|tool_use|system)\b"
)
_HEADINGS: Final = (
    r"(?:^|\n)[ \t]{0,8}#{2,4}[ \t]{0,3}(?:(?:instructions?|system|assistant|human|response)[ \t]{0,3}:|"
    r"(?:new instructions?|system (?:prompt|message)|end of (?:context|document|prompt|data))["
    r" \t]{0,3}(?:\n|$|:))|"
    r"[-=*~_]{3,10} {0,3}(?:end|begin|start) (?:of )?(?:the"
    r" )?(?:system|user|context|document|prompt|instructions?|untrusted|"
    r"data|input|message|conversation|retrieved|external|tool|memory)[a-z ]{0,30}[-=*~_]{3,10}"
)
_TURNS: Final = (
    r"(?:^|\n)[ \t]{0,8}(?:\*\*|\[|\(|-{2,10} ?)?(?:system(?: prompt|"
    r" message)?|developer|assistant|human)(?:\*\*|\]|\))?[ \t]{0,2}:"
    r"\s{0,3}(?:you|ignore|your|i |sure|the following|from now|override|disregard|always|never|new|do"
    r" |important|please|forget|"
    r"reveal|send)|"
    r"\[(?:system|admin|developer|root)[^\]\n]{0,40}\]\s{0,3}:?\s{0,3}(?:override|ignore|disregard|you |new"
    r" |from now|all |execute|"
    r"reveal|the following|access)"
)
# A text without any of these characters or words has no prompt markup.
_MARKUP_STARTS: Final = ("<", "[", "##", "---", "===", "***", "~~~", "___", "`", '"', "'", "{", "$(")
_SPEAKERS: Final = _TABLE.words("speakers")
_HIDDEN: Final = re.compile(
    r"<!--(?P<comment>[^<]{1,2000})|\[//\]: ?# ?[(\"'](?P<link>[^)\"'\n]{1,500})|"
    r"<(?:span|div|p|font)\s[^<>]{0,120}?(?:display ?: ?none|font-size ?: ?0|color ?:"
    r" ?(?:white|#fff|transparent)|opacity ?: ?0|"
    r"visibility ?: ?hidden|\bhidden\b|left ?: ?-\d{3})[^<>]{0,120}>(?P<span>[^<]{1,1000})"
)
_ORDER_WORDS: Final = _TABLE.words("order words")
_ORDER_WORDS_WEAK: Final = _TABLE.words("order words weak")
_LEAKING_IMAGE: Final = re.compile(
    r"!\[[^\]\n]{0,200}\]\( ?https?://[^\s()?]{1,300}[?/](?:[^\s()]{0,300}?(?:\{|%7b|<|[=?&]\$)|"
    r"(?:[^\s()]{0,100}?&)?(?:data|secret|token|prompt|history|payload|leak|exfil|chat)=)"
)
# A link, or a host name, into which something of the reader's is to be put.
_LEAKING_LINK: Final = re.compile(
    r"https?://[^\s<>{}]{0,300}[<{\[]{1,2}[^<>{}\[\]\n]{0,60}(?:base64|(?:url)?encoded[^a-z]|conversation|chat"
    r" history|system prompt|"
    r"(?:user|customer|visitor)'?s["
    r" _](?:e-?mail|name|data|question|address|token|password|phone|history|query))[^<>{}\[\]\n]{0,60}[>}\]]"
    r"|https?://[^\s<>]{0,200}\$\((?:cat|base64|env|printenv)\b|\$\((?:cat|base64|env|"
    r"printenv)\b[^()\n]{0,120}\)\.[a-z0-9]"
)
# Substrings of which a text must have one before the pattern is tried; kind and weight of what it finds. A
# hidden passage has a weight of its own.
_MARKUP: Final = (
    (("<", "inst]", "{{"), re.compile(f"{_TOKENS}|{_XML_TAGS}"), "prompt markup", 0.9),
    (("role:", "```"), re.compile(_JSON), "prompt markup", 0.9),
    (("##", "---", "===", "***", "~~~", "___"), re.compile(_HEADINGS), "prompt markup", 0.9),
    (
        ("system", "assistant", "human", "developer", "[admin", "[root"),
        re.compile(_TURNS),
        "prompt markup",
        0.9,
    ),
    (("role", "tool_call", "function_call"), _JSON_TURN, "chat markup", 0.4),
    (("<", "[//]"), _HIDDEN, "hidden passage", 0.0),
    (("](",), _LEAKING_IMAGE, "leaking link", 0.8),
    (("://", "$("), _LEAKING_LINK, "leaking link", 0.7),
)
_MARKUP_PARTS: Final = frozenset(part for substrings, *_ in _MARKUP for part in substrings)
# Readers that a hidden passage is meant for, if it is not meant for people.
_READERS: Final = _TABLE.words("readers")


def find_markup(reading: TextReading) -> list[tuple[str, float]]:
    """The kinds of markup that break out of a prompt or hide from people, each with a weight."""
    folded = reading.folded
    if _is_plain(reading):
        return []
    if not any(map(folded.__contains__, _MARKUP_STARTS)) and _SPEAKERS.isdisjoint(reading.vocabulary):
        return []
    found: list[tuple[str, float]] = []
    for substrings, pattern, kind, weight in _MARKUP:
        if (kind, weight) not in found and any(map(folded.__contains__, substrings)):
            if pattern is _HIDDEN:
                weights = map(_hidden_weight, pattern.finditer(folded))
                found += [(kind, hidden) for hidden in weights if hidden]
            elif pattern.search(folded):
                found.append((kind, weight))
    return found


def _hidden_weight(hidden: re.Match[str]) -> float:
    """The certainty that a hidden passage addresses a model; most comments are just comments."""
    comment = (hidden["comment"] or "").partition("-->")[0]
    words = TextReading(comment or hidden["link"] or hidden["span"] or "").vocabulary
    orders = _ORDER_WORDS & words
    if orders and len(orders | (_ORDER_WORDS_WEAK & words)) >= 2:
        return 0.9
    return 0.0 if words.isdisjoint(_READERS) else 0.15


# Disguises, up to two layers deep and for a bounded number of runs. Images, ciphers and meaning are not
# looked at.

_MAX_RUNS: Final = 8
_MAX_RUN_CHARS: Final = 8_192
_LAYERS: Final = 2
_MIN_PRINTABLE: Final = 0.9

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{20,8192}={0,2}")
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2}:?){12,4096}")
_HEX_APART: Final = re.compile(
    r"(?<!\w)(?:0x)?[0-9A-Fa-f]{2}(?:[ ,]{1,2}(?:0x)?[0-9A-Fa-f]{2}){11,2047}(?!\w)"
)
_HEX_PAIRS: Final = frozenset(f"{prefix}{number:02x}" for number in range(256) for prefix in ("", "0x"))
_MIN_HEX_PAIRS: Final = 6
_MIN_RUN_CHARS: Final = 20
_SPACED: Final = re.compile(r"(?<!\w)(?:[^\W_][ .\-_*·|/]{1,3}){5,400}[^\W_](?!\w)")
# One character between letters holds a word together; a wider gap separates two words.
_NARROW_JOINTS: Final = re.compile(r"(?<=[^\W_])[ .\-_*·|/](?=[^\W_])")
_WIDE_JOINTS: Final = re.compile(r"[ .\-_*·|/]+")
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_MIN_LONE_LETTERS: Final = 4
_LEET_WORD: Final = re.compile(r"[a-z][0134578@$!|]{1,3}[a-z]|(?<!\w)[0134578@$!|]{1,2}[a-z]{2}")
_LEET: Final = str.maketrans("0134578@$!|", "oieastbasil")
_ESCAPED: Final = re.compile(r"(?:\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}){4}")
# Tag characters, which spell ASCII and which no screen shows.
_TAG_OFFSET: Final = 0xE0000
_TAG_CHARS: Final = re.compile("[\U000e0020-\U000e007e]")
_ONE_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})")
# Words that reveal text in ROT13, written backwards or cut by hyphens. Orders can hardly do without one of
# them.
_REVEALING: Final = _TABLE.words("revealing")
_ROT13: Final = frozenset(codecs.encode(word, "rot13") for word in _REVEALING)
_BACKWARDS: Final = frozenset(word[::-1] for word in _REVEALING)
_REVEALING_DISGUISED: Final = _ROT13 | _BACKWARDS
# Digits and symbols inside a word.
_MIXED: Final = re.compile(r"[0134578@$!|][a-z]")

# Most texts have no word that tells of markup, of a disguise or of discarded instructions.
_TELLING_PARTS: Final = _MARKUP_PARTS | _SQUEEZED_STARTS | {"%", "&", "\\"}
_TELLING: Final = re.compile("|".join([*map(re.escape, sorted(_TELLING_PARTS)), _MIXED.pattern]))
_TELLING_WORDS: Final = _DISCARDING | _REVEALING_DISGUISED
_LONE_CHARS: Final = _HEX_PAIRS | _LETTERS
assert not any(" " in part for part in _TELLING_PARTS), "a part stands inside a word"
assert _MIN_LONE_LETTERS <= _MIN_HEX_PAIRS


def _is_telling(word: str) -> bool:
    """Whether a text with this word in it may have another sign than phrases, or hold another text, but for
    what ``_LONE_CHARS`` spell.
    """
    return (
        len(word) >= _MIN_RUN_CHARS
        or _TELLING.search(word) is not None
        or not _TELLING_WORDS.isdisjoint([word] if word.isalnum() else TextReading(word).pieces)
        or ("-" in word and word.replace("-", "") in _REVEALING)
    )


_WITHOUT_SIGNS: Final = SIEVE.add_search(_is_telling)


def _is_plain(reading: TextReading) -> bool:
    """Whether a text has neither markup nor an order without spaces, and holds no other text, but for what
    ``_LONE_CHARS`` spell.
    """
    return reading.plain_for & _WITHOUT_SIGNS != 0


def disguised_texts(reading: TextReading) -> list[TextReading]:
    """The other texts that a text holds: encoded runs decoded, spaced-out letters joined, leet read as
    letters.
    """
    if _is_plain(reading) and len(reading.vocabulary & _LONE_CHARS) < _MIN_LONE_LETTERS:
        return []
    found: list[TextReading] = []
    seen = {reading.folded}
    layer = [reading]
    for _ in range(_LAYERS):
        inside = [TextReading(text) for outer in layer for text in _undisguise(outer)]
        layer = []
        for one in inside:
            if one.folded not in seen and len(seen) <= _MAX_RUNS:
                seen.add(one.folded)
                layer.append(one)
        found += layer
        if not layer:
            break
    return found


def _undisguise(reading: TextReading) -> Iterator[str]:
    """Tries each disguise that has left a trace; nearly every text has none."""
    text, folded, vocabulary = reading.text, reading.folded, reading.vocabulary
    if reading.longest_run_chars >= _MIN_RUN_CHARS:
        runs = " ".join(run for run in text.split() if len(run) >= _MIN_RUN_CHARS)
        yield from _decode_runs(_BASE64, runs, _from_base64)
        yield from _decode_runs(_HEX, runs, _from_hex)
    if len(vocabulary & _HEX_PAIRS) >= _MIN_HEX_PAIRS:
        yield from _decode_runs(_HEX_APART, text, _from_hex)
    if "%" in text and text.count("%") >= 4 and (plain := unquote(text, errors="ignore")) != text:
        yield plain
    if "&" in text and text.count("&") >= 4 and (plain := html.unescape(text)) != text:
        yield plain
    if "\\" in text and _ESCAPED.search(text):
        yield _ONE_ESCAPE.sub(lambda one: chr(int(one[1] or one[2], 16)), text)
    if not text.isascii() and _TAG_CHARS.search(text):
        yield _TAG_CHARS.sub(lambda tag: chr(ord(tag[0]) - _TAG_OFFSET), text)
    if len(vocabulary & _LETTERS) >= _MIN_LONE_LETTERS and _SPACED.search(folded):
        yield _SPACED.sub(lambda run: _WIDE_JOINTS.sub(" ", _NARROW_JOINTS.sub("", run[0])), folded)
    if _MIXED.search(folded) and _LEET_WORD.search(folded):
        yield folded.translate(_LEET)
    if not vocabulary.isdisjoint(_REVEALING_DISGUISED):
        yield codecs.encode(folded, "rot13") if not vocabulary.isdisjoint(_ROT13) else folded[::-1]
    if "-" in folded and not (_REVEALING - vocabulary).isdisjoint(
        (joined := folded.replace("-", "")).split()
    ):
        yield joined


def _decode_runs(run: re.Pattern[str], text: str, decode: Callable[[str], bytes]) -> Iterator[str]:
    for count, found in enumerate(run.finditer(text)):
        if count == _MAX_RUNS:
            return
        try:
            plain = decode(found[0][:_MAX_RUN_CHARS]).decode()
        except (binascii.Error, ValueError):
            continue
        if sum(map(str.isprintable, plain)) >= _MIN_PRINTABLE * max(len(plain), 1):
            yield plain


def _from_base64(run: str) -> bytes:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(body + "=" * (-len(body) % 4), validate=True)


def _from_hex(run: str) -> bytes:
    return bytes.fromhex(run.replace("0x", "").replace(":", " ").replace(",", " "))
