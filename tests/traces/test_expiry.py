"""Traces expire by the settings: ``standfast retention sweep`` removes old ones, and none that are too
young.
"""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast.cli import main
from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidSettings
from standfast.settings import Settings
from standfast.traces.folder import TraceFolder
from tests.raising import raises_code
from tests.traces.scripted import a_run, recorded

DAY = 86_400


@pytest.fixture
def old_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store, and a folder with the trace of a run that ended in the year 2000."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STANDFAST_TRACES", "traces")
    assert CliRunner().invoke(main, ["remember", "EU refunds take 14 days."]).exit_code == 0
    clock = ManualClock()
    file = TraceFolder("traces", ids=CountedIds()).put(recorded(run=a_run("old"), clock=clock))
    os.utime(file, (DAY, DAY))
    return file


def _sweep(*words: str) -> dict[str, object]:
    result = CliRunner().invoke(main, ["retention", "sweep", "--json", *words])
    assert result.exit_code == 0, result.output
    answer: dict[str, object] = json.loads(result.output)
    return answer


def test_a_sweep_removes_old_traces_and_keeps_new_ones(old_trace: Path) -> None:
    rehearsed = _sweep("--dry-run")
    assert old_trace.exists()
    swept, again = _sweep(), _sweep()

    assert rehearsed["traces"] == swept["traces"] == [old_trace.name]
    assert again["traces"] == []
    assert not old_trace.exists()
    assert len(list(old_trace.parent.glob("*.json"))) == 1, "the trace of remember is new"


def test_the_settings_say_how_long_traces_are_kept(old_trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDFAST_TRACE_RETENTION_DAYS", "36500")

    assert _sweep()["traces"] == []
    assert old_trace.exists()


def test_less_than_fourteen_days_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="at least 14 days"):
        Settings(trace_retention_days=13)
    with raises_code("retention_too_short"):
        TraceFolder(tmp_path, ids=CountedIds(), retention_days=13.9)

    assert Settings(trace_retention_days=14).trace_retention_days == 14
