"""The soak: several processes use one store in every way, are killed at any moment, and a model checks every
answer.

    python -m tests.soak FOLDER [--store URL] [--seconds N] [--actions N] [--commits N] [--workers N] [--round
    N] [--seed N]

Each worker has subjects, facts, law, conversations and a scope of its own. Most of its commits are quick:
bursts of new facts, by one thread or by many that share transactions, of which each notes how many were
acknowledged. Now and then its clock is years ahead, its disk is full, or (on a server) its connections are
cut. ``--store postgres`` starts a server in the folder, which is killed and started again too. Of everything
else it notes in a journal what it is about to do, and then what came of it; journal and notes are the model,
and do not use the store. Workers are killed again and again, and forked anew at once by a process that is
warm; of an action without an outcome, either may be true. The whole is done in rounds, each half as long as
all before it together where that is more than ``--round``; after each, with nobody at work, the store is
verified, and every fact that was ever acknowledged is read. Every third round a file that is not too large is
backed up, restored from the backup, and verified again. A folder that was used before is continued.
"""

import argparse
import os
import random
import select
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from standfast.clock import SystemClock
from standfast.govern.evidence import read_instant
from standfast.ledger.notary import Notary
from standfast.limits import LEASE_SECONDS
from standfast.memory import Memory, erasing
from standfast.records.canon import parse
from standfast.records.rows import SYSTEM_NAMESPACE
from standfast.store.opening import open_store
from standfast.store.restore import accept_restored, restorations_of, restore_copy
from standfast.store.store import Store
from tests.servers.postgres import PostgresServer
from tests.soak_model import Facts, require
from tests.soak_worker import ERASED_ROWS, INTERRUPTED, VERBS, Worker

ROOT = Path(__file__).parents[1]
RESTORED_COMMITS = 50_000
"""A larger store is not restored any more: it takes longer than all the rest."""
COMMITS_AN_ACTION = 500
"""How many an action makes on average, roughly: it bounds the length of rounds."""


class Keeper:
    """A warm process that forks workers of one name, one after the other."""

    def __init__(self, folder: Path, url: str, name: str) -> None:
        self.name = name
        self._log = folder / f"{name}.log"
        self._log.touch()
        self._seen = self._log.stat().st_size
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak", "keeper", str(folder), url, name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        require(
            self._process.stdout and self._process.stdout.readline(), f"the keeper of {name} did not start"
        )

    def start(self, seed: int, actions: int) -> None:
        """Fork a worker. A keeper has one at a time."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d %d\n" % (seed, actions))

    def kill(self) -> None:
        """Kill the worker, if it is still there."""
        self._process.send_signal(signal.SIGUSR1)

    def ends_within(self, seconds: float) -> bool:
        """Wait for the worker for some time."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], seconds)[0])

    def ended(self) -> tuple[bool, list[str]]:
        """Wait for the end of the worker: whether it was killed, and what it did.

        It is a violation if it failed.
        """
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        require(told, f"the keeper of {self.name} is gone")
        lines = self._log.read_text()[self._seen :]
        self._seen += len(lines)
        require(int(told) in (0, -signal.SIGKILL), f"{self.name} failed: {lines[-2000:]}")
        # There may be warnings between them.
        words = {*VERBS, *(f">{verb}" for verb in VERBS), INTERRUPTED}
        return int(told) != 0, [line for line in lines.splitlines() if line in words]

    def close(self) -> None:
        """End the process; a worker that is left is killed."""
        self.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=600)
        self._process.stdout.close()


def keep(folder: Path, url: str, name: str) -> None:
    """Fork a worker for each line on standard input, and tell how it ended.

    This process has one thread and no store open.
    """
    workers: list[int] = []

    def kill(*_: object) -> None:
        for pid in workers:
            # It may have ended by itself a moment ago.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    signal.signal(signal.SIGUSR1, kill)
    _load_all(url)
    os.write(1, b"ready\n")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _live(folder, url, name, *map(int, line.split()))
        workers.append(pid)
        _, status = os.waitpid(pid, 0)
        workers.clear()
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def _load_all(url: str) -> None:
    """Import what a worker needs, so that it does not begin with that."""
    if "://" in url:
        import_module("standfast.store.postgres")
    with Memory.open(":memory:") as memory:
        memory.remember("A keeper is warm.", subject="keeper", source={"kind": "doc", "id": "plan"})
        memory.recall("Is it warm?", tokens=300)


def _live(folder: Path, url: str, name: str, seed: int, actions: int) -> NoReturn:
    """The life of a worker. What it does, and why it fails, goes into its log."""
    log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        # A constant elsewhere; this process is the worker's own.
        setattr(erasing, "ERASED_ROWS_PER_COMMIT", random.Random(seed).choice(ERASED_ROWS))  # noqa: B010
        Worker(folder, url, name, seed).work(actions)
        status = 0
    except BaseException:  # noqa: BLE001  # The parent reads it in the log.
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def soak(
    folder: Path,
    url: str,
    *,
    seconds: float,
    actions: int,
    workers: int,
    seed: int,
    restart: Callable[[], None] | None = None,
    actions_a_round: int = 25,
    commits: int = 10**9,
    kill_seconds: float = 1.5,
) -> Counter[str]:
    """Rounds of workers and kills until the time, the actions or the commits are used up; returns what was
    done.
    """
    done: Counter[str] = Counter()
    dice, until = random.Random(seed), time.monotonic() + seconds
    keepers = [Keeper(folder, url, f"w{number}") for number in range(workers)]
    try:
        while done["actions"] < actions and done["commits"] < commits and time.monotonic() < until:
            more = min(done["commits"] // 2, commits - done["commits"]) // COMMITS_AN_ACTION
            left = dict.fromkeys(keepers, max(actions_a_round, more // workers))
            _round(url, left, dice=dice, done=done, until=until, restart=restart, kill_seconds=kill_seconds)
            began = time.monotonic()
            _check_alone(folder, url, done, [keeper.name for keeper in keepers])
            done["seconds of checks"] += round(time.monotonic() - began)
            done["rounds"] += 1
            sys.stderr.write(f"soak: {_summary(done)}\n")
    except BaseException:
        sys.stderr.write(f"soak: {_summary(done)}\n")
        raise
    finally:
        for keeper in keepers:
            keeper.close()
    return done


def _summary(done: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in sorted(done.items()))


def _round(
    url: str,
    left: dict[Keeper, int],
    *,
    dice: random.Random,
    done: Counter[str],
    until: float,
    restart: Callable[[], None] | None,
    kill_seconds: float,
) -> None:
    """Each worker does its actions, however often it is killed meanwhile; fewer if the time is over.

    One that got nothing done before it was killed has twice as long the next time, so that a busy machine
    gets on too.
    """
    longest = dict.fromkeys(left, kill_seconds)
    for keeper, actions in left.items():
        keeper.start(dice.randrange(2**31), actions)
    while left:
        victim = dice.choice(list(left))
        if not victim.ends_within(dice.uniform(longest[victim] / 2, longest[victim])):
            if _disturb(url, restart, dice, done):
                continue
            victim.kill()
        is_killed, words = victim.ended()
        verbs = [word for word in words if not word.startswith(">")]
        done.update(verbs)
        if is_killed:
            last = words[-1] if words else ""
            done[f"kills in {last.removeprefix('>') if last.startswith('>') else 'between'}"] += 1
        done["actions"] += len(verbs)
        done["kills"] += is_killed
        left[victim] -= len(verbs)
        longest[victim] = kill_seconds if verbs else 2 * longest[victim]
        if is_killed and left[victim] > 0 and time.monotonic() < until:
            victim.start(dice.randrange(2**31), left[victim])
        else:
            del left[victim]


def _disturb(url: str, restart: Callable[[], None] | None, dice: random.Random, done: Counter[str]) -> bool:
    """Disturb the server of a store instead of killing a worker, now and then.

    Returns whether it was done.
    """
    if "://" not in url or dice.random() < 0.85:
        return False
    if restart is not None and dice.random() < 0.5:
        restart()
        done["restarts"] += 1
        return True
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND"
            " pid <> pg_backend_pid()"
        )
    done["cuts"] += 1
    return True


def _check_alone(folder: Path, url: str, done: Counter[str], workers: list[str]) -> None:
    """Verify the store, and look at all that was acknowledged; every few rounds, restore it from a backup of
    this very moment.
    """
    _verify(url, done)
    store = open_store(url, create=False)
    for name in workers:
        facts = Facts(folder, name)
        done[f"facts of {name}"] = facts.check_all(store)
        facts.close()
    store.close()
    if "://" in url or done["rounds"] % 3 or done["commits"] > RESTORED_COMMITS:
        return
    backup = folder / "restored-from.db"
    for suffix in ("", "-wal", "-shm", "-files/head"):
        Path(f"{backup}{suffix}").unlink(missing_ok=True)
    source, target = open_store(url, create=False), open_store(str(backup), create=True)
    before = len(restorations_of(source))
    source.backup_to(target)
    source.close()
    target.close()
    aside = restore_copy(str(backup), url, replace=True)
    for suffix in ("", "-wal", "-shm", "-files/head"):
        Path(f"{aside}{suffix}").unlink(missing_ok=True)

    def notary_of(store: Store) -> Notary | None:
        return Notary.for_store(url, store.entries, store.branches, store.announce_key)

    accept_restored(url, reason="the soak", notary_of=notary_of)
    _verify(url, done)
    store = open_store(url, create=False)
    require(len(restorations_of(store)) == before + 1, "a restore is missing")
    store.close()
    done["restores"] += 1


def _verify(url: str, done: Counter[str]) -> None:
    # A server has no head file: what killed processes left is signed by the next one that closes.
    Memory.open(url).close()
    memory = Memory.open(url)
    problems = list(memory.verify())
    now = SystemClock().now()
    for row in memory.store.scan(SYSTEM_NAMESPACE, prefix="forgetting/"):
        at = read_instant(parse(row.content or b"")["at"])
        is_fresh = at is not None and abs((now - at).total_seconds()) < 2 * LEASE_SECONDS
        require(is_fresh, f"nobody ends {row.key}, whose last sign of life was at {at}")
    done["commits"] = memory.store.head()
    memory.close()
    require(not problems, f"the store is damaged: {problems[:3]}")
    done["verified"] += 1


@contextmanager
def server_of(store: str) -> Iterator[tuple[str, Callable[[], None] | None]]:
    """The URL of the store, and how its server is killed and started again, if it is the soak's own."""
    if store != "postgres":
        yield store, None
        return
    folder = Path.cwd() / "server"
    folder.mkdir(exist_ok=True)
    # One database that lives for an hour, as in production.
    server = PostgresServer(folder, autovacuum="on", max_wal_size="1GB")
    server.start()

    def restart() -> None:
        server.kill()
        server.start()

    known = Path("database")
    if not known.exists():
        known.write_text(server.new_database().rpartition("/")[2])
    try:
        yield f"{server.url.rpartition('/')[0]}/{known.read_text()}", restart
    finally:
        server.stop()


def main() -> None:
    """Run the soak, or one of its workers."""
    if sys.argv[1:2] == ["keeper"]:
        folder, url, name = sys.argv[2:]
        os.chdir(folder)
        keep(Path(folder), url, name)
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", default="soak.db")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--actions", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=10**9)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-seconds", type=float, default=1.5, help="the longest time between two kills")
    parser.add_argument(
        "--round",
        type=int,
        default=25,
        help="actions of a worker before everything is checked for the first time",
    )
    # Ends it in good order, as an interrupt from the keyboard does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(given.folder)
    with server_of(given.store) as (url, restart):
        done = soak(
            Path.cwd(),
            url,
            seconds=given.seconds,
            actions=given.actions,
            workers=given.workers,
            seed=given.seed,
            restart=restart,
            actions_a_round=given.round,
            commits=given.commits,
            kill_seconds=given.kill_seconds,
        )
    sys.stdout.write(f"soak: {_summary(done)}, 0 violations\n")


if __name__ == "__main__":
    main()
