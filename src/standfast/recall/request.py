"""The request of ``memory.read``: the contract's ``MemoryControllerInput``, checked before anything is read.

Fields are checked in a fixed order (query, stores, budget, the rest), so a request with several faults always
gets the same error.
"""

import os
import posixpath
from enum import StrEnum
from typing import Any, Final, Self

import msgspec

from standfast.errors import EmptyQuery, InvalidValue, LoneSurrogate, RecallError
from standfast.limits import DEFAULT_HALF_LIFE_DAYS, MAX_HALF_LIFE_DAYS, MAX_VALUE_BYTES
from standfast.records.canon import lowered, normal_string
from standfast.records.conversion import converted
from standfast.records.timestamps import MISSING, time_of
from standfast.records.vocabulary import Budget, Value

CONTROLLER_VERSION: Final = "phase6-v1"
_MALICIOUS: Final = ("malicious",)


def collapsed(text: str) -> str:
    """The text trimmed, each run of white space replaced by one space."""
    return " ".join(text.split())


def normal_text(text: str) -> str:
    """The form in which queries and texts are compared: lower case (Unicode 14.0), trimmed, collapsed."""
    return collapsed(lowered(text))


def terms_of_query(query: str) -> tuple[str, ...]:
    """The words of a query of at least two characters, each once, in the order of appearance."""
    return tuple(dict.fromkeys(word for word in normal_text(query).split(" ") if len(word) >= 2))


class DroppedForm(StrEnum):
    """How a package lists what was not selected."""

    FULL = "full"
    COUNTS = "counts"


def _paths(given: object) -> tuple[str, ...]:
    if isinstance(given, str | os.PathLike) or not isinstance(given, list | tuple) or not given:
        raise RecallError("recall_no_stores")
    return tuple(sorted({_path(path, "store_paths") for path in given}))


def _path(given: object, field: str) -> str:
    """The one form of a path that is shown, sorted and opened. The file system is not consulted."""
    path = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise RecallError("recall_request", field=field, problem="a path must be a string that is not empty")
    _check_text(field, path)
    normal = posixpath.normpath(path.replace(os.sep, "/"))
    return normal[1:] if normal.startswith("//") else normal


def _set_strings(value: Value, name: str, field: str) -> None:
    """Store a list of strings as a tuple; anything else is refused."""
    given = getattr(value, name)
    if not isinstance(given, list | tuple) or not all(isinstance(text, str) for text in given):
        raise RecallError("recall_request", field=field, problem="it must be a list of strings")
    for text in given:
        _check_text(field, text)
    msgspec.structs.force_setattr(value, name, tuple(given))


def _check_text(field: str, text: str) -> None:
    try:
        size = len(normal_string(text).encode())
    except LoneSurrogate as error:
        raise RecallError(
            "recall_request",
            field=field,
            problem=f"it holds a lone surrogate at character {error.facts['index']}",
        ) from None
    if size > MAX_VALUE_BYTES:
        raise RecallError("recall_request", field=field, problem=f"it is longer than {MAX_VALUE_BYTES} bytes")


def _check_timestamp(field: str, given: object) -> None:
    if given is not None and not (isinstance(given, str) and time_of(given) != MISSING):
        problem = "it must be an ISO 8601 timestamp in UTC, for example 2026-01-15T10:30:00Z"
        raise RecallError("recall_request", field=field, problem=problem)


def _dropped_form(given: object) -> DroppedForm:
    for form in DroppedForm:
        if given == form:
            return form
    raise RecallError(
        "recall_request", field="dropped", problem=f"it must be one of {', '.join(DroppedForm)}"
    )


class Scoring(Value, frozen=True, kw_only=True):
    """How candidates are scored."""

    enable_recency_weight: bool = False
    recency_half_life_days: int = DEFAULT_HALF_LIFE_DAYS
    enable_tag_overlap: bool = True
    query_terms: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("enable_recency_weight", "enable_tag_overlap"):
            if type(getattr(self, name)) is not bool:
                raise RecallError(
                    "recall_request", field=f"scoring.{name}", problem="it must be true or false"
                )
        days = self.recency_half_life_days
        if not (type(days) is int and 1 <= days <= MAX_HALF_LIFE_DAYS):
            raise RecallError(
                "recall_request",
                field="scoring.recency_half_life_days",
                problem=f"it must be a whole number of days from 1 to {MAX_HALF_LIFE_DAYS}",
            )
        if self.query_terms is not None:
            _set_strings(self, "query_terms", "scoring.query_terms")


class TrustFilter(Value, frozen=True, kw_only=True):
    """Which classifications of a trust snapshot deny a record. Without a snapshot nothing is filtered."""

    deny_classifications: tuple[str, ...] = _MALICIOUS
    trust_snapshot_path: str | None = None

    def __post_init__(self) -> None:
        _set_strings(self, "deny_classifications", "trust_filter.deny_classifications")
        path = self.trust_snapshot_path
        if path is not None:
            normal = _path(path, "trust_filter.trust_snapshot_path")
            msgspec.structs.force_setattr(self, "trust_snapshot_path", normal)


class MemoryControllerInput(Value, frozen=True, kw_only=True):
    """One call of ``memory.read``. Paths are normalised, sorted, and each kept once."""

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
            raise RecallError("recall_budget", problem="give max_excerpt_tokens, a whole number from 1 on")
        _check_timestamp("now_utc", self.now_utc)
        msgspec.structs.force_setattr(self, "dropped", _dropped_form(self.dropped))

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """Read a request in the contract's JSON form. Missing optional fields have their defaults."""
        given: dict[str, Any] = dict(plain) if isinstance(plain, dict) else {}
        query, paths, budget = given.get("query"), given.get("store_paths"), given.get("budget")
        if not isinstance(query, str) or not query.strip():
            raise EmptyQuery
        _paths(paths)
        try:
            Budget.from_json(budget)
        except InvalidValue as error:
            raise RecallError("recall_budget", problem=error.facts["problem"]) from None
        try:
            return converted(plain, cls)
        except msgspec.ValidationError as error:
            raise RecallError("recall_request", field="the request", problem=str(error)) from None

    @property
    def terms(self) -> tuple[str, ...]:
        """The caller's terms, each once, in the form in which they can match; or the words of the query."""
        if self.scoring.query_terms is None:
            return terms_of_query(self.query)
        terms = map(normal_text, self.scoring.query_terms)
        return tuple(dict.fromkeys(term for term in terms if term))

    @property
    def now(self) -> int | None:
        """The time that age is measured from; None without ``now_utc``."""
        return None if self.now_utc is None else time_of(self.now_utc)
