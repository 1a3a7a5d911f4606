"""Runs that are killed leave a trace, made from their journal."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from standfast import Memory
from standfast.clock import RandomIds
from standfast.memory.run import Run
from standfast.traces import Trace, TraceFolder
from standfast.traces.equivalence import shortfalls
from standfast.traces.folder import read_artifact
from tests.raising import raises_code

KILLED_RUN = """
import os, signal, sys
from standfast import Memory
from tests.raising import raises_code
memory = Memory.open(sys.argv[1])
run = memory.run(workflow="triage", mode="buffered_write", run_id="r1")
@run.tool()
def look_up(order): return {"state": "shipped"}
with run.event(role="agent", interceptor="planner") as event:
    look_up("17")
    run.recall("orders")
    event.decide("answer")
run.remember("Order 17 was shipped.", subject="order/17")
run.guardrail("tone")
if sys.argv[2] == "inside":
    with run.event(role="agent", interceptor="planner"):
        os.kill(os.getpid(), signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def killed_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder that a killed process left, by the moment of its death."""
    folders = {moment: tmp_path_factory.mktemp(moment) for moment in ("outside", "inside")}
    for moment, folder in folders.items():
        command = [sys.executable, "-c", KILLED_RUN, str(folder / "agent.db"), moment]
        assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    return folders


@pytest.fixture
def store(killed_folders: dict[str, Path], tmp_path: Path) -> Path:
    """The store of a process that was killed between two events."""
    shutil.copytree(killed_folders["outside"], tmp_path, dirs_exist_ok=True)
    return tmp_path / "agent.db"


def _traces(store: Path) -> list[Trace]:
    folder = TraceFolder.for_store(str(store))
    assert folder is not None
    return [trace for _, trace in folder.readable()]


def _codes(trace: Trace) -> set[str]:
    return {gap.code for gap in trace.metadata.gaps}


def test_a_killed_run_leaves_what_it_did_and_no_claim_is_made_from_it(store: Path) -> None:
    assert _traces(store) == []

    with Memory.open(str(store)):
        (trace,) = _traces(store)

    assert trace.run_id == "r1"
    assert "killed" in _codes(trace)
    calls = [call.tool_name for event in trace.events for call in event.tool_calls]
    assert calls == ["look_up", "memory.remember"]
    assert trace.events[0].decision_type == "answer"
    assert [one.event_id for one in trace.retrievals] == [trace.events[0].event_id]
    assert trace.events[-1].guardrails_triggered == ("tone",)
    assert shortfalls(trace)
    assert list((store.parent / "agent.db-files/traces" / "open").iterdir()) == []


def test_a_run_that_is_killed_inside_an_event_says_that_the_event_is_open(
    killed_folders: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(killed_folders["inside"], tmp_path, dirs_exist_ok=True)
    store = tmp_path / "agent.db"

    with Memory.open(str(store)):
        (trace,) = _traces(store)

    assert {"killed", "open_event", "no_decision"} <= _codes(trace)


def test_the_trace_of_the_attempt_that_succeeds_replaces_that_of_the_killed_one(store: Path) -> None:

    with (
        Memory.open(str(store)) as memory,
        memory.run(workflow="triage", mode="buffered_write", run_id="r1") as run,
    ):
        run.remember("Order 17 was shipped.", subject="order/17")

    (trace,) = _traces(store)
    assert "killed" not in _codes(trace)
    assert run.trace_problem is None


def test_a_journal_never_replaces_the_trace_of_a_run_that_ended(store: Path) -> None:
    """The process was killed after its trace was stored and before the journal was removed."""
    journals = store.parent / "agent.db-files/traces" / "open"
    (journal,) = journals.iterdir()
    text = journal.read_bytes()
    with Memory.open(str(store)) as memory, memory.run(workflow="triage", mode="buffered_write", run_id="r1"):
        pass
    journal.write_bytes(text)

    with Memory.open(str(store)):
        (trace,) = _traces(store)

    assert "killed" not in _codes(trace)
    assert list(journals.iterdir()) == []


def test_the_journal_of_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with Memory.open(str(store)) as memory:
        with memory.run(workflow="triage", mode="buffered_write") as run:
            run.remember("Order 17 was shipped.")
            with Memory.open(str(store)):
                assert _traces(store) == []
        assert [trace.run_id for trace in _traces(store)] == [run.identity.run_id]
    assert list((tmp_path / "agent.db-files/traces" / "open").iterdir()) == []


def _no_line(_: bytes) -> bytes:
    return b""


def _half_a_line(text: bytes) -> bytes:
    return text[: len(text) // 2]


def _foreign(text: bytes) -> bytes:
    first, _, rest = text.partition(b"\n")
    return first + b'\n["from a later version"]\n' + rest


def _no_json(_: bytes) -> bytes:
    return b"\0\0\0\n"


@pytest.mark.parametrize(
    ("damage", "traces"), [(_no_line, 0), (_no_json, 0), (_half_a_line, 1), (_foreign, 1)]
)
def test_a_damaged_journal_tells_what_it_can_and_is_removed(
    store: Path, damage: Callable[[bytes], bytes], traces: int
) -> None:
    (journal,) = (store.parent / "agent.db-files/traces" / "open").iterdir()
    journal.write_bytes(damage(journal.read_bytes()))

    with Memory.open(str(store)):
        assert len(_traces(store)) == traces
    assert not journal.exists()


def test_the_journal_of_an_earlier_version_is_read_whole(store: Path) -> None:
    (journal,) = (store.parent / "agent.db-files/traces" / "open").iterdir()
    lines: list[list[object]] = []
    for line in journal.read_text(encoding="utf-8").splitlines():
        noted, *fields = json.loads(line)
        if noted == "event":
            *fields, is_closed = fields
            closing = [["closed", fields[0], fields[-1]]] if is_closed else []
            lines += [[noted, *fields], *closing]
        else:
            lines.append([noted, *fields])
    journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")

    with Memory.open(str(store)):
        (trace,) = _traces(store)

    assert "open_event" not in _codes(trace)
    assert [call.tool_name for event in trace.events for call in event.tool_calls] == [
        "look_up",
        "memory.remember",
    ]


def test_single_calls_are_not_stored_by_default_and_runs_are(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with Memory.open(str(store)) as memory:
        memory.remember("Ada prefers answers in German.")
        memory.recall("Ada")
        assert not (tmp_path / "agent.db-files/traces").exists()
        with memory.run(workflow="triage") as run:
            run.recall("Ada")

    (trace,) = _traces(store)
    assert trace.run_id == run.identity.run_id
    (file,) = (tmp_path / "agent.db-files/traces").glob("*.json.gz")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_without_traces_nothing_is_stored(tmp_path: Path) -> None:
    with Memory.open(str(tmp_path / "agent.db"), traces=None) as memory, memory.run(workflow="triage") as run:
        run.recall("Ada")
    assert not (tmp_path / "agent.db-files/traces").exists()


def test_a_forgotten_text_is_not_left_in_the_journal_of_a_killed_run(store: Path) -> None:

    with Memory.open(str(store)) as memory:
        memory.remember("Order 17 was shipped.", subject="order/17")
        assert memory.forget("order/17", reason="asked for").traces == 1

    left = [
        read_artifact(file) for file in (store.parent / "agent.db-files/traces").rglob("*") if file.is_file()
    ]
    assert not any(b"shipped" in text for text in left)


def test_a_full_folder_makes_room_for_new_traces_only_from_old_ones(tmp_path: Path) -> None:
    with Memory.open(":memory:") as memory:
        first, second = (_finished(memory.run(workflow="triage", run_id=name)) for name in ("a", "b"))
    size = len(first.as_bytes())
    folder = TraceFolder(tmp_path, ids=RandomIds(), max_bytes=size + size // 2)
    file = folder.put(first)

    with raises_code("trace_folder_full", match="traces_max_bytes"):
        folder.put(second)

    os.utime(file, (0, 0))
    old = first.as_bytes().replace(first.metadata.finished_at[:4].encode(), b"2001")
    file.write_bytes(old)
    os.utime(file, (0, 0))
    assert folder.put(second).exists()
    assert not file.exists()


def _finished(run: Run) -> Trace:
    run.commit()
    assert run.trace is not None
    return run.trace


def test_a_journal_that_can_not_be_written_does_not_disturb_the_run(tmp_path: Path) -> None:
    store = tmp_path / "agent.db"
    with Memory.open(str(store)) as memory:
        (tmp_path / "agent.db-files/traces").write_text("a file where the folder should be")
        with memory.run(workflow="triage", mode="buffered_write") as run:
            assert run.remember("Ada prefers answers in German.").verdict
        assert run.receipt is not None
        assert run.trace_problem is not None
        assert any("could not be stored" in warning for warning in memory.warnings)
