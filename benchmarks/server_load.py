"""A crowded server: what the next caller, a quiet one and a thousand at once get, and how it stops.

python -m benchmarks.server_load ADDRESS KEY   makes noise until it is ended
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.measure import Ratio, at_most
from benchmarks.server import served
from standfast.client import Client
from standfast.memory import Memory

TITLE = "A crowded HTTP server with 5,000 records (one process; its clients are on the same machine)"
RECORDS = 5_000
ABANDONED = 600
NOISY = 150
CROWD = 1_000
STOPPED = 900
QUIET_CALLS = 60
MAX_SECONDS = 30.0
BODY = b'{"query": "Where is crate 412 of warehouse 7?", "tokens": 400}'


class Crowd:
    """Many connections to a server that ask it the same, all at once."""

    def __init__(self, address: str, key: str, size: int) -> None:
        host, _, port = address.removeprefix("http://").partition(":")
        head = (
            f"POST /v1/namespaces/default/recall HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
        )
        self.request = head.encode() + BODY
        self.sockets = [socket.create_connection((host, int(port))) for _ in range(size)]
        self.statuses: Counter[str] = Counter()
        self.slowest_seconds = 0.0

    def ask(self) -> None:
        """Send the request on every connection."""
        self.asked_at = time.perf_counter()
        for one in self.sockets:
            one.sendall(self.request)

    def leave(self) -> None:
        """Hang up."""
        for one in self.sockets:
            one.close()

    def gather(self, *, asks_again: bool = False) -> None:
        """Take the answer of every connection. One that asks again goes on for ever."""
        waiting = selectors.DefaultSelector()
        for each in self.sockets:
            waiting.register(each, selectors.EVENT_READ)
        while waiting.get_map() and time.perf_counter() < self.asked_at + MAX_SECONDS:
            for event, _ in waiting.select(1.0):
                one: socket.socket = event.fileobj  # type: ignore[assignment]  # They are sockets.
                try:
                    data = one.recv(1 << 20)
                except ConnectionError:
                    data = b""
                status = data[9:12].decode() if data.startswith(b"HTTP/1.1 ") else "reset"
                if asks_again and status != "reset":
                    one.sendall(self.request)
                    continue
                self.statuses[status] += 1
                self.slowest_seconds = time.perf_counter() - self.asked_at
                waiting.unregister(one)
        self.statuses["no answer"] += len(waiting.get_map())
        waiting.close()

    @property
    def lost(self) -> int:
        """How many got neither an answer nor a refusal to take them."""
        return sum(count for status, count in self.statuses.items() if status not in ("200", "503"))

    def told(self) -> str:
        """What they got."""
        return ", ".join(f"{count} × {status}" for status, count in sorted(self.statuses.items()) if count)


def run() -> list[Ratio]:
    """Every figure of a crowded server, each with a server of its own."""
    ratios: list[Ratio] = []
    with tempfile.TemporaryDirectory() as folder:
        with Memory.open(str(Path(folder) / "standfast.db")) as memory:
            texts = [f"Warehouse {n % 40} keeps crate {n * 37} on shelf {n}." for n in range(RECORDS)]
            for start in range(0, RECORDS, 500):
                memory.add([{"role": "user", "content": one} for one in texts[start : start + 500]])
            noisy, quiet = (_key(folder, name) for name in ("noisy", "quiet"))
        for measure in (_abandoned, _noisy, _crowd, _stopped):
            with served(Path(folder)) as (address, _, process):
                for key in (noisy, quiet):
                    _asked_seconds(address, key, calls=5)
                ratios += measure(address, noisy, quiet, process)
    return ratios


def _key(folder: str, name: str) -> str:
    command = [sys.executable, "-m", "standfast", "keys", "create", name, "--role", "operator"]
    made = subprocess.run(
        [*command, "--namespace", "*"], cwd=folder, capture_output=True, text=True, check=True
    )
    return next(word for word in made.stdout.split() if word.startswith("sf_"))


def _asked_seconds(address: str, key: str, *, calls: int) -> list[float]:
    """How long single calls take, one after the other, shortest first."""
    seconds = []
    with Client(address, key=key) as client:
        for _ in range(calls):
            begun = time.perf_counter()
            client.recall("Where is crate 412 of warehouse 7?", tokens=400)
            seconds.append(time.perf_counter() - begun)
    return sorted(seconds)


def _abandoned(address: str, noisy: str, quiet: str, _: int) -> list[Ratio]:
    crowd = Crowd(address, noisy, ABANDONED)
    crowd.ask()
    crowd.leave()
    (seconds,) = _asked_seconds(address, quiet, calls=1)
    return [at_most(f"the next answer after {ABANDONED} abandoned recalls", seconds, 0.5, _load(), unit=" s")]


def _noisy(address: str, noisy: str, quiet: str, _: int) -> list[Ratio]:
    alone = _asked_seconds(address, quiet, calls=QUIET_CALLS)
    noise = subprocess.Popen([sys.executable, "-m", "benchmarks.server_load", address, noisy])
    try:
        time.sleep(3.0)
        beside = _asked_seconds(address, quiet, calls=QUIET_CALLS)
    finally:
        noise.kill()
        noise.wait()
    half = QUIET_CALLS // 2
    detail = (
        f"p50 {alone[half] * 1e3:.0f} → {beside[half] * 1e3:.0f} ms, "
        f"worst {alone[-1] * 1e3:.0f} → {beside[-1] * 1e3:.0f} ms; {_load()}"
    )
    name = f"a quiet key beside {NOISY} recalls at once of another key, median"
    return [at_most(name, beside[half] / alone[half], 3.0, detail)]


def _crowd(address: str, noisy: str, _: str, __: int) -> list[Ratio]:
    crowd = Crowd(address, noisy, CROWD)
    crowd.ask()
    crowd.gather()
    crowd.leave()
    detail = f"{crowd.told()}; {_load()}"
    return [
        at_most(
            f"{CROWD} clients at once, the slowest answer or 503", crowd.slowest_seconds, 6, detail, " s"
        ),
        at_most(f"{CROWD} clients at once, without either", crowd.lost, 0, unit=""),
    ]


def _stopped(address: str, noisy: str, _: str, process: int) -> list[Ratio]:
    crowd = Crowd(address, noisy, STOPPED)
    crowd.ask()
    time.sleep(3.0)
    begun = time.perf_counter()
    os.kill(process, signal.SIGTERM)
    crowd.gather()
    crowd.leave()
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    seconds = time.perf_counter() - begun
    detail = f"{crowd.told()}; {_load()}"
    return [
        at_most(f"SIGTERM 3 s after {STOPPED} recalls at once, until the end", seconds, 15, detail, " s"),
        at_most(f"SIGTERM 3 s after {STOPPED} recalls at once, calls reset", crowd.lost, 0, unit=""),
    ]


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    crowd = Crowd(sys.argv[1], sys.argv[2], NOISY)
    crowd.ask()
    crowd.asked_at = float("inf")
    crowd.gather(asks_again=True)
