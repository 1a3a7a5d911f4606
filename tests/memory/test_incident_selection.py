"""What a quarantine, a revert or an investigation names: by agent, source, scope, time and run."""

from pathlib import Path
from typing import Any

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import NotFound
from standfast.memory import Memory, NodeKind, Side
from standfast.records.canon import utc_text
from standfast.records.scopes import ALL_SCOPES

CRM = {"kind": "doc", "id": "crm"}
WIKI = {"kind": "doc", "id": "wiki"}
DAY_SECONDS = 86_400


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(tmp_path: Path, clock: ManualClock) -> Memory:
    """A memory with a recall log, in which two agents write for three days."""
    memory = Memory.open(str(tmp_path / "a.db"), recall_log=True, clock=clock, ids=CountedIds())
    for day, agent in ((1, "bot"), (2, "clerk"), (3, "bot")):
        for source in (CRM, WIKI):
            with memory.run(
                workflow="w",
                mode="buffered_write",
                agent=agent,
                scope=f"day/{day}",
                run_id=f"{day}-{source['id']}",
            ) as run:
                run.remember(
                    f"Fact of {source['id']} on day {day}.", subject=f"{day}-{source['id']}", source=source
                )
        clock.advance(DAY_SECONDS)
    return memory


def left(memory: Memory) -> set[str]:
    return {one.memory_id for one in memory.records(scope=ALL_SCOPES)}


ALL = {"1-crm", "1-wiki", "2-crm", "2-wiki", "3-crm", "3-wiki"}


@pytest.mark.parametrize(
    ("asked", "hidden"),
    [
        ({"agent": "bot"}, {"1-crm", "1-wiki", "3-crm", "3-wiki"}),
        ({"agent": "clerk"}, {"2-crm", "2-wiki"}),
        ({"agent": "bot", "scope": "day/3"}, {"3-crm", "3-wiki"}),
        ({"agent": "bot", "since": 1}, {"3-crm", "3-wiki"}),
        ({"agent": "bot", "until": 1}, {"1-crm", "1-wiki"}),
        ({"source": CRM}, {"1-crm", "2-crm", "3-crm"}),
        ({"source": CRM, "scope": "day"}, {"1-crm", "2-crm", "3-crm"}),
        ({"source": CRM, "since": 1}, {"2-crm", "3-crm"}),
        ({"source": CRM, "until": 1}, {"1-crm"}),
        ({"source": CRM, "until": 2}, {"1-crm", "2-crm"}),
        ({"source": CRM, "since": 1, "until": 2}, {"2-crm"}),
        ({"source": CRM, "since": 0, "until": 9}, {"1-crm", "2-crm", "3-crm"}),
        ({"run_id": "2-wiki"}, {"2-wiki"}),
    ],
)
def test_a_quarantine_hides_what_its_fields_name_together(
    memory: Memory, clock: ManualClock, asked: dict[str, Any], hidden: set[str]
) -> None:
    began = clock.now().timestamp() - 3 * DAY_SECONDS
    for name in ("since", "until"):
        if isinstance(day := asked.get(name), int):
            moment = type(clock.now()).fromtimestamp(began + day * DAY_SECONDS, clock.now().tzinfo)
            asked = {**asked, name: utc_text(moment)}

    memory.quarantine(**asked, reason="incident 4")

    assert left(memory) == ALL - hidden
    assert {one.memory_id for one in memory.quarantined(scope="*", limit=100)} == hidden


def test_what_is_in_quarantine_is_listed_with_its_scope_band_text_and_acts(memory: Memory) -> None:
    first = memory.quarantine(run_id="1-crm", reason="incident 4", act_id="b")
    second = memory.quarantine(agent="bot", scope="day/1", reason="incident 5", act_id="a")
    listed = memory.quarantined(scope="*", limit=100)

    assert (first.act_id, second.act_id) == ("b", "a")
    assert {(one.scope, one.memory_id, one.band, one.acts) for one in listed} == {
        ("day/1", "1-crm", "LEDGER", ("a", "b")),
        ("day/1", "1-crm", "ACTIVE", ("a", "b")),
        ("day/1", "1-wiki", "LEDGER", ("a",)),
        ("day/1", "1-wiki", "ACTIVE", ("a",)),
    }
    assert {one.record.text for one in listed if one.record} == {
        "Fact of crm on day 1.",
        "Fact of wiki on day 1.",
    }
    assert len(memory.quarantined(scope="*", limit=1)) == 1
    assert memory.quarantined(scope="day/2", limit=100) == []
    memory.forget("1-crm", scope="day/1", reason="asked to")
    assert {one.memory_id for one in memory.quarantined(scope="day/1", limit=100) if one.record} == {"1-wiki"}


@pytest.mark.parametrize(
    ("asked", "hidden"),
    [
        ({"agent": "bot"}, {"3-crm", "3-wiki"}),
        ({"source": CRM}, {"2-crm", "3-crm"}),
        ({"scope": "day/3"}, {"3-crm", "3-wiki"}),
        ({"agent": "bot", "source": WIKI}, {"3-wiki"}),
        ({}, {"2-crm", "2-wiki", "3-crm", "3-wiki"}),
    ],
)
def test_a_revert_undoes_what_its_fields_name_since_a_snapshot(
    memory: Memory, asked: dict[str, Any], hidden: set[str]
) -> None:
    memory.revert(since_snapshot=2, **asked, reason="incident 4")

    assert left(memory) == ALL - hidden


def test_a_fact_that_another_agent_confirmed_stays_and_goes_with_both(memory: Memory) -> None:
    memory.remember("Fact of crm on day 1.", source=WIKI, scope="day/1")
    memory.quarantine(agent="bot", scope="day/1", reason="incident 4")

    assert "1-crm" in left(memory)
    memory.quarantine(source=WIKI, scope="day/1", reason="incident 5")
    assert "1-crm" not in left(memory)


def test_an_investigation_of_a_run_names_what_it_recalled_and_wrote(memory: Memory) -> None:
    with memory.run(workflow="w", mode="buffered_write", agent="bot", run_id="r", scope="day/1") as run:
        run.recall("crm fact", tokens=300, least_origin="untrusted")
        run.remember("Ticket 7 was answered.", subject="ticket/7")
    memory.remember(
        "So it was closed.",
        subject="ticket/7/end",
        scope="day/1",
        refs=[{"kind": "memory", "id": "ticket/7"}],
    )
    found = memory.investigate(run_id="r")

    assert [(node.kind, node.run_id) for node in found.start] == [(NodeKind.RUN, "r")]
    assert {node.memory_id for node in found.of(NodeKind.RECORD, Side.REACH)} == {"ticket/7", "ticket/7/end"}
    assert "1-crm" in {node.memory_id for node in found.of(NodeKind.RECORD, Side.CAUSE)}
    assert "doc:crm" in {node.label for node in found.of(NodeKind.SOURCE, Side.CAUSE)}
    with pytest.raises(NotFound):
        memory.investigate(run_id="nobody")
