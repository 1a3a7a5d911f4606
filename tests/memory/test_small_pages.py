"""How much is read or written at once shows in no answer: a history is played with pages of a few rows."""

import sys
from pathlib import Path
from typing import Any

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.memory import Memory
from standfast.store.opening import open_store

PAGES = ("SCAN_PAGE_RECORDS", "SCAN_FIRST_RECORDS", "COPY_PAGE_RECORDS")
WIKI, CRM = {"kind": "doc", "id": "wiki"}, {"kind": "doc", "id": "crm"}


def played(folder: Path) -> dict[str, Any]:
    """What every verb answers in a small history; the same each time."""
    clock = ManualClock()
    memory = Memory.open(str(folder / "a.db"), clock=clock, ids=CountedIds(), recall_log=True)
    answers: dict[str, Any] = {}
    for number in range(7):
        memory.remember(
            f"Fact {number} about harbours.", subject=f"fact/{number % 4}", source=(WIKI, CRM)[number % 2]
        )
        clock.advance(3_600)
    with memory.run(workflow="w", mode="buffered_write", run_id="r") as run:
        run.recall("harbours", tokens=300)
        for number in range(5):
            run.remember(
                f"Note {number} about boats.",
                subject=f"note/{number}",
                refs=[{"kind": "memory", "id": "fact/1"}],
            )
    for number in range(2):
        memory.add(
            [{"role": "user", "content": f"I sail at {hour} on day {number}."} for hour in range(5)],
            session=f"s{number}",
            scope="user/a",
        )
    memory.forget("note/2", reason="a test")
    memory.quarantine(source=CRM, reason="a test", act_id="q")
    answers["records"] = list(memory.records(scope="*"))
    answers["history"] = memory.history("fact/1")
    answers["sessions"] = memory.sessions(scope="*")
    answers["session"] = memory.session("s1", scope="user/a")
    answers["quarantined"] = memory.quarantined(scope="*", limit=50)
    answers["diff"] = list(memory.diff(3, 9, scope="*"))
    answers["recall"] = memory.recall(
        "harbours boats", tokens=600, now_utc="2026-12-01T00:00:00Z"
    ).package_hash
    answers["investigated"] = [memory.investigate(source=WIKI), memory.investigate(run_id="r")]
    memory.release("q", reason="it was right")
    answers["released"] = list(memory.records(scope="*"))
    clock.advance(200 * 86_400)
    answers["due"] = [one.as_json() for one in memory.due()]
    answers["problems"] = list(memory.verify())
    copy = open_store(str(folder / "b.db"), create=True)
    memory.store.backup_to(copy)
    answers["copy"] = [list(copy.versions_of(snapshot)) for snapshot in range(1, copy.head() + 1)]
    answers["copied problems"] = list(copy.verify())
    copy.close()
    answers["forgotten"] = [memory.forget(scope=one, reason="a test").records for one in ("shared", "user/a")]
    answers["left"] = list(memory.records(scope="*"))
    memory.close()
    return answers


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return played(tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("rows", [2, 3])
def test_pages_of_any_size_give_the_same_answers(
    rows: int, expected: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [one for name, one in sys.modules.items() if name.startswith("standfast.")]:
        for name in PAGES:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, rows)
    answers = played(tmp_path)

    for name, answer in expected.items():
        assert answers[name] == answer, name
    assert answers["problems"] == answers["copied problems"] == []
    assert answers["left"] == []
