"""How much a step seems to matter, from what anybody can see: what changed in its endpoint, and what its words announce.

Nothing here is learnt from labels. A list that lost an element takes something away from whoever used it; an element that
became required asks for something new; a flag that says "deprecated" and words like "removed" say what they say. A text is
read for such words only where they are new: a page that always warned of something is no news.
"""

import re
from typing import Any, Final

GONE: Final = 6.0
DEPRECATED: Final = 5.0
SECURITY: Final = 4.0
REWRITTEN: Final = 4.0
ADDED: Final = 2.0
FIRST_SEEN: Final = 1.5
TOUCHED: Final = 1.0
CHORE: Final = 0.5
SAME: Final = 0.0

_WORD: Final = re.compile(r"[^\W_]+")
_ANNOUNCES: Final = (
    (
        GONE,
        re.compile(
            r"⚠|\bbreaking\b|\bbackwards?[- ]incompatib|\bincompatible\b|\bremov(?:e|es|ed|al|ing)\b"
            r"|\bdrop(?:s|ped|ping)?\b|\bdelet(?:e|es|ed|ing)\b|\bno longer\b|\bdiscontinu|\bunsupported\b"
            r"|\brenam(?:e|es|ed|ing)\b|\bend of life\b",
            re.IGNORECASE,
        ),
    ),
    (DEPRECATED, re.compile(r"\bdeprecat|\bsunset\b|\bobsolete\b|\blegacy\b", re.IGNORECASE)),
    (SECURITY, re.compile(r"\bCVE-|\bvulnerab|\bsecurity\b|\bXSS\b|\binjection\b", re.IGNORECASE)),
    (
        ADDED,
        re.compile(
            r"\badd(?:s|ed|ing)?\b|\bnew\b|\bintroduc|\bsupport\b|\bchang(?:e|es|ed)\b", re.IGNORECASE
        ),
    ),
)
_CHORES: Final = re.compile(
    r"\bdocs?\b|\bdocumentation\b|\btypos?\b|\btests?\b|\bCI\b|\brefactor|\bchore\b|\binternal|\blint",
    re.IGNORECASE,
)
# A page explains what is removed where and why; only these words on it announce something. A note of one line is all news.
PAGE_CHARS: Final = 400
_ON_A_PAGE: Final = (
    (GONE, re.compile(r"⚠|\bbreaking change|\bno longer (?:supported|available)\b", re.IGNORECASE)),
    (DEPRECATED, re.compile(r"\bdeprecat|<pitfall>|\bwarning\b|\bcaution\b", re.IGNORECASE)),
)
RELATED: Final = 0.2
NOTE_CHARS: Final = 250
MOSTLY_SAME: Final = 0.6
NEARLY_SAME: Final = 0.9
NESTED: Final = 2.5


def salience(observation: object, before: dict[str, Any] | None) -> float:
    """From 0, seen before as it is, to 6, something was taken away."""
    if not isinstance(observation, dict):
        return TOUCHED
    if before is None:
        flagged = DEPRECATED if observation.get("deprecated") is True else FIRST_SEEN
        return max(flagged, _announced(_text(observation), ""))
    best = SAME
    for key, value in observation.items():
        if key not in before or before[key] != value:
            best = max(best, _changed(key, before.get(key), value))
            if best == GONE:
                return best
    if best > SAME:
        best = max(best, _announced(_text(observation), _text(before)))
    return best


def _changed(key: str, old: Any, new: Any) -> float:
    if isinstance(old, list) and isinstance(new, list):
        lost, gained = _difference(old, new), _difference(new, old)
        if key.startswith("required"):
            return GONE if gained else TOUCHED
        return GONE if lost else ADDED if gained else TOUCHED
    if isinstance(old, dict) and isinstance(new, dict):
        inner = [
            _changed(name, old[name], new[name]) for name in new if name in old and old[name] != new[name]
        ]
        # What a nested value loses is often only what an answer may hold, which breaks less.
        return min(max(inner, default=ADDED), NESTED)
    if isinstance(old, bool) and isinstance(new, bool):
        return DEPRECATED if new else TOUCHED
    if key == "status" and isinstance(new, str):
        return GONE if _announced(new, "") == GONE else TOUCHED
    if isinstance(old, str) and isinstance(new, str) and (" " in old or " " in new):
        alike = likeness(old, new)
        if alike < (RELATED if max(len(old), len(new)) > NOTE_CHARS else MOSTLY_SAME):
            return FIRST_SEEN
        return REWRITTEN if alike < MOSTLY_SAME else ADDED if alike < NEARLY_SAME else TOUCHED
    return TOUCHED


def _difference(left: list[Any], right: list[Any]) -> bool:
    """Whether the left list has something that the right one lacks."""
    there = {repr(element) for element in right}
    return any(repr(element) not in there for element in left)


def _text(observation: dict[str, Any]) -> str:
    return " ".join(
        value
        for key, value in observation.items()
        if isinstance(value, str) and (" " in value or key == "content")
    )


def _announced(new: str, old: str) -> float:
    """The gravest thing that a text says and that the one before did not say as often."""
    if not new:
        return SAME
    if old and likeness(old, new) < MOSTLY_SAME:
        old = ""
    for weight, words in _ON_A_PAGE if len(new) > PAGE_CHARS else _ANNOUNCES:
        if len(words.findall(new)) > len(words.findall(old)):
            return weight
    return CHORE if _CHORES.search(new) and not old else SAME


def likeness(left: str, right: str) -> float:
    """The share of words that two texts have in common, from 0 to 1."""
    ours, theirs = set(_WORD.findall(left.lower())), set(_WORD.findall(right.lower()))
    return len(ours & theirs) / max(len(ours | theirs), 1)
