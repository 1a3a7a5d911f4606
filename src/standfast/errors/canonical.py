"""Errors of canonical JSON."""

from typing import Any, Self

from standfast.errors.root import StandfastError


class NotCanonical(StandfastError):
    """A value or a text is not json-v1. ``path`` says where, e.g. ``$.tags[3]``."""

    code = "not_canonical"
    says = "At {path}: not a json-v1 value."

    def __init__(self, **facts: Any) -> None:
        super().__init__(path="$", **facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt_at, (type(self), self.facts)

    def inside(self, step: str) -> Self:
        """The same error with a step of the path put in front."""
        self.facts["path"] = "$" + step + self.facts["path"][1:]
        return self


def _rebuilt_at(kind: type[NotCanonical], facts: dict[str, Any]) -> NotCanonical:
    error = kind()
    error.facts = facts
    return error


class UnsupportedType(NotCanonical):
    """A value is of a type that JSON does not have."""

    code = "canon_type"
    says = (
        "At {path}: {type} is not a JSON value. Use a dict with string keys, list, tuple, str, int, float, bool, "
        "None or an aware datetime (exactly these types); convert anything else first."
    )


class NumberOutOfRange(NotCanonical):
    """A number is NaN, infinite, or too large to be exact in every JSON reader."""

    code = "canon_number"
    says = (
        "At {path}: {number} is not a number between -(2^53 - 1) and 2^53 - 1; "
        "send larger ones as strings, and leave NaN and infinities out."
    )


class LoneSurrogate(NotCanonical):
    """A string holds half of a UTF-16 pair, which UTF-8 can't encode."""

    code = "canon_surrogate"
    says = "At {path}: the string holds a lone surrogate at character {index}; decode it properly first."


class DuplicateKey(NotCanonical):
    """Two keys of one object are the same after Unicode normalisation."""

    code = "canon_duplicate_key"
    says = "At {path}: the key {key!r} occurs twice (keys are compared after NFC); keep one."


class NaiveDatetime(NotCanonical):
    """A datetime has no time zone, or is outside the years 1 to 9999."""

    code = "canon_datetime"
    says = (
        "At {path}: {value} is not an instant in UTC; use an aware datetime between years 1 and 9999, "
        "for example datetime.now(UTC)."
    )


class TooDeep(NotCanonical):
    """A value is nested deeper than the limit, or contains itself."""

    code = "canon_depth"
    says = "At {path}: nested deeper than {limit_levels} levels; flatten the value."


class TooLarge(NotCanonical):
    """A value takes more bytes than the limit."""

    code = "canon_size"
    says = "At {path}: {size_bytes} bytes, but one value may take {limit_bytes}; split it."


class MalformedJson(NotCanonical):
    """The bytes are not a JSON text in UTF-8."""

    code = "canon_syntax"
    says = "At {path}: not a JSON text in UTF-8: {problem} (at offset {offset})."
