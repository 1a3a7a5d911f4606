"""F4_Clarity: a claim is text, and a reader sees all of it."""

import re
from dataclasses import dataclass
from typing import Final

from standfast.govern.judge.claim import CLEAN, OVERLONG, Claim, Finding, JudgingContext
from standfast.govern.judge.text_reading import TextReading

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Everything beyond ASCII that hides or reorders text. Most texts have none of it and need no further look.
_SUSPECT: Final = re.compile(
    "[\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff"
    "\ue000-\uf8ff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
_MOJIBAKE: Final = re.compile(
    "[\u00c3\u00c2][\u0080-\u00bf\u20ac\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u017d"
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
# One selector belongs to the character before it. A row of them, or one after a Latin letter, carries hidden bytes.
_SELECTORS: Final = re.compile(
    "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2}|[\x20-\x7e][\ufe00-\ufe0d\U000e0100-\U000e01ef]"
)
# Zero-width characters have a use in some scripts and in emoji, and none between Latin letters.
_ZERO_WIDTH: Final = re.compile(
    "[\x21-\x7e\u00c0-\u024f][\u00ad\u034f\u115f\u1160\u180b-\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0]+[\x21-\x7e\u00c0-\u024f]"
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
_RULER: Final = re.compile(r"([-=_*~#+.])\1{3,}")
_MAX_UNBROKEN_CHARS: Final = 1_000
_MIN_WORD_SHARE: Final = 0.25
_PLENTY_OF_WORDS: Final = 0.75
_MIN_VARIETY: Final = 0.05
_MIN_MEASURED_CHARS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ClarityFloor:
    """Rejects control characters, hidden or reordered text, broken encoding, and noise instead of words.

    Zero-width joiners in emoji and in Indic and Arabic scripts, right-to-left marks, balanced isolates in right-to-left
    text and regional flags pass. Text, subject, tags, source and refs are all checked. It does not tell sense from
    nonsense: random words pass.
    """

    name: str = "F4_Clarity"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """0 for hidden text, less than 0.5 for what is mostly not text, 1 for plain text."""
        if claim.is_overlong:
            return OVERLONG
        whole = claim.whole
        if (hidden := find_hidden(whole.text)) is not None:
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
    whole = claim.whole
    if _word_share(whole) < _PLENTY_OF_WORDS and _word_share(claim.reading) < _MIN_WORD_SHARE:
        return Finding(0.3, "noise: mostly symbols. Write it in words")
    if whole.longest_run_chars > _MAX_UNBROKEN_CHARS and whole.text.isascii() and _has_long_run(whole.text):
        return Finding(0.3, "noise: a run of characters longer than any word. Write it in words")
    pieces = whole.pieces
    if len(pieces) > 40 and len(whole.vocabulary) < _MIN_VARIETY * len(pieces):
        return Finding(0.3, "noise: a few words repeated. Say it once")
    return CLEAN


def _has_long_run(text: str) -> bool:
    """Whether a run of characters is longer than any word. Links may be long: images and diagrams are written into them."""
    return any(len(run) > _MAX_UNBROKEN_CHARS and "://" not in run[:200] for run in text.split())


def _word_share(reading: TextReading) -> float:
    """The share of words in a text, spaces and rulers aside."""
    return sum(map(len, reading.pieces)) / max(1, len(_RULER.sub("", reading.text.replace(" ", ""))))
