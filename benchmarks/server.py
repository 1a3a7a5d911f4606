"""The HTTP server: calls per second and their latency, compared with the same calls made in process."""

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Ratio, shown
from standfast.client import Client
from standfast.memory import Memory
from standfast.server.operations.memory_operations import records_of

TITLE = (
    "The HTTP server, compared with the same calls made in process (8 callers at once, one server process)"
)
CALLERS = 8
CALLS = 100
SOURCE = {"kind": "doc", "id": "handbook#4"}
Work = Callable[[int], object]


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[tuple[str, str]]:
    """A server as users start it: its address and its first key."""
    command = [sys.executable, "-m", "standfast", "serve", "--port", "0", "--json"]
    server = subprocess.Popen(
        [*command, "--calls-per-second", "1000000"], cwd=folder, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        started = json.loads(server.stdout.readline())
        yield started["address"], started["key"]
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
        with memory, _served(Path(outside)) as (address, key):

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
    return ratios


def _recalling(recall: Callable[..., object], client: Callable[[int], Client]) -> list[Ratio]:
    def over_http(caller: int) -> Work:
        own = client(caller)
        return lambda n: own.recall(f"crate {n * 37 + 5}", tokens=400)

    rate, figures = _figures(
        "recall in process", lambda _: lambda n: recall(f"crate {n * 37 + 5}", tokens=400)
    )
    return [*figures, *_figures("recall over HTTP", over_http, rate)[1]]
