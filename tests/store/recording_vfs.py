"""A file system for SQLite that can be watched: every write, truncation, sync and deletion passes a watcher.

The store reads and writes through SQLite's checksum VFS, which wraps whatever is the default when it is
loaded, once a process. So a watched file system works only in a process that has not opened a store yet:
``in_child`` starts one, from a process that has only imported what is needed.
"""

import multiprocessing
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

DATABASE = "store.db"
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["tests.store.crash_workload", "tests.store.test_io_errors"])
_KEPT: list[apsw.VFS] = []
"""SQLite would go on using one that Python has let go of."""
_JOURNALS = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL


class Op(NamedTuple):
    """One thing that happened to a file.

    ``name`` is what follows the database's name: "", "-wal", "-journal", "-files/head".

    Kinds: create, write, truncate (``offset`` is the new size), sync, failed_sync, sync_folder, delete, head.
    """

    kind: str
    name: str
    offset: int = 0
    data: bytes = b""


class Watcher:
    """Sees everything before it happens, and may raise instead; sees what happened afterwards."""

    def before(self, kind: str, name: str) -> None:
        """Something is about to happen to a file."""

    def happened(self, op: Op) -> None:
        """It did."""

    def read(self, name: str, data: bytes) -> bytes:  # noqa: ARG002  # Others decide by it.
        """What a read shall give."""
        return data


class WatchedVFS(apsw.VFS):
    """The system's own VFS, watched, as this process's default."""

    def __init__(self, watcher: Watcher) -> None:
        assert "cksmvfs" not in apsw.vfs_names(), "too late: checksums are loaded over another file system"
        self._watcher = watcher
        _KEPT.append(self)
        super().__init__("watched", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        """Open a file; temporary ones have no name and are nobody's business."""
        if name is None:
            return apsw.VFSFile("unix", name, flags)
        return _WatchedFile(self._watcher, name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:  # noqa: N802
        """Delete a file, and perhaps make its absence durable."""
        self._watcher.before("delete", _suffix(name))
        super().xDelete(name, sync_folder)
        self._watcher.happened(Op("delete", _suffix(name)))
        if sync_folder:
            self._watcher.happened(Op("sync_folder", ""))


class _WatchedFile(apsw.VFSFile):
    def __init__(self, watcher: Watcher, name: str | apsw.URIFilename, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._watcher = watcher
        self._name = _suffix(path)
        # SQLite's unix VFS syncs the folder with the first sync of a journal, even of one that was there
        # before.
        self._syncs_folder = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)
        is_new = not Path(path).exists()
        super().__init__("unix", name, flags)
        if is_new:
            watcher.happened(Op("create", self._name))

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._watcher.before("read", self._name)
        return self._watcher.read(self._name, super().xRead(amount, offset))

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._watcher.before("write", self._name)
        super().xWrite(data, offset)
        self._watcher.happened(Op("write", self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._watcher.before("truncate", self._name)
        super().xTruncate(size)
        self._watcher.happened(Op("truncate", self._name, size))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._watcher.before("sync", self._name)
        super().xSync(flags)
        self._watcher.happened(Op("sync", self._name))
        if self._syncs_folder:
            self._syncs_folder = False
            self._watcher.happened(Op("sync_folder", ""))


def io_error(code: int, says: str) -> apsw.Error:
    """What a failing disk makes SQLite say; raised by a watcher."""
    error: Any = apsw.FullError(says) if code == apsw.SQLITE_FULL else apsw.IOError(says)
    error.result, error.extendedresult = code & 0xFF, code
    told: apsw.Error = error
    return told


def watch_head_file(watcher: Watcher) -> None:
    """Let the watcher see the head file too, which is not SQLite's but the store's own."""
    pwrite = os.pwrite

    def watched(file: int, data: Any, offset: int) -> int:
        written = pwrite(file, data, offset)
        assert offset == 0, "the head file is one line"
        watcher.happened(Op("head", "-files/head", data=bytes(data)))
        return written

    os.pwrite = watched


def in_child(target: Callable[..., Any], *arguments: Any, folder: Path, exit_code: int = 0) -> Any:
    """Call a function in a process of its own that knows nothing of ours, and give what it returned or
    saved.
    """
    answer = folder / f"{target.__name__}.pickle"
    child = CHILDREN.Process(target=_answer, args=(target, arguments, answer))
    child.start()
    child.join()
    told = pickle.loads(answer.read_bytes()) if answer.exists() else None
    answer.unlink(missing_ok=True)
    assert child.exitcode == exit_code, f"{target.__name__} ended with {child.exitcode}: {told}"[:5_000]
    return told


def save(target: Callable[..., Any], folder: Path, told: object) -> None:
    """What a child leaves that will not live to return."""
    (folder / f"{target.__name__}.pickle").write_bytes(pickle.dumps(told))


def _answer(target: Callable[..., Any], arguments: tuple[Any, ...], answer: Path) -> None:
    try:
        told, exit_code = target(*arguments), 0
    except BaseException:  # noqa: BLE001  # The parent fails with it.
        told, exit_code = traceback.format_exc(), 1
    answer.write_bytes(pickle.dumps(told))
    os._exit(exit_code)  # Connections and their file system must not be torn down in any order.


def _suffix(path: str) -> str:
    return path.rpartition(DATABASE)[2]
