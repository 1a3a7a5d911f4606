"""A crash leaves an unsigned tail; a cut of acknowledged commits is broken for ever."""

import contextlib
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from standfast import Memory
from standfast.cli import main
from standfast.errors import CannotOpen, Corruption, StoreFailed
from standfast.ledger import CheckpointFile, KeyFile
from standfast.ledger.notary import Notary
from standfast.ledger.witness import LedgerState, Verification
from standfast.store.opening import open_store
from standfast.store.sqlite.file import translate
from tests.ledger.builders import LOG_KEY
from tests.ledger.kept import cut

PROGRAM = """
import os, signal, sys
from standfast import Memory
memory = Memory.open(sys.argv[1])
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    memory.remember(f"Gate {number} opens at noon.", subject=f"gate/{number}")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store on each backend, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    if request.param == "sqlite":
        return "store.db"
    place: str = request.getfixturevalue("postgres_store_url")
    return place


def _write_and_be_killed(url: str, first: int, end: int) -> None:
    words = [sys.executable, "-c", PROGRAM, url, str(first), str(end)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def _found(url: str) -> Verification | str:
    """What verification finds, or why the store is not opened; nothing is signed."""
    try:
        store = open_store(url, create=False)
    except Corruption as error:
        return str(error)
    with closing(store):
        notary = Notary.for_store(url, store.entries, store.branches, store.announce_key)
        return Memory(store, notary=notary).verification()


def test_a_kill_leaves_an_unsigned_tail_that_the_next_writer_signs(url: str) -> None:
    _write_and_be_killed(url, 0, 5)
    killed = _found(url)
    told = CliRunner().invoke(main, ["verify", "--store", url])
    with Memory.open(url) as memory:
        memory.remember("Gate 9 opens at noon.")
    after = _found(url)

    assert isinstance(killed, Verification)
    assert (killed.state, killed.problems, killed.holds) == ("unsigned_tail", (), True)
    assert killed.tail.unsigned_entries == 10
    assert (told.exit_code, "✗" in told.output) == (3, False)
    assert isinstance(after, Verification)
    assert (after.state, after.problems) == ("sound", ())


def test_a_cut_of_acknowledged_commits_is_broken_before_and_after_further_writes(url: str) -> None:
    _write_and_be_killed(url, 0, 10)
    cut(url, 4)
    before = _found(url)
    with pytest.raises(Corruption, match="was acknowledged and is missing"):
        Memory.open(url)
    told = CliRunner().invoke(main, ["verify", "--store", url])
    # A machine that has not seen the commits writes on.
    hidden = next(Path().glob("*-files/head"), None) or next(Path().glob("standfast-files/*/head"))
    shutil.move(hidden, "hidden")
    with closing(open_store(url, create=False)) as store:
        Memory(store).remember("Gate 50 opens at noon.")
        Memory(store).remember("Gate 51 opens at noon.")
    shutil.move("hidden", hidden)
    after = _found(url)

    for found in (before, after):
        assert "was acknowledged and is missing" in str(found) or "is another" in str(found)
    assert (told.exit_code, "Broken: 1 problem." in told.output) == (1, True)


def _side_file(name: str) -> Path:
    return [*Path().glob(f"*-files/{name}"), *Path().glob(f"standfast-files/*/{name}")][0]


def _write(url: str, *numbers: int) -> None:
    with Memory.open(url) as memory:
        for number in numbers:
            memory.remember(f"Gate {number} opens at noon.", subject=f"gate/{number}")


@pytest.mark.parametrize("way", ["deleted", "emptied", "cut short"])
def test_a_cut_shows_for_ever_also_without_head_and_checkpoints(url: str, way: str) -> None:
    """The key is kept, so what is written next is signed by the same log."""
    _write(url, 0, 1)
    _write(url, 2, 3, 4)
    cut(url, 3)
    _side_file("head").unlink()
    checkpoints = _side_file("checkpoints")
    first = checkpoints.read_text().splitlines(keepends=True)[0]
    if way == "deleted":
        checkpoints.unlink()
    else:
        checkpoints.write_text("" if way == "emptied" else first)
    before = _found(url)
    _write(url, *range(10, 16))
    after = _found(url)

    for found in (before, after):
        assert isinstance(found, Verification)
        assert found.state == "broken"
        assert any("a signed checkpoint" in problem for problem in found.problems), found.problems


@pytest.mark.parametrize("given", [True, False])
def test_checkpoints_that_are_missing_are_told_whatever_is_signed_later(tmp_path: Path, given: bool) -> None:
    """Nothing was cut, and the key is kept: among the side files, or by the caller."""

    def write(number: int) -> Verification:
        with closing(open_store("store.db", create=True)) as store:
            files = Path("store.db-files")
            key = LOG_KEY if given else KeyFile(files / "log.key", name="standfast/store")
            checkpoints = CheckpointFile(files / "checkpoints")
            notary = Notary(key, checkpoints, store.entries, store.branches, announce=store.announce_key)
            memory = Memory(store, notary=notary)
            memory.remember(f"Gate {number} opens at noon.")
            memory.ledger.sign_at_close()
            return memory.verification()

    with contextlib.chdir(tmp_path):
        Path("store.db-files").mkdir()
        sound = write(1)
        _side_file("checkpoints").rename("kept")
        lost = [write(2), write(3)]
        restored = Path("kept").read_text() + _side_file("checkpoints").read_text()
        _side_file("checkpoints").write_text(restored)
        back = write(4)

    assert (sound.state, sound.problems) == ("sound", ())
    for found in lost:
        (problem,) = found.problems
        assert problem.startswith("a checkpoint of 3 entries was signed by ")
    assert (back.state, back.problems) == ("sound", ())


def test_a_restore_accepts_that_checkpoints_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _write("store.db", 1)
    _side_file("checkpoints").unlink()
    _write("store.db", 2)
    told = CliRunner().invoke(main, ["verify", "--store", "store.db"])
    done = CliRunner().invoke(main, ["restore", "--store", "store.db", "--reason", "a file is lost"])
    _write("store.db", 3)
    found = _found("store.db")

    assert (told.exit_code, "run: standfast restore" in " ".join(told.output.split())) == (1, True)
    assert done.exit_code == 0, done.output
    assert isinstance(found, Verification)
    assert (found.state, found.problems) == ("sound", ())


def test_a_database_is_sound_on_a_machine_that_has_no_folder_of_it(
    postgres_store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Memory.open(postgres_store_url) as memory:
        memory.remember("Gate 1 opens at noon.")
    shutil.rmtree("standfast-files")
    found = _found(postgres_store_url)

    assert isinstance(found, Verification)
    assert (found.state, found.notices) == (LedgerState.SOUND, ())


def test_processes_that_sign_at_once_miss_no_checkpoint(url: str) -> None:
    program = """
import sys
from standfast import Memory
for number in range(6):
    with Memory.open(sys.argv[1]) as memory:
        memory.remember(f"Gate {number} of {sys.argv[2]} opens at noon.")
"""
    words = [sys.executable, "-c", program, url]
    running = [subprocess.Popen([*words, str(number)], stderr=subprocess.PIPE) for number in range(3)]
    told = [process.communicate(timeout=120)[1] for process in running]
    found = _found(url)

    assert told == [b""] * 3
    assert isinstance(found, Verification)
    assert (found.state, found.problems) == ("sound", ())


def test_a_process_that_goes_on_does_not_write_behind_a_cut(url: str) -> None:
    with Memory.open(url) as memory:
        for number in range(6):
            memory.remember(f"Gate {number} opens at noon.")
        cut(url, 3)
        with pytest.raises(Corruption, match="was acknowledged and is missing"):
            memory.remember("Gate 7 opens at noon.")
        found = memory.verification()

    assert found.state == "broken"
    assert any("was acknowledged and is missing" in problem for problem in found.problems)


def test_the_ledger_is_signed_while_it_grows(url: str) -> None:
    with Memory.open(url) as memory:
        assert memory.ledger.notary is not None
        memory.ledger.notary.every_entries, memory.ledger.notary.every_seconds = 4, 600.0
        # When the thread gets its turn is not ours to say: at most three of the last entries stay unsigned.
        for number in range(8):
            memory.remember(f"Gate {number} opens at noon.")
        for _ in range(2_000):
            if memory.ledger.notary.signed_size() >= 8:
                break
            memory.store.clock.sleep(0.01)
        assert memory.ledger.notary.signed_size() >= 8


def test_a_backup_brings_its_folder_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Memory.open("store.db") as memory:
        memory.remember("Gate 1 opens at noon.")
        with memory.run(workflow="triage", mode="buffered_write") as run:
            run.remember("Gate 2 opens at noon.")
    CliRunner().invoke(main, ["backup", "copy.db", "--store", "store.db"], catch_exceptions=False)
    names = {file.name for file in Path("copy.db-files").iterdir()}
    told = CliRunner().invoke(main, ["verify", "--store", "copy.db"])

    assert names >= {"checkpoints", "head", "log.key", "log.pub", "traces"}
    assert told.exit_code == 0, told.output


def test_a_backup_brings_cosigned_checkpoints_and_the_recall_log_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Memory.open("store.db", recall_log=True) as memory:
        memory.remember("Gate 1 opens at noon.")
        memory.recall("gate")
        assert memory.ledger.notary is not None
        note = memory.ledger.notary.checkpoint()
    CheckpointFile(Path("store.db-files/checkpoints.cosigned")).append(note)
    for _ in range(2):
        CliRunner().invoke(main, ["backup", "copy.db", "--store", "store.db"], catch_exceptions=False)

    assert list(CheckpointFile(Path("copy.db-files/checkpoints.cosigned")).read().notes) == [note]
    for name in (
        "checkpoints",
        *[f"recalls/{file.name}" for file in Path("store.db-files/recalls").iterdir()],
    ):
        assert (Path("copy.db-files") / name).read_bytes() == (Path("store.db-files") / name).read_bytes()


def test_a_backup_onto_a_copy_takes_forgotten_traces_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Memory.open("store.db") as memory:
        for scope in ("user/ada", "user/bob"):
            with memory.run(workflow="triage", mode="buffered_write") as run:
                run.remember("The gate opens at noon.", scope=scope)
    CliRunner().invoke(main, ["backup", "copy.db", "--store", "store.db"], catch_exceptions=False)
    copied = {file for file in Path("copy.db-files/traces").rglob("*") if file.is_file()}
    with Memory.open("store.db") as memory:
        assert memory.forget(scope="user/ada", reason="asked for").traces == 1
    CliRunner().invoke(main, ["backup", "copy.db", "--store", "store.db"], catch_exceptions=False)

    left = {file for file in Path("copy.db-files/traces").rglob("*") if file.is_file()}
    assert left < copied
    assert not any(b"user/ada" in file.read_bytes() for file in left)


def test_an_unreadable_head_file_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    Memory.open(str(path)).close()
    Path(f"{path}-files/head").unlink(missing_ok=True)
    Path(f"{path}-files/head").mkdir()

    with pytest.raises(CannotOpen, match=r"head file .* can't be read"):
        Memory.open(str(path))


@pytest.mark.parametrize("code", [apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ])
def test_a_read_error_is_not_corruption(code: int) -> None:
    error: Any = apsw.IOError("disk I/O error")
    error.result, error.extendedresult = code & 0xFF, code
    told = translate(error, "store.db")

    assert isinstance(told, StoreFailed)
    assert told.code == "read_failed"
    assert "Try again" in str(told)
    assert "restore a backup" not in str(told)
