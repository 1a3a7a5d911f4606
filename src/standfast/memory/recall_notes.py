"""What a memory notes in the recall log: which package was handed to whom, and who made which commit."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from standfast.govern.judge.secrecy import redacted_scope
from standfast.recall.answers import Package
from standfast.recall.index.store_index import key_at
from standfast.recall.package import RecallItem, SelectedItem
from standfast.records.requests import RecallRequest
from standfast.records.vocabulary import Receipt
from standfast.traces.recall_log import HASH_DIGITS, CommitEntry, RecallEntry, RecallLog, ShownRecord

_clean_scope: Final = lru_cache(maxsize=1 << 12)(redacted_scope)


class Recipient(NamedTuple):
    """Who is handed a package or makes a commit: a key's name or an agent, and a run."""

    caller: str = ""
    run_id: str = ""


NOBODY_NAMED: Final = Recipient()
"""The library itself."""


class RecallNotes:
    """Notes recalls and commits of one namespace, if a recall log is kept."""

    def __init__(self, namespace: str, log: RecallLog | None) -> None:
        self._namespace, self._log = namespace, log

    def recalled(self, package: Package, request: RecallRequest, at: int, recipient: Recipient) -> None:
        """Note that a package of a snapshot was handed out."""
        if self._log is None:
            return
        items: Sequence[SelectedItem | RecallItem] = package.items
        shown = [
            ShownRecord(
                key_at(self._namespace, item.store_path, item.memory_id), item.record_hash[:HASH_DIGITS]
            )
            for item in items
        ]
        self._log.note(
            RecallEntry(
                self._log.now(),
                self._namespace,
                package.package_hash,
                at,
                recipient.caller,
                recipient.run_id,
                tuple(map(_clean_scope, request.places)),
                tuple(shown),
            )
        )

    def committed(self, receipt: Receipt, recipient: Recipient) -> None:
        """Note who made a commit."""
        if self._log is not None and not receipt.replayed:
            entry = CommitEntry(
                receipt.committed_at,
                self._namespace,
                recipient.caller,
                recipient.run_id,
                receipt.memory_snapshot_id,
            )
            self._log.note(entry)

    def forget(self, forgets: Callable[[str], bool]) -> None:
        """Remove records and scopes from the log; see ``RecallLog.forget``."""
        if self._log is not None:
            self._log.forget(self._namespace, forgets)

    def flush(self) -> None:
        """Write what waits."""
        if self._log is not None:
            self._log.flush()
