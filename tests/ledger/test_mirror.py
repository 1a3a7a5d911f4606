"""The mirror keeps every checkpoint that was appended, through crashes, full disks and company."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast.ledger.checkpoint import CheckpointFile
from standfast.ledger.note import sign
from tests.ledger.builders import LOG_KEY, TEXT, signed
from tests.raising import raises_code

NOTES = tuple(signed(size, 9) for size in (1, 4, 9))


@pytest.fixture
def mirror(tmp_path: Path) -> CheckpointFile:
    return CheckpointFile(tmp_path / "checkpoints.jsonl")


def test_what_is_appended_is_read_in_order(mirror: CheckpointFile) -> None:
    before = mirror.read()
    for note in NOTES:
        mirror.append(note)

    assert (before.notes, before.torn_lines) == ((), ())
    assert (mirror.read().notes, mirror.read().torn_lines) == (NOTES, ())
    assert CheckpointFile(str(mirror.path)).read() == mirror.read()


def test_only_signed_checkpoints_are_taken(mirror: CheckpointFile) -> None:
    with raises_code("malformed_note"):
        mirror.append(TEXT)
    with raises_code("malformed_checkpoint"):
        mirror.append(sign(TEXT, [LOG_KEY]))

    assert not mirror.path.exists()


def test_a_torn_last_note_is_reported_and_the_next_append_is_whole(mirror: CheckpointFile) -> None:
    """The file is cut after every byte of its last line, as a crash might leave it."""
    for note in NOTES[:2]:
        mirror.append(note)
    whole = mirror.path.read_bytes()
    first_line = whole.index(b"\n") + 1
    for length in range(first_line, len(whole) + 1):
        mirror.path.write_bytes(whole[:length])
        torn = mirror.read()
        mirror.append(NOTES[2])
        healed = mirror.read()

        # Only the newline may be missing from a note that counts.
        kept = NOTES[:2] if length >= len(whole) - 1 else NOTES[:1]
        assert torn.notes == kept
        assert (
            torn.torn_lines
            == healed.torn_lines
            == (() if length == first_line or kept == NOTES[:2] else (2,))
        )
        assert healed.notes == (*kept, NOTES[2])
        assert mirror.path.read_bytes().startswith(whole[:length]), "nothing may be rewritten"


@pytest.mark.parametrize(
    "damage", [bytes(40), b"[" * 100_000, b"\xff\xfe", b"{}", b"3", b'"\\ud8', b"", b'"\xc3"']
)
def test_whatever_stands_in_the_file_is_no_note_unless_it_is_one(
    mirror: CheckpointFile, damage: bytes
) -> None:
    mirror.append(NOTES[0])
    mirror.path.write_bytes(mirror.path.read_bytes() + damage + b"\n")
    mirror.append(NOTES[1])

    assert (mirror.read().notes, mirror.read().torn_lines) == (NOTES[:2], (2,))


def test_a_note_is_on_the_disk_before_append_returns(
    mirror: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    write, fsync = os.write, os.fsync

    def writes(descriptor: int, data: bytes) -> int:
        calls.append("write")
        return write(descriptor, data)

    def syncs(descriptor: int) -> None:
        calls.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "write", writes)
    monkeypatch.setattr(os, "fsync", syncs)
    mirror.append(NOTES[0])

    assert calls == ["write", "sync checkpoints.jsonl", f"sync {mirror.path.parent.name}"]


def test_a_new_file_is_on_the_disk_before_its_first_note_is_made(
    mirror: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    fsync = os.fsync

    def syncs(descriptor: int) -> None:
        calls.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def made(present: Iterator[str]) -> str:
        calls.append("made")
        return NOTES[len(list(present))]

    monkeypatch.setattr(os, "fsync", syncs)
    mirror.extend(made)
    mirror.extend(made)

    file = "sync checkpoints.jsonl"
    assert calls == [f"sync {mirror.path.parent.name}", "made", file, "made", file]
    assert mirror.read().notes == NOTES[:2]


def test_a_full_disk_is_an_error_and_its_rest_is_torn(
    mirror: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror.append(NOTES[0])
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:20]))
        with raises_code("checkpoint_file_failed", match="only a part"):
            mirror.append(NOTES[1])
    torn = mirror.read()
    mirror.append(NOTES[1])

    assert (torn.notes, torn.torn_lines) == (NOTES[:1], (2,))
    assert (mirror.read().notes, mirror.read().torn_lines) == (NOTES[:2], (2,))


def test_a_disk_that_can_t_sync_is_an_error(mirror: CheckpointFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with raises_code("checkpoint_file_failed", match="Input/output error"):
        mirror.append(NOTES[0])


def test_a_file_that_can_t_be_opened_is_an_error(tmp_path: Path) -> None:
    with raises_code("checkpoint_file_failed", match="No such file"):
        CheckpointFile(tmp_path / "nowhere" / "checkpoints.jsonl").append(NOTES[0])
    for use in (lambda: CheckpointFile(tmp_path).append(NOTES[0]), lambda: CheckpointFile(tmp_path).read()):
        with raises_code("checkpoint_file_failed", match="directory"):
            use()


def test_an_append_waits_for_another_one_to_end(mirror: CheckpointFile) -> None:
    mirror.append(NOTES[0])
    before = mirror.path.read_bytes()
    waiting = threading.Thread(target=mirror.append, args=(NOTES[1],))
    with mirror.path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        waiting.start()
        waiting.join(0.1)
        meanwhile = mirror.path.read_bytes()
    waiting.join()

    assert meanwhile == before
    assert mirror.read().notes == NOTES[:2]


def test_processes_may_share_a_mirror(mirror: CheckpointFile) -> None:
    program = (
        "import sys; from standfast.ledger.checkpoint import CheckpointFile; from tests.ledger.builders"
        " import signed\n[CheckpointFile(sys.argv[1]).append(signed(int(sys.argv[2]))) for _ in range(50)]"
    )
    crowd = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(mirror.path), str(size)], cwd=Path(__file__).parents[2]
        )
        for size in (1, 2, 3)
    ]

    assert [process.wait() for process in crowd] == [0, 0, 0]
    assert mirror.read().torn_lines == ()
    assert sorted(mirror.read().notes) == sorted(signed(size) for size in (1, 2, 3) for _ in range(50))
