"""A worker of the soak: does random things to its own part of a store, and checks every answer against a model that does not use the store."""

import json
import random
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from standfast.clock import Clock, SystemClock
from standfast.errors import CannotOpen, InvalidValue, OutcomeUnknown, StandfastError, StoreBusy, StoreFailed
from standfast.govern.approvals.approvals import Decision, Statement
from standfast.govern.approvals.signers import Signers
from standfast.memory import Memory
from standfast.scopes import SHARED, scoped_key
from standfast.store.audit import erasures_in
from standfast.store.commit import Commit, Write
from standfast.store.records import record_of
from standfast.store.store import open_store
from standfast.vocabulary import ActionType
from tests.govern import openssh
from tests.govern.seals import signed

SUBJECTS = 12
BURST_FACTS = 200
FACTS = "facts"
"""The namespace of what is committed without a judge, as fast as it goes."""
SAMPLED_FACTS = 10
OFTEN_UP_TO = {
    "backup": 2_000,
    "rebuild_index": 2_000,
    "sweep": 2_000,
    "history": 50_000,
    "forget": 50_000,
    "propose": 50_000,
    "decide": 50_000,
    "recall": 50_000,
    "recall_again": 50_000,
}
"""What costs by the size of the store: beyond so many commits it is done the more seldom the more there are."""
MOST_MESSAGES = 60
MAX_JOURNAL_BYTES = 1 << 20
MAX_PACKAGES = 200
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
        self.interrupted = ""
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
            self.interrupted = pending["about"]
            self.doubtful.update(self._changes(pending))
        elif journal.exists() and journal.stat().st_size > MAX_JOURNAL_BYTES:
            self._compact()

    def _compact(self) -> None:
        """Begin a new journal with what the old one amounts to."""
        state = {"about": "state", "texts": self.texts}, {"done": "state", "packages": self.packages}
        new = self._journal.with_suffix(".new")
        new.write_text("".join(f"\n{json.dumps(line)}" for line in state))
        new.replace(self._journal)

    def _changes(self, about: dict[str, Any]) -> dict[str, str | None]:
        if about["about"] == "state":
            return dict(about["texts"])
        if about["about"] == "forget_scope":
            return {subject: None for subject in self.texts if subject.startswith(SESSIONS)}
        return {about["subject"]: about.get("text")} if "subject" in about else {}

    def _settle(self, about: dict[str, Any], outcome: dict[str, Any]) -> None:
        self.actions += 1
        self.texts.update(self._changes(about))
        new = [outcome["package"]] if "package" in outcome else outcome.get("packages", [])
        self.packages = [*self.packages, *map(tuple, new)][-MAX_PACKAGES:]

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
        self._acknowledged = folder / f"{name}.acknowledged"
        self.memory = self._opened()
        self._read_journal()

    def work(self, actions: int) -> None:
        """Settle what was in doubt, check every subject, then act."""
        self._settle_doubts("a kill")
        self._check_facts()
        for subject in list(self.model.texts):
            self._check(subject)
        for _ in range(actions):
            verb = self.dice.choices(list(VERBS), weights=list(VERBS.values()))[0]
            if self.dice.random() * self.memory.store.head() > OFTEN_UP_TO.get(verb, 10**9):
                verb = "session"
            try:
                getattr(self, verb)()
            except TRANSIENT as error:
                require("://" in self.url, f"{verb} failed on a file: {error}")
                self._reopen()
                self._read_journal()
                self._settle_doubts(f"{verb} and {error.code}")
                self._check_facts()
                verb = "interrupted"
            sys.stdout.write(f"{verb}\n")
            sys.stdout.flush()
            if self.dice.random() < 0.02:
                self._reopen()
        self.memory.close()

    def _read_journal(self) -> None:
        self.model = Model(self.folder / f"{self.name}.journal")

    def _settle_doubts(self, after: str) -> None:
        """Of what was interrupted, either may be true, and stays so. An erasure that was begun goes on sooner or later, so it is ended at once."""
        if self.model.interrupted == "forget_scope":
            about = self.model.begin("forget_scope")
            with suppress(InvalidValue):  # There is nothing left of it.
                self.memory.forget(scope=self.scope, reason="the soak asked for it")
            self.model.finish(about)
            self.model.doubtful.clear()
        self.model.interrupted = ""
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
            messages = self.memory.session(subject.removeprefix(SESSIONS), scope=self.scope)
            return "\n".join(message.text or "" for message in messages) or None
        key = scoped_key("VAULT" if subject.startswith(LAW) else "LEDGER", SHARED, subject)
        found = self.memory.store.read(self.memory.namespace, [key])
        return record_of(found[key]).text if key in found else None

    def _check(self, subject: str) -> None:
        found, expected = self._current(subject), self.model.texts.get(subject)
        require(found == expected, f"{subject} holds {found!r} and not {expected!r}")

    def _facts(self) -> int:
        """How many facts were acknowledged."""
        return int(self._acknowledged.read_text()) if self._acknowledged.exists() else 0

    def _fact(self, number: int) -> Write:
        value = f"Fact {number} of {self.name} weighs {number * 7919 % 10_007} grams."
        return Write.of(FACTS, f"{self.name}/{number}", ActionType.WRITE, value)

    def _holds(self, number: int) -> bool:
        """Whether a fact is there, and is what was committed."""
        fact = self._fact(number)
        found = self.memory.store.read(FACTS, [fact.key]).get(fact.key)
        require(found is None or found.content == fact.content, f"{fact.key} is not what was committed")
        return found is not None

    def _check_facts(self) -> None:
        """All that was acknowledged is there, at most one more is, and nothing behind it. Of old facts some are looked at."""
        facts = self._facts()
        last = range(max(0, facts - BURST_FACTS), facts)
        some = [self.dice.randrange(facts) for _ in range(SAMPLED_FACTS)] if facts else []
        for number in (*last, *some):
            require(self._holds(number), f"fact {number} of {self.name} was acknowledged, and is lost")
        if self._holds(facts):
            self._acknowledge(facts + 1)
        require(not self._holds(facts + 1), f"fact {facts + 1} of {self.name} was never remembered")

    def _acknowledge(self, facts: int) -> None:
        # One small write at one place: a kill comes before or after it.
        self._acknowledged.touch()
        with self._acknowledged.open("r+b", buffering=0) as file:
            file.write(b"%012d" % facts)

    def burst(self) -> None:
        """Commit many facts, each in a commit of its own, as fast as it goes."""
        store, facts = self.memory.store, self._facts()
        for number in range(facts, facts + BURST_FACTS):
            start = number if self.dice.random() < 0.5 else store.head()
            store.commit(
                Commit.of(
                    run_id=f"{self.name}-{number}",
                    memory_snapshot_id=min(start, store.head()),
                    policy_set_id="soak",
                    writes=[self._fact(number)],
                )
            )
            self._acknowledge(number + 1)
        require(self._holds(self.dice.randrange(number + 1)), f"a fact of {self.name} is lost")

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
