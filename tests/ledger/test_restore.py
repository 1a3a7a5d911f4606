"""A restored store knows that it was restored, says from when, verifies, and goes on."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast.cli import main
from standfast.errors import CannotOpen, Corruption, InvalidValue, StoreFailed
from standfast.ledger.chain import Tip
from standfast.ledger.notary import Notary
from standfast.memory import Memory
from standfast.store.head_file import HeadFile
from standfast.store.opening import open_store
from standfast.store.protocol import Changes
from standfast.store.restore import accept_restored, restorations_of, restore_copy
from standfast.store.store import Store

FILES = ("", "-wal", "-shm", "-files/head")


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Where a store is to be."""
    if request.param == "sqlite":
        return "store.db"
    place: str = request.getfixturevalue("postgres_store_url")
    return place


def _remember(url: str, *gates: int) -> None:
    for gate in gates:
        with Memory.open(url) as memory:
            memory.remember(f"Gate {gate} opens at noon.", subject=f"gate/{gate}")
            memory.checkpoint()


def _problems(url: str) -> list[str]:
    memory = Memory.open(url, create=False)
    try:
        return list(memory.verify())
    finally:
        memory.store.close()


def _accept(url: str) -> None:
    def notary_of(store: Store) -> Notary | None:
        return Notary.for_store(url, store.entries, store.branches, store.announce_key)

    accept_restored(url, reason="the disk died", notary_of=notary_of)


def _put_back(backup: str, url: str) -> None:
    """Put a backup in the place of a store as its owner's own tools do."""
    if "://" not in url:
        for suffix in FILES:
            Path(url + suffix).unlink(missing_ok=True)
        shutil.copy(backup, url)
        return
    import psycopg

    for head in Path("standfast-files").glob("*/head"):
        head.unlink()
    with psycopg.connect(url) as connection:
        connection.execute("DROP SCHEMA standfast CASCADE")
    source, target = open_store(backup, create=False), open_store(url, create=True, notes_head=False)
    source.backup_to(target)
    source.close()
    target.close()


def _back_up(url: str, backup: str) -> None:
    source, target = open_store(url, create=False), open_store(backup, create=True)
    source.backup_to(target)
    source.close()
    target.close()


def test_an_older_copy_that_was_put_back_is_accepted_verifies_and_goes_on(url: str) -> None:
    _remember(url, 1, 2)
    _back_up(url, "backup.db")
    _remember(url, 3, 4)
    _put_back("backup.db", url)
    before = _problems(url)
    _accept(url)
    _remember(url, 5)
    _accept(url)

    assert any("standfast restore" in problem for problem in before)
    assert _problems(url) == []
    store = open_store(url, create=False)
    first, second = restorations_of(store)
    assert (first.memory_snapshot_id, first.left_entries > 0, first.reason) == (2, True, "the disk died")
    assert (second.memory_snapshot_id, second.left_entries) == (3, 0)
    assert store.identity.branch_id == second.branch_id
    assert store.identity.store_id != second.branch_id
    store.close()


def test_a_store_that_was_written_before_the_restore_was_accepted_can_still_be_accepted(url: str) -> None:
    _remember(url, 1, 2)
    _back_up(url, "backup.db")
    _remember(url, 3, 4)
    _put_back("backup.db", url)
    for gate in (6, 7, 8):
        memory = Memory.open(url)
        memory.remember(f"Gate {gate} opens at noon.", subject=f"gate/{gate}")
        memory.close()
    before = _problems(url)
    _accept(url)
    _remember(url, 9)

    assert before
    assert _problems(url) == []


def test_going_back_behind_a_restore_is_a_restore_too(url: str) -> None:
    _remember(url, 1)
    _back_up(url, "first.db")
    _remember(url, 2)
    _back_up(url, "second.db")
    _put_back("first.db", url)
    _accept(url)
    _remember(url, 3, 4)
    _put_back("second.db", url)
    _accept(url)
    _remember(url, 5)

    assert _problems(url) == []


def test_what_is_lost_after_a_restore_is_told_again(url: str) -> None:
    _remember(url, 1)
    _back_up(url, "backup.db")
    _remember(url, 2)
    _put_back("backup.db", url)
    _accept(url)
    _back_up(url, "restored.db")
    _remember(url, 3)
    _put_back("restored.db", url)

    assert any("missing or broken" in problem for problem in _problems(url))


def test_a_checkpoint_beyond_what_was_known_at_the_restore_is_told() -> None:
    _remember("store.db", 1)
    _back_up("store.db", "backup.db")
    _remember("store.db", 2)
    known = Path("store.db-files/checkpoints").read_bytes()
    _remember("store.db", 3)
    later = Path("store.db-files/checkpoints").read_bytes()
    _put_back("backup.db", "store.db")
    Path("store.db-files/checkpoints").write_bytes(known)
    _accept("store.db")
    Path("store.db-files/checkpoints").write_bytes(later)

    assert any("missing or broken" in problem for problem in _problems("store.db"))


def test_a_branch_that_the_ledger_does_not_tell_of_is_found(url: str) -> None:
    _remember(url, 1)
    _accept(url)
    store = open_store(url, create=False)
    (own, branch) = store.branches()
    with store._storage.transaction() as transaction:
        transaction.append(Changes(branches=[type(branch)(1, branch.branch_id, branch.ledger_seq, 0, 999)]))
    changed = list(store.verify())
    with store._storage.transaction() as transaction:
        transaction.append(Changes(branches=[branch, type(own)(2, "x", 1, 0, 999)]))
    added = list(store.verify())
    store.close()

    assert len(changed) == 1
    assert "tells of a restore, but the store's branches do not" in changed[0]
    assert added == ["the ledger does not tell of branch 2 of the store"]


def test_the_command_puts_a_backup_back_and_keeps_what_was_there() -> None:
    run = CliRunner()
    _remember("store.db", 1, 2)
    run.invoke(main, ["backup", "backup.db", "--store", "store.db"], catch_exceptions=False)
    _remember("store.db", 3)
    refused = run.invoke(main, ["restore", "backup.db", "--store", "store.db"])
    done = run.invoke(main, ["restore", "backup.db", "--store", "store.db", "--replace", "--json"])
    verified = run.invoke(main, ["verify", "--store", "store.db", "--json"])
    remembered = run.invoke(main, ["remember", "Gate 4 opens at noon.", "--store", "store.db"])
    again = run.invoke(main, ["verify", "--store", "store.db"])

    assert (refused.exit_code, "--replace" in refused.stderr) == (2, True)
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["memory_snapshot_id"], told["set_aside"]) == (2, "store.db.replaced-1")
    assert told["last_left_seq"] >= told["first_left_seq"]
    assert json.loads(verified.stdout)["problems"] == []
    assert json.loads(verified.stdout)["restored"][0]["branch_id"] == told["branch_id"]
    assert (remembered.exit_code, remembered.stderr) == (0, "")
    assert again.exit_code == 0, again.output
    assert "restored on" in again.stdout
    kept = open_store("store.db.replaced-1", create=False)
    assert kept.head() == 3
    kept.close()


def test_a_restore_beside_a_writer_holds_and_the_writer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer's last commit is not in the head file before the restore is over."""
    _remember("store.db", 1)
    _back_up("store.db", "backup.db")
    writer, write, late = Memory.open("store.db", create=False), HeadFile.write, list[tuple[HeadFile, Tip]]()
    with monkeypatch.context() as slow:
        slow.setattr(HeadFile, "write", lambda self, tip: late.append((self, tip)))
        writer.remember("Gate 2 opens at noon.")
    assert restore_copy("backup.db", "store.db", replace=True) == "store.db.replaced-1"
    _accept("store.db")
    write(*late[0])
    with pytest.raises(StoreFailed, match="replaced"):
        writer.remember("Gate 3 opens at noon.")
    writer.close()

    assert _problems("store.db") == []
    assert "was removed or replaced" in writer.warnings[-1]
    _remember("store.db", 4)
    assert _problems("store.db") == []


def test_who_waited_for_the_lock_while_the_store_was_replaced_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _remember("store.db", 1)
    _back_up("store.db", "backup.db")
    read = HeadFile.read

    def replace_after(self: HeadFile) -> Tip:
        found = read(self)
        monkeypatch.setattr(HeadFile, "read", read)
        restore_copy("backup.db", "store.db", replace=True)
        return found

    with Memory.open("store.db", create=False, notary=None) as writer:
        monkeypatch.setattr(HeadFile, "read", replace_after)
        with pytest.raises(StoreFailed, match="replaced"):
            writer.remember("Gate 2 opens at noon.")


def test_a_backup_is_restored_into_an_empty_database_and_no_other(postgres_store_url: str) -> None:
    _remember("store.db", 1, 2)
    _back_up("store.db", "backup.db")
    restore_copy("backup.db", postgres_store_url)
    _accept(postgres_store_url)

    assert _problems(postgres_store_url) == []
    with pytest.raises(CannotOpen, match="empty database"):
        restore_copy("backup.db", postgres_store_url)


def test_a_damaged_backup_is_refused_and_the_store_stays(tmp_path: Path) -> None:
    _remember("store.db", 1)
    _back_up("store.db", "backup.db")
    content = bytearray(Path("backup.db").read_bytes())
    content[len(content) // 2] ^= 0x10
    Path("backup.db").write_bytes(content)
    with pytest.raises(Corruption):
        restore_copy("backup.db", "store.db", replace=True)
    with pytest.raises(InvalidValue, match="itself"):
        restore_copy("store.db", "store.db", replace=True)

    assert _problems("store.db") == []
    assert list(Path().glob("store.db.re*")) == [], "neither a draft nor a store set aside is left"


def test_a_server_s_store_has_a_witness_by_default(postgres_store_url: str) -> None:
    _remember(postgres_store_url, 1, 2)
    (folder,) = Path("standfast-files").iterdir()
    files = sorted(path.name for path in folder.iterdir())
    _back_up(postgres_store_url, "all.db")
    source = open_store("all.db", create=False)
    _put_back_only(source, postgres_store_url, 1)
    source.close()

    assert files == ["checkpoints", "checkpoints.edge", "head", "log.key", "log.pub"]
    with pytest.raises(Corruption, match="was acknowledged and is missing"):
        _problems(postgres_store_url)
    (folder / "head").unlink()
    assert any("missing or broken" in problem for problem in _problems(postgres_store_url))


def _put_back_only(source: Store, url: str, snapshots: int) -> None:
    """Cut the last commits off a database."""
    import psycopg

    source.head()
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = standfast")
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM versions WHERE memory_snapshot_id > %s", (snapshots,))
        connection.execute("DELETE FROM commits WHERE memory_snapshot_id > %s", (snapshots,))
        last = source.commit_of(snapshots).ledger_seq
        connection.execute("DELETE FROM ledger WHERE seq > %s", (last,))


def test_another_machine_sees_the_newest_checkpoint_in_the_database(postgres_store_url: str) -> None:
    _remember(postgres_store_url, 1)
    run = CliRunner()
    before = run.invoke(main, ["verify", "--store", postgres_store_url])
    shutil.rmtree("standfast-files")
    after = run.invoke(main, ["verify", "--store", postgres_store_url])

    for told in (before, after):
        assert (told.exit_code, "is covered by a checkpoint that" in told.stdout) == (0, True)


def test_an_empty_file_is_no_backup() -> None:
    """A copy to a full disk leaves one, and to SQLite it is a database without tables."""
    _remember("store.db", 1)
    Path("copy.db").touch()
    with pytest.raises(CannotOpen, match="the file is empty"):
        restore_copy("copy.db", "store.db", replace=True)

    assert _problems("store.db") == []
    with Memory.open("store.db") as memory:
        assert len(list(memory.records())) == 1
