"""The soak: several processes use one store in every way, are killed at any moment, and a model checks every answer.

    python -m tests.soak FOLDER [--store URL] [--seconds N] [--actions N] [--workers N] [--seed N]

Each worker has subjects, law, conversations and a scope of its own. Now and then its clock is years ahead, its disk is full, or
(on a server) its connections are cut. ``--store postgres`` starts a server in the folder, which is killed and started again too. It notes in a journal what it is about to do, and then what came of it; the journal
is the model, and does not use the store. A worker that was killed is started again and reads its journal: of an action
without an outcome, either may be true. The whole is done in rounds; after each, with nobody at work, the store is
verified, backed up, restored from the backup, and verified again. A folder that was used before is continued.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from standfast.clock import Clock, SystemClock
from standfast.errors import CannotOpen, OutcomeUnknown, StandfastError, StoreBusy, StoreFailed
from standfast.govern.approvals.approvals import Decision, Statement
from standfast.govern.approvals.signers import Signers
from standfast.ledger.notary import Notary
from standfast.memory import Memory
from standfast.store.audit import erasures_in
from standfast.store.restore import accept_restored, restorations_of, restore_copy
from standfast.store.store import Store, open_store
from tests.govern import openssh
from tests.govern.seals import signed
from tests.servers.postgres import PostgresServer

ROOT = Path(__file__).parents[1]
SUBJECTS = 12
VERBS = {
    "remember": 8,
    "forget": 2,
    "history": 4,
    "recall": 3,
    "recall_again": 3,
    "sweep": 1,
    "backup": 1,
    "checkpoint": 1,
    "propose": 2,
    "decide": 2,
    "add": 3,
    "session": 2,
    "forget_scope": 1,
    "jump_ahead": 1,
    "fill_disk": 1,
    "rebuild_index": 1,
}
LAW, SESSIONS = "law/", "session/"
SIGNERS = Signers.parse(f'alice@example.com namespaces="standfast-seal" {openssh.public_key("alice").text}\n')
JUMP = timedelta(days=3650)
TRANSIENT = (CannotOpen, OutcomeUnknown, StoreBusy, StoreFailed)
"""What a caller may meet whose server is restarted. What was answered stays true, and what was not is looked up."""


class Violation(Exception):
    """The store gave an answer that the model does not allow."""


def require(holds: object, problem: str) -> None:
    """Raise a violation unless something holds."""
    if not holds:
        raise Violation(problem)


class Model:
    """What one worker's subjects hold, from its journal alone. None: forgotten, or never remembered.

    A conversation is a subject too: its text is that of all its messages.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self.texts: dict[str, str | None] = {}
        self.doubtful: dict[str, str | None] = {}
        self.packages: list[tuple[int, int, str, str]] = []
        self.actions = 0
        lines = journal.read_bytes().split(b"\n") if journal.exists() else []
        pending: dict[str, Any] | None = None
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:
                continue  # The last line of a process that was killed.
            if "about" in told:
                pending = told
            elif pending is not None:
                self._settle(pending, told)
                pending = None
        if pending is not None:
            self.doubtful.update(self._changes(pending))

    def _changes(self, about: dict[str, Any]) -> dict[str, str | None]:
        if about["about"] == "forget_scope":
            return {subject: None for subject in self.texts if subject.startswith(SESSIONS)}
        return {about["subject"]: about.get("text")} if "subject" in about else {}

    def _settle(self, about: dict[str, Any], outcome: dict[str, Any]) -> None:
        self.actions += 1
        self.texts.update(self._changes(about))
        if "package" in outcome:
            self.packages.append(tuple(outcome["package"]))

    def begin(self, verb: str, **facts: Any) -> dict[str, Any]:
        """Note what is about to happen."""
        about = {"about": verb, **facts}
        self._write(about)
        return about

    def finish(self, about: dict[str, Any], **outcome: Any) -> None:
        """Note that it happened."""
        self._settle(about, outcome)
        self._write({"done": about["about"], **outcome})

    def _write(self, line: dict[str, Any]) -> None:
        with self._journal.open("ab") as file:
            # A line that a kill cut short ends here.
            file.write(b"\n" + json.dumps(line).encode())


class Worker:
    """One process that does random things to its own subjects, and checks what it reads."""

    def __init__(self, folder: Path, url: str, name: str, seed: int) -> None:
        self.dice = random.Random(seed)
        self.name = name
        self.url = url
        self.folder = folder
        self.scope = f"user/{name}"
        self.memory = self._opened()
        self._read_journal()

    def work(self, actions: int) -> None:
        """Settle what was in doubt, check every subject, then act."""
        self._settle_doubts("a kill")
        for subject in list(self.model.texts):
            self._check(subject)
        for _ in range(actions):
            verb = self.dice.choices(list(VERBS), weights=list(VERBS.values()))[0]
            try:
                getattr(self, verb)()
            except TRANSIENT as error:
                require("://" in self.url, f"{verb} failed on a file: {error}")
                self._reopen()
                self._read_journal()
                self._settle_doubts(f"{verb} and {error.code}")
                verb = "interrupted"
            sys.stdout.write(f"{verb}\n")
            sys.stdout.flush()
            if self.dice.random() < 0.1:
                self._reopen()
        self.memory.close()

    def _read_journal(self) -> None:
        self.model = Model(self.folder / f"{self.name}.journal")

    def _settle_doubts(self, after: str) -> None:
        """Of what was interrupted, either may be true, and stays so."""
        for subject, text in self.model.doubtful.items():
            now = self._current(subject)
            before = self.model.texts.get(subject)
            require(now in (text, before), f"{subject} holds {now!r} after {after}")
            self.model.finish(self.model.begin("settle", subject=subject, text=now))
        self.model.doubtful.clear()

    def _opened(self, clock: Clock | None = None) -> Memory:
        """Open the memory; a server that is being restarted is waited for."""
        for _ in range(100 if "://" in self.url else 1):
            try:
                return Memory.open(self.url, clock=clock)
            except TRANSIENT as error:
                problem = error
                time.sleep(0.2)
        raise Violation(f"the store can't be opened: {problem}")

    def _reopen(self, clock: Clock | None = None) -> None:
        with suppress(*TRANSIENT):
            self.memory.close()
        self.memory = self._opened(clock)

    def _subject(self) -> str:
        return f"{self.name}/{self.dice.randrange(SUBJECTS)}"

    def _current(self, subject: str) -> str | None:
        if subject.startswith(SESSIONS):
            found = self.memory.session(subject.removeprefix(SESSIONS), scope=self.scope)
            return "\n".join(message.text or "" for message in found) or None
        band = "VAULT/" if subject.startswith(LAW) else "LEDGER/"
        entries = [entry for entry in self.memory.history(subject) if entry.key.startswith(band)]
        return entries[-1].record.text if entries and entries[-1].record is not None else None

    def _check(self, subject: str) -> None:
        found, expected = self._current(subject), self.model.texts.get(subject)
        require(found == expected, f"{subject} holds {found!r} and not {expected!r}")

    def remember(self, within: AbstractContextManager[None] | None = None) -> None:
        """Remember something of a random length."""
        subject, number = self._subject(), self.dice.randrange(10**6)
        words = " ".join(f"part {self.dice.randrange(100)}" for _ in range(self.dice.choice([1, 3, 40])))
        text = f"Item {number} of {subject} has {words}."
        about = self.model.begin("remember", subject=subject, text=text)
        with within or nullcontext():
            answer = self.memory.remember(
                text, subject=subject, source={"kind": "doc", "id": f"plan-{number}"}
            )
        require(answer.verdict == "SEAL", f"{text} got {answer.verdict}")
        self.model.finish(about)
        self._check(subject)

    def forget(self) -> None:
        """Forget a subject; nothing of it is left in any snapshot."""
        known = sorted(
            subject
            for subject, text in self.model.texts.items()
            if text is not None and not subject.startswith((LAW, SESSIONS))
        )
        if not known:
            return
        subject = self.dice.choice(known)
        about = self.model.begin("forget", subject=subject)
        self.memory.forget(subject, reason="the soak asked for it")
        self.model.finish(about)
        require(
            all(e.record is None for e in self.memory.history(subject)), f"something is left of {subject}"
        )

    def history(self) -> None:
        """Look at a subject."""
        self._check(self._subject())

    def recall(self) -> None:
        """Recall, and keep the hash of what came."""
        head = self.memory.store.head()
        end = self.memory.store.commit_of(head).ledger_seq if head else 0
        query = f"Item of {self._subject()}"
        package = self.memory.at(head).recall(query, tokens=300)
        self.model.finish(self.model.begin("recall"), package=[head, end, query, package.package_hash])

    def recall_again(self) -> None:
        """Recall as of an old snapshot: the same package, unless something was erased since."""
        if not self.model.packages:
            return
        head, end, query, expected = self.dice.choice(self.model.packages)
        package = self.memory.at(head).recall(query, tokens=300)
        if next(erasures_in(self.memory.store.entries(end)), None) is None:
            require(package.package_hash == expected, f"{query!r} at {head} gave another package")

    def sweep(self) -> None:
        """Sweep; nothing is due."""
        require(self.memory.sweep() == [], "something was swept that is not due")

    def backup(self) -> None:
        """Bring a copy up to date while others write, and verify it."""
        copy = open_store(str(self.folder / f"{self.name}.copy.db"), create=True)
        try:
            self.memory.store.backup_to(copy)
            problems = list(copy.verify())
        finally:
            copy.close()
        require(not problems, f"the copy is damaged: {problems[:3]}")

    def checkpoint(self) -> None:
        """Sign the head while others write."""
        require(self.memory.checkpoint() is not None, "nothing was signed")

    def propose(self) -> None:
        """Ask for a law."""
        subject, number = f"{LAW}{self._subject()}", self.dice.randrange(10**6)
        answer = self.memory.remember(
            f"Rule {number} holds for {subject}.",
            subject=subject,
            source={"kind": "doc", "id": f"rules-{number}"},
            propose=True,
            agent=self.name,
        )
        require(answer.proposal_id, f"nothing waits for {subject}")

    def decide(self) -> None:
        """Sign one of the worker's own proposals: law is what was signed, and nothing else."""
        queue = self.memory.approvals()
        waiting = [one for one in queue.waiting() if one.proposal.author == self.name]
        if not waiting:
            return
        chosen = self.dice.choice(waiting).proposal
        decision = self.dice.choice([Decision.APPROVE, Decision.REJECT])
        statement = Statement.about(
            chosen,
            decision=decision,
            expires_at=self.memory.store.clock.now() + timedelta(minutes=10),
            nonce=self.memory.store.ids.new_id(),
            replaces=queue.replaces(chosen, decision),
        )
        subject = f"{LAW}{chosen.key.partition(LAW)[2]}"
        law = {"subject": subject, "text": chosen.summary} if decision is Decision.APPROVE else {}
        about = self.model.begin("decide", **law)
        queue.decide(signed(statement), signers=SIGNERS)
        self.model.finish(about)
        self._check(subject)

    def add(self) -> None:
        """Add messages to a conversation."""
        subject = f"{SESSIONS}{self.dice.randrange(3)}"
        number = self.dice.randrange(10**6)
        texts = [f"Turn {number} says {part}." for part in range(self.dice.choice([1, 2, 5]))]
        whole = "\n".join(filter(None, [self.model.texts.get(subject), *texts]))
        about = self.model.begin("add", subject=subject, text=whole)
        self.memory.add(
            [{"role": "user", "content": text} for text in texts],
            scope=self.scope,
            session=subject.removeprefix(SESSIONS),
        )
        self.model.finish(about)
        self._check(subject)

    def session(self) -> None:
        """Read a conversation back."""
        self._check(f"{SESSIONS}{self.dice.randrange(3)}")

    def forget_scope(self) -> None:
        """Forget all conversations of the worker at once."""
        if not any(text for subject, text in self.model.texts.items() if subject.startswith(SESSIONS)):
            return
        about = self.model.begin("forget_scope")
        self.memory.forget(scope=self.scope, reason="the soak asked for it")
        self.model.finish(about)
        left = list(self.memory.records(scope=self.scope))
        require(not left, f"{len(left)} records are left of {self.scope}")

    def jump_ahead(self) -> None:
        """Remember something while the clock of this process is ten years ahead."""
        self._reopen(JumpedClock())
        self.remember()
        self._reopen()

    def fill_disk(self) -> None:
        """Remember something while no file may grow by more than a little. It is stored or not, and a later look says which."""
        if "://" in self.url:
            return
        sizes = [
            file.stat().st_size for file in self.folder.glob(f"{Path(self.url).name}*") if file.is_file()
        ]
        most = max(sizes) if self.dice.random() < 0.5 else min(sizes) + self.dice.randrange(40_000)
        try:
            self.remember(within=_files_up_to(most))
        except StandfastError as error:
            failure = error.code
        else:
            return
        self._reopen()
        self._read_journal()
        self._settle_doubts(f"a full disk and {failure}")

    def rebuild_index(self) -> None:
        """Make the index anew while others write."""
        self.memory.reader.index.upkeep.rebuild()


@contextmanager
def _files_up_to(most_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond that meanwhile, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class JumpedClock(SystemClock):
    """A clock that is years ahead."""

    def now(self) -> datetime:
        """The current instant and ten years."""
        return super().now() + JUMP


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
) -> Counter[str]:
    """Rounds of workers and kills until the time or the actions are used up; returns what was done."""
    done: Counter[str] = Counter()
    dice, until = random.Random(seed), time.monotonic() + seconds
    while done["actions"] < actions and time.monotonic() < until:
        _round(
            folder,
            url,
            workers=workers,
            dice=dice,
            done=done,
            until=until,
            restart=restart,
            actions=actions_a_round,
        )
        _check_alone(folder, url, done)
        done["rounds"] += 1
    return done


def _round(
    folder: Path,
    url: str,
    *,
    workers: int,
    dice: random.Random,
    done: Counter[str],
    until: float,
    restart: Callable[[], None] | None,
    actions: int,
) -> None:
    running = {}
    for number in range(workers):
        words = ["worker", str(folder), url, f"w{number}", str(dice.randrange(2**31)), str(actions)]
        running[number] = subprocess.Popen(
            [sys.executable, "-m", "tests.soak", *words],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    victim = running[dice.randrange(workers)]
    try:
        victim.wait(timeout=min(dice.uniform(0.6, 3.0), max(0.1, until - time.monotonic() + 1)))
    except subprocess.TimeoutExpired:
        if not _disturb(url, restart, dice, done):
            victim.kill()
            done["kills"] += 1
    outputs = [(process, *process.communicate(timeout=600)) for process in running.values()]
    for process, output, errors in outputs:
        require(process.returncode in (0, -signal.SIGKILL), f"a worker failed: {errors[-2000:]}")
        done.update(output.split())
        done["actions"] += len(output.split())


def _disturb(url: str, restart: Callable[[], None] | None, dice: random.Random, done: Counter[str]) -> bool:
    """Disturb the server of a store instead of killing a worker, now and then. Returns whether it was done."""
    if "://" not in url or dice.random() < 0.6:
        return False
    if restart is not None and dice.random() < 0.5:
        restart()
        done["restarts"] += 1
        return True
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    done["cuts"] += 1
    return True


def _check_alone(folder: Path, url: str, done: Counter[str]) -> None:
    """Verify the store; every few rounds, restore it from a backup of this very moment."""
    _verify(url, done)
    if "://" in url or done["rounds"] % 3:
        return
    backup = folder / "restored-from.db"
    for suffix in ("", "-wal", "-shm", "-head"):
        Path(f"{backup}{suffix}").unlink(missing_ok=True)
    source, target = open_store(url, create=False), open_store(str(backup), create=True)
    before = len(restorations_of(source))
    source.backup_to(target)
    source.close()
    target.close()
    aside = restore_copy(str(backup), url, replace=True)
    for suffix in ("", "-wal", "-shm", "-head"):
        Path(f"{aside}{suffix}").unlink(missing_ok=True)

    def notary_of(store: Store) -> Notary | None:
        return Notary.for_store(url, store.entries, store.branches)

    accept_restored(url, reason="the soak", notary_of=notary_of)
    _verify(url, done)
    store = open_store(url, create=False)
    require(len(restorations_of(store)) == before + 1, "a restore is missing")
    store.close()
    done["restores"] += 1


def _verify(url: str, done: Counter[str]) -> None:
    memory = Memory.open(url)
    problems = list(memory.verify())
    memory.close()
    require(not problems, f"the store is damaged: {problems[:3]}")
    done["verified"] += 1


@contextmanager
def _server_of(store: str) -> Iterator[tuple[str, Callable[[], None] | None]]:
    """The URL of the store, and how its server is killed and started again, if it is the soak's own."""
    if store != "postgres":
        yield store, None
        return
    folder = Path.cwd() / "server"
    folder.mkdir(exist_ok=True)
    server = PostgresServer(folder)
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
    if sys.argv[1:2] == ["worker"]:
        folder, url, name, seed, actions = sys.argv[2:]
        os.chdir(folder)
        Worker(Path(folder), url, name, int(seed)).work(int(actions))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", default="soak.db")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--actions", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--round", type=int, default=25, help="actions of a worker before everything is checked"
    )
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(given.folder)
    with _server_of(given.store) as (url, restart):
        done = soak(
            Path.cwd(),
            url,
            seconds=given.seconds,
            actions=given.actions,
            workers=given.workers,
            seed=given.seed,
            restart=restart,
            actions_a_round=given.round,
        )
    told = ", ".join(f"{number:,} {name}" for name, number in sorted(done.items()))
    sys.stdout.write(f"soak: {told}, 0 violations\n")


if __name__ == "__main__":
    main()
