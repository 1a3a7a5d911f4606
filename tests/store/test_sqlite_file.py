"""Opening a SQLite file: everything that makes it safe is asked for and read back, the rest is refused in
words.
"""

import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from standfast.clock import CountedIds, ManualClock, RandomIds, SystemClock
from standfast.errors import CannotOpen, Corruption, StoreBusy, StoreError
from standfast.store.head_file import HeadFile
from standfast.store.protocol import VersionQuery
from standfast.store.sqlite import file as sqlite_file
from standfast.store.sqlite.file import PRAGMAS, file_system_of, open_reader, open_writer, without_writers
from standfast.store.sqlite.schema import MIGRATIONS, versions_in_range
from tests.store.builders import NAMESPACE, commit, contents, expire, sqlite_store, write
from tests.store.recording_vfs import CHILDREN


def test_the_file_is_set_up_as_promised(tmp_path: Path) -> None:
    connection = open_writer(str(tmp_path / "store.db"), ManualClock(), "1", head_file=HeadFile(None))
    told = {name: connection.execute(f"PRAGMA {name}").get for name, _, _ in PRAGMAS}
    strict = connection.execute(
        "SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND NOT strict"
    ).get

    assert told == {name: expected for name, _, expected in PRAGMAS}
    assert strict == 1  # only SQLite's own schema table
    assert connection.reserve_bytes() == 8


def test_a_reader_can_not_write(tmp_path: Path) -> None:
    sqlite_store(tmp_path / "store.db").commit(commit("r1", write("a")))
    reader = open_reader(str(tmp_path / "store.db"), 1)

    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("INSERT INTO ledger VALUES (9, x'00', x'00')")


@pytest.mark.parametrize("table", ["ledger", "commits", "versions"])
def test_truth_is_append_only(tmp_path: Path, table: str) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("a")))
    connection = open_writer(str(tmp_path / "store.db"), ManualClock(), "1", head_file=HeadFile(None))

    for statement in (f"DELETE FROM {table}", f"UPDATE {table} SET rowid = rowid + 1"):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            connection.execute(statement)


def test_a_version_can_only_be_erased_once_by_a_later_commit_and_in_nothing_else_changed(
    tmp_path: Path,
) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("a")))
    store.commit(commit("r2", write("b"), at=1))
    connection = open_writer(str(tmp_path / "store.db"), ManualClock(), "1", head_file=HeadFile(None))
    erase = "UPDATE versions SET content = NULL, erased_by = 2{} WHERE key = 'a'"
    also = (
        "id = id + 1",
        "namespace = 'x'",
        "key = 'x'",
        "action = 3 - action",
        "fingerprint = x'00'",
        "erased_by = 1",
        "erased_by = NULL",
        "content = x'02'",
        "content = x'0301'",
    )
    for change in also:
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            connection.execute(erase.format(f", {change}"))
    connection.execute(erase.format(""))

    for statement in (
        erase.format(""),
        "UPDATE versions SET content = x'02', erased_by = NULL WHERE key = 'a'",
    ):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            connection.execute(statement)


def test_the_end_of_a_record_has_no_content_that_could_be_erased(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("a")))
    store.commit(commit("r2", expire("a"), at=1))
    store.commit(commit("r3", write("b"), at=2))
    connection = open_writer(str(tmp_path / "store.db"), ManualClock(), "1", head_file=HeadFile(None))

    with pytest.raises(apsw.ConstraintError, match="append-only"):
        connection.execute("UPDATE versions SET erased_by = 3 WHERE content IS NULL")


@pytest.mark.parametrize("version", ["3.7.0", "3.45.1", "3.51.2"])
def test_a_sqlite_with_the_log_restart_bug_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)

    with pytest.raises(CannotOpen, match=r"install apsw 3\.51\.3"):
        sqlite_store(tmp_path / "store.db")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"1 1 0:1 / / rw - ext4 x rw\n2 1 0:2 / {tmp_path} rw shared:1 - {kind} x rw\n", encoding="utf-8"
    )
    found = file_system_of(str(tmp_path / "store.db"), str(mounts))
    monkeypatch.setattr(sqlite_file, "file_system_of", lambda _: found)

    assert found == kind
    with pytest.raises(CannotOpen, match="network file system"):
        sqlite_store(tmp_path / "store.db")


def test_the_nearest_mount_counts(tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("1 1 0:1 / / rw - nfs x rw\n2 1 0:2 / /a\\040b rw - ext4 x rw\n", encoding="utf-8")

    assert file_system_of("/a b/store.db", str(mounts)) == "ext4"
    assert file_system_of("/a bc/store.db", str(mounts)) == "nfs"
    assert file_system_of("/x", str(tmp_path / "none")) == ""


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    sqlite_store(tmp_path / "store.db").close()
    connection = apsw.Connection(str(tmp_path / "store.db"), vfs="cksmvfs")
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(CannotOpen, match="upgrade Standfast"):
        sqlite_store(tmp_path / "store.db")


def test_a_migration_and_its_record_are_one_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = sqlite_store(tmp_path / "store.db")
    first.commit(commit("r1", write("a")))
    first.close()
    broken = (*MIGRATIONS, "CREATE TABLE extra (a) STRICT; this is no SQL")
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", broken)
    with pytest.raises(StoreError):
        sqlite_store(tmp_path / "store.db")
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*MIGRATIONS, "CREATE TABLE extra (a ANY) STRICT"))
    store = sqlite_store(tmp_path / "store.db")

    assert contents(store) == {"a": '"x"'}
    store.close()
    with apsw.Connection(str(tmp_path / "store.db")) as connection:
        assert connection.execute("SELECT version FROM migrations ORDER BY version").fetchall() == [
            (version,) for version in range(1, len(MIGRATIONS) + 2)
        ]


@pytest.mark.parametrize(
    ("path", "words"),
    [("no/such/folder/store.db", "no folder"), ("", "it is a folder")],
    ids=["folder missing", "a folder itself"],
)
def test_a_path_that_can_not_be_opened_is_told(tmp_path: Path, path: str, words: str) -> None:
    with pytest.raises(CannotOpen, match=words):
        sqlite_store(tmp_path / path)


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"hello" * 1000)
    with pytest.raises(CannotOpen, match="not a SQLite database"):
        sqlite_store(tmp_path / "store.db")

    assert (tmp_path / "store.db").read_bytes() == b"hello" * 1000
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


def test_a_database_without_checksums_is_refused(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "store.db"))
    connection.execute(
        f"PRAGMA application_id = {sqlite_file.APPLICATION_ID}; PRAGMA user_version = 1; CREATE TABLE a (b)"
    )
    connection.close()

    with pytest.raises(CannotOpen, match="checksums"):
        sqlite_store(tmp_path / "store.db")


def test_an_older_copy_of_the_file_is_noticed(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("a")))
    store.close()
    older = (tmp_path / "store.db").read_bytes()
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r2", write("b"), at=1))
    store.close()
    (tmp_path / "store.db").write_bytes(older)
    with pytest.raises(Corruption, match=r"run: standfast restore --store .*store\.db"):
        sqlite_store(tmp_path / "store.db")
    (tmp_path / "store.db-files/head").unlink()

    assert contents(sqlite_store(tmp_path / "store.db")) == {"a": '"x"'}


def test_a_writer_that_is_held_up_for_too_long_gives_up_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.store.sqlite.file.MAX_BUSY_SECONDS", 0.05)
    store = sqlite_store(tmp_path / "store.db")
    other = open_writer(str(tmp_path / "store.db"), ManualClock(), "1", head_file=HeadFile(None))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        store.commit(commit("r1", write("a")))
    other.execute("ROLLBACK")

    assert store.commit(commit("r1", write("a"))).memory_snapshot_id == 1


def test_a_clock_that_never_waits_does_not_shorten_the_wait_for_a_writer(tmp_path: Path) -> None:
    clock = ManualClock()
    store = sqlite_store(tmp_path / "store.db", clock)
    other = open_writer(str(tmp_path / "store.db"), clock, "1", head_file=HeadFile(None))
    other.execute("BEGIN IMMEDIATE")
    before = clock.monotonic()
    threading.Timer(0.3, other.execute, ("ROLLBACK",)).start()

    assert store.commit(commit("r1", write("a"))).memory_snapshot_id == 1
    assert clock.monotonic() == before


def test_many_processes_can_make_one_store_at_once(tmp_path: Path) -> None:
    workers = [
        CHILDREN.Process(target=_open_and_commit, args=(str(tmp_path / "store.db"), name))
        for name in range(6)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert [worker.exitcode for worker in workers] == [0] * 6
    assert sorted(contents(sqlite_store(tmp_path / "store.db"))) == [f"k{name}" for name in range(6)]


def _open_and_commit(path: str, name: int) -> None:
    store = sqlite_store(path, SystemClock(), RandomIds())
    store.commit(commit(f"r{name}", write(f"k{name}")))
    store.close()


def test_the_checksum_vfs_is_nobody_elses_default(tmp_path: Path) -> None:
    sqlite_store(tmp_path / "store.db").close()

    assert apsw.vfs_names()[0] != "cksmvfs"
    assert "cksmvfs" in apsw.vfs_names()


def test_an_apsw_without_the_checksum_vfs_is_told(tmp_path: Path) -> None:
    program = (
        "import apsw.sqlite_extra as extra, sys\n"
        "def lacking(name): raise extra.NotAvailable(name)\n"
        "extra._get_entry = lacking\n"
        "from tests.store.builders import sqlite_store\n"
        "from standfast.errors import CannotOpen\n"
        "try: sqlite_store(sys.argv[1])\n"
        "except CannotOpen as error: print(error)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store.db")],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "install it from its wheel" in told.stdout


def test_ids_and_time_are_handed_in(tmp_path: Path) -> None:
    """Two stores that are handed the same time and ids and told the same things are the same, to the ledger's
    hash.
    """
    receipts = []
    for name in ("one", "two"):
        store = sqlite_store(tmp_path / f"{name}.db", ManualClock(), CountedIds())
        receipts.append(store.commit(commit("r1", write("a"))))
        store.close()

    assert receipts[0] == receipts[1]


def test_a_reset_moves_what_is_committed_from_the_log_into_the_file(tmp_path: Path) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("a")))
    log = tmp_path / "store.db-wal"
    assert log.stat().st_size > 0
    store._storage.reset()

    assert log.stat().st_size == 0
    assert contents(store) == {"a": '"x"'}
    assert store.commit(commit("r2", expire("a"), at=1)).memory_snapshot_id == 2


def test_who_replaces_a_file_waits_for_its_writer(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    sqlite_store(tmp_path / "store.db").commit(commit("r1", write("a")))
    writer = apsw.Connection(path)
    writer.execute("BEGIN IMMEDIATE")
    ends = threading.Timer(0.1, writer.execute, ["COMMIT"])
    ends.start()
    with without_writers(path) as tip:
        assert tip.seq == 1
    ends.join()
    writer.close()


@pytest.mark.parametrize(
    ("query", "way"),
    [
        (VersionQuery(snapshot=1), "INTEGER PRIMARY KEY"),
        (VersionQuery(namespace=NAMESPACE, since=1), "INTEGER PRIMARY KEY"),
        (VersionQuery(namespace=NAMESPACE, prefix="a"), "versions_by_place"),
    ],
)
def test_versions_are_found_by_their_ids_if_snapshots_are_named_and_else_by_their_places(
    tmp_path: Path, query: VersionQuery, way: str
) -> None:
    sqlite_store(tmp_path / "store.db").commit(commit("r1", write("a")))
    reader = open_reader(str(tmp_path / "store.db"), 1)
    sql, parameters = versions_in_range(query)
    first, *_ = [str(row[-1]) for row in reader.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)]

    assert first.startswith("SEARCH versions USING ")
    assert way in first
