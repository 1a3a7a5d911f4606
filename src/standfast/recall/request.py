"""What ``memory.read`` is asked: the contract's ``MemoryControllerInput``, checked before anything is read.

Faults are looked for in a fixed order (query, stores, budget, the rest), so that a request with several always gets the
same error.
"""

import os
import posixpath
from enum import StrEnum
from typing import Any, Final, Self

import msgspec

from standfast.canon import normal_string
from standfast.errors import (
    EmptyQuery,
    InvalidBudget,
    InvalidRequest,
    InvalidValue,
    LoneSurrogate,
    NoStores,
)
from standfast.limits import DEFAULT_HALF_LIFE_DAYS, MAX_HALF_LIFE_DAYS, MAX_VALUE_BYTES
from standfast.recall.moments import MISSING, exact_moment
from standfast.recall.wording import derived_terms, given_terms, normal_wording
from standfast.vocabulary import Budget, Value

CONTROLLER_VERSION: Final = "phase6-v1"
_MALICIOUS: Final = ("malicious",)


class DroppedForm(StrEnum):
    """How a package tells what was not selected."""

    FULL = "full"
    COUNTS = "counts"


def _paths(given: object) -> tuple[str, ...]:
    if isinstance(given, str | os.PathLike) or not isinstance(given, list | tuple) or not given:
        raise NoStores
    return tuple(sorted({_path(path, "store_paths") for path in given}))


def _path(given: object, field: str) -> str:
    """A path in the one form that is shown, sorted and opened. It is a matter of words: nothing is looked up."""
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidRequest(field=field, problem="a path must be a string that is not empty")
    _check_text(field, path)
    normal = posixpath.normpath(path.replace(os.sep, "/"))
    return normal[1:] if normal.startswith("//") else normal


def _settle_texts(value: Value, name: str, field: str) -> None:
    """Hold a list of strings as a tuple; anything else is refused."""
    given = getattr(value, name)
    if not isinstance(given, list | tuple) or not all(isinstance(text, str) for text in given):
        raise InvalidRequest(field=field, problem="it must be a list of strings")
    for text in given:
        _check_text(field, text)
    msgspec.structs.force_setattr(value, name, tuple(given))


def _check_text(field: str, text: str) -> None:
    try:
        size = len(normal_string(text).encode())
    except LoneSurrogate as error:
        raise InvalidRequest(
            field=field, problem=f"it holds a lone surrogate at character {error.facts['index']}"
        ) from None
    if size > MAX_VALUE_BYTES:
        raise InvalidRequest(field=field, problem=f"it is longer than {MAX_VALUE_BYTES} bytes")


def _check_moment(field: str, given: object) -> None:
    if given is not None and not (isinstance(given, str) and exact_moment(given) != MISSING):
        problem = "it must be an ISO 8601 timestamp in UTC, for example 2026-01-15T10:30:00Z"
        raise InvalidRequest(field=field, problem=problem)


def _dropped_form(given: object) -> DroppedForm:
    for form in DroppedForm:
        if given == form:
            return form
    raise InvalidRequest(field="dropped", problem=f"it must be one of {', '.join(DroppedForm)}")


class Scoring(Value, frozen=True, kw_only=True):
    """How candidates are scored."""

    enable_recency_weight: bool = False
    recency_half_life_days: int = DEFAULT_HALF_LIFE_DAYS
    enable_tag_overlap: bool = True
    query_terms: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("enable_recency_weight", "enable_tag_overlap"):
            if type(getattr(self, name)) is not bool:
                raise InvalidRequest(field=f"scoring.{name}", problem="it must be true or false")
        days = self.recency_half_life_days
        if not (type(days) is int and 1 <= days <= MAX_HALF_LIFE_DAYS):
            raise InvalidRequest(
                field="scoring.recency_half_life_days",
                problem=f"it must be a whole number of days from 1 to {MAX_HALF_LIFE_DAYS}",
            )
        if self.query_terms is not None:
            _settle_texts(self, "query_terms", "scoring.query_terms")


class TrustFilter(Value, frozen=True, kw_only=True):
    """Which explicit denials of a trust snapshot count. Without a snapshot nothing is filtered."""

    deny_classifications: tuple[str, ...] = _MALICIOUS
    trust_snapshot_path: str | None = None

    def __post_init__(self) -> None:
        _settle_texts(self, "deny_classifications", "trust_filter.deny_classifications")
        path = self.trust_snapshot_path
        if path is not None:
            settled = _path(path, "trust_filter.trust_snapshot_path")
            msgspec.structs.force_setattr(self, "trust_snapshot_path", settled)


class MemoryControllerInput(Value, frozen=True, kw_only=True):
    """One call of ``memory.read``. Paths are normalised, sorted and each kept once, whatever order they came in."""

    query: str
    store_paths: tuple[str, ...]
    budget: Budget
    scoring: Scoring = Scoring()
    trust_filter: TrustFilter = TrustFilter()
    now_utc: str | None = None
    dropped: DroppedForm = DroppedForm.FULL

    def __post_init__(self) -> None:
        if not isinstance(self.query, str) or not self.query.strip():
            raise EmptyQuery
        _check_text("query", self.query)
        msgspec.structs.force_setattr(self, "store_paths", _paths(self.store_paths))
        if not isinstance(self.budget, Budget):
            raise InvalidBudget(problem="give max_excerpt_tokens, a whole number from 1 on")
        _check_moment("now_utc", self.now_utc)
        msgspec.structs.force_setattr(self, "dropped", _dropped_form(self.dropped))

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """A request as the contract writes it in JSON. Optional fields that are missing have their defaults."""
        given: dict[str, Any] = dict(plain) if isinstance(plain, dict) else {}
        query, paths, budget = given.get("query"), given.get("store_paths"), given.get("budget")
        if not isinstance(query, str) or not query.strip():
            raise EmptyQuery
        _paths(paths)
        try:
            Budget.from_json(budget)
        except InvalidValue as error:
            raise InvalidBudget(problem=error.facts["problem"]) from None
        try:
            return msgspec.convert(plain, cls)
        except msgspec.ValidationError as error:
            raise InvalidRequest(field="the request", problem=str(error)) from None

    @property
    def normal_query(self) -> str:
        """What ``query_hash`` is the hash of."""
        return normal_wording(self.query)

    @property
    def terms(self) -> tuple[str, ...]:
        """What is looked for: the caller's terms, or those that the query gives."""
        given = self.scoring.query_terms
        return derived_terms(self.query) if given is None else given_terms(given)

    @property
    def now(self) -> int | None:
        """The moment from which age is measured, if one was given."""
        return None if self.now_utc is None else exact_moment(self.now_utc)

    @property
    def measures_recency(self) -> bool:
        """Whether recency counts: asked for, and with a moment to measure it from."""
        return self.scoring.enable_recency_weight and self.now is not None
