"""Wrong arguments are refused before anything is opened, judged, recorded or written."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue, NoSuchSnapshot, StandfastError, StoreFailed
from standfast.memory import Memory
from standfast.policies import BandBudget
from standfast.records.requests import RememberRequest
from standfast.records.timestamps import instant_text
from standfast.records.vocabulary import Band
from standfast.server.operations.schemas import HistoryQuery, RecordQuery, SessionQuery
from tests.memory.conftest import HANDBOOK

ACTIVE = BandBudget(band=Band.ACTIVE, max_bytes=600, policy="RecencyBias")


@pytest.fixture
def memory() -> Memory:
    """An empty memory; nothing here depends on the backend."""
    return Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"tags": "refunds"}, r"tags is invalid: it must be a list of strings: pass \['refunds'\]"),
        ({"tags": [1]}, "tags is invalid: it must be a list of strings"),
        ({"tags": None}, "tags is invalid: it must be a list of strings"),
        ({"tags": np.array(["a", "b"])}, "tags is invalid: it must be a list of strings"),
        ({"source": "chat"}, "source is invalid: it must be a mapping such as"),
        ({"source": ["doc", "handbook#4"]}, "source is invalid: it must be a mapping such as"),
        ({"refs": {"kind": "doc", "id": "a"}}, "refs is invalid: it must be a list of mappings"),
        ({"refs": ["doc"]}, "refs is invalid: it must be a list of mappings"),
        ({"subject": ""}, "subject must be 1 to"),
        ({"subject": 7}, "subject must be 1 to"),
        ({"propose": "yes"}, "propose is invalid: it must be True or False"),
        ({"hold": ""}, "hold is invalid: it must be a reason"),
        ({"role": "robot"}, "'robot' is none of human, "),
        ({"text": ""}, "text is invalid: it must be a non-empty string"),
        ({"text": " \n"}, "text is invalid: it must be a non-empty string"),
        ({"text": b"bytes"}, "text is invalid: it must be a non-empty string"),
    ],
)
def test_what_can_not_be_remembered_is_refused_with_the_reason(
    memory: Memory, arguments: dict[str, Any], problem: str
) -> None:
    named = {"text": "EU refunds take 14 days.", **arguments}
    run = memory.run(workflow="w", mode="buffered_write")

    with pytest.raises(InvalidValue, match=problem):
        run.remember(**named)
    with pytest.raises(InvalidValue, match=problem):
        memory.remember(**named)
    assert run.commit() is None, "nothing was buffered"
    assert run.trace is not None
    assert run.trace.events == (), "nothing was recorded"
    assert memory.store.head() == 0


def test_a_request_keeps_what_it_was_given_in_a_normal_form() -> None:
    request = RememberRequest.of(
        "EU refunds take 14 days.", tags=["b", "a", "b"], source={}, refs=[{"kind": "doc", "id": "x"}]
    )

    assert request.tags == ("a", "b")
    assert request.source is None
    assert request.as_recorded() == {
        "text": "EU refunds take 14 days.",
        "tags": ("a", "b"),
        "refs": ({"kind": "doc", "id": "x"},),
        "role": "agent",
    }


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"mode": "write"}, "off, read_only, buffered_write, live_read_write"),
        ({"workflow": ""}, "workflow_id must be"),
        ({"run_id": ""}, "run_id must be"),
    ],
)
def test_a_run_with_wrong_arguments_does_not_begin(
    memory: Memory, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidValue, match=problem):
        memory.run(**{"workflow": "w", **arguments})


@pytest.mark.parametrize("arguments", [("", "x"), ("a", ""), (7, "x"), ("a", None)])
def test_forgetting_needs_a_subject_and_a_reason(memory: Memory, arguments: tuple[Any, Any]) -> None:
    memory.remember("EU refunds take 14 days.", subject="a", source=HANDBOOK)
    subject, reason = arguments

    with pytest.raises(InvalidValue, match=r"that is not blank|say why"):
        memory.forget(subject, reason=reason)
    assert memory.store.head() == 1


@pytest.mark.parametrize("name", [" ", "a\x7fb", "\u200b"])
def test_what_nothing_can_be_called_is_not_looked_up(memory: Memory, name: str) -> None:
    for ask in (
        lambda: memory.forget(name, reason="x"),
        lambda: memory.forget(memory_id=name, reason="x", rehearse=True),
        lambda: memory.quarantine(name, reason="x", rehearse=True),
        lambda: memory.quarantine(run_id=name, reason="x", rehearse=True),
        lambda: memory.investigate(name),
        lambda: HistoryQuery(subject=name),
        lambda: SessionQuery(session=name),
        lambda: RecordQuery(memory_id=name),
    ):
        with pytest.raises(InvalidValue, match="printable characters"):
            ask()


def test_a_reason_is_kept_as_one_printable_line(memory: Memory) -> None:
    memory.remember("EU refunds take 14 days.", subject="a", source=HANDBOOK)
    done = memory.quarantine("a", reason="incident 4,\nsee\x7fmail")

    assert memory.quarantines()[0].reason == "incident 4, see mail"
    with pytest.raises(InvalidValue, match="say why"):
        memory.release(done.act_id, reason="\x7f\n")


@pytest.mark.parametrize(
    "time", ["2026-01-05T09:00:00", "2026-01-05 09:00", datetime.fromisoformat("2026-01-05")]
)
def test_a_time_without_a_zone_is_refused_for_that(memory: Memory, time: Any) -> None:
    with pytest.raises(InvalidValue, match="time is invalid: it has no time zone"):
        memory.remember("Ada likes tea.", time=time)
    assert memory.remember("Ada likes tea.", time=datetime(2026, 1, 5, 9, tzinfo=UTC)).accepted


@pytest.mark.parametrize("time", ["yesterday", "2026-13-05T09:00:00", 1767600000, None])
def test_what_is_no_time_at_all_is_shown_the_forms_of_one(time: Any) -> None:
    with pytest.raises(InvalidValue, match="a datetime with a time zone, or a date"):
        instant_text(time, what="time")


@pytest.mark.parametrize(
    ("asked", "advice"),
    [
        ({"scope": ["user/ada", "shared"]}, r"give scopes=\['user/ada', 'shared'\]"),
        ({"scope": "*"}, "such as 'user'"),
        ({"scopes": ["*"]}, "such as 'user'"),
    ],
)
def test_a_recall_of_several_scopes_or_of_all_says_how(
    memory: Memory, asked: dict[str, Any], advice: str
) -> None:
    with pytest.raises(InvalidValue, match=f"scope is invalid: .*{advice}"):
        memory.recall("tea", **asked)


def test_a_store_is_opened_by_a_path_object_too(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "a.db") as memory:
        memory.remember("Ada likes tea.")

    assert (tmp_path / "a.db-files").is_dir(), "its side files lie next to it"
    with Memory.open(str(tmp_path / "a.db"), create=False) as again:
        assert list(again.verify()) == []
        assert [one.text for one in again.records()] == ["Ada likes tea."]


def test_a_memory_that_was_closed_says_so(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "a.db")
    memory.close()

    with pytest.raises(StoreFailed, match="nothing was changed: it was closed; open the memory again"):
        memory.remember("Ada likes tea.")


def test_what_is_given_instead_of_an_open_store_is_refused_with_the_call_to_make(tmp_path: Path) -> None:
    for given in ("agent.db", Path("agent.db")):
        with pytest.raises(
            InvalidValue, match=r"store is invalid: it must be open; .* Memory.open\('agent.db'\)"
        ):
            Memory(given)  # type: ignore[arg-type]  # The mistake.
    assert not list(tmp_path.iterdir())


def test_an_unknown_argument_is_a_type_error(memory: Memory, tmp_path: Path) -> None:
    verbs: list[Callable[..., object]] = [Memory.open, memory.recall, memory.remember]
    for verb in verbs:
        with pytest.raises(TypeError, match="namespce"):
            verb(str(tmp_path / "b.db"), namespce="x")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"namespace": "standfast"},
        {"namespace": ""},
        {"namespace": "a\nb"},
        {"namespace": 7},
        {"floors": []},
        {"floors": [object()]},
        {"budgets": [ACTIVE, ACTIVE]},
    ],
    ids=["reserved", "empty", "line break", "number", "no floors", "no floor", "two budgets"],
)
def test_wrong_arguments_create_no_file(tmp_path: Path, arguments: dict[str, Any]) -> None:
    with pytest.raises(StandfastError):
        Memory.open(str(tmp_path / "b.db"), **arguments)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("snapshot", [-1, 1, True, "0", None])
def test_only_a_snapshot_that_was_committed_can_be_read(memory: Memory, snapshot: Any) -> None:
    with pytest.raises(NoSuchSnapshot):
        memory.at(snapshot)
    assert memory.at(0).memory_snapshot_id == 0


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda memory: memory.recall("tea", user_id="ada"), "user_id=; did you mean scope='user/…'?"),
        (lambda memory: memory.recall("tea", top_k=3), "top_k=; did you mean max_items=?"),
        (lambda memory: memory.recall("tea", session_id="s"), "did you mean where={'session': …}?"),
        (lambda memory: memory.remember("Ada likes tea.", tag="x"), "tag=; did you mean tags=?"),
        (lambda memory: memory.remember("Ada likes tea.", colour="x"), "colour=; it takes text, subject, "),
        (lambda memory: memory.add([], thread_id="s"), "did you mean session=?"),
        (lambda memory: memory.forget(user_id="ada", reason="r"), "did you mean scope='user/…'?"),
        (lambda memory: memory.quarantine(user_id="ada", reason="r"), "did you mean scope='user/…'?"),
    ],
)
def test_an_argument_that_there_is_not_names_the_one_that_is_meant(
    memory: Memory, call: Callable[[Memory], object], advice: str
) -> None:
    with pytest.raises(TypeError) as refused:
        call(memory)

    assert advice in str(refused.value)
    assert memory.store.head() == 0
