"""What a verdict on a text means for whoever asked to remember it, in plain words."""

import re
from collections.abc import Sequence
from typing import Final

_VERDICT_BEFORE: Final = re.compile(r"(?:accepted(?:, with a reason noted)?|rejected|needs review|on hold): ")
_CHECK_BEHIND: Final = re.compile(r" \[[\w.:-]+\]$")


class RememberOutcome:
    """What became of a text. One of ``accepted``, ``rejected`` and ``needs_review`` is true."""

    __slots__ = ()
    memory_id: str
    verdict: str
    reasons: Sequence[str]
    proposal_id: str | None
    known: str | None

    @property
    def accepted(self) -> bool:
        """Whether memory has it, by this call or already."""
        return self.verdict in ("SEAL", "SABAR") and self.proposal_id is None

    @property
    def rejected(self) -> bool:
        """Whether it is refused. ``reason`` says why and what to do."""
        return self.verdict == "VOID"

    @property
    def needs_review(self) -> bool:
        """Whether it waits for a human's decision; see ``memory.approvals``."""
        return not (self.accepted or self.rejected)

    @property
    def reason(self) -> str:
        """``reasons`` as sentences: why, and what to do. Empty if there is nothing to say."""
        return " ".join(map(sentence_of, self.reasons))

    def __repr__(self) -> str:
        words = "accepted" if self.accepted else "rejected" if self.rejected else "needs review"
        known = ", known already" if self.known is not None else ""
        return f"<{words}{known}: {self.memory_id}{f'. {self.reason}' if self.reason else ''}>"


def sentence_of(reason: str) -> str:
    """A reason without the contract's words: the verdict before it, and the name of the check behind it."""
    plain = _VERDICT_BEFORE.sub("", _CHECK_BEHIND.sub("", reason), count=1)
    begun = plain[:1].upper() + plain[1:]
    return begun if not begun or begun.endswith((".", "!", "?", "…")) else f"{begun}."
