"""Opening a SQLite file safely: unsafe ones are refused, settings are read back, the schema is migrated.

Pages carry checksums (SQLite's own checksum VFS, which comes with apsw's wheels), so that a flipped bit is an
error and never an answer.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final
from urllib.parse import quote

import apsw
import apsw.sqlite_extra

from standfast.clock import Clock, SystemClock, seeded
from standfast.errors import CannotOpen, Corruption, StoreBusy, StoreFailed
from standfast.ledger.chain import Tip
from standfast.limits import MAX_BUSY_SECONDS
from standfast.records.canon import utc_text
from standfast.store.head_file import HeadFile
from standfast.store.sqlite.schema import MIGRATIONS

APPLICATION_ID: Final = 0x53544654  # "STFT"
CHECKSUM_VFS: Final = "cksmvfs"
CHECKSUM_BYTES: Final = 8
_REAL_TIME: Final = SystemClock()
_HEADER_BYTES: Final = 100
_RESERVED_BYTES_OFFSET: Final = 20
_CHECKSUMS_LOCK: Final = threading.Lock()
_COPIED_PAGES: Final = 1 << 10
_READ_ERRORS: Final = frozenset(
    (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_FSTAT)
)

# 3.7.0 to 3.51.2 can corrupt a database when two connections race to restart the write-ahead log.
SAFE_SQLITE: Final = (3, 51, 3)

_NETWORK_NAMES: Final = (
    "9p afs beegfs ceph cifs coda fuse.ceph fuse.glusterfs fuse.s3fs fuse.sshfs gfs2 glusterfs "
    "gpfs lustre ncpfs nfs nfs3 nfs4 ocfs2 smb2 smb3 smbfs vboxsf virtiofs"
)
NETWORK_FILE_SYSTEMS: Final = frozenset(_NETWORK_NAMES.split())

# Name, value to set, value that must be read back.
PRAGMAS: Final = (
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", 2),
    ("fullfsync", "ON", 1),
    ("checkpoint_fullfsync", "ON", 1),
    ("foreign_keys", "ON", 1),
    ("trusted_schema", "OFF", 0),
    ("secure_delete", "ON", 1),
    ("cell_size_check", "ON", 1),
    ("mmap_size", "0", 0),
)
READER_PRAGMAS: Final = (("query_only", "ON", 1), ("trusted_schema", "OFF", 0), ("cell_size_check", "ON", 1))


def open_writer(path: str, clock: Clock, new_id: str, *, head_file: HeadFile) -> apsw.Connection:
    """Open a connection that writes, to a file that is safe to write and has the current schema.

    ``new_id`` becomes the identity of a new store.
    """
    seed = int(new_id, 16)
    _refuse_unsafe_sqlite(path)
    _refuse_network_file_system(path)
    is_new = not os.path.exists(path)  # noqa: PTH110  # Strings throughout; SQLite takes nothing else.
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        if is_new:
            # It is still empty. SQLite gives its log the same permissions.
            os.chmod(path, 0o600)  # noqa: PTH101  # As above.
        connection.set_busy_handler(_busy_handler(seed))
        connection.reserve_bytes(reserve=CHECKSUM_BYTES)
        _refuse_foreign_database(connection, path)
        _retry_while_busy(lambda: _set_pragmas(connection, path, PRAGMAS), seed)
        _refuse_emptied_database(connection, path, head_file)
        _refuse_missing_checksums(connection, path)
        _migrate(connection, path, clock, new_id)
        _retry_while_busy(lambda: _settle(connection, path), seed)
    except BaseException:
        close_untouched(connection)
        raise
    return connection


def copy_pages(source: str, target: str) -> None:
    """Copy a database page by page into a new file. What is in the log of the source is copied too."""
    with translated(source):
        reader = _connect(source, apsw.SQLITE_OPEN_READONLY)
        try:
            writer = _connect(target, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            try:
                os.chmod(target, 0o600)  # noqa: PTH101  # Strings throughout; SQLite takes nothing else.
                writer.reserve_bytes(reserve=CHECKSUM_BYTES)
                with writer.backup("main", reader, "main") as backup:
                    while not backup.done:
                        backup.step(_COPIED_PAGES)
            finally:
                writer.close()
        finally:
            reader.close()


@contextmanager
def without_writers(path: str) -> Iterator[Tip]:
    """Let nobody write to a database for the length of a block. Yields the end of its ledger.

    Nobody writes to a file that can't be read; its end is an empty one.
    """
    connection = None
    try:
        try:
            connection = _connect(path, apsw.SQLITE_OPEN_READWRITE)
            connection.set_busy_timeout(int(MAX_BUSY_SECONDS * 1_000))
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute("SELECT seq, hash FROM ledger ORDER BY seq DESC LIMIT 1").get
        except apsw.BusyError as error:
            raise translate(error, path) from None
        except (apsw.Error, CannotOpen):
            found = None
        yield Tip() if found is None else Tip(seq=found[0], hash=found[1].hex())
    finally:
        if connection is not None:
            close_untouched(connection)


def is_read_only(path: str) -> bool:
    """Whether there is a file that this process can read and not write, or whose log it could not create."""
    folder = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120  # Strings throughout.
    return os.path.exists(path) and not (os.access(path, os.W_OK) and os.access(folder, os.W_OK))  # noqa: PTH110  # As above.


def close_untouched(connection: apsw.Connection) -> None:
    """Close without moving the log into the database: a file that can't be trusted stays as it was found."""
    with suppress(apsw.Error):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    close_quietly(connection)


def close_quietly(connection: apsw.Connection) -> None:
    """Close a connection whatever its state; what it can't move into the database stays safe in the log."""
    with suppress(apsw.Error):
        connection.close(True)


def _retry_while_busy(action: Callable[[], None], seed: int) -> None:
    """Retry while another opener holds a lock: for some, SQLite does not call the busy handler."""
    busy, deadline = _busy_handler(seed), _REAL_TIME.monotonic() + MAX_BUSY_SECONDS
    for attempt in count():
        try:
            action()
        except apsw.BusyError:
            if _REAL_TIME.monotonic() >= deadline or not busy(attempt):
                raise
        else:
            return


def _settle(connection: apsw.Connection, path: str) -> None:
    """Make durable what a killed process wrote and never synced, before anybody reads it."""
    try:
        logged, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error as error:
        # The log is synced before the first page is copied, so a lack of room for the copy does no harm.
        if getattr(error, "extendedresult", 0) not in (apsw.SQLITE_FULL, apsw.SQLITE_IOERR_WRITE):
            raise
        return
    # SQLite reads half a page as if the rest were zeros, and does not verify its checksum.
    if logged == copied and os.stat(path).st_size % connection.execute("PRAGMA page_size").get:  # noqa: PTH116  # Strings throughout.
        raise Corruption(what=path, problem="it was cut off in the middle of a page")


def open_reader(path: str, seed: int, *, unchanging: bool = False) -> apsw.Connection:
    """Open a connection that only reads. It never waits for the writer, only for recovery after a crash.

    ``unchanging`` says that nobody can write the file, so that neither locks nor a log are needed.
    """
    flags = apsw.SQLITE_OPEN_READONLY
    connection = (
        _connect(path, flags | apsw.SQLITE_OPEN_URI, unchanging=True) if unchanging else _connect(path, flags)
    )
    connection.set_busy_handler(_busy_handler(seed))
    _set_pragmas(connection, path, READER_PRAGMAS)
    return connection


def check_unchanging(path: str, seed: int) -> None:
    """Refuse a file that can only be read and that is no whole store of the current version."""
    _refuse_unsafe_sqlite(path)
    with suppress(FileNotFoundError):
        if os.stat(path + "-wal").st_size:  # noqa: PTH116  # Strings throughout.
            problem = (
                "it can only be read, and its newest commits are still in its log; copy all its files to a"
                " disk that can be written"
            )
            raise CannotOpen(store=path, problem=problem)
    connection = open_reader(path, seed, unchanging=True)
    try:
        _refuse_foreign_database(connection, path)
        if (version := _version(connection, path)) < _newest_version():
            problem = (
                f"it can only be read, and its schema has version {version}; open it once where it can be"
                " written, to upgrade it"
            )
            raise CannotOpen(store=path, problem=problem)
    finally:
        close_quietly(connection)


def _connect(path: str, flags: int, *, unchanging: bool = False) -> apsw.Connection:
    _load_checksums(path)
    # The URI form is needed only to say that nobody can write the file.
    name = f"file:{quote(os.path.abspath(path))}?immutable=1" if unchanging else path  # noqa: PTH100  # Strings throughout.
    try:
        connection = apsw.Connection(name, flags=flags, vfs=CHECKSUM_VFS, statementcachesize=64)
    except apsw.CantOpenError:
        folder = os.path.dirname(path) or "."  # noqa: PTH120  # Strings throughout; SQLite takes nothing else.
        known = os.path.isdir(folder)  # noqa: PTH112  # As above.
        problem = "it can't be read or written; check its permissions"
        if not known:
            problem = f"there is no folder {folder}; create it first"
        elif os.path.isdir(path):  # noqa: PTH112  # As above.
            problem = "it is a folder; name a file in it"
        raise CannotOpen(store=path, problem=problem) from None
    # One plan per statement, whatever is bound to it: plans are reproducible, and nothing is prepared twice.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


def _load_checksums(path: str) -> None:
    """Register the checksum VFS once per process, without making it the default."""
    with _CHECKSUMS_LOCK:
        if CHECKSUM_VFS in apsw.vfs_names():
            return
        default = apsw.vfs_names()[0]
        try:
            with apsw.Connection(":memory:") as loader:
                apsw.sqlite_extra.load(loader, "cksumvfs")
        except (apsw.sqlite_extra.NotAvailable, LookupError, apsw.Error) as error:
            problem = (
                f"this apsw lacks SQLite's checksum VFS ({error}); install it from its wheel: pip install"
                " apsw"
            )
            raise CannotOpen(store=path, problem=problem) from None
        apsw.set_default_vfs(default)


def _busy_handler(seed: int) -> Callable[[int], bool]:
    """A busy handler that waits longer each time, with jitter so that writers do not wake together.

    It begins with a part of what a short commit takes, so that the file is not idle between two writers.
    It waits in real time: no clock that is handed in makes another writer finish.
    """
    jitter = seeded(seed)
    waited = [0.0]

    def busy(attempts: int) -> bool:
        if attempts == 0:
            waited[0] = 0.0
        if waited[0] >= MAX_BUSY_SECONDS:
            return False
        pause = min(0.0001 * 1.5 ** min(attempts, 16), 0.05) * (0.5 + jitter.random())
        waited[0] += pause
        _REAL_TIME.sleep(pause)
        return True

    return busy


def _set_pragmas(
    connection: apsw.Connection, path: str, pragmas: tuple[tuple[str, str, object], ...]
) -> None:
    for name, wanted, expected in pragmas:
        connection.execute(f"PRAGMA {name} = {wanted}").fetchall()
        value = connection.execute(f"PRAGMA {name}").get
        if value != expected:
            problem = f"SQLite has {name} = {value} instead of {expected}; put the file on a local disk"
            raise CannotOpen(store=path, problem=problem)


def _refuse_unsafe_sqlite(path: str) -> None:
    if tuple(map(int, apsw.sqlite_lib_version().split("."))) < SAFE_SQLITE:
        problem = (
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a write-ahead log that is restarted under load; "
            "install apsw 3.51.3 or newer"
        )
        raise CannotOpen(store=path, problem=problem)


def _refuse_network_file_system(path: str) -> None:
    kind = file_system_of(path)
    if kind in NETWORK_FILE_SYSTEMS:
        problem = (
            f"it is on a network file system ({kind}), where locks and syncs are unreliable; use a local"
            " disk, or PostgreSQL"
        )
        raise CannotOpen(store=path, problem=problem)


def file_system_of(path: str, mounts: str = "/proc/self/mountinfo") -> str:
    """The type of the file system that holds ``path``; "" if the system does not say."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))  # noqa: PTH100, PTH120  # Strings throughout.
    best, kind = "", ""
    try:
        with open(mounts, encoding="utf-8", errors="replace") as lines:  # noqa: PTH123  # As above.
            for line in lines:
                left, _, right = line.partition(" - ")
                mount = left.split()[4].replace("\\040", " ")
                inside = folder == mount or folder.startswith(mount.rstrip("/") + "/")
                if inside and len(mount) >= len(best):
                    best, kind = mount, right.split()[0]
    except OSError:
        return ""
    return kind


def _refuse_foreign_database(connection: apsw.Connection, path: str) -> None:
    try:
        # In this order, because another opener may create the tables meanwhile, together with our application
        # id.
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        owner = connection.execute("PRAGMA application_id").get
    except apsw.NotADBError:
        raise CannotOpen(
            store=path, problem="the file is not a SQLite database; choose another path"
        ) from None
    if owner != APPLICATION_ID and (tables or owner):
        raise CannotOpen(store=path, problem="the database belongs to another program; choose another path")


def _refuse_emptied_database(connection: apsw.Connection, path: str, head_file: HeadFile) -> None:
    """Never start anew where a store was: its log may only be unreadable, and would be overwritten."""
    # In this order, because another opener may create the tables and then commit for the first time
    # meanwhile.
    if (lost := head_file.peek()).seq and _version(connection, path) == 0:
        problem = (
            f"it is empty, but held {lost.seq} ledger entries; restore a backup, or remove"
            f" {head_file.path} to start anew"
        )
        raise Corruption(what=path, problem=problem)


def _refuse_missing_checksums(connection: apsw.Connection, path: str) -> None:
    """Read the whole header of the file: that is how the checksum VFS learns that pages carry checksums.

    A connection that opened an empty file and then found the header in another's log writes no checksums.
    """
    # `reserve_bytes` returns what was asked for; the header holds what is true.
    _, header = connection.read("main", 0, 0, _HEADER_BYTES)
    reserved = header[_RESERVED_BYTES_OFFSET : _RESERVED_BYTES_OFFSET + 1]
    if reserved != bytes([CHECKSUM_BYTES]) or connection.pragma("checksum_verification") != "1":
        raise CannotOpen(
            store=path,
            problem="its pages have no checksums, so Standfast did not create it; choose another path",
        )


def _migrate(connection: apsw.Connection, path: str, clock: Clock, new_id: str) -> None:
    """Bring the schema to the current version, each step in one transaction with its record."""
    if _version(connection, path) == _newest_version():
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        known = _version(connection, path)
        for version, migration in enumerate(MIGRATIONS[known:], known + 1):
            connection.execute(migration)
            connection.execute("INSERT INTO migrations VALUES (?, ?)", (version, utc_text(clock.now())))
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("INSERT OR IGNORE INTO branches VALUES (0, ?, 0, 0, 0)", (new_id,))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: apsw.Connection, path: str) -> int:
    version: int = connection.execute("PRAGMA user_version").get
    if version > _newest_version():
        problem = (
            f"its schema has version {version}, and this Standfast knows {_newest_version()}; upgrade"
            " Standfast"
        )
        raise CannotOpen(store=path, problem=problem)
    return version


def _newest_version() -> int:
    return len(MIGRATIONS)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn SQLite's errors into ours, so that none leaves the backend."""
    try:
        yield
    except (apsw.Error, OSError, UnicodeDecodeError) as error:
        raise translate(error, path) from None


def translate(error: BaseException, path: str) -> BaseException:
    """The error to raise for one of SQLite's; other errors stay as they are."""
    if isinstance(error, apsw.BusyError):
        return StoreBusy(waited_seconds=MAX_BUSY_SECONDS)
    if isinstance(error, apsw.ConnectionClosedError):
        return StoreFailed(problem="it was closed; open the memory again")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Corruption(what=path, problem=str(error))
    if isinstance(error, UnicodeDecodeError):
        return Corruption(what=path, problem="a text is not in UTF-8")
    # apsw's types leave `extendedresult` out.
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
        return Corruption(what=path, problem="a page does not match its checksum")
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _READ_ERRORS:
        return StoreFailed("read_failed", problem=f"{type(error).__name__}: {error}")
    if isinstance(error, apsw.Error | OSError):
        return StoreFailed(problem=f"{type(error).__name__}: {error}")
    return error
