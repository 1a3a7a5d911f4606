"""What the ledger says about a commit: the run that made it, and the judge's reasons for each row that it wrote."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from standfast.scopes import name_in, prefix_in
from standfast.store.store import Store

_CHECK: Final = re.compile(r"(.*) \[([\w]+)\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JudgeReason:
    """A reason that the judge gave, and the check that it comes from, if it names one."""

    text: str
    check: str = ""

    @classmethod
    def of(cls, reason: str) -> "JudgeReason":
        """Read a reason as the ledger has it: ``text [check]``."""
        found = _CHECK.fullmatch(reason)
        return cls(found[1], found[2]) if found else cls(reason)


@dataclass(frozen=True, slots=True)
class CommitNotes:
    """The run of a commit, and the reasons by band and id."""

    run_id: str
    reasons: dict[tuple[str, str], tuple[JudgeReason, ...]]

    def reasons_of(self, key: str) -> tuple[JudgeReason, ...]:
        """The reasons for the row with a key."""
        name = key.partition("/")[2] if prefix_in(key) == "PHOENIX" else name_in(key)
        return self.reasons.get((prefix_in(key), name), ())


def notes_of(store: Store, snapshot: int) -> CommitNotes:
    """What the ledger says about the commit that made a snapshot."""
    commit = store.commit_of(snapshot)
    reasons = {
        (write["band"], write["entry_id"]): tuple(JudgeReason.of(one) for one in write["reasons"])
        for write in _judged(store, commit.ledger_seq)
        if write.get("reasons")
    }
    return CommitNotes(commit.run_id, reasons)


def _judged(store: Store, seq: int) -> Iterator[dict[str, Any]]:
    """The judged rows of a commit. Its facts stand right before its own entry, which counts them."""
    (entry,) = store.entries_page(after=seq - 1, limit=1)
    count = entry.read()["body"]["facts"]
    for fact in store.entries_page(after=seq - 1 - count, limit=count) if count else ():
        told = fact.read()
        if told["kind"] == "audit":
            yield from told["body"]["told"]["writes"]
