"""What recording costs a run: an agent without a model, which is the worst case, with and without a recorder.

Its tools either ask a service on this machine over HTTP, which is the fastest that a tool outside the process
can be, or read the embedded store, which is as fast as any tool is.
"""

import hashlib
import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson

from benchmarks.measure import Ratio, at_most, best_seconds, shown
from standfast.clock import RandomIds, SystemClock
from standfast.records.vocabulary import ActionType, RunIdentity, VisibilityMode
from standfast.store.commit import Commit, Write
from standfast.store.opening import open_store
from standfast.store.store import Store
from standfast.traces.artifact import ModelConfig, ToolProfile, Trace
from standfast.traces.equivalence import compare
from standfast.traces.folder import TraceFolder
from standfast.traces.recorder import Recorder
from standfast.traces.shapes import TextShape

TITLE = "Traces"
CALLS = 20
MODEL = ModelConfig(provider_name="scripted", model_name="parrot", seed=1)
LOOK_UP = ToolProfile(tool_name="look_up", tool_profile_version="v1")
Tool = Callable[[str], Any]


def run() -> list[Ratio]:
    """A whole run, one call, and a comparison."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"{folder}/agent.db", create=True)
        try:
            return [*_whole_runs(store, Path(folder)), *_one_call(), *_comparing(store)]
        finally:
            store.close()


def _whole_runs(store: Store, folder: Path) -> list[Ratio]:
    _seed(store)
    traces = TraceFolder(folder / "traces", ids=RandomIds())
    with _service() as ask:
        asking = best_seconds(
            {
                "bare": partial(_run, store, ask, recorded=False),
                "recorded": partial(_run, store, ask, recorded=True),
                "kept": lambda: traces.put(_run(store, ask, recorded=True) or _never()),
            },
            calls=5,
        )
    reading = best_seconds(
        {
            "bare": partial(_run, store, None, recorded=False),
            "recorded": partial(_run, store, None, recorded=True),
        },
        calls=10,
    )
    detail = f"{CALLS} requests over loopback and a durable commit, {asking['bare'] * 1e3:.2f} ms bare"
    worst = f"{CALLS} reads of the embedded store and a durable commit, {reading['bare'] * 1e3:.2f} ms bare"
    return [
        at_most("a recorded run against a bare one", asking["recorded"] / asking["bare"], 1.25, detail),
        shown("with its artifact written durably", asking["kept"] / asking["bare"], "one more file, synced"),
        shown("a recorded run whose tools only read", reading["recorded"] / reading["bare"], worst),
    ]


class _Answer(BaseHTTPRequestHandler):
    """A service that answers at once."""

    protocol_version = "HTTP/1.1"
    # One packet an answer: without these the client's kernel waits 40 ms before it acknowledges, and hides
    # any cost.
    wbufsize = -1
    disable_nagle_algorithm = True
    body = b'{"memory_id":"rule-1","text":"EU refunds take 14 days."}'

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _service() -> Iterator[Tool]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connection = HTTPConnection("127.0.0.1", server.server_port)

    def ask(key: str) -> Any:
        connection.request("GET", f"/{key}")
        return json.loads(connection.getresponse().read())

    try:
        yield ask
    finally:
        connection.close()
        server.shutdown()
        server.server_close()


def _seed(store: Store) -> None:
    rules = {f"rule-{number}": "EU refunds take 14 days." for number in range(CALLS)}
    _commit(store, _identity(store), rules)


def _identity(store: Store) -> RunIdentity:
    return RunIdentity(
        run_id=store.ids.new_id(),
        workflow_id="bench",
        memory_snapshot_id=store.head(),
        visibility_mode=VisibilityMode.BUFFERED_WRITE,
        policy_set_id="v1",
    )


def _commit(store: Store, run: RunIdentity, texts: dict[str, str]) -> None:
    writes = [
        Write.of("default", f"LEDGER/shared//{key}", ActionType.WRITE, {"memory_id": key, "text": text})
        for key, text in texts.items()
    ]
    store.commit(
        Commit.of(
            run_id=run.run_id,
            memory_snapshot_id=run.memory_snapshot_id,
            policy_set_id=run.policy_set_id,
            writes=writes,
        )
    )


def _run(store: Store, ask: Tool | None, *, recorded: bool) -> Trace | None:
    """One run of an agent: it looks things up, and remembers one."""
    run = _identity(store)

    def look_up(key: str) -> Any:
        if ask is not None:
            return ask(key)
        own = f"LEDGER/shared//{key}"
        found = store.read("default", [own], at=run.memory_snapshot_id)
        return orjson.loads(found[own].content or b"null")

    if not recorded:
        _act(look_up)
        _commit(store, run, {run.run_id: "done"})
        return None
    recorder = Recorder(run, clock=SystemClock(), model=MODEL)
    with recorder.event(role="agent", interceptor="tools", decision_type="look_up"):
        _act(recorder.tool(profile=LOOK_UP)(look_up))
    recorder.output(TextShape(sections=("answer",)))
    trace = recorder.finish()
    _commit(store, run, {run.run_id: "done"})
    return trace


def _act(look_up: Tool) -> None:
    for number in range(CALLS):
        look_up(f"rule-{number}")


def _never() -> Trace:
    raise AssertionError


def _one_call() -> list[Ratio]:
    """One call against logging it the naive way, and against printing it with nothing else."""
    result = {"memory_id": "rule-1", "text": "EU refunds take 14 days.", "tags": ["eu", "refunds"]}
    run = RunIdentity(run_id="r", workflow_id="w", memory_snapshot_id=0, policy_set_id="p")
    calls = 200

    def recorded() -> None:
        recorder = Recorder(run, clock=SystemClock(), model=MODEL)
        with recorder.event(role="agent", interceptor="tools", decision_type="look_up"):
            for _ in range(calls):
                recorder.tool_call(profile=LOOK_UP, args={"key": "rule-1"}, result=result)
        recorder.finish()

    def naive() -> None:
        lines = []
        for _ in range(calls):
            text = json.dumps({"args": {"key": "rule-1"}, "result": result}, sort_keys=True)
            lines.append((text, hashlib.sha256(text.encode()).hexdigest()))

    def printed() -> None:
        for _ in range(calls):
            orjson.dumps({"args": {"key": "rule-1"}, "result": result})

    seconds = best_seconds({"recorded": recorded, "naive": naive, "printed": printed}, calls=3)
    detail = f"{seconds['recorded'] / calls * 1e6:.1f} µs a call, artifact included"
    return [
        at_most(
            "a recorded call against json.dumps and sha256", seconds["recorded"] / seconds["naive"], 5, detail
        ),
        shown("a recorded call in units of a bare orjson", seconds["recorded"] / seconds["printed"]),
    ]


def _comparing(store: Store) -> list[Ratio]:
    left, right = _run(store, None, recorded=True) or _never(), _run(store, None, recorded=True) or _never()
    text = left.as_bytes()
    seconds = best_seconds(
        {
            "compare": partial(compare, left, right),
            "read": partial(Trace.read, text),
            "parsed": partial(json.loads, text),
        },
        calls=50,
    )
    detail = f"{len(text)} bytes, {seconds['read'] * 1e3:.2f} ms"
    return [
        shown(
            "reading and verifying an artifact against json.loads",
            seconds["read"] / seconds["parsed"],
            detail,
        ),
        shown("comparing two traces against reading one", seconds["compare"] / seconds["read"]),
    ]
