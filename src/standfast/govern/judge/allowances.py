"""Allow-lists of a floor: what it does not look at, by pattern, scope or source.

    [floors.F5_Secrecy]
    allow = ["EXAMPLE[A-Z0-9]{8,}"]        # parts of a text that match are not looked at
    allow_scopes = ["team/security"]       # nor is anything in this scope, or below it
    allow_sources = ["doc:handbook*"]      # nor what comes from such a source

An allowance never lets a text pass silently: the evidence says that it was allowed, and why the floor would have failed it.
"""

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from standfast.errors import InvalidValue
from standfast.govern.judge.claim import Claim, Finding, Floor, JudgingContext, NeedsReview, source_key
from standfast.scopes import checked_scope, is_within

ALLOWING_OPTIONS: Final = ("allow", "allow_scopes", "allow_sources")
_MAX_ALLOWANCES: Final = 200
_MAX_PATTERN_CHARS: Final = 500


@dataclass(frozen=True, kw_only=True)
class AllowingFloor:
    """A floor with allow-lists. ``FloorRegistry.configured`` makes it of the options in the settings."""

    floor: Floor
    allow: tuple[str, ...] = ()
    allow_scopes: tuple[str, ...] = ()
    allow_sources: tuple[str, ...] = ()
    _patterns: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for option in ALLOWING_OPTIONS:
            given = getattr(self, option)
            if len(given) > _MAX_ALLOWANCES or not all(isinstance(one, str) and one for one in given):
                self._refuse(option, f"it must be a list of at most {_MAX_ALLOWANCES} non-empty strings")
        for scope in self.allow_scopes:
            checked_scope(scope, what=f"allow_scopes of {self.floor.name}")
        for source in self.allow_sources:
            if not all(part.strip() for part in source.partition(":")[::2]):
                self._refuse("allow_sources", f"{source!r:.80} must be KIND:ID, such as doc:handbook*")
        object.__setattr__(self, "_patterns", tuple(self._compiled(one) for one in self.allow))

    def _compiled(self, pattern: str) -> re.Pattern[str]:
        if len(pattern) > _MAX_PATTERN_CHARS:
            self._refuse("allow", f"a pattern has at most {_MAX_PATTERN_CHARS} characters")
        try:
            return re.compile(pattern)
        except re.error as error:
            self._refuse("allow", f"{pattern!r:.80} is no regular expression: {error}")
        raise AssertionError("unreachable")

    def _refuse(self, option: str, problem: str) -> None:
        raise InvalidValue(what=f"option {option} of {self.floor.name}", problem=problem)

    @property
    def name(self) -> str:
        """The name of the floor."""
        return self.floor.name

    @property
    def threshold(self) -> float:
        """The threshold of the floor."""
        return self.floor.threshold

    @property
    def hard(self) -> bool:
        """Whether the floor is hard."""
        return self.floor.hard

    def check(self, claim: Claim, context: JudgingContext) -> tuple[float, str]:
        """What the floor finds; if it fails and an allowance applies, a pass that says so."""
        finding = self.floor.check(claim, context)
        score, reason = finding
        if score >= self.threshold and not isinstance(finding, NeedsReview):
            return finding
        allowed = self._allowed_by(claim, context)
        return finding if allowed is None else Finding(1.0, f"allowed by {allowed}: {reason}")

    def _allowed_by(self, claim: Claim, context: JudgingContext) -> str | None:
        record = claim.record
        for scope in self.allow_scopes:
            if is_within(record.scope, scope):
                return f"allow_scopes {scope}"
        kind, _, name = source_key(record.source).partition(" ")
        for source in self.allow_sources:
            if kind and fnmatch.fnmatchcase(f"{kind}:{name}", source.strip().lower()):
                return f"allow_sources {source}"
        text = record.text
        for pattern in self._patterns:
            text = pattern.sub(" ", text)
        if text == record.text:
            return None
        if not text.strip():
            return "allow"
        rest = Claim(record=msgspec.structs.replace(record, text=text), role=claim.role)
        finding = self.floor.check(rest, context)
        passes = finding[0] >= self.threshold and not isinstance(finding, NeedsReview)
        return "allow" if passes else None


def unwrapped(floor: Floor) -> Floor:
    """The floor itself, without its allow-lists."""
    return floor.floor if isinstance(floor, AllowingFloor) else floor


def with_allowances(floor: Floor, options: dict[str, object]) -> Floor:
    """The floor with the allow-lists among these options, if there are any."""
    lists: dict[str, tuple[str, ...]] = {}
    for name in ALLOWING_OPTIONS:
        given = options.get(name)
        if given is None:
            continue
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise InvalidValue(
                what="Floor", problem=f"option {name} of {floor.name} must be a list of strings"
            )
        lists[name] = tuple(given)
    return AllowingFloor(floor=floor, **lists) if lists else floor
