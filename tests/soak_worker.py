"""A worker of the soak: does random things to its own part of a store, and checks every answer against a
model that does not use the store.
"""

import random
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from standfast.clock import Clock, SystemClock
from standfast.errors import CannotOpen, InvalidValue, OutcomeUnknown, StandfastError, StoreBusy, StoreFailed
from standfast.govern.approvals.approvals import Decision, Statement
from standfast.govern.approvals.signers import Signers
from standfast.memory import Memory
from standfast.records.scopes import SHARED, scoped_key
from standfast.store.audit import erasures_in
from standfast.store.commit import Commit
from standfast.store.opening import open_store
from standfast.store.store import Store
from standfast.store.stored_records import record_of
from tests.govern import openssh
from tests.govern.seals import signed
from tests.soak_model import LANES, LAW, SESSIONS, Facts, Model, Violation, require

SUBJECTS = 12
BURSTS = {1: 50, 4: 100, 16: 120, LANES: 120}
"""How many threads a burst of facts has, and how many facts each thread commits: those of the same moment
share a transaction.
"""
ERASED_ROWS: Final = (5, 50, 2_000)
"""How many rows each commit of an erasure takes, so that it has a few commits or a hundred."""
FULL_BURSTS_FROM = 100_000
"""In a store of fewer commits bursts are shorter and rarer, so that it grows slowly while everything else is
quick.
"""
VERIFIED_COMMITS = 20_000
"""A backup of so many commits is verified as a whole; of a larger one the newest facts are read, and it is
verified now and then.
"""
OFTEN_UP_TO = dict.fromkeys(
    ["sweep", "history", "forget", "propose", "decide", "recall", "recall_again", "rebuild_index"], 200_000
) | {"backup": VERIFIED_COMMITS}
"""What costs by the size of the store: beyond so many commits it is done the more seldom the more there are.
"""
MOST_MESSAGES = 60
VERBS = {
    "burst": 8,
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
SIGNERS = Signers.parse(f'alice@example.com namespaces="standfast-seal" {openssh.public_key("alice").text}\n')
INTERRUPTED = "interrupted"
JUMP = timedelta(days=3650)
TRANSIENT = (CannotOpen, OutcomeUnknown, StoreBusy, StoreFailed)
"""What a caller may meet whose server is restarted.

What was answered stays true, and what was not is looked up.
"""


class Worker:
    """One process that does random things to its own subjects, and checks what it reads."""

    def __init__(self, folder: Path, url: str, name: str, seed: int) -> None:
        self.dice = random.Random(seed)
        self.name = name
        self.url = url
        self.folder = folder
        self.scope = f"user/{name}"
        self.facts = Facts(folder, name)
        self.memory = self._opened()
        self._read_journal()

    def work(self, actions: int) -> None:
        """Settle what was in doubt, check every subject, then act."""
        self._settle_doubts("a kill")
        self._check_facts()
        self._check_subjects()
        for _ in range(actions):
            head = self.memory.store.head()
            weights = VERBS | {"burst": VERBS["burst"] * (1 + 2 * min(1.0, head / FULL_BURSTS_FROM))}
            verb = self.dice.choices(list(VERBS), weights=list(weights.values()))[0]
            if self.dice.random() * head > OFTEN_UP_TO.get(verb, 10**9):
                verb = "session"
            _tell(f">{verb}")
            try:
                getattr(self, verb)()
            except TRANSIENT as error:
                require("://" in self.url, f"{verb} failed on a file: {error}")
                self._reopen()
                self._read_journal()
                self._settle_doubts(f"{verb} and {error.code}")
                self._check_facts()
                verb = INTERRUPTED
            _tell(verb)
            if self.dice.random() < 0.02:
                self._reopen()
        self.memory.close()

    def _read_journal(self) -> None:
        self.model = Model(self.folder / f"{self.name}.journal")

    def _settle_doubts(self, after: str) -> None:
        """Of what was interrupted, either may be true, and stays so.

        An erasure that was begun goes on sooner or later: it is ended at once, or left to whoever opens the
        store when its lease is over.
        """
        if self.model.interrupted == "forget_scope":
            if self.dice.random() < 0.5:
                self.model.let_fade()
            else:
                about = self.model.begin("forget_scope")
                with suppress(InvalidValue):  # There is nothing left of it.
                    self.memory.forget(scope=self.scope, reason="the soak asked for it")
                self.model.finish(about)
            self.model.doubtful.clear()
        self.model.interrupted = ""
        for subject, text in self.model.doubtful.items():
            now = self._current(subject)
            known = [
                one for one in (text, self.model.texts.get(subject)) if self.model.allows(subject, now, one)
            ]
            require(known, f"{subject} holds {now!r} after {after}")
            self.model.finish(self.model.begin("settle", subject=subject, text=known[0]))
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
            messages = self.memory.session(subject.removeprefix(SESSIONS), scope=self.scope)
            return "\n".join(message.text or "" for message in messages) or None
        return self._texts([subject])[subject]

    def _texts(self, subjects: list[str]) -> dict[str, str | None]:
        """What subjects hold that are no conversations."""
        keys = {
            one: scoped_key("VAULT" if one.startswith(LAW) else "LEDGER", SHARED, one) for one in subjects
        }
        found = self.memory.store.read(self.memory.namespace, list(keys.values()))
        return {one: record_of(found[key]).text if key in found else None for one, key in keys.items()}

    def _check(self, subject: str) -> None:
        self._check_text(subject, self._current(subject))

    def _check_text(self, subject: str, found: str | None) -> None:
        expected, faded = self.model.texts.get(subject), self.model.fading.get(subject)
        problem = f"{subject} holds {found!r} and not {expected!r}" + (
            f" behind some of {faded}" if faded else ""
        )
        require(self.model.allows(subject, found, expected), problem)

    def _check_subjects(self) -> None:
        """Every subject holds what it should."""
        plain = [subject for subject in self.model.texts if not subject.startswith(SESSIONS)]
        for subject, found in self._texts(plain).items():
            self._check_text(subject, found)
        for subject in self.model.texts.keys() - plain:
            self._check(subject)

    def _check_facts(self, store: Store | None = None) -> None:
        self.facts.check(store or self.memory.store, iter(self.dice.random, None))

    def burst(self, within: AbstractContextManager[None] | None = None) -> None:
        """Commit many facts, each in a commit of its own, as fast as it goes.

        Threads that commit at once share transactions.
        """
        threads = self.dice.choice(list(BURSTS))
        lanes = self.dice.sample(range(LANES), threads)
        seeds = [self.dice.random() for _ in lanes]
        part = min(1.0, self.memory.store.head() / FULL_BURSTS_FROM)
        facts = [1 + int(BURSTS[threads] * part)] * threads
        with within or nullcontext(), ThreadPoolExecutor(threads) as pool:
            # The context ends only when every thread has; the first failure is raised.
            for done in list(pool.map(self._commit_facts, lanes, seeds, facts)):
                require(done, "a thread committed nothing")

    def _commit_facts(self, lane: int, seed: float, facts: int) -> bool:
        """Commit the next facts of a lane, from the newest snapshot that it knows of or from an old one."""
        dice, store = random.Random(seed), self.memory.store
        head, first = store.head(), self.facts.acknowledged(lane)
        for number in range(first, first + facts):
            receipt = store.commit(
                Commit.of(
                    run_id=f"{self.name}-{lane}-{number}",
                    memory_snapshot_id=head if dice.random() < 0.5 else min(number, head),
                    policy_set_id="soak",
                    writes=[self.facts.fact(lane, number)],
                )
            )
            self.facts.acknowledge(lane, number + 1)
            head = receipt.memory_snapshot_id
        return True

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
        """Look at a subject, and at all that it ever held."""
        subject = self._subject()
        entries = [one for one in self.memory.history(subject) if one.key.startswith("LEDGER/")]
        found = entries[-1].record.text if entries and entries[-1].record is not None else None
        require(found == self.model.texts.get(subject), f"the history of {subject} ends with {found!r}")

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
        """Bring a copy up to date while others write, and look at it."""
        copy = open_store(str(self.folder / f"{self.name}.copy.db"), create=True)
        try:
            head = self.memory.store.backup_to(copy)
            self._check_facts(copy)
            problems = list(copy.verify()) if self.dice.random() * head < VERIFIED_COMMITS else []
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
        queue = self.memory.approvals
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
        if (self.model.texts.get(subject) or "").count("\n") > MOST_MESSAGES:
            self.forget_scope()
            return
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
        """Remember something, or commit facts, while no file may grow by more than a little.

        It is stored or not, and a later look says which.
        """
        if "://" in self.url:
            return
        sizes = [
            file.stat().st_size for file in self.folder.glob(f"{Path(self.url).name}*") if file.is_file()
        ]
        most = max(sizes) if self.dice.random() < 0.5 else min(sizes) + self.dice.randrange(40_000)
        write = self.dice.choice([self.remember, self.burst])
        try:
            # The notes of what was acknowledged are smaller than that.
            write(within=_files_up_to(max(most, 4_096)))
        except StandfastError as error:
            failure = error.code
        else:
            return
        self._reopen()
        self._read_journal()
        self._settle_doubts(f"a full disk and {failure}")
        self._check_facts()

    def rebuild_index(self) -> None:
        """Make the index anew while others write."""
        self.memory.reader.index.upkeep.rebuild()


def _tell(word: str) -> None:
    """Tell the process that watches."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


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
