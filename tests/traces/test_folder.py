"""The folder of artifacts: whole files or none, one a run, kept long enough."""

import gzip
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast.cli import main
from standfast.clock import CountedIds, ManualClock, RandomIds
from standfast.errors import TraceFolderFailed
from standfast.limits import MAX_TRACE_BYTES
from standfast.traces.artifact import Trace
from standfast.traces.folder import TraceFolder, read_artifact
from standfast.traces.recorder import Recorder
from standfast.traces.replay import ReplayedRun
from tests.raising import raises_code
from tests.traces.scripted import FixedMemory, Script, a_run, recorded

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def a_folder(path: Path) -> TraceFolder:
    return TraceFolder(path / "traces", ids=RandomIds())


def aged(run_id: str, days: float) -> Trace:
    return recorded(run=a_run(run_id), clock=ManualClock(NOW - timedelta(days=days)))


def age_file(file: Path, days: float) -> None:
    moment = (NOW - timedelta(days=days)).timestamp()
    os.utime(file, (moment, moment))


def test_a_trace_comes_back_as_it_was_put(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    file = folder.put(recorded())

    assert file.name == "run-1.json"
    assert folder.get("run-1") == recorded()
    assert file.read_bytes() == recorded().as_bytes()


def test_a_compressed_folder_gives_back_the_same_trace_in_a_fraction_of_the_bytes(tmp_path: Path) -> None:
    folder = TraceFolder(tmp_path, ids=RandomIds(), compressed=True)
    file = folder.put(recorded())
    folder.put(recorded())

    assert file.name == "run-1.json.gz"
    assert [file] == list(folder.run_files()) == [one for one, _ in folder.readable()]
    assert folder.get("run-1") == TraceFolder(tmp_path, ids=RandomIds()).get("run-1") == recorded()
    assert gzip.decompress(file.read_bytes()) == recorded().as_bytes()
    assert file.stat().st_size < len(recorded().as_bytes()) / 2
    plain = a_folder(tmp_path).put(recorded())
    assert CliRunner().invoke(main, ["trace", "compare", str(file), str(plain)]).exit_code == 0
    with raises_code("trace_exists"):
        folder.put(recorded(Script(sections=())))


@pytest.mark.parametrize("damage", [lambda text: text[:-9], lambda text: text[:40], lambda _: b"no gzip"])
def test_a_compressed_trace_that_was_cut_or_changed_is_unreadable(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    folder = TraceFolder(tmp_path, ids=RandomIds(), compressed=True)
    file = folder.put(recorded())
    file.write_bytes(damage(file.read_bytes()))

    with raises_code("invalid_trace"):
        folder.get("run-1")


def test_a_compressed_file_never_expands_beyond_the_size_of_a_trace(tmp_path: Path) -> None:
    file = tmp_path / "bomb.json.gz"
    file.write_bytes(gzip.compress(bytes(40 * MAX_TRACE_BYTES)))

    assert len(read_artifact(file)) == MAX_TRACE_BYTES + 1


def test_putting_again_changes_nothing_and_another_trace_of_the_run_is_refused(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    folder.put(recorded())
    folder.put(recorded())

    with raises_code("trace_exists"):
        folder.put(recorded(Script(sections=())))
    assert folder.get("run-1") == recorded()
    assert [file.name for file in folder.path.iterdir()] == ["run-1.json"]


@pytest.mark.parametrize(
    "run_id",
    ["../../etc/passwd", ".", "..", ".hidden", "a/b", "A", "a", "x" * 256, "ü" * 256, "nul\\con", "a b"],
)
def test_no_run_id_leaves_the_folder_or_meets_another(tmp_path: Path, run_id: str) -> None:
    folder = a_folder(tmp_path)
    other = folder.put(recorded(run=a_run("a-other")))
    file = folder.put(recorded(run=a_run(run_id)))

    assert file.parent == folder.path
    assert file != other
    assert file.name.lower() not in {folder.file_of(each).name.lower() for each in ("A", "a", "a b")} - {
        file.name.lower()
    }
    assert folder.get(run_id).run_id == run_id
    assert file in list(folder.run_files())


def test_ids_that_differ_only_in_case_have_different_files_everywhere(tmp_path: Path) -> None:
    names = {a_folder(tmp_path).file_of(run_id).name.lower() for run_id in ("Run", "run", "RUN", "rUn")}

    assert len(names) == 4


def test_many_writers_of_one_run_leave_one_whole_file(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    trace = recorded()
    threads = [threading.Thread(target=folder.put, args=(trace,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [file.name for file in folder.path.iterdir()] == ["run-1.json"]
    assert folder.get("run-1") == trace


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    folder = a_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", no_space)

    with pytest.raises(TraceFolderFailed, match="No space"):
        folder.put(recorded())
    assert list(folder.path.iterdir()) == []


def test_a_damaged_or_missing_file_is_told(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    file = folder.put(recorded())
    text = file.read_bytes()

    file.write_bytes(text.replace(b"parcel status", b"parcel states"))
    with raises_code("damaged_trace"):
        folder.get("run-1")
    file.write_bytes(text[:-100])
    with raises_code("invalid_trace"):
        folder.get("run-1")
    with pytest.raises(TraceFolderFailed):
        folder.get("run-2")


def test_a_sweep_takes_what_is_old_enough_and_nothing_else(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    for run_id, days in {"old": 20.0, "edge": 14.0, "young": 13.9}.items():
        age_file(folder.put(aged(run_id, days)), days)
    # Old by its own word, but its file is new; and the other way round.
    age_file(folder.put(aged("restored", 30)), 1)
    age_file(folder.put(aged("touched", 1)), 30)
    (folder.path / "notes.txt").write_text("mine", encoding="utf-8")
    age_file(folder.path / "notes.txt", 99)

    rehearsed = folder.sweep(now=NOW, older_than_days=14, rehearse=True)
    swept = folder.sweep(now=NOW, older_than_days=14)

    assert rehearsed.removed == swept.removed == ("old.json",)
    assert swept.kept == 4
    assert {file.stem for file in folder.run_files()} == {"edge", "young", "restored", "touched"}
    assert (folder.path / "notes.txt").exists()


def test_a_sweep_takes_what_crashed_writers_left_and_files_that_cant_be_read(tmp_path: Path) -> None:
    folder = a_folder(tmp_path)
    folder.put(recorded())
    names = [f".{CountedIds().new_id()}.part", "broken.json", ".mine.part"]
    for name in names:
        (folder.path / name).write_text("{", encoding="utf-8")
        age_file(folder.path / name, 15)
    swept = folder.sweep(now=NOW, older_than_days=14)

    assert set(swept.removed) == set(names[:2])
    assert (folder.path / ".mine.part").exists()


@pytest.mark.parametrize("days", [13.999, 0, -1, float("nan")])
def test_nothing_younger_than_fourteen_days_is_ever_swept(tmp_path: Path, days: float) -> None:
    with raises_code("retention_too_short"):
        a_folder(tmp_path).sweep(now=NOW, older_than_days=days)


@pytest.mark.parametrize("days", [10.0**9, float("inf")])
def test_a_sweep_beyond_the_calendar_takes_nothing(tmp_path: Path, days: float) -> None:
    folder = a_folder(tmp_path)
    age_file(folder.put(aged("old", 5000)), 5000)

    assert folder.sweep(now=NOW, older_than_days=days).removed == ()


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert list(a_folder(tmp_path).run_files()) == []
    assert a_folder(tmp_path).sweep(now=NOW, older_than_days=14).kept == 0


@pytest.mark.parametrize("answers", [(False,), (True, False), (True, True)])
@pytest.mark.parametrize("door", ["keep", "recover"])
def test_a_trace_that_is_unwanted_by_the_time_it_is_stored_is_removed(
    door: str, answers: tuple[bool, ...], tmp_path: Path
) -> None:
    folder, trace, left = a_folder(tmp_path), recorded(), list(answers)
    journal = folder.journal("run-1")
    recorder = Recorder(a_run("run-1"), clock=ManualClock(), journal=journal)
    Script()(ReplayedRun(recorder, memory=FixedMemory()))
    if door == "keep":
        folder.keep(trace, trace.as_bytes(), journal, replayed=False, is_wanted=lambda: left.pop(0))
    else:
        journal.close()
        assert folder.recover(is_wanted=lambda _: left.pop(0)) == all(answers)

    assert len(list(folder.run_files())) == all(answers)
    assert not list((folder.path / "open").iterdir())
    assert not left


def test_traces_that_were_seen_are_passed_over_until_they_are_replaced(tmp_path: Path) -> None:
    folder, seen = a_folder(tmp_path), set[tuple[Path, int, int]]()
    first = folder.put(recorded())
    assert [file for file, _ in folder.readable(seen=seen)] == [first]
    second = folder.put(recorded(run=a_run("run-2")))
    assert [file for file, _ in folder.readable(seen=seen)] == [second]
    assert not list(folder.readable(seen=seen))

    other = first.with_name("other")
    other.write_bytes(first.read_bytes())
    other.replace(first)
    assert [file for file, _ in folder.readable(seen=seen)] == [first]
