"""Features of a step that any policy can see: its kind, how it differs from the last one, and how much.

``drift_score`` uses no labels. A list that lost an element breaks its users; a parameter that became required
asks for something new; the flag "deprecated" and words such as "removed" announce a change. In a text, only
words that are new count: a page that always warned about something is no news.
"""

import re
from collections import OrderedDict
from enum import StrEnum
from typing import Any, Final

from standfast.limits import MAX_SEEN_ENDPOINTS
from standfast.policies.byte_model import canonical_delta, endpoint_of
from standfast.records.vocabulary import Step


class ObservationKind(StrEnum):
    """The document's three observation types, and everything else."""

    API_SCHEMA = "api_schema"
    DOCUMENTATION = "documentation"
    MIGRATION_GUIDE = "migration_guide"
    OTHER = "other"


def kind_of(observation: object) -> ObservationKind:
    """Return the type of an observation, by the fields that only that type has."""
    if not isinstance(observation, dict):
        return ObservationKind.OTHER
    if "old_api" in observation or "new_api" in observation:
        return ObservationKind.MIGRATION_GUIDE
    if "content" in observation or "section" in observation:
        return ObservationKind.DOCUMENTATION
    if "params" in observation or "endpoint" in observation:
        return ObservationKind.API_SCHEMA
    return ObservationKind.OTHER


class Novelty(StrEnum):
    """How a step relates to the last one seen of its endpoint."""

    NEW = "new"
    CHANGED = "changed"
    SAME = "same"


class LastSeen:
    """The last observation of each endpoint.

    This is a policy's own knowledge and not part of the budget. It is bounded: the endpoint that was seen
    longest ago is dropped first.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def before(self, step: Step) -> dict[str, Any] | None:
        """Return the last observation of the step's endpoint."""
        api = endpoint_of(step.observation)
        return self._seen.get(api) if api is not None else None

    def note(self, step: Step) -> None:
        """Record the step as its endpoint's last."""
        api = endpoint_of(step.observation)
        if api is not None:
            self._seen[api] = step.observation
            self._seen.move_to_end(api)
            if len(self._seen) > MAX_SEEN_ENDPOINTS:
                self._seen.popitem(last=False)


def novelty(step: Step, before: dict[str, Any] | None) -> Novelty:
    """Return whether a step is its endpoint's first, a change, or the same again."""
    if before is None:
        return Novelty.NEW
    return Novelty.CHANGED if canonical_delta(before, step.observation) else Novelty.SAME


REMOVED: Final = 6.0
DEPRECATED: Final = 5.0
SECURITY: Final = 4.0
REWRITTEN: Final = 4.0
ADDED: Final = 2.0
FIRST_SEEN: Final = 1.5
TOUCHED: Final = 1.0
CHORE: Final = 0.5
SAME: Final = 0.0

_WORD: Final = re.compile(r"[^\W_]+")
_NOTE_WORDS: Final = (
    (
        REMOVED,
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
# A short note is all news. A page also explains what is removed where and why, so only these words announce
# something there.
PAGE_CHARS: Final = 400
_PAGE_WORDS: Final = (
    (REMOVED, re.compile(r"⚠|\bbreaking change|\bno longer (?:supported|available)\b", re.IGNORECASE)),
    (DEPRECATED, re.compile(r"\bdeprecat|<pitfall>|\bwarning\b|\bcaution\b", re.IGNORECASE)),
)
RELATED: Final = 0.2
NOTE_CHARS: Final = 250
MOSTLY_SAME: Final = 0.6
NEARLY_SAME: Final = 0.9
NESTED: Final = 2.5


def drift_score(observation: object, before: dict[str, Any] | None) -> float:
    """Return how much a step matters: from 0, nothing changed, to 6, something was removed.

    Args:
        observation: What the step shows.
        before: The last observation of the same endpoint, if there was one.
    """
    if not isinstance(observation, dict):
        return TOUCHED
    if before is None:
        flagged = DEPRECATED if observation.get("deprecated") is True else FIRST_SEEN
        return max(flagged, _word_score(_text(observation), ""))
    best = SAME
    for key, value in observation.items():
        if key not in before or before[key] != value:
            best = max(best, _change_score(key, before.get(key), value))
            if best == REMOVED:
                return best
    if best > SAME:
        best = max(best, _word_score(_text(observation), _text(before)))
    return best


def _change_score(key: str, old: Any, new: Any) -> float:
    if isinstance(old, list) and isinstance(new, list):
        lost, gained = _difference(old, new), _difference(new, old)
        if key.startswith("required"):
            return REMOVED if gained else TOUCHED
        return REMOVED if lost else ADDED if gained else TOUCHED
    if isinstance(old, dict) and isinstance(new, dict):
        inner = [
            _change_score(name, old[name], new[name])
            for name in new
            if name in old and old[name] != new[name]
        ]
        # A nested value is often part of a response, where losing a field breaks less.
        return min(max(inner, default=ADDED), NESTED)
    if isinstance(old, bool) and isinstance(new, bool):
        return DEPRECATED if new else TOUCHED
    if key == "status" and isinstance(new, str):
        return REMOVED if _word_score(new, "") == REMOVED else TOUCHED
    if isinstance(old, str) and isinstance(new, str) and (" " in old or " " in new):
        alike = word_overlap(old, new)
        if alike < (RELATED if max(len(old), len(new)) > NOTE_CHARS else MOSTLY_SAME):
            return FIRST_SEEN
        return REWRITTEN if alike < MOSTLY_SAME else ADDED if alike < NEARLY_SAME else TOUCHED
    return TOUCHED


def _difference(left: list[Any], right: list[Any]) -> bool:
    """Return whether the left list has an element that the right one lacks."""
    known = {repr(element) for element in right}
    return any(repr(element) not in known for element in left)


def _text(observation: dict[str, Any]) -> str:
    return " ".join(
        value
        for key, value in observation.items()
        if isinstance(value, str) and (" " in value or key == "content")
    )


def _word_score(new: str, old: str) -> float:
    """Return the highest weight of a word that the new text has more often than the old one."""
    if not new:
        return SAME
    if old and word_overlap(old, new) < MOSTLY_SAME:
        old = ""
    for weight, words in _PAGE_WORDS if len(new) > PAGE_CHARS else _NOTE_WORDS:
        if len(words.findall(new)) > len(words.findall(old)):
            return weight
    return CHORE if _CHORES.search(new) and not old else SAME


def word_overlap(left: str, right: str) -> float:
    """Return the share of distinct words that two texts have in common, from 0 to 1."""
    ours, theirs = set(_WORD.findall(left.lower())), set(_WORD.findall(right.lower()))
    return len(ours & theirs) / max(len(ours | theirs), 1)
