"""Opening a SQLite file so that it can be trusted: refusals in words, pragmas read back, schema in one transaction.

Pages carry checksums (SQLite's own checksum VFS, which apsw's wheels bring), so that a flipped bit is an error and
never an answer.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Final

import apsw
import apsw.sqlite_extra

from standfast.canon import utc_text
from standfast.clock import Clock, seeded
from standfast.errors import CannotOpen, Corruption, StoreBusy, StoreFailed
from standfast.limits import MAX_BUSY_SECONDS
from standfast.store.sqlite.schema import MIGRATIONS
from standfast.store.sqlite.witness import witnessed

APPLICATION_ID: Final = 0x53544654  # "STFT"
CHECKSUM_VFS: Final = "cksmvfs"
CHECKSUM_BYTES: Final = 8
_HEADER_BYTES: Final = 100
_RESERVED_BYTES_OFFSET: Final = 20
_CHECKSUMS_LOCK: Final = threading.Lock()

# 3.7.0 to 3.51.2 can corrupt a database when two connections race to restart the write-ahead log.
SAFE_SQLITE: Final = (3, 51, 3)

NETWORK_FILE_SYSTEMS: Final = frozenset(
    [
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse.ceph",
        "fuse.glusterfs",
        "fuse.s3fs",
        "fuse.sshfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs3",
        "nfs4",
        "ocfs2",
        "smb2",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
    ]
)

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


def open_writer(path: str, clock: Clock, seed: int) -> apsw.Connection:
    """A connection that may write, to a file that is safe to write and has the present schema."""
    _refuse_unsafe_sqlite(path)
    _refuse_network_file_system(path)
    connection = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        connection.set_busy_handler(_patience(clock, seed))
        connection.reserve_bytes(reserve=CHECKSUM_BYTES)
        _refuse_foreign_database(connection, path)
        _retry_while_busy(lambda: _set(connection, path, PRAGMAS), clock, seed)
        _refuse_emptied_database(connection, path)
        _refuse_missing_checksums(connection, path)
        _migrate(connection, path, clock)
        _retry_while_busy(lambda: _settle(connection, path), clock, seed)
    except BaseException:
        close_untouched(connection)
        raise
    return connection


def close_untouched(connection: apsw.Connection) -> None:
    """Close without folding the log into the database: what can't be trusted stays as it was found."""
    with suppress(apsw.Error):
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    close_quietly(connection)


def close_quietly(connection: apsw.Connection) -> None:
    """Let a connection go, whatever state it is in; what it can't fold into the database stays safe in the log."""
    with suppress(apsw.Error):
        connection.close(True)


def _retry_while_busy(act: Callable[[], None], clock: Clock, seed: int) -> None:
    """Act again while another opener is in the way: for some of its locks SQLite gives up without asking to wait."""
    busy, deadline = _patience(clock, seed), clock.monotonic() + MAX_BUSY_SECONDS
    for attempt in count():
        try:
            act()
        except apsw.BusyError:
            if clock.monotonic() >= deadline or not busy(attempt):
                raise
        else:
            return


def _settle(connection: apsw.Connection, path: str) -> None:
    """Make durable what a killed process wrote and never synced, before anybody is told that it is there."""
    try:
        logged, copied = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.Error as error:
        # The log is synced before the first page is copied; that there is no room to copy it harms nobody.
        if getattr(error, "extendedresult", 0) not in (apsw.SQLITE_FULL, apsw.SQLITE_IOERR_WRITE):
            raise
        return
    # SQLite reads a page that is only half there as if the rest were zeros, and verifies no checksum then.
    if logged == copied and os.stat(path).st_size % connection.execute("PRAGMA page_size").get:  # noqa: PTH116  # Strings throughout.
        raise Corruption(what=path, problem="it was cut off in the middle of a page")


def open_reader(path: str, clock: Clock, seed: int) -> apsw.Connection:
    """A connection that can't write. Readers never wait for the writer; only recovery after a crash can hold them up."""
    connection = _connect(path, apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_handler(_patience(clock, seed))
    _set(connection, path, READER_PRAGMAS)
    return connection


def _connect(path: str, flags: int) -> apsw.Connection:
    _load_checksums(path)
    try:
        connection = apsw.Connection(path, flags=flags, vfs=CHECKSUM_VFS, statementcachesize=64)
    except apsw.CantOpenError:
        folder = os.path.dirname(path) or "."  # noqa: PTH120  # Strings throughout; SQLite takes nothing else.
        known = os.path.isdir(folder)  # noqa: PTH112  # As above.
        problem = (
            "it can't be read or written here" if known else f"there is no folder {folder}; make it first"
        )
        raise CannotOpen(store=path, problem=problem) from None
    # One plan for a statement, whatever is bound to it: plans are reproducible, and nothing is prepared twice.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection


def _load_checksums(path: str) -> None:
    """Register the checksum VFS once a process, without making it anybody else's default."""
    with _CHECKSUMS_LOCK:
        if CHECKSUM_VFS in apsw.vfs_names():
            return
        default = apsw.vfs_names()[0]
        try:
            with apsw.Connection(":memory:") as loader:
                apsw.sqlite_extra.load(loader, "cksumvfs")
        except (apsw.sqlite_extra.NotAvailable, LookupError, apsw.Error) as error:
            problem = f"this apsw lacks SQLite's checksum VFS ({error}); install it from its wheel: pip install apsw"
            raise CannotOpen(store=path, problem=problem) from None
        apsw.set_default_vfs(default)


def _patience(clock: Clock, seed: int) -> Callable[[int], bool]:
    """Wait for other writers: longer each time, with jitter so that they do not all wake together, up to a bound."""
    dice = seeded(seed)
    waited = [0.0]

    def busy(attempts: int) -> bool:
        if attempts == 0:
            waited[0] = 0.0
        if waited[0] >= MAX_BUSY_SECONDS:
            return False
        pause = min(0.0005 * 1.5 ** min(attempts, 12), 0.05) * (0.5 + dice.random())
        waited[0] += pause
        clock.sleep(pause)
        return True

    return busy


def _set(connection: apsw.Connection, path: str, pragmas: tuple[tuple[str, str, object], ...]) -> None:
    for name, value, expected in pragmas:
        connection.execute(f"PRAGMA {name} = {value}").fetchall()
        told = connection.execute(f"PRAGMA {name}").get
        if told != expected:
            problem = f"SQLite has {name} = {told} where {expected} is needed; is the folder on a local disk?"
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
        problem = f"it is on a network file system ({kind}), where locks and syncs can't be relied on; use a local disk, or PostgreSQL"
        raise CannotOpen(store=path, problem=problem)


def file_system_of(path: str, mounts: str = "/proc/self/mountinfo") -> str:
    """The type of the file system that holds ``path``, or "" where the system does not tell."""
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
        # In this order: another opener may make the tables meanwhile, and puts our name on them as it does.
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
        owner = connection.execute("PRAGMA application_id").get
    except apsw.NotADBError:
        raise CannotOpen(store=path, problem="the file is no SQLite database; give another path") from None
    if owner != APPLICATION_ID and (tables or owner):
        raise CannotOpen(store=path, problem="the database belongs to another program; give another path")


def _refuse_emptied_database(connection: apsw.Connection, path: str) -> None:
    """Never start anew where a store was: its log may only be unreadable, and would be overwritten."""
    # In this order: another opener may make the first commit meanwhile, and witnesses it after the tables are there.
    if (lost := witnessed(path)).seq and _version(connection, path) == 0:
        problem = (
            f"it is empty, but held {lost.seq} entries; restore a backup, or remove {path}-head to start anew"
        )
        raise Corruption(what=path, problem=problem)


def _refuse_missing_checksums(connection: apsw.Connection, path: str) -> None:
    """Have the file's header read, whole: from it the checksum VFS learns that there is something to compute.

    Who opened the file while it was empty and then found the header in another opener's log would write none, ever.
    """
    # What `reserve_bytes` tells is what was asked for; the file's header tells what is.
    _, header = connection.read("main", 0, 0, _HEADER_BYTES)
    reserved = header[_RESERVED_BYTES_OFFSET : _RESERVED_BYTES_OFFSET + 1]
    if reserved != bytes([CHECKSUM_BYTES]) or connection.pragma("checksum_verification") != "1":
        raise CannotOpen(store=path, problem="its pages carry no checksums; it was not made by Standfast")


def _migrate(connection: apsw.Connection, path: str, clock: Clock) -> None:
    """Bring the schema to the present version, each step in one transaction with its record."""
    if _version(connection, path) == len(MIGRATIONS):
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        for version in range(_version(connection, path) + 1, len(MIGRATIONS) + 1):
            connection.execute(MIGRATIONS[version - 1])
            connection.execute("INSERT INTO migrations VALUES (?, ?)", (version, utc_text(clock.now())))
            connection.execute(f"PRAGMA user_version = {version}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _version(connection: apsw.Connection, path: str) -> int:
    version: int = connection.execute("PRAGMA user_version").get
    if version > len(MIGRATIONS):
        problem = f"its schema is version {version}, and this Standfast knows up to {len(MIGRATIONS)}; upgrade Standfast"
        raise CannotOpen(store=path, problem=problem)
    return version


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Turn SQLite's errors into ours; none leaves the backend."""
    try:
        yield
    except (apsw.Error, OSError, UnicodeDecodeError) as error:
        raise ours(error, path) from None


def ours(error: BaseException, path: str) -> BaseException:
    """What an error means to our callers; errors that are ours already stay as they are."""
    if isinstance(error, apsw.BusyError):
        return StoreBusy(waited_seconds=MAX_BUSY_SECONDS)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Corruption(what=path, problem=str(error))
    if isinstance(error, UnicodeDecodeError):
        return Corruption(what=path, problem="a text is not in UTF-8")
    # apsw's types leave `extendedresult` out.
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_DATA:
        return Corruption(what=path, problem="a page does not have its checksum")
    if isinstance(error, apsw.Error | OSError):
        return StoreFailed(problem=f"{type(error).__name__}: {error}")
    return error
