"""Every exception of Holdfast. Catch one by class or by its stable ``code``, never by its text.

    HoldfastError
    ├── InvalidValue              invalid_value          a value of the vocabulary can't be built from this
    ├── InvalidSettings           invalid_settings       a setting is unknown or has a value it can't have
    ├── MissingExtra              missing_extra          an optional dependency is not installed
    ├── StoreError                store                  the store can't do this, or not now
    │   ├── CannotOpen            cannot_open            the store can't be opened safely
    │   ├── Corruption            corruption             what is stored is not what was written
    │   ├── BrokenChain           broken_chain           the ledger does not hold together
    │   ├── NoSuchSnapshot        no_such_snapshot       that state was never committed
    │   ├── NotAllowed            not_allowed            the run's visibility mode forbids this
    │   ├── RunOver               run_over               the run has been committed or discarded already
    │   ├── CommitAborted         commit_aborted         the commit did not happen, for a stated reason
    │   ├── PayloadMismatch       payload_mismatch       this commit id was used for another payload
    │   ├── StaleFence            stale_fence            another worker owns this commit now
    │   ├── StoreBusy             store_busy             other writers held the store for too long
    │   ├── StoreFailed           store_failed           the disk or the server failed; nothing was changed
    │   └── OutcomeUnknown        outcome_unknown        whether it was committed can't be told now; ask by commit id
    └── NotCanonical              not_canonical          this can't be written as, or read from, json-v1
        ├── UnsupportedType       canon_type             not a JSON value
        ├── NumberOutOfRange      canon_number           NaN, infinite, or beyond 2^53 - 1 either way
        ├── LoneSurrogate         canon_surrogate        half of a UTF-16 pair is not text
        ├── DuplicateKey          canon_duplicate_key    one object holds a key twice (after NFC)
        ├── NaiveDatetime         canon_datetime         a datetime without a time zone, or outside the calendar
        ├── TooDeep               canon_depth            nested deeper than 128 levels
        ├── TooLarge              canon_size             more than 1 MiB in one value
        └── MalformedJson         canon_syntax           the bytes are no JSON text in UTF-8

Each error is built from facts, and its message is made of them; the facts are kept in ``facts`` for machines.
"""

from typing import Any, ClassVar, Self


class HoldfastError(Exception):
    """The root of all errors: a stable ``code``, the ``facts``, and a message that names the way out."""

    code: ClassVar[str] = "holdfast"
    says: ClassVar[str] = "Something went wrong in Holdfast."

    def __init__(self, **facts: Any) -> None:
        super().__init__()
        self.facts = facts

    def __str__(self) -> str:
        return self.says.format(**self.facts)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}" for name, value in self.facts.items())
        return f"{type(self).__name__}({facts})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.facts)

    def as_json(self) -> dict[str, Any]:
        """The error as the doors print it."""
        return {"code": self.code, "message": str(self), "facts": self.facts}


def _rebuilt(kind: type[HoldfastError], facts: dict[str, Any]) -> HoldfastError:
    return kind(**facts)


class InvalidValue(HoldfastError):
    """A value of the vocabulary can't be built from what was given."""

    code = "invalid_value"
    says = "{what} is invalid: {problem}"


class InvalidSettings(HoldfastError):
    """A setting is unknown, or has a value it can't have."""

    code = "invalid_settings"
    says = "Setting {name} from {source} is invalid: {problem}"


class MissingExtra(HoldfastError):
    """An optional dependency is not installed."""

    code = "missing_extra"
    says = "{feature} needs an optional dependency; install it with: pip install 'holdfast[{extra}]'"


class StoreError(HoldfastError):
    """The store can't do what was asked, or not now."""

    code = "store"
    says = "The store can't do this."


class CannotOpen(StoreError):
    """The store can't be opened without risking what is in it."""

    code = "cannot_open"
    says = "Can't open the store {store}: {problem}"


class Corruption(StoreError):
    """What is stored is not what was written. The answer is withheld, because it could be wrong."""

    code = "corruption"
    says = "Corruption in {what}: {problem}. Run 'holdfast doctor', then restore a backup or rebuild."


class BrokenChain(StoreError):
    """The ledger does not hold together; the first broken entry is named."""

    code = "broken_chain"
    says = "The ledger breaks at entry {seq}: {problem}"


class NoSuchSnapshot(StoreError):
    """That state was never committed."""

    code = "no_such_snapshot"
    says = "There is no snapshot {memory_snapshot_id}; the newest is {head}."


class NotAllowed(StoreError):
    """The run's visibility mode forbids this."""

    code = "not_allowed"
    says = "A run in mode {mode} may not {operation}; open it with mode='buffered_write' to write."


class RunOver(StoreError):
    """The run has been committed or discarded already."""

    code = "run_over"
    says = "Run {run_id} is over; open a new one."


class CommitAborted(StoreError):
    """The commit did not happen. ``reason_code`` says why, in the words of the contract."""

    code = "commit_aborted"
    says = "Commit {commit_id} of run {run_id} was aborted ({reason_code}): {problem}"


class PayloadMismatch(StoreError):
    """The same commit id was submitted with another payload."""

    code = "payload_mismatch"
    says = (
        "Commit {commit_id} of run {run_id} was submitted before with another payload "
        "({known_fingerprint}, now {payload_fingerprint}); open a new run for new writes."
    )


class StaleFence(StoreError):
    """Another worker owns this commit now; what this one knows of it is out of date."""

    code = "stale_fence"
    says = "Commit {commit_id} has fence {fence} now, not {given_fence}; let its present owner finish it."


class StoreBusy(StoreError):
    """Other writers held the store for too long."""

    code = "store_busy"
    says = "Other writers held the store for {waited_seconds} seconds; try again."


class StoreFailed(StoreError):
    """The disk or the server failed. Nothing was changed; the same call can be made again."""

    code = "store_failed"
    says = "The storage failed and nothing was changed: {problem}"


class OutcomeUnknown(StoreError):
    """Whether it was committed can't be told now. The same commit submitted again gives the answer."""

    code = "outcome_unknown"
    says = "Whether the commit was applied can't be told now ({problem}); submit it again to learn it."


class NotCanonical(HoldfastError):
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
