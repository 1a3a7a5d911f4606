"""The soak: several processes use one store in every way, are killed at any moment, and a model checks every answer.

    python -m tests.soak FOLDER [--store URL] [--seconds N] [--actions N] [--workers N] [--seed N]

Each worker has subjects of its own. It notes in a journal what it is about to do, and then what came of it; the journal
is the model, and does not use the store. A worker that was killed is started again and reads its journal: of an action
without an outcome, either may be true. The whole is done in rounds; after each, with nobody at work, the store is
verified, backed up, restored from the backup, and verified again. A folder that was used before is continued.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from standfast.ledger.notary import Notary
from standfast.memory import Memory
from standfast.store.audit import erasures_in
from standfast.store.restore import accept_restored, restorations_of, restore_copy
from standfast.store.store import Store, open_store

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
}


class Violation(Exception):
    """The store gave an answer that the model does not allow."""


def require(holds: object, problem: str) -> None:
    """Raise a violation unless something holds."""
    if not holds:
        raise Violation(problem)


class Model:
    """What one worker's subjects hold, from its journal alone. None: forgotten, or never remembered."""

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
        if pending is not None and "subject" in pending:
            self.doubtful[pending["subject"]] = pending.get("text")

    def _settle(self, about: dict[str, Any], outcome: dict[str, Any]) -> None:
        self.actions += 1
        if "subject" in about:
            self.texts[about["subject"]] = about.get("text")
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
        self.model = Model(folder / f"{name}.journal")
        self.memory = Memory.open(url)

    def work(self, actions: int) -> None:
        """Settle what was in doubt, check every subject, then act."""
        for subject, text in self.model.doubtful.items():
            now = self._current(subject)
            require(now in (text, self.model.texts.get(subject)), f"{subject} holds {now!r} after a kill")
            self.model.texts[subject] = now
        for subject in list(self.model.texts):
            self._check(subject)
        for _ in range(actions):
            verb = self.dice.choices(list(VERBS), weights=list(VERBS.values()))[0]
            getattr(self, verb)()
            sys.stdout.write(f"{verb}\n")
            sys.stdout.flush()
            if self.dice.random() < 0.1:
                self.memory.close()
                self.memory = Memory.open(self.url)
        self.memory.close()

    def _subject(self) -> str:
        return f"{self.name}/{self.dice.randrange(SUBJECTS)}"

    def _current(self, subject: str) -> str | None:
        entries = [entry for entry in self.memory.history(subject) if entry.key.startswith("LEDGER/")]
        return entries[-1].record.text if entries and entries[-1].record is not None else None

    def _check(self, subject: str) -> None:
        found, expected = self._current(subject), self.model.texts.get(subject)
        require(found == expected, f"{subject} holds {found!r} and not {expected!r}")

    def remember(self) -> None:
        """Remember something of a random length."""
        subject, number = self._subject(), self.dice.randrange(10**6)
        words = " ".join(f"part {self.dice.randrange(100)}" for _ in range(self.dice.choice([1, 3, 40])))
        text = f"Item {number} of {subject} has {words}."
        about = self.model.begin("remember", subject=subject, text=text)
        answer = self.memory.remember(text, subject=subject, source={"kind": "doc", "id": f"plan-{number}"})
        require(answer.verdict == "SEAL", f"{text} got {answer.verdict}")
        self.model.finish(about)
        self._check(subject)

    def forget(self) -> None:
        """Forget a subject; nothing of it is left in any snapshot."""
        known = sorted(subject for subject, text in self.model.texts.items() if text is not None)
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


def soak(folder: Path, url: str, *, seconds: float, actions: int, workers: int, seed: int) -> Counter[str]:
    """Rounds of workers and kills until the time or the actions are used up; returns what was done."""
    done: Counter[str] = Counter()
    dice, until = random.Random(seed), time.monotonic() + seconds
    while done["actions"] < actions and time.monotonic() < until:
        _round(folder, url, workers=workers, dice=dice, done=done, until=until)
        _check_alone(folder, url, done)
        done["rounds"] += 1
    return done


def _round(
    folder: Path, url: str, *, workers: int, dice: random.Random, done: Counter[str], until: float
) -> None:
    running = {}
    for number in range(workers):
        words = ["worker", str(folder), url, f"w{number}", str(dice.randrange(2**31)), "25"]
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
        victim.kill()
        done["kills"] += 1
    outputs = [(process, *process.communicate(timeout=600)) for process in running.values()]
    for process, output, errors in outputs:
        require(process.returncode in (0, -signal.SIGKILL), f"a worker failed: {errors[-2000:]}")
        done.update(output.split())
        done["actions"] += len(output.split())


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
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    os.chdir(given.folder)
    done = soak(
        Path.cwd(),
        given.store,
        seconds=given.seconds,
        actions=given.actions,
        workers=given.workers,
        seed=given.seed,
    )
    told = ", ".join(f"{number:,} {name}" for name, number in sorted(done.items()))
    sys.stdout.write(f"soak: {told}, 0 violations\n")


if __name__ == "__main__":
    main()
