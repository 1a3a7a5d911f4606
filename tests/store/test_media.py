"""Where a store's file is: on media that can only be read, removed or replaced under a process, readable by
its owner only.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from standfast.errors import CannotOpen, Corruption, ReadOnlyStore, StoreFailed
from standfast.ledger.note import KeyFile
from standfast.memory import Memory
from standfast.store.opening import open_store
from tests.store.builders import commit, contents, sqlite_store, write

ROOT = Path(__file__).parents[2]
READ_ONLY_PROGRAM = """
import sys
from standfast import Memory
from standfast.errors import ReadOnlyStore

with Memory.open(sys.argv[1], create=False) as memory:
    print(memory.recall("When does gate 1 open?", tokens=500).text)
    print(len(memory.history("gate/1")), "versions", list(memory.verify()))
    try:
        memory.remember("Gate 2 opens at noon.")
    except ReadOnlyStore as error:
        print(error.code)
"""


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every file look like one that can't be written."""
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and access(path, mode), raising=True)


@pytest.mark.usefixtures("read_only")
def test_it_is_read_and_verified_and_nothing_is_created(tmp_path: Path) -> None:
    _filled_by_another_process(tmp_path / "store.db")
    before = sorted(path.name for path in tmp_path.iterdir())
    store = open_store(str(tmp_path / "store.db"), create=False)

    assert contents(store) == {"a": '"first"'}
    assert list(store.verify()) == []
    with pytest.raises(ReadOnlyStore):
        store.commit(commit("r2", write("ttl/shared//b")))
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.usefixtures("read_only")
def test_commits_that_are_only_in_the_log_are_not_passed_over(tmp_path: Path) -> None:
    _filled_by_another_process(tmp_path / "store.db")
    (tmp_path / "store.db-wal").write_bytes(b"x")

    with pytest.raises(CannotOpen, match="still in its log"):
        open_store(str(tmp_path / "store.db"), create=False)


@pytest.mark.usefixtures("read_only")
def test_a_store_that_lost_commits_is_refused(tmp_path: Path) -> None:
    _filled_by_another_process(tmp_path / "store.db")
    head = (tmp_path / "store.db-files/head").read_bytes()
    (tmp_path / "other").mkdir()
    _filled_by_another_process(tmp_path / "other" / "store.db", "other")
    (tmp_path / "other" / "store.db-files/head").write_bytes(head)

    with pytest.raises(Corruption, match="acknowledged"):
        open_store(str(tmp_path / "other" / "store.db"), create=False)


def _filled_by_another_process(path: Path, value: str = "first") -> None:
    program = (
        "import sys; from tests.store.builders import *; s = sqlite_store(sys.argv[1]);"
        " s.commit(commit('r1', write('a', sys.argv[2]))); s.close()"
    )
    subprocess.run([sys.executable, "-c", program, str(path), value], cwd=ROOT, check=True, timeout=60)


def test_recall_history_and_verify_work_on_a_read_only_mount(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "store.db")) as memory:
        memory.remember("Gate 1 opens at noon.", subject="gate/1")
    mounted = (
        'mount --bind -o ro "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -c "$3" "$1/store.db"'
    )
    words = ["unshare", "-rm", "sh", "-c", mounted, "sh", str(tmp_path), sys.executable, READ_ONLY_PROGRAM]
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        pytest.skip("this system lets nobody mount")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert "Gate 1 opens at noon." in done.stdout
    assert "versions []" in done.stdout
    assert done.stdout.endswith("read_only_store\n")


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_was_removed_or_replaced_is_noticed_at_the_next_commit(tmp_path: Path, how: str) -> None:
    store = sqlite_store(tmp_path / "store.db")
    store.commit(commit("r1", write("a")))
    (tmp_path / "store.db").rename(tmp_path / "elsewhere.db")
    if how == "replaced":
        shutil.copy(tmp_path / "elsewhere.db", tmp_path / "store.db")
    with pytest.raises(StoreFailed, match="removed or replaced"):
        store.commit(commit("r2", write("b"), at=1))

    (tmp_path / "store.db").unlink(missing_ok=True)
    (tmp_path / "elsewhere.db").rename(tmp_path / "store.db")
    assert store.commit(commit("r2", write("b"), at=1)).memory_snapshot_id == 2
    store.close()


def test_only_the_owner_can_read_a_store_s_files(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        memory = Memory.open(str(tmp_path / "store.db"))
        memory.remember("Gate 1 opens at noon.")
        memory.checkpoint()
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
        memory.close()
    finally:
        os.umask(before)

    assert "store.db-wal" in modes
    assert modes.pop("log.pub") == 0o644, "the public half is there to be given away"
    assert modes.pop("store.db-files") == 0o700
    assert set(modes.values()) == {0o600}, modes


def test_leftover_drafts_of_keys_are_removed(tmp_path: Path) -> None:
    for name in ("log.key.0123abcd", "log.pub.4711", "log.key.other", "other.key.0123abcd"):
        (tmp_path / name).write_text("draft")
    KeyFile(tmp_path / "log.key", name="standfast/test").load()

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "log.key",
        "log.key.other",
        "log.pub",
        "other.key.0123abcd",
    ]
