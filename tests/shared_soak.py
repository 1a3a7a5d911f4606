"""The shared soak: processes and threads that all use the same scopes, sessions and subjects, and are killed.

    python -m tests.shared_soak FOLDER [--store URL] [--seconds N] [--rounds N] [--workers N] [--threads N]
    [--seed N]

They append turns, overwrite, note the same texts, import, forget subjects and whole scopes, and recall, all
on a few scopes. A call that a kill interrupted is made again under its run id by the next process. After each
round, with nobody at work, the journals of all of them are held against the store
(``shared_soak_model.py``), the store is verified, and a copy of it is cut: the cut must show, with the head
file or without it, with the checkpoints or without them, also after further writes. ``--store postgres``
starts a server in the folder. Prints the counts as JSON; the exit code is 1 after a violation.
"""

import argparse
import faulthandler
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from standfast.adapters.importing import import_file
from standfast.errors import CannotOpen, Corruption, StoreBusy
from standfast.ledger.notary import Notary
from standfast.ledger.witness import LedgerState
from standfast.memory import Memory, erasing
from standfast.side_files import SideFiles
from standfast.store.opening import open_store
from tests.ledger.kept import cut
from tests.shared_soak_model import THANKS, Journal, RoundJudge, read_calls
from tests.soak import server_of
from tests.soak_model import require

SCOPES, SESSIONS, SUBJECTS, NOTES = 2, 2, 4, 4
VERBS = {
    "add": 8,
    "overwrite": 8,
    "note": 4,
    "read": 2,
    "recall": 2,
    "import_facts": 1,
    "forget": 1,
    "forget_scope": 0.4,
}
ERASED_ROWS = (3, 20, 2_000)
"""How many rows each commit of an erasure takes."""
CUT_COMMITS = 30_000
"""Copies of larger stores are not made any more: it takes longer than all the rest."""


class Worker:
    """One thread of one process. It has a journal, and nothing else of its own."""

    def __init__(self, memory: Memory, journal: Path, scopes: list[str], seed: int) -> None:
        self.memory = memory
        self.scopes = scopes
        self.dice = random.Random(seed)
        self.name = journal.stem
        unanswered, self._answered = _read_journal(journal)
        self._again = [
            (number, call) for number, call in unanswered.items() if call["facts"].get("run_id") is not None
        ]
        self._journal = Journal(journal)
        self._folder = journal.parent

    def work(self, is_over: Callable[[], bool], calls: int) -> None:
        """End what an earlier process began, then act, until the journal has so many calls or it is over."""
        for number, call in self._again:
            self._call(number, call["verb"], call["scope"], call["facts"])
        while self._answered < calls and not is_over():
            verb = self.dice.choices(list(VERBS), weights=list(VERBS.values()))[0]
            getattr(self, verb)(self.dice.choice(self.scopes))
        self._journal.close()

    def _call(self, number: str, verb: str, scope: str, facts: dict[str, Any]) -> None:
        head = self.memory.store.head()
        self._journal.write({"id": number, "verb": verb, "scope": scope, "head": head, "facts": facts})
        try:
            answer = getattr(self, f"_{verb}")(scope, **facts)
        except StoreBusy:
            # The machine is busy beyond all patience: whether it happened is open, as after a kill.
            return
        answer = {"head": self.memory.store.head(), **answer}
        self._journal.write({"id": number, "answer": answer})
        self._answered += 1

    def _begin(self, verb: str, scope: str, **facts: Any) -> None:
        self._call(self._new(), verb, scope, facts)

    def _new(self) -> str:
        return f"{self.name}-{self.dice.randrange(10**12)}"

    def _run_id(self) -> str | None:
        return self._new() if self.dice.random() < 0.5 else None

    # What a worker does.

    def add(self, scope: str) -> None:
        """Append turns to a session that others append to."""
        number = self._new()
        count = self.dice.choice([1, 1, 2, 4])
        texts = [THANKS if self.dice.random() < 0.2 else f"Turn {number} {part}." for part in range(count)]
        session = f"s{self.dice.randrange(SESSIONS)}"
        self._begin("add", scope, session=session, texts=texts, run_id=self._run_id())

    def overwrite(self, scope: str) -> None:
        """Overwrite a subject without having read it."""
        subject = f"gate/{self.dice.randrange(SUBJECTS)}"
        text = f"Gate {subject} opens by {self._new()}."
        self._begin("overwrite", scope, subject=subject, texts=[text], run_id=self._run_id())

    def note(self, scope: str) -> None:
        """Remember a text that others remember too."""
        text = f"Pump {self.dice.randrange(NOTES)} of {scope} needs oil."
        self._begin("note", scope, texts=[text])

    def read(self, scope: str) -> None:
        """Read a session: each position once, in order."""
        said = self.memory.session(f"s{self.dice.randrange(SESSIONS)}", scope=scope)
        positions = [one.position for one in said]
        require(positions == sorted(set(positions)), f"{scope} has positions {positions[:20]}")

    def recall(self, scope: str) -> None:
        """Recall from what others write to."""
        self._begin("recall", scope, query=f"Which gate opens, and what did turn {self._new()} say?")

    def import_facts(self, scope: str) -> None:
        """Import a file of new facts."""
        number = self._new()
        texts = [f"Crate {part} of {number} is blue." for part in range(self.dice.choice([1, 5]))]
        self._begin("import", scope, texts=texts)

    def forget(self, scope: str) -> None:
        """Forget a subject that others overwrite."""
        self._begin("forget", scope, subject=f"gate/{self.dice.randrange(SUBJECTS)}")

    def forget_scope(self, scope: str) -> None:
        """Forget everything in a scope, or in all of them."""
        everything = scope.rpartition("/")[0]
        self._begin("forget_scope", everything if self.dice.random() < 0.3 else scope)

    # The calls.

    def _add(self, scope: str, session: str, texts: list[str], run_id: str | None) -> dict[str, Any]:
        messages = [{"role": "user", "content": text} for text in texts]
        added = self.memory.add(messages, scope=scope, session=session, run_id=run_id)
        require(added.added == len(texts), f"{scope} {session}: only {added.added} of {texts} were added")
        (receipt,) = added.receipts
        positions = [one.position for one in added.messages]
        return {"positions": positions, "snapshot": receipt.memory_snapshot_id}

    def _overwrite(self, scope: str, subject: str, texts: list[str], run_id: str | None) -> dict[str, Any]:
        source = {"kind": "doc", "id": "plan"}
        answer = self.memory.remember(texts[0], subject=subject, scope=scope, source=source, run_id=run_id)
        require(answer.accepted and not answer.known, f"{texts[0]} got {answer}")
        assert answer.receipt is not None
        return {"snapshot": answer.receipt.memory_snapshot_id}

    def _note(self, scope: str, texts: list[str]) -> dict[str, Any]:
        answer = self.memory.remember(texts[0], scope=scope, source={"kind": "doc", "id": "plan"})
        require(answer.accepted, f"{texts[0]} got {answer}")
        return {"known": answer.known}

    def _recall(self, scope: str, query: str) -> dict[str, Any]:
        view = self.memory.at(self.memory.store.head())
        package = view.recall(query, scope=scope, tokens=2_000)
        again = view.recall(query, scope=scope, tokens=2_000)
        is_same = package.package_hash == again.package_hash or again.erased_since is not None
        told = [(one.erased_since, [(i.memory_id, i.excerpt) for i in one.items]) for one in (package, again)]
        require(is_same, f"{query!r} at {view.memory_snapshot_id} gave two packages: {told}")
        return {"snapshot": view.memory_snapshot_id, "texts": [item.excerpt for item in again.items]}

    def _import(self, scope: str, texts: list[str]) -> dict[str, Any]:
        file = self._folder / f"{self.name}.import"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        report = import_file(self.memory, file, file_format="jsonl", scope=scope)
        require(report.accepted + report.known == len(texts), f"{scope}: {report.summary}")
        return {}

    def _forget(self, scope: str, subject: str) -> dict[str, Any]:
        done = self.memory.forget(subject, scope=scope, reason="the soak asked for it")
        return {"records": done.records, "snapshot": done.memory_snapshot_id}

    def _forget_scope(self, scope: str) -> dict[str, Any]:
        done = self.memory.forget(scope=scope, reason="the soak asked for it")
        return {"records": done.records, "snapshot": done.memory_snapshot_id}


def _read_journal(journal: Path) -> tuple[dict[str, dict[str, Any]], int]:
    """The calls in a journal that have no answer, and the number of those that have one."""
    begun: dict[str, dict[str, Any]] = {}
    answered = 0
    for line in journal.read_bytes().splitlines() if journal.exists() else []:
        with suppress(ValueError):
            told = json.loads(line)
            begun.pop(told["id"], None)
            if "answer" in told:
                answered += 1
            else:
                begun[told["id"]] = told
    return begun, answered


class Soak:
    """Rounds of workers that are killed, and what was done.

    This process has one thread and no store open: everything else is done by processes that it forks.
    """

    def __init__(self, folder: Path, url: str, given: argparse.Namespace) -> None:
        self.folder = folder
        self.url = url
        self.workers: int = given.workers
        self.threads: int = given.threads
        self.calls: int = given.calls
        self.kills: int = given.kills
        self.dice = random.Random(given.seed)
        self.done: Counter[str] = Counter()
        earlier = {path.name.partition(".")[0] for path in folder.glob("r*.*.journal")}
        self._first_round = 1 + max((int(name[1:]) for name in earlier), default=-1)

    def run(self, *, rounds: int, round_seconds: float, seconds: float, kill_seconds: float) -> None:
        """Rounds until there were enough, or the time is over; then everything is checked once more."""
        until = time.monotonic() + seconds
        for number in range(self._first_round, self._first_round + rounds):
            if time.monotonic() >= until:
                break
            self._round(number, min(round_seconds, until - time.monotonic()), kill_seconds)
            self._forked(lambda number=number: self._check(number))  # type: ignore[misc]
            self.done["rounds"] += 1
            sys.stderr.write(f"shared soak: {json.dumps(self.done)}\n")
        self._forked(self._check_all)

    def _round(self, number: int, seconds: float, kill_seconds: float) -> None:
        stop, until = self.folder / "stop", time.monotonic() + seconds
        stop.unlink(missing_ok=True)
        running = {self._worker(number, name): name for name in range(self.workers)}
        kills = 0
        try:
            while running and kills < self.kills and time.monotonic() < until:
                time.sleep(self.dice.uniform(kill_seconds / 4, kill_seconds))
                victim = self.dice.choice(sorted(running))
                os.kill(victim, signal.SIGKILL)
                name = running.pop(victim)
                if self._ended(victim, name) != 0:
                    kills += 1
                    running[self._worker(number, name)] = name
            self.done["kills"] += kills
            if time.monotonic() >= until:
                stop.touch()
            while running:
                self._ended(*running.popitem())
        finally:
            for pid in running:
                os.kill(pid, signal.SIGKILL)

    def _worker(self, number: int, name: int) -> int:
        seed = self.dice.randrange(2**31)
        return _fork(self.folder / f"w{name}.log", lambda: self._live(number, name, seed))

    def _live(self, number: int, name: int, seed: int) -> None:
        setattr(erasing, "ERASED_ROWS_PER_COMMIT", random.Random(seed).choice(ERASED_ROWS))  # noqa: B010
        scopes = [f"team/r{number}/{scope}" for scope in range(SCOPES)]
        stop = self.folder / "stop"
        with _opened(self.url) as memory, ThreadPoolExecutor(self.threads) as pool:
            journals = [self.folder / f"r{number}.w{name}-{thread}.journal" for thread in range(self.threads)]
            workers = [Worker(memory, one, scopes, seed + index) for index, one in enumerate(journals)]
            for ended in [pool.submit(worker.work, stop.exists, self.calls) for worker in workers]:
                ended.result()

    def _ended(self, pid: int, name: int) -> int:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        log = (self.folder / f"w{name}.log").read_text()
        require(code in (0, -signal.SIGKILL), f"worker {name} ended with {code}: {log[-3_000:]}")
        return code

    def _forked(self, check: Callable[[], Counter[str]]) -> None:
        """Check in a process of its own, and take its counts over."""
        log, counts = self.folder / "check.log", self.folder / "check.json"
        log.unlink(missing_ok=True)
        pid = _fork(log, lambda: counts.write_text(json.dumps(check())) and None)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        require(code == 0, f"the check failed: {log.read_text()[-3_000:]}")
        for name, count in json.loads(counts.read_text()).items():
            self.done[name] = count if name in ("commits", "entries") else self.done[name] + count

    # Checks, with nobody at work.

    def _check(self, number: int) -> Counter[str]:
        found = _verification(self.url)
        require(not isinstance(found, str) and found.holds, f"after kills: {found}")
        with _opened(self.url) as memory:
            done = RoundJudge(memory, sorted(self.folder.glob(f"r{number}.*.journal"))).judge()
            done["commits"] = head = memory.store.head()
            # On a server a killed process may have the lease of who signs for half a minute.
            memory.checkpoint()
        found = _verification(self.url)
        require(not isinstance(found, str) and found.state is LedgerState.SOUND, f"after closing: {found}")
        done["verified"] += 1
        if 10 < head < CUT_COMMITS:
            done["cuts"] += self._cut_copies(head, random.Random(number))
        return done

    def _check_all(self) -> Counter[str]:
        """Every round once more, because nothing may be lost later."""
        done: Counter[str] = Counter()
        journals = sorted(self.folder.glob("r*.*.journal"))
        with _opened(self.url) as memory:
            for number in sorted({path.name.partition(".")[0] for path in journals}):
                RoundJudge(memory, [path for path in journals if path.name.startswith(f"{number}.")]).judge()
                done["rounds judged again"] += 1
        done["calls"] = len(read_calls(journals))
        return done

    def _cut_copies(self, head: int, dice: random.Random) -> int:
        """Cut the last commits off copies of the store; each cut must show, also after further writes."""
        cases: list[tuple[str, ...]] = [(), ("head",), ("head", "checkpoints")]
        for removed in cases:
            with _copy_of(self.url, self.folder) as copy:
                cut(copy, head - dice.randrange(1, min(50, head - 1)))
                files = SideFiles.of(copy)
                assert files is not None
                for name in removed:
                    (files.folder / name).unlink()
                _require_broken(copy, removed)
                if removed:
                    with Memory.open(copy) as memory:
                        for number in range(3):
                            memory.remember(f"Lamp {number} is on.", scope="after")
                else:
                    # A process that does not see the head file writes on.
                    files.head.rename(files.folder / "hidden")
                    with closing(open_store(copy, create=False)) as store:
                        Memory(store).remember("Lamp 1 is on.", scope="after")
                    (files.folder / "hidden").replace(files.head)
                _require_broken(copy, removed)
        return len(cases)


def _require_broken(url: str, removed: tuple[str, ...]) -> None:
    found = _verification(url)
    is_broken = isinstance(found, str) or found.state is LedgerState.BROKEN
    require(is_broken, f"a cut does not show without {removed}: {found}")


def _verification(url: str) -> Any:
    """What verification finds, or why the store is not opened; nothing is signed."""
    try:
        store = open_store(url, create=False)
    except Corruption as error:
        return str(error)
    with closing(store):
        notary = Notary.for_store(url, store.entries, store.branches, store.announce_key)
        return Memory(store, notary=notary).verification()


def _opened(url: str) -> Memory:
    """Open the memory. Where many open a new store at once on a busy machine, they wait for each other."""
    for _ in range(20):
        with suppress(StoreBusy, CannotOpen):
            return Memory.open(url)
        time.sleep(0.5)
    return Memory.open(url)


class _copy_of:  # noqa: N801  # It is used like a function.
    """A copy of a store that nobody uses, with its side files; it is removed at the end."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        is_server = "://" in url
        self._copy = f"{url}_cut" if is_server else str(folder / "cut.db")

    def __enter__(self) -> str:
        self.__exit__()
        if "://" in self._url:
            self._execute(f"CREATE DATABASE {_name(self._copy)} TEMPLATE {_name(self._url)}")
        else:
            shutil.copyfile(self._url, self._copy)
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{self._url}-wal", f"{self._copy}-wal")
        here, there = SideFiles.of(self._url), SideFiles.of(self._copy)
        assert here is not None
        assert there is not None
        shutil.copytree(here.folder, there.folder)
        return self._copy

    def __exit__(self, *_: object) -> None:
        if "://" in self._url:
            self._execute(f"DROP DATABASE IF EXISTS {_name(self._copy)} WITH (FORCE)")
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._copy}{suffix}").unlink(missing_ok=True)
        files = SideFiles.of(self._copy)
        assert files is not None
        shutil.rmtree(files.folder, ignore_errors=True)

    def _execute(self, statement: str) -> None:
        import psycopg

        url = f"{self._url.rpartition('/')[0]}/postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement)


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _fork(log: Path, life: Callable[[], object]) -> int:
    """Run a function in a process of its own. What it prints, and why it fails, goes into its log."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(written, 1)
        os.dup2(written, 2)
        faulthandler.enable()
        life()
        status = 0
    except BaseException:  # noqa: BLE001  # The parent reads it in the log.
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Run the soak."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", default="shared.db")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--round-seconds", type=float, default=30)
    parser.add_argument("--kill-seconds", type=float, default=1.5, help="the longest time between two kills")
    parser.add_argument("--calls", type=int, default=10**9, help="calls of each thread in a round")
    parser.add_argument("--kills", type=int, default=10**9, help="kills in a round, at most")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(given.folder)
    # Says where, if the interpreter itself crashes.
    faulthandler.enable()
    with server_of(given.store) as (url, _):
        soak = Soak(Path.cwd(), url, given)
        try:
            soak.run(
                rounds=given.rounds,
                round_seconds=given.round_seconds,
                seconds=given.seconds,
                kill_seconds=given.kill_seconds,
            )
        finally:
            sys.stdout.write(json.dumps(dict(sorted(soak.done.items())), indent=2) + "\n")


if __name__ == "__main__":
    main()
