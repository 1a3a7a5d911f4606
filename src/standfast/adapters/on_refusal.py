"""What an adapter does with what the judge refuses.

A framework's call has no place for a verdict: a node of a graph that puts an item expects no answer. So each
adapter takes ``on_refusal``:

    raise    the call raises ``PutRefused``, and nothing of it is stored
    skip     what is refused is left out, and a warning is logged; the rest is stored
    redact   secrets are replaced by their kind and the rest is stored; what is refused for another reason is
             left out, as with ``skip``

A warning names the subject and the reasons, never the text.
"""

import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

from standfast.errors import PutRefused
from standfast.govern.judge.secrecy import redacted_json
from standfast.limits import MAX_TEXT_CHARS
from standfast.records.vocabulary import Verdict, member_of

_log: Final = logging.getLogger("standfast.adapters")


class OnRefusal(StrEnum):
    """What becomes of what the judge refuses."""

    RAISE = "raise"
    SKIP = "skip"
    REDACT = "redact"

    @classmethod
    def of(cls, given: "OnRefusal | str") -> "OnRefusal":
        """The way of that name; ``InvalidValue`` if there is none."""
        return member_of(cls, given, what="on_refusal")

    def prepared(self, value: Any) -> Any:
        """A JSON value as it is to be judged: without its secrets, if they are to be redacted."""
        return redacted_json(value) if self is OnRefusal.REDACT else value

    def refused(self, subject: str, reasons: Sequence[str], *, verdict: str = Verdict.VOID.value) -> None:
        """Raise ``PutRefused``, or log that something was left out."""
        # The secret that it was refused for may be in its name.
        name, problem = redacted_json(subject), "; ".join(reasons)
        if self is OnRefusal.RAISE:
            raise PutRefused(subject=name, verdict=verdict, reasons=problem)
        _log.warning("%s was refused and left out: %s", name, problem)


def reason_if_too_long(text: str) -> str | None:
    """Why a text is too long to be judged; None if it is not. The library calls that a wrong argument; in a
    framework's call it is a refusal like any other.
    """
    if len(text) <= MAX_TEXT_CHARS:
        return None
    return f"too long: {len(text):,} characters, at most {MAX_TEXT_CHARS:,}. Split it"
