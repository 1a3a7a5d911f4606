"""The HTTP server: calls per second and their latency, compared with the same calls made in process."""

import contextlib
import json
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Ratio, at_least, at_most, best_seconds, shown
from standfast.client import Client
from standfast.memory import Memory
from standfast.records.requests import RememberRequest
from standfast.server.operations.memory_operations import records_of
from standfast.server.operations.schemas import RecallBody

TITLE = (
    "The HTTP server, compared with the same calls made in process (8 callers at once, one server process)"
)
CALLERS = 8
CALLS = 100
BATCH = 100
CONNECTIONS = 1_000
SOURCE = {"kind": "doc", "id": "handbook#4"}
Work = Callable[[int], object]


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, str, int]]:
    """A server as users start it: its address, its first key and its process."""
    command = [sys.executable, "-m", "standfast", "serve", "--port", "0", "--json"]
    server = subprocess.Popen(
        [*command, "--calls-per-second", "1000000"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        started = json.loads(server.stdout.readline())
        yield started["address"], started.get("token", ""), server.pid
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _timed(work_of: Callable[[int], Work]) -> tuple[float, float, float]:
    """Calls a second, and the median and 99th percentile of their seconds; each caller has its own work."""
    seconds: list[float] = []
    ready = threading.Barrier(CALLERS + 1)

    def call(caller: int) -> None:
        work = work_of(caller)
        work(CALLS)
        own = []
        ready.wait()
        for number in range(CALLS):
            begun = time.perf_counter()
            work(number)
            own.append(time.perf_counter() - begun)
        seconds.extend(own)

    threads = [threading.Thread(target=call, args=(caller,)) for caller in range(CALLERS)]
    for thread in threads:
        thread.start()
    ready.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    seconds.sort()
    return len(seconds) / took, seconds[len(seconds) // 2], seconds[len(seconds) * 99 // 100]


def _text(caller: int, number: int) -> str:
    return f"Warehouse {caller} keeps crate {number * 37 + 5} on shelf {number}."


def _remembering(memory: Memory) -> Callable[[int], Work]:
    def work_of(caller: int) -> Work:
        def work(number: int) -> object:
            with memory.run(workflow="bench", mode="buffered_write") as run:
                run.remember(_text(caller, number), subject=f"{caller}/{number}", source=SOURCE)
            return run.receipt

        return work

    return work_of


def _figures(
    name: str, work_of: Callable[[int], Work], base: float | None = None
) -> tuple[float, list[Ratio]]:
    rate, median, worst = _timed(work_of)
    latency = f"p50 {median * 1e3:.1f} ms, p99 {worst * 1e3:.1f} ms"
    figures = [shown(f"{name}, calls a second", rate, latency)]
    if base is not None:
        figures.append(shown(f"{name}, share of the rate in process", rate / base))
    return rate, figures


def run() -> list[Ratio]:
    """Every figure of the api."""
    ratios: list[Ratio] = []
    with tempfile.TemporaryDirectory() as inside, tempfile.TemporaryDirectory() as outside:
        memory = Memory.open(str(Path(inside) / "store.db"))
        with memory, served(Path(outside)) as (address, key, process):

            def client(_: int) -> Client:
                return Client(address, key=key)

            def remembering(caller: int) -> Work:
                own = client(caller)
                return lambda n: own.remember(_text(caller, n), subject=f"{caller}/{n}", source=SOURCE)

            def reading(caller: int) -> Work:
                own = client(caller)
                return lambda n: own.record(f"{caller}/{n % CALLS}")

            rate, figures = _figures("remember in process", _remembering(memory))
            ratios += figures
            ratios += _figures("remember over HTTP", remembering, rate)[1]
            rate, figures = _figures(
                "read in process", lambda caller: lambda n: records_of(memory, f"{caller}/{n % CALLS}")
            )
            ratios += figures
            ratios += _figures("read over HTTP", reading, rate)[1]
            ratios += _recalling(memory.recall, client)
            ratios += _batches(memory, Client(address, key=key))
            ratios += _added_cpu(memory, Client(address, key=key), process)
            ratios += _connections(address, key, process)
    return ratios


def _recalling(recall: Callable[..., object], client: Callable[[int], Client]) -> list[Ratio]:
    def over_http(caller: int) -> Work:
        own = client(caller)
        return lambda n: own.recall(f"crate {n * 37 + 5}", tokens=400)

    rate, figures = _figures(
        "recall in process", lambda _: lambda n: recall(f"crate {n * 37 + 5}", tokens=400)
    )
    return [*figures, *_figures("recall over HTTP", over_http, rate)[1]]


def _batches(memory: Memory, client: Client) -> list[Ratio]:
    """Many at once, one caller: the same texts, messages and queries in process and over HTTP."""
    numbers = iter(range(10**6, 10**9))

    def texts() -> list[RememberRequest]:
        return [
            RememberRequest(text=_text(9, number), subject=f"batch/{number}", source=SOURCE)
            for _, number in zip(range(BATCH), numbers, strict=False)
        ]

    def remembered_in_process() -> None:
        with memory.run(workflow="bench", mode="buffered_write") as run:
            for one in texts():
                run.remember(one.text, subject=one.subject, source=SOURCE)

    def messages() -> list[dict[str, str]]:
        return [{"role": "user", "content": one.text} for one in texts()]

    queries = [f"crate {number * 37 + 5}" for number in range(BATCH)]
    pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "remember": (remembered_in_process, lambda: client.remember_batch(texts())),
        "add": (lambda: memory.add(messages()), lambda: client.add(messages())),
        "recall": (
            lambda: [memory.recall(query, tokens=400) for query in queries],
            lambda: client.recall_batch([RecallBody(query=query, tokens=400) for query in queries]),
        ),
    }
    ratios = []
    for name, (inside, outside) in pairs.items():
        seconds = best_seconds({"in process": inside, "over HTTP": outside}, calls=1, rounds=5)
        rate = BATCH / seconds["over HTTP"]
        share = seconds["in process"] / seconds["over HTTP"]
        what = f"{name} in batches of {BATCH} over HTTP, share of the rate in process"
        ratios.append(at_least(what, share, 0.7, f"{rate:.0f} a second"))
    return ratios


def _cpu_seconds(process: int) -> float:
    """The CPU time that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _added_cpu(memory: Memory, client: Client, process: int) -> list[Ratio]:
    """What a call costs the server in CPU time beyond the same call in process, one caller."""
    if not Path("/proc").exists():
        return []
    numbers = iter(range(10**9, 10**12))
    calls: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "read": (lambda: records_of(memory, "1/7"), lambda: client.record("1/7")),
        "remember": (
            # The client gives every call an idempotency key.
            lambda: memory.remember(_text(8, n := next(numbers)), source=SOURCE, run_id=f"bench-{n}"),
            lambda: client.remember(_text(8, next(numbers)), source=SOURCE),
        ),
        "recall": (
            lambda: memory.recall("crate 412", tokens=400).text,
            lambda: client.recall("crate 412", tokens=400),
        ),
    }
    ratios = []
    for name, (inside, outside) in calls.items():
        own = best_seconds({"": inside}, calls=CALLS, rounds=5, clock=time.process_time)[""]
        served = best_seconds({"": outside}, calls=CALLS, rounds=5, clock=lambda: _cpu_seconds(process))[""]
        detail = f"{served * 1e3:.2f} ms, in process {own * 1e3:.2f} ms"
        ratios.append(at_most(f"CPU that HTTP adds to {name}", (served - own) * 1e3, 1.0, detail, unit=" ms"))
    return ratios


def _resident_megabytes(process: int) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1_024


def _connections(address: str, key: str, process: int) -> list[Ratio]:
    """Callers that all connect first, and then ask at once: how fast they are answered, and what memory that
    takes.
    """
    host, _, port = address.removeprefix("http://").partition(":")
    request = (
        f"GET /v1/namespaces/default/status HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n\r\n"
    )
    before = _resident_megabytes(process)
    open_sockets = [socket.create_connection((host, int(port))) for _ in range(CONNECTIONS)]
    waiting = selectors.DefaultSelector()
    seconds: list[float] = []
    answered = 0
    begun = time.perf_counter()
    for one in open_sockets:
        one.sendall(request.encode())
        waiting.register(one, selectors.EVENT_READ)
    while waiting.get_map():
        for event, _ in waiting.select():
            data = event.fileobj.recv(65_536)  # type: ignore[union-attr]  # They are sockets.
            answered += data.startswith(b"HTTP/1.1 200")
            seconds.append(time.perf_counter() - begun)
            waiting.unregister(event.fileobj)
    took, grown = time.perf_counter() - begun, _resident_megabytes(process) - before
    for one in open_sockets:
        one.close()
    waiting.close()
    detail = (
        f"{answered} answered, p50 {seconds[len(seconds) // 2] * 1e3:.0f} ms, p99"
        f" {seconds[len(seconds) * 99 // 100] * 1e3:.0f} ms"
    )
    return [
        shown(f"{CONNECTIONS} connections at once, calls a second", CONNECTIONS / took, detail),
        at_most(
            f"{CONNECTIONS} connections at once, memory that the server grew by", grown, 100.0, unit=" MB"
        ),
    ]
