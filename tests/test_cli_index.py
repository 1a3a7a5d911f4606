"""``standfast index``."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast import Memory
from standfast.cli import main


@pytest.fixture(autouse=True)
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STANDFAST_STORE", "agent.db")
    with closing(Memory.open("agent.db")) as memory:
        for number in range(3):
            memory.remember(f"EU refunds take {number} days.", subject=f"policy/{number}")


def _call(*words: str) -> Result:
    return CliRunner().invoke(main, ["index", *words], catch_exceptions=False)


def test_status_and_rebuild_say_what_the_index_covers() -> None:
    before = json.loads(_call("status", "--json").output)
    rebuilt = json.loads(_call("rebuild", "--json").output)

    assert (before["head"], before["behind"], before["bands"][0]["rows"]) == (3, 3, 0)
    assert (rebuilt["behind"], rebuilt["namespace"]) == (0, "default")
    assert {key: rebuilt["bands"][0][key] for key in ("band", "segments", "rows", "snapshot")} == {
        "band": "LEDGER",
        "segments": 1,
        "rows": 3,
        "snapshot": 3,
    }
    assert "LEDGER: 3 rows in 1 segments" in _call("status").output
    assert "0 of 3 snapshots are read from the records" in _call("rebuild").output


def test_verify_finds_a_damaged_index_and_rebuild_mends_it() -> None:
    _call("rebuild")
    assert _call("verify").output == "the index agrees with the records; 3 rows\n"
    with closing(Memory.open("agent.db")) as memory, memory.store._storage.segments._writing() as connection:  # type: ignore[attr-defined]  # Of SQLite.
        connection.execute("UPDATE segment_parts SET content = zeroblob(9) WHERE name = 'blocks'")

    damaged = _call("verify", "--json")
    assert damaged.exit_code == 1
    assert all("does not match its checksum" in problem for problem in json.loads(damaged.output)["problems"])
    assert CliRunner().invoke(main, ["verify"]).exit_code == 1
    answer = CliRunner().invoke(main, ["recall", "refunds"])
    assert "EU refunds take 2 days." in answer.output
    _call("rebuild")
    assert _call("verify").exit_code == 0
    assert CliRunner().invoke(main, ["verify"]).exit_code == 0
