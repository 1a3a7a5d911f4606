"""What every value of the house is: frozen, self-checking, with plain JSON in and out."""

import re
from enum import StrEnum
from typing import Any, Final, NoReturn, Self

import msgspec

from standfast.canon import normal_string
from standfast.errors import InvalidValue
from standfast.limits import MAX_NAME_CHARS

_HEX_DIGEST: Final = re.compile("[0-9a-f]{64}")


class Value(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen value that checks itself. ``as_json`` gives plain JSON with the documents' field names."""

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON, ready for ``canonical_bytes``."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """The value that ``as_json`` gave; anything else is an ``InvalidValue`` that names the field."""
        try:
            return msgspec.convert(plain, cls)
        except msgspec.ValidationError as error:
            raise InvalidValue(what=cls.__name__, problem=str(error)) from None

    def _require(self, condition: bool, problem: str) -> None:
        if not condition:
            raise InvalidValue(what=type(self).__name__, problem=problem)

    def _coerce(self, field: str, kind: type[StrEnum]) -> None:
        """Let callers write ``"VOID"`` for ``Verdict.VOID``, and hold the enum from then on."""
        given = getattr(self, field)
        if type(given) is kind:
            return
        try:
            msgspec.structs.force_setattr(self, field, kind(given))
        except ValueError:
            raise InvalidValue(what=type(self).__name__, problem=f"{field} {none_of(given, kind)}") from None

    def _refuse(self, problem: str) -> NoReturn:
        raise InvalidValue(what=type(self).__name__, problem=problem)

    def _require_whole(self, field: str, number: int, *, least: int) -> None:
        if not (type(number) is int and number >= least):
            self._refuse(f"{field} must be a whole number from {least} on, not {shown(number)}")

    def _require_name(self, field: str, name: str, most_chars: int = MAX_NAME_CHARS) -> None:
        if not (
            isinstance(name, str)
            and 0 < len(name) <= most_chars
            and name.isprintable()
            and (name.isascii() or normal_string(name) == name)
        ):
            self._refuse(f"{field} must be 1 to {most_chars} printable characters in NFC, not {shown(name)}")

    def _require_digest(self, field: str, digest: str) -> None:
        if not (isinstance(digest, str) and _HEX_DIGEST.fullmatch(digest)):
            self._refuse(f"{field} must be 64 lower-case hexadecimal digits, not {shown(digest)}")


def shown(value: object) -> str:
    """A value in an error message: short, and never an error itself."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):
        # Python does not print integers of thousands of digits, nor values that are nested too deeply.
        return f"a {type(value).__name__}"


def none_of(given: object, kind: type[StrEnum]) -> str:
    """Says that something is no member of a closed set."""
    return f"is {shown(given)}, which is none of {', '.join(kind)}"
