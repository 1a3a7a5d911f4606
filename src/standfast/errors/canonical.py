"""What can't be written as, or read from, canonical JSON."""

from typing import Any, Self

from standfast.errors.root import StandfastError


class NotCanonical(StandfastError):
    """A value can't be written as json-v1, or a text can't be read as it; ``path`` says where."""

    code = "not_canonical"
    says = "At {path}: not a json-v1 value."

    def __init__(self, **facts: Any) -> None:
        super().__init__(path="$", **facts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt_at, (type(self), self.facts)

    def inside(self, step: str) -> Self:
        """The same error, seen from one container further out."""
        self.facts["path"] = "$" + step + self.facts["path"][1:]
        return self


def _rebuilt_at(kind: type[NotCanonical], facts: dict[str, Any]) -> NotCanonical:
    error = kind()
    error.facts = facts
    return error


class UnsupportedType(NotCanonical):
    """The value is of a type that JSON doesn't have."""

    code = "canon_type"
    says = (
        "At {path}: {type} is not a JSON value. Give a dict with string keys, list, tuple, str, int, float, bool, "
        "None or an aware datetime (exactly these types); convert anything else first."
    )


class NumberOutOfRange(NotCanonical):
    """The number is NaN, infinite, or too large to be exact in every JSON reader."""

    code = "canon_number"
    says = (
        "At {path}: {number} is not a number between -(2^53 - 1) and 2^53 - 1; "
        "send larger ones as strings, and leave NaN and infinities out."
    )


class LoneSurrogate(NotCanonical):
    """The string holds half of a UTF-16 pair, which no UTF-8 text can hold."""

    code = "canon_surrogate"
    says = "At {path}: the string holds a lone surrogate at character {index}; decode it properly first."


class DuplicateKey(NotCanonical):
    """Two keys of one object are the same after Unicode normalisation."""

    code = "canon_duplicate_key"
    says = "At {path}: the key {key!r} stands twice (keys are compared after NFC); keep one."


class NaiveDatetime(NotCanonical):
    """The datetime names no instant."""

    code = "canon_datetime"
    says = (
        "At {path}: {value} names no instant in UTC; use an aware datetime between years 1 and 9999, "
        "for example datetime.now(UTC)."
    )


class TooDeep(NotCanonical):
    """Containers are nested deeper than the limit; a value that holds itself ends here too."""

    code = "canon_depth"
    says = "At {path}: nested deeper than {limit_levels} levels; flatten the value."


class TooLarge(NotCanonical):
    """The value takes more bytes than one value may."""

    code = "canon_size"
    says = "At {path}: {size_bytes} bytes, but one value may take {limit_bytes}; split it."


class MalformedJson(NotCanonical):
    """The bytes are no JSON text in UTF-8."""

    code = "canon_syntax"
    says = "At {path}: not a JSON text in UTF-8: {problem} (at offset {offset})."
