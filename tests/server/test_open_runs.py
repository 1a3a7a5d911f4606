"""Open runs that several servers carry on: each ``OpenRuns`` stands for one server of the store."""

import asyncio
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import msgspec
import pytest

from standfast.client import Client
from standfast.client.remote_run import RemoteRun, _RemoteCalls
from standfast.client.transport import ApiCalls
from standfast.clock import ManualClock, RandomIds
from standfast.errors import InvalidValue, NotFound, RunOver
from standfast.limits import MAX_BODY_BYTES, RUN_IDLE_SECONDS
from standfast.memory import Memory, Run
from standfast.records.requests import RecallRequest, RememberRequest
from standfast.records.vocabulary import Band, VisibilityMode
from standfast.server.access.permissions import Caller, KeyRole
from standfast.server.http.open_runs import OpenRuns
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.schemas import ForgetInRunBody, OpenRunBody, RememberResponse, RunResponse
from standfast.traces.artifact import ModelConfig, ToolProfile
from standfast.traces.entries import TraceEntry, recorded_tool
from standfast.traces.equivalence import compare
from standfast.traces.folder import TraceFolder
from tests.memory.conftest import SECRET
from tests.raising import raises_code
from tests.server.harness import HANDBOOK, Served, make_gateway

BOT = Caller(key_id="bot", name="bot", role=KeyRole.AGENT, namespaces=("*",))
OPEN = OpenRunBody(workflow="triage", mode=VisibilityMode.BUFFERED_WRITE)
PLACE = (BOT, "default")


def fact(text: str, subject: str | None = None) -> RememberRequest:
    return RememberRequest(text=text, subject=subject, source=HANDBOOK)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is that processes can share."""
    if request.param == "sqlite":
        return str(tmp_path / "standfast.db")
    place: str = request.getfixturevalue("postgres_store_url")
    return place


@pytest.fixture
def gateways(url: str, tmp_path: Path) -> Iterator[list[Gateway]]:
    """Two servers' gateways over one store; the second one keeps traces."""
    opened = [make_gateway(tmp_path / "log", url=url, has_traces=number == 1) for number in range(2)]
    yield opened
    for gateway in opened:
        gateway.close()


def test_any_server_carries_a_run_on_and_the_commit_holds_what_all_of_them_did(
    gateways: list[Gateway], tmp_path: Path
) -> None:
    first, second = map(OpenRuns, gateways)
    gateways[0].home.remember("Returns need a receipt.", subject="policy/returns", source=HANDBOOK)
    run_id = first.open(*PLACE, OPEN, None).run_id
    a = first.remember(*PLACE, run_id, fact("EU refunds take 14 days.", "policy/eu"))
    b = second.remember(*PLACE, run_id, fact("US refunds take 30 days."))
    recalled = first.recall(*PLACE, run_id, RecallRequest(query="What do returns need?", tokens=200))
    again = second.remember(*PLACE, run_id, fact("US refunds take 30 days."))
    c = first.remember(*PLACE, run_id, fact("UK refunds take 10 days."))
    first.forget(*PLACE, run_id, ForgetInRunBody(subject="policy/returns", reason="outdated"))
    shown = second.show(*PLACE, run_id)
    receipt = second.commit(*PLACE, run_id).receipt
    repeated = first.commit(*PLACE, run_id).receipt
    texts = {record.text for record in gateways[0].home.records()}
    trace = TraceFolder(tmp_path / "traces", ids=gateways[0].store.ids).get(run_id)
    calls = [call.tool_name for event in trace.events for call in event.tool_calls]

    assert "receipt" in recalled.text
    assert (shown.remembered, shown.forgotten) == (4, 1)
    assert again.known == b.memory_id
    assert len({a.memory_id, b.memory_id, c.memory_id}) == 3
    assert receipt is not None
    assert repeated is not None
    assert repeated.commit_id == receipt.commit_id
    assert texts == {"EU refunds take 14 days.", "US refunds take 30 days.", "UK refunds take 10 days."}
    assert calls == ["memory.remember"] * 4 + ["memory.forget"]
    assert len(trace.retrievals) == 1
    assert list(gateways[0].home.verify()) == []


def test_a_call_that_is_repeated_with_its_key_takes_effect_once(gateways: list[Gateway]) -> None:
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, "k").run_id
    answer = first.remember(*PLACE, run_id, fact("EU refunds take 14 days."), request_key="c1")

    assert second.remember(*PLACE, run_id, fact("EU refunds take 14 days."), request_key="c1") == answer
    with raises_code("request_reused"):
        second.remember(*PLACE, run_id, fact("EU refunds take 15 days."), request_key="c1")
    assert second.open(*PLACE, OPEN, "k").remembered == 1
    with raises_code("request_reused"):
        second.open(*PLACE, OpenRunBody(workflow="other", mode=VisibilityMode.BUFFERED_WRITE), "k")


def test_an_entry_that_is_repeated_with_its_key_is_recorded_once(gateways: list[Gateway]) -> None:
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, None).run_id
    entry = TraceEntry.from_json({"guardrail": "a"})
    answers = [server.record(*PLACE, run_id, entry, "c1") for server in (first, first, second)]

    assert [one.recorded for one in answers] == [1, 1, 1]
    assert first.record(*PLACE, run_id, entry, "c2").recorded == 2


def test_a_run_that_was_committed_elsewhere_is_over_here(gateways: list[Gateway]) -> None:
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, "k").run_id
    first.remember(*PLACE, run_id, fact("EU refunds take 14 days."))
    committed = second.commit(*PLACE, run_id).receipt

    with pytest.raises(NotFound):
        first.remember(*PLACE, run_id, fact("US refunds take 30 days."))
    assert first.open(*PLACE, OPEN, "k").remembered == 0
    first.remember(*PLACE, run_id, fact("EU refunds take 14 days."))
    receipt = first.commit(*PLACE, run_id).receipt
    assert receipt is not None
    assert committed is not None
    assert receipt.commit_id == committed.commit_id


def test_no_call_is_added_while_a_run_is_being_committed(gateways: list[Gateway]) -> None:
    """A server is killed between the seal and the commit; another one finishes."""
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, None).run_id
    first.remember(*PLACE, run_id, fact("EU refunds take 14 days."))
    journal, row_id = first._journal, next(iter(first._held))  # As if it were killed then.
    head = journal.head(row_id)
    assert head is not None
    assert journal.seal(row_id, head) is not None

    for runs in (first, second):
        with pytest.raises(RunOver):
            runs.remember(*PLACE, run_id, fact("US refunds take 30 days."))
    assert second.commit(*PLACE, run_id).receipt is not None
    # Once in each of its two bands, and so once in the listing of all.
    home = gateways[0].home
    assert [one.text for band in Band if band is not Band.PHOENIX for one in home.records(band=band)] == [
        "EU refunds take 14 days."
    ] * 2
    assert [one.text for one in home.records()] == ["EU refunds take 14 days."]


def test_of_two_servers_that_add_a_call_at_once_the_second_one_adds_it_behind(
    gateways: list[Gateway], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, None).run_id
    second.show(*PLACE, run_id)
    raced: list[RememberResponse] = []
    add = second._journal.add  # To act between the judgement and the journal.

    def race(*arguments: object) -> object:
        if not raced:
            raced.append(first.remember(*PLACE, run_id, fact("EU refunds take 14 days.")))
        return add(*arguments)  # type: ignore[arg-type]  # What the journal takes.

    monkeypatch.setattr(second._journal, "add", race)  # As above.
    late = second.remember(*PLACE, run_id, fact("EU refunds take 14 days."))

    assert late.known == raced[0].memory_id
    assert first.show(*PLACE, run_id).remembered == 2


def test_threads_of_two_servers_on_one_run_have_each_call_once_in_its_trace(
    gateways: list[Gateway], tmp_path: Path
) -> None:
    servers = [OpenRuns(gateway) for gateway in gateways]
    run_id = servers[1].open(*PLACE, OPEN, None).run_id
    said = [f"Locker {number} holds a violin." for number in range(24)]

    def remember(number: int) -> None:
        servers[number % 2].remember(*PLACE, run_id, fact(said[number], f"locker/{number}"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(remember, range(len(said))))
    servers[1].commit(*PLACE, run_id)
    trace = TraceFolder(tmp_path / "traces", ids=gateways[0].store.ids).get(run_id)

    recorded = [call.normalized_args for event in trace.events for call in event.tool_calls]
    assert sorted(one["text"] for one in recorded if isinstance(one, dict)) == sorted(said)


def test_an_empty_commit_can_be_repeated_anywhere_and_hides_no_later_one(gateways: list[Gateway]) -> None:
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, "k").run_id

    assert first.commit(*PLACE, run_id).receipt is None
    assert second.commit(*PLACE, run_id).receipt is None
    assert second.open(*PLACE, OPEN, "k").run_id == run_id
    first.remember(*PLACE, run_id, fact("EU refunds take 14 days."))
    assert second.commit(*PLACE, run_id).receipt is not None


def test_a_discarded_run_is_gone_everywhere(gateways: list[Gateway]) -> None:
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, None).run_id
    second.remember(*PLACE, run_id, fact("EU refunds take 14 days."))

    assert first.discard(*PLACE, run_id).remembered == 1
    for runs in (first, second):
        with pytest.raises(NotFound):
            runs.commit(*PLACE, run_id)
    assert gateways[0].store.head() == 0


def test_other_keys_do_not_see_a_run(gateways: list[Gateway]) -> None:
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, None).run_id
    stranger = Caller(key_id="stranger", name="bot", role=KeyRole.OPERATOR, namespaces=("*",))

    for runs in (first, second):
        with pytest.raises(NotFound):
            runs.show(stranger, "default", run_id)


def test_no_secret_is_in_the_journal(gateways: list[Gateway]) -> None:
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, None).run_id
    refused = first.remember(*PLACE, run_id, fact(SECRET), request_key="c1")
    rows = gateways[0].store.temporary.scan("run_call", "", limit=9)
    stored = json.dumps([row.content.decode() for row in rows])

    assert refused.verdict == "VOID"
    assert len(rows) == 1
    assert SECRET.split()[4] not in stored
    assert second.remember(*PLACE, run_id, fact(SECRET), request_key="c1") == refused


def test_an_idle_run_expires(tmp_path: Path) -> None:
    clock = ManualClock()
    gateway = make_gateway(tmp_path / "log", clock=clock)
    runs = OpenRuns(gateway)
    run_id = runs.open(*PLACE, OPEN, None).run_id
    clock.advance(RUN_IDLE_SECONDS - 1)
    runs.remember(*PLACE, run_id, fact("EU refunds take 14 days."))
    clock.advance(RUN_IDLE_SECONDS - 1)
    runs.expire()

    assert runs.show(*PLACE, run_id).remembered == 1
    clock.advance(1)
    with pytest.raises(NotFound):
        runs.show(*PLACE, run_id)
    runs.expire()
    assert len(runs) == 0


MODEL = ModelConfig(provider_name="acme", model_name="small", seed=1)
ORDERS = ToolProfile(
    tool_name="order", tool_profile_version="1", side_effect_fields=("id",), tool_result_fields=("id",)
)


def _work(run: Run | RemoteRun) -> None:
    """A run with everything that a trace can hold: events, tools that return and raise, guardrails, an
    output.
    """

    @run.tool(profile=ORDERS)
    def order(item: str, count: int = 1) -> dict[str, object]:
        return {"id": f"{item}-{count}", "at": object().__hash__()}

    @run.tool()
    def lookup(name: str) -> str:
        raise KeyError(name)

    @run.tool()
    def never_called(name: str) -> str:
        return name

    with run.event(role="agent", interceptor="loop") as event:
        assert "14 days" in run.recall("How long do refunds take?", tokens=200).text
        with run.event(role="agent", interceptor="shop", decision_type="order"):
            order("tea", count=2)
        with pytest.raises(KeyError):
            lookup("ada")
        run.guardrail("no_refund_above_100")
        event.decide("answer")
    run.remember("Ada ordered two teas.", source=HANDBOOK)
    run.output({"type": "text", "sections": []})


def _same_traces(tmp_path: Path, work: Callable[[Run | RemoteRun], None]) -> None:
    """The same work in the library and over HTTP, on copies of one store, makes the same trace."""
    served, copied = tmp_path / "served", tmp_path / "copied"
    served.mkdir()
    with Memory.open(str(served / "standfast.db")) as memory:
        memory.remember("EU refunds take 14 days.", subject="policy/eu", source=HANDBOOK)
    server = Served(served)
    # Its first start makes its first key, which is a snapshot too.
    server.start()
    server.process.stop()
    shutil.copytree(served, copied)
    with (
        Memory.open(str(copied / "standfast.db")) as memory,
        memory.run(workflow="shop", mode="buffered_write", model=MODEL, agent="bot") as local,
    ):
        work(local)
    server.start()
    try:
        with Client(server.address, key=server.key) as client:
            with client.run(workflow="shop", mode="buffered_write", model=MODEL) as remote:
                work(remote)
            made = client.traces().get(remote.run_id)
    finally:
        server.process.stop()
    assert local.trace is not None

    assert not made.metadata.gaps
    assert compare(local.trace, made).is_equivalent, compare(local.trace, made)
    assert SECRET not in json.dumps(made.as_json())


def test_a_trace_made_over_http_equals_one_made_in_the_library(tmp_path: Path) -> None:
    _same_traces(tmp_path, _work)


def _large_work(run: Run | RemoteRun) -> None:
    """Results and arguments that are too large for a request, and effects that are null."""
    quiet = ToolProfile(tool_name="quiet", tool_profile_version="1", side_effect_fields=("*",))
    saved = ToolProfile(
        tool_name="saved",
        tool_profile_version="1",
        normalized_args_fields=("name",),
        side_effect_fields=("size",),
    )

    @run.tool(profile=quiet, effects=lambda _: None)
    def change(name: str) -> str:
        return name

    @run.tool(profile=saved)
    def save(name: str, data: str) -> dict[str, object]:
        return {"size": len(data), "data": data, "password": SECRET}

    @run.tool()
    def fetch(name: str, size: int) -> str:
        return f"{name} {SECRET} " + "a " * (size // 2)

    with run.event(role="agent", interceptor="loop", decision_type="answer"):
        change("x")
        for size in (100_000, 1_100_000):
            assert save(f"file of {size}", "x " * (size // 2))["size"] == size
            assert len(fetch("page", size)) > size
    run.output({"type": "text", "sections": []})


def test_large_results_and_null_effects_make_the_same_trace_over_http(tmp_path: Path) -> None:
    _same_traces(tmp_path, _large_work)


def test_large_results_and_null_effects_are_recorded_as_in_the_library(tmp_path: Path) -> None:
    remote, entries = _recorded_run()
    _large_work(remote)
    with Memory.open(str(tmp_path / "standfast.db")) as memory:
        traces = []
        for work in (_large_work, lambda run: [run.record(entry) for entry in entries]):
            with memory.run(workflow="shop", mode="buffered_write", model=MODEL) as run:
                work(run)
            traces.append(run.trace)
    assert traces[0] is not None
    assert traces[1] is not None

    assert compare(traces[0], traces[1]).is_equivalent, compare(traces[0], traces[1])
    assert not traces[1].metadata.gaps
    assert all(len(json.dumps(entry.as_json())) < MAX_BODY_BYTES for entry in entries)
    assert sum(one.tool is not None and one.tool.result_fingerprint is not None for one in entries) == 2


def test_a_run_goes_on_when_its_trace_is_full(
    gateways: list[Gateway], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("standfast.server.http.open_runs.MAX_TRACE_RESULT_BYTES", 3_000)
    monkeypatch.setattr("standfast.server.http.open_runs.MAX_TRACE_BYTES", 9_000)
    first, second = map(OpenRuns, gateways)
    run_id = first.open(*PLACE, OPEN, None).run_id

    def call(server: OpenRuns, args: str, result: str) -> int:
        tool = {"profile": ToolProfile.whole("t").as_json(), "args": {"a": args}, "result": result}
        return server.record(*PLACE, run_id, TraceEntry.from_json({"tool": tool})).recorded

    first.record(*PLACE, run_id, TraceEntry.from_json({"begin": {"role": "agent", "interceptor": "loop"}}))
    recorded = [
        call(first, "a", "r" * 2_000),
        call(second, "b", "r" * 2_000),
        call(first, "a" * 5_000, "r"),
        call(second, "a" * 5_000, "r"),
        call(first, "a", "r"),
    ]
    second.record(*PLACE, run_id, TraceEntry.from_json({"end": {"decision_type": "answer"}}))
    first.remember(*PLACE, run_id, fact("It rains."))
    second.commit(*PLACE, run_id)
    trace = TraceFolder(tmp_path / "traces", ids=gateways[1].store.ids).get(run_id)
    calls = [one for one in trace.events[0].tool_calls if one.tool_name == "t"]

    assert recorded == [2, 3, 4, 5, 5]
    assert [one.result_omitted for one in calls] == [None, "size", "size"]
    assert calls[0].tool_result_fingerprint == calls[1].tool_result_fingerprint
    assert "trace_full" in {gap.code for gap in trace.metadata.gaps}


@pytest.mark.parametrize(
    "wrong",
    [
        {"result_fingerprint": "0" * 64, "result": 1},
        {"result_fingerprint": "0" * 64, "error": "KeyError"},
        {"result_fingerprint": "0" * 64, "side_effects": None},
        {"result_fingerprint": "no digest"},
        {"side_effects_fingerprint": "0" * 64},
    ],
)
def test_a_fingerprint_stands_for_a_result_and_nothing_else(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        TraceEntry.from_json({"tool": {"profile": ToolProfile.whole("t").as_json(), **wrong}})


def test_any_server_carries_on_what_was_recorded(gateways: list[Gateway], tmp_path: Path) -> None:
    first, second = map(OpenRuns, gateways)
    body = msgspec.structs.replace(OPEN, model=MODEL)
    run_id = first.open(*PLACE, body, None).run_id
    entries = [
        {"begin": {"role": "agent", "interceptor": "loop"}},
        {"tool": {"profile": ToolProfile.whole("weather").as_json(), "args": {"key": SECRET}, "result": 3}},
        {"end": {"decision_type": "answer"}},
        {"output": {"type": "text", "sections": []}},
    ]
    for server, entry in zip((first, second, first, first), entries, strict=True):
        server.record(*PLACE, run_id, TraceEntry.from_json(entry))
    first.remember(*PLACE, run_id, fact("It rains."))
    second.commit(*PLACE, run_id)
    trace = TraceFolder(tmp_path / "traces", ids=gateways[1].store.ids).get(run_id)

    assert not trace.metadata.gaps
    assert [(one.decision_type, len(one.tool_calls)) for one in trace.events][:1] == [("answer", 1)]
    assert trace.model_config == MODEL
    assert SECRET not in json.dumps(trace.as_json())


@pytest.mark.parametrize(
    "entry", [{}, {"guardrail": "a", "output": {}}, {"end": {}}, {"output": {"type": "none"}}]
)
def test_a_wrong_entry_is_refused_and_the_run_goes_on(gateways: list[Gateway], entry: dict[str, Any]) -> None:
    runs = OpenRuns(gateways[0])
    run_id = runs.open(*PLACE, OPEN, None).run_id
    with pytest.raises(InvalidValue):
        runs.record(*PLACE, run_id, TraceEntry.from_json(entry))

    assert runs.record(*PLACE, run_id, TraceEntry.from_json({"guardrail": "a"})).recorded == 1


@pytest.mark.parametrize("argument", [2**60, float("nan"), {1}, b"x", {1: 2}, "\ud800"])
def test_a_tool_is_called_whatever_can_be_recorded_of_it(argument: object) -> None:
    class Run:
        entries: ClassVar[list[TraceEntry]] = []

        def record(self, entry: TraceEntry) -> None:
            self.entries.append(entry)

    run: Any = Run()
    run.entries.clear()

    @recorded_tool(_RemoteCalls(run, {}), None, None)
    def named(x: object) -> int:
        return 1

    assert named(argument) == 1
    assert [one.gap and one.gap.code for one in run.entries] == ["unrecordable_call"]


def _recorded_run() -> tuple[RemoteRun, list[TraceEntry]]:
    """A run whose entries are kept instead of sent."""
    entries: list[TraceEntry] = []

    class Calls:
        def post(self, _path: str, _answer: object, entry: TraceEntry, **_: object) -> None:
            entries.append(entry)

    calls, response = cast("ApiCalls", Calls()), cast("RunResponse", SimpleNamespace(run_id="r"))
    return RemoteRun(calls, response, ids=RandomIds()), entries


def _gaps(entries: list[TraceEntry]) -> list[str]:
    return [entry.gap.code for entry in entries if entry.gap is not None]


def test_events_that_overlap_in_two_threads_are_a_gap() -> None:
    run, entries = _recorded_run()
    begun, may_end = threading.Event(), threading.Event()

    def other() -> None:
        with run.event(role="agent", interceptor="b"):
            begun.set()
            may_end.wait(10)

    thread = threading.Thread(target=other)
    with run.event(role="agent", interceptor="a"):
        thread.start()
        begun.wait(10)
        run.guardrail("g")
    may_end.set()
    thread.join()

    assert _gaps(entries) == ["overlapping_events"], "told once"


def test_nested_events_and_tasks_of_an_event_are_no_gap() -> None:
    run, entries = _recorded_run()

    @run.tool()
    async def lookup(name: str) -> str:
        return name

    async def work() -> None:
        with (
            run.event(role="agent", interceptor="a"),
            run.event(role="agent", interceptor="b", decision_type="d"),
        ):
            await asyncio.gather(lookup("x"), lookup("y"))

    asyncio.run(work())
    run.guardrail("after")

    assert _gaps(entries) == []
    assert sum(entry.tool is not None for entry in entries) == 2


def test_a_key_that_opened_a_run_with_another_model_is_refused(gateways: list[Gateway]) -> None:
    runs = OpenRuns(gateways[0])
    body = msgspec.structs.replace(OPEN, model=MODEL)
    first = runs.open(*PLACE, body, "key-1")

    assert runs.open(*PLACE, body, "key-1").run_id == first.run_id
    with raises_code("request_reused"):
        runs.open(*PLACE, OPEN, "key-1")
