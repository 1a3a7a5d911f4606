"""Load on ``standfast serve``: rates, errors and times for one server and for three behind a proxy, one of
which is killed.

One server is also asked for 80 % of what it can do. There p99 should be at most five times p50.

    python -m tests.load FOLDER [--seconds N] [--callers N]

Everything runs on loopback, against a PostgreSQL of its own, for a bounded time. Each caller remembers single
facts and whole runs in turn; behind the proxy, every call goes to another server. At the end the store is
read: every fact that was acknowledged must be there once.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from standfast.memory import Memory
from standfast.records.vocabulary import Band
from tests.server.replicas import AcknowledgedCaller, ReplicaSet, RoundRobinProxy
from tests.servers.postgres import PostgresServer

MAX_SECONDS = 600
MAX_CALLERS = 64
# Servers, whether one is killed, and which share of what one server can do is asked of them, if not as much
# as they can.
DEPLOYMENTS = ((1, False, None), (1, False, 0.8), (3, False, None), (3, True, None))


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a number of callers got out of a deployment."""

    name: str
    seconds: float
    times: list[float]
    retried: int
    errors: int
    acknowledged: int
    lost: int
    problems: int

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.times) / self.seconds

    def row(self) -> str:
        """One line of the report."""
        times = sorted(self.times)
        p50, p99 = (1_000 * times[min(len(times) - 1, int(len(times) * part))] for part in (0.5, 0.99))
        return (
            f"{self.name:<28} {self.rate:>8.0f} {p50:>8.1f} {p99:>8.1f} {p99 / p50:>8.1f} {self.errors:>7} "
            f"{self.retried:>8} {self.acknowledged:>13} {self.lost:>5} {self.problems:>9}"
        )


def measure(
    folder: Path,
    store: str,
    *,
    servers: int,
    seconds: float,
    callers: int,
    kill: bool = False,
    rate: float | None = None,
) -> Load:
    """Let callers call for a while; with ``kill``, kill one server a third of the time in, and start it again
    in the second third.

    With ``rate``, they make so many calls a second together; without, as many as they can.
    """
    folder.mkdir()
    replicas = ReplicaSet(folder, store, count=servers)
    replicas.start()
    stop = threading.Event()
    with RoundRobinProxy(replicas.ports) as proxy:
        pace_seconds = 0.0 if rate is None else callers / rate
        threads = [
            AcknowledgedCaller(proxy.address, replicas.key, f"c{n}", stop, pace_seconds=pace_seconds)
            for n in range(callers)
        ]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        time.sleep(seconds / 3)
        if kill:
            replicas.servers[0].process.kill()
        time.sleep(seconds / 3)
        if kill:
            replicas.servers[0].start()
        time.sleep(max(0.0, began + seconds - time.perf_counter()))
        stop.set()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - began
    replicas.stop()
    acknowledged = [subject for thread in threads for subject in thread.acknowledged]
    with Memory.open(store, namespace="load", create=False, notary=None) as memory:
        stored = Counter(record.subject for record in memory.records(band=Band.LEDGER))
        problems = sum(1 for _ in memory.verify())
    return Load(
        name=(
            f"{servers}"
            f" server{'s' * (servers > 1)}{', one killed' * kill}{', 80 % load' * (rate is not None)}"
        ),
        seconds=took,
        times=[one for thread in threads for one in thread.seconds],
        retried=proxy.broken,
        errors=sum(len(thread.errors) for thread in threads),
        acknowledged=len(acknowledged),
        lost=sum(stored[subject] != 1 for subject in acknowledged),
        problems=problems,
    )


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: list[str] | None = None) -> int:
    """Measure all deployments and print a line for each. The exit code is 1 if something was lost."""
    parser = argparse.ArgumentParser(prog="make load", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=10.0, help=f"for each deployment, up to {MAX_SECONDS}"
    )
    parser.add_argument("--callers", type=int, default=8, help=f"at once, up to {MAX_CALLERS}")
    given = parser.parse_args(arguments)
    seconds, callers = min(given.seconds, MAX_SECONDS), min(given.callers, MAX_CALLERS)
    _say(
        f"{callers} callers, {seconds:g} s each; three of four facts in runs, whose every call goes to"
        " another server"
    )
    _say(
        f"{'':<28} {'calls/s':>8} {'p50 ms':>8} {'p99 ms':>8} {'p99/p50':>8} {'errors':>7} {'retried':>8}"
        f" {'acknowledged':>13} {'lost':>5} {'problems':>9}"
    )
    lost = 0
    with tempfile.TemporaryDirectory(prefix="standfast-load-") as place:
        folder = Path(place)
        postgres = PostgresServer(folder)
        postgres.start()
        try:
            whole_rate = 0.0
            for number, (servers, kill, share) in enumerate(DEPLOYMENTS):
                load = measure(
                    folder / f"load{number}",
                    postgres.new_database(),
                    servers=servers,
                    seconds=seconds,
                    callers=callers,
                    kill=kill,
                    rate=share * whole_rate if share else None,
                )
                whole_rate = whole_rate or load.rate
                _say(load.row())
                lost += load.lost + load.problems
        finally:
            postgres.kill()
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
