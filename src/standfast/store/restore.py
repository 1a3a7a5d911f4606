"""Restoring a store: putting a copy back, and telling the ledger that its end was left behind.

A restore begins a new branch of the store. An entry of the ledger tells when, from which snapshot on, and how
far the branch that was left is known to have gone, so that its checkpoints do not contradict the store.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from standfast.clock import Clock, IdSource
from standfast.errors import CannotOpen, Corruption, InvalidValue
from standfast.ledger.chain import Branch
from standfast.ledger.checkpoint import CheckpointFile
from standfast.ledger.notary import Notary
from standfast.ledger.witness import shared_and_left, size_of
from standfast.records.vocabulary import Value
from standfast.side_files import SideFiles
from standfast.store.head_file import HeadFile
from standfast.store.opening import is_file_url, open_store
from standfast.store.protocol import Progress
from standfast.store.store import Store

_FILES = ("-wal", "-shm", "")
"""What SQLite adds to the path of a store's file, the file itself last."""


class Restoration(Value, frozen=True, kw_only=True):
    """One restore of a store: what was put back, when, and which ledger entries were left behind by it."""

    branch_id: str
    restored_at: str
    memory_snapshot_id: int
    ledger_seq: int
    first_left_seq: int
    last_left_seq: int
    reason: str

    @property
    def left_entries(self) -> int:
        """How many ledger entries are known to have been left behind."""
        return max(0, self.last_left_seq - self.first_left_seq + 1)

    @property
    def summary(self) -> str:
        """The restore in one sentence."""
        left = (
            f"entries {self.first_left_seq} to {self.last_left_seq} of the ledger before were left behind"
            if self.left_entries
            else "no entry is known to have been left behind"
        )
        return f"restored on {self.restored_at} to snapshot {self.memory_snapshot_id} ({self.reason}); {left}"


def restorations_of(store: Store) -> list[Restoration]:
    """Every restore of a store, oldest first."""
    return [_restoration(store, branch) for branch in store.branches() if branch.number]


def _restoration(store: Store, branch: Branch) -> Restoration:
    entry = next(store.entries(branch.ledger_seq - 1), None)
    if entry is None:
        raise Corruption(
            what="the store", problem=f"entry {branch.ledger_seq} tells of a restore and is missing"
        )
    content = entry.read()
    return Restoration(
        branch_id=branch.branch_id,
        restored_at=content["at"],
        memory_snapshot_id=content["body"]["memory_snapshot_id"],
        ledger_seq=branch.ledger_seq,
        first_left_seq=branch.shared_seq + 1,
        last_left_seq=branch.left_seq,
        reason=content["body"]["reason"],
    )


def restore_copy(
    backup: str, url: str, *, replace: bool = False, progress: Progress | None = None
) -> str | None:
    """Put a verified copy of a backup in the place of a store. Call ``accept_restored`` next.

    Args:
        backup: The path or URL of a copy, as ``Store.backup_to`` makes it.
        url: Where the store is to be. A database on a server has to be empty.
        replace: Whether a store's file that is there may be set aside under another name.
        progress: Called with the snapshots of the copy that were verified, and with all.

    Returns:
        The path of what was set aside, or None.
    """
    if os.path.realpath(backup) == os.path.realpath(url):
        raise InvalidValue(
            what="backup", problem="it is the store itself; leave it out to accept the store as it is"
        )
    if is_file_url(backup) and Path(backup).is_file() and not Path(backup).stat().st_size:
        # To SQLite it is a database without tables, and so it would become an empty store.
        raise CannotOpen(store=backup, problem="the file is empty, and no backup; choose another one")
    if not is_file_url(url):
        _copy(backup, url, progress=progress)
        return None
    try:
        return _replace_file(backup, url, replace=replace, progress=progress)
    except OSError as error:
        raise CannotOpen(store=url, problem=f"the copy can't be put there: {error}") from None


def _replace_file(backup: str, url: str, *, replace: bool, progress: Progress | None) -> str | None:
    if Path(url).exists() and not replace:
        problem = "there is a store already; add --replace to set it aside under another name"
        raise CannotOpen(store=url, problem=problem)
    draft = f"{url}.restoring"
    _remove(draft)
    try:
        _copy(backup, draft, progress=progress)
        aside = _set_aside(url)
        # The side files of the store that was there stay: what it acknowledged is needed until the restore is
        # accepted. Otherwise those of the backup come along.
        files = SideFiles(Path(f"{url}-files"))
        if aside is None and not files.folder.exists() and Path(f"{backup}-files").is_dir():
            shutil.copytree(f"{backup}-files", files.folder)
        Path(draft).replace(url)
    finally:
        _remove(draft)
    return aside


def copy_side_files(source: str, target: str, *, entries: int) -> None:
    """Copy what belongs to a store and is outside its database: the log's key, checkpoints, those that a
    witness has cosigned, traces and the recall log.

    The head file is not copied: the copy has one of its own.

    Args:
        source: The URL of the store,
        target: and that of a copy.
        entries: How many ledger entries the copy has. Checkpoints that cover more are left out.
    """
    here, there = SideFiles.of(source), SideFiles.of(target)
    if here is None or there is None or not here.folder.is_dir():
        return
    try:
        there.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file, copy in ((here.key, there.key), (here.public_key, there.public_key)):
            if file.exists():
                shutil.copy2(file, copy)
        _copy_folder(here.traces, there.traces)
        _copy_folder(here.recalls, there.recalls)
        _copy_notes(here.checkpoints, there.checkpoints, entries)
        _copy_notes(here.cosigned, there.cosigned, entries)
    except OSError as error:
        raise CannotOpen(store=target, problem=f"its side files can't be written: {error}") from None


def _copy_folder(here: Path, there: Path) -> None:
    """Make a folder of a copy as the store's is. What was forgotten goes from the copy too."""
    if here.is_dir():
        shutil.copytree(here, there, dirs_exist_ok=True)
    for file in sorted(there.rglob("*"), reverse=True):
        if not (here / file.relative_to(there)).exists():
            file.rmdir() if file.is_dir() else file.unlink()


def _copy_notes(here: Path, there: Path, entries: int) -> None:
    """Copy the checkpoints that the copy does not have."""
    copy = CheckpointFile(there)
    kept = set(copy.read().notes)
    for note in CheckpointFile(here).read().notes:
        if note not in kept and size_of(note) <= entries:
            copy.append(note)


def _remove(draft: str) -> None:
    for suffix in _FILES:
        Path(draft + suffix).unlink(missing_ok=True)
    shutil.rmtree(f"{draft}-files", ignore_errors=True)


def _copy(backup: str, url: str, *, progress: Progress | None) -> None:
    """Copy a store and verify the copy, once.

    Between two files the pages are copied as they are; otherwise every row is verified on its way.
    """
    if is_file_url(backup) and is_file_url(url):
        from standfast.store.sqlite.file import copy_pages  # noqa: PLC0415  # Only its users pay for its import.

        # Opening it refuses what is no store, and finishes what a crash left in its log.
        open_store(backup, create=False, recover=False).close()
        copy_pages(backup, url)
        _require_intact(url, backup, progress)
        return
    source = open_store(backup, create=False, recover=False)
    try:
        target = open_store(url, create=True, recover=False, notes_head=False)
        try:
            if target.head() or next(target.entries(), None) is not None:
                problem = (
                    "it holds a store already; restore into an empty database, or put a dump back with the"
                    " server's own tools and run 'standfast restore' without BACKUP"
                )
                raise CannotOpen(store=backup if is_file_url(url) else "the database", problem=problem)
            source.backup_to(target)
        finally:
            target.close()
    finally:
        source.close()
    _require_intact(url, backup, progress)


def _require_intact(url: str, backup: str, progress: Progress | None) -> None:
    copy = open_store(url, create=False, recover=False, restored=True)
    try:
        if problem := next(copy.verify(progress=progress), None):
            raise Corruption(what=backup, problem=f"the backup is damaged: {problem}")
    finally:
        copy.close()


def _set_aside(url: str) -> str | None:
    """Rename a store's files, so that nothing is lost; return the new path, or None if there is no store."""
    from standfast.store.sqlite.file import without_writers  # noqa: PLC0415  # Only its users pay for its import.

    if not Path(url).exists():
        return None
    number = 1
    while Path(f"{url}.replaced-{number}").exists():
        number += 1
    aside = f"{url}.replaced-{number}"
    with without_writers(url) as tip:
        # Whoever wrote last may not have noted it yet.
        head = HeadFile(SideFiles(Path(f"{url}-files")).head)
        head.open()
        head.write(tip)
        head.close()
        for suffix in _FILES:
            if Path(url + suffix).exists():
                Path(url + suffix).rename(aside + suffix)
    return aside


def acknowledged_seq(url: str) -> int:
    """The last ledger entry that was acknowledged, as far as the head file in the store's folder says."""
    files = SideFiles.of(url)
    return 0 if files is None else HeadFile(files.head).peek().seq


def accept_restored(
    url: str,
    *,
    reason: str,
    notary_of: Callable[[Store], Notary | None],
    verified: bool = False,
    progress: Progress | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> Restoration:
    """Take a store as it is for the present state, and begin a branch there.

    Signs the new head if there is a notary.

    The store may be behind what it acknowledged, or behind its checkpoints. What is in it must be intact.

    Args:
        verified: Whether ``restore_copy`` has just verified it.
        progress: Called with the snapshots verified, and with all.
    """
    known = acknowledged_seq(url)
    store = open_store(url, create=False, clock=clock, ids=ids, recover=False, restored=True)
    try:
        notary = notary_of(store)
        notes, keys, _ = ((), (), ()) if notary is None else notary.checkpoints()
        if not verified and (problem := next(store.verify(progress=progress), None)):
            raise Corruption(what=url, problem=problem)
        shared, left = shared_and_left(store.entries(), notes, keys, store.branches())
        branch = store.begin_branch(shared_seq=shared, left_seq=max(left, known), reason=reason)
        if notary is not None:
            notary.checkpoint()
        return _restoration(store, branch)
    finally:
        store.close()
