"""What a worker of the soak knows without asking the store: what each of its subjects holds, and which of its
facts were acknowledged.
"""

import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from standfast.records.rows import RowKind
from standfast.records.scopes import SHARED, scoped_key
from standfast.records.vocabulary import ActionType
from standfast.store.commit import Write
from standfast.store.store import Store

FACTS = "facts"
"""The namespace of what is committed without a judge, as fast as it goes."""
LANES = 32
"""How many threads of a worker commit facts at the same time, at most.

Each has facts of its own, one after the other.
"""
LAW, SESSIONS = "law/", "session/"
MAX_JOURNAL_BYTES = 1 << 20
MAX_PACKAGES = 200
_LAST_FACTS = 20
_SAMPLED_FACTS = 2
_KEYS_A_READ = 1_000


class Violation(Exception):
    """The store gave an answer that the model does not allow."""


def require(holds: object, problem: str) -> None:
    """Raise a violation unless something holds."""
    if not holds:
        raise Violation(problem)


def lines_of(text: str | None) -> list[str]:
    """The messages of a conversation."""
    return text.split("\n") if text else []


class Model:
    """What one worker's subjects hold, from its journal alone. None: forgotten, or never remembered.

    A conversation is a subject too: its text is that of all its messages. If forgetting was interrupted, the
    messages that were there are ``fading``: each is there or gone, until anyone ends it. What was added since
    stays, and is the subject's text.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self.texts: dict[str, str | None] = {}
        self.fading: dict[str, list[str]] = {}
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
        state = (
            {"about": "state", "texts": self.texts, "fading": self.fading},
            {"done": "state", "packages": self.packages},
        )
        new = self._journal.with_suffix(".new")
        new.write_text("".join(f"\n{json.dumps(line)}" for line in state))
        new.replace(self._journal)

    def _changes(self, about: dict[str, Any]) -> dict[str, str | None]:
        if "texts" in about:
            return dict(about["texts"])
        if about["about"] == "forget_scope":
            return {subject: None for subject in self.texts if subject.startswith(SESSIONS)}
        return {about["subject"]: about.get("text")} if "subject" in about else {}

    def _settle(self, about: dict[str, Any], outcome: dict[str, Any]) -> None:
        self.actions += 1
        self.texts.update(self._changes(about))
        if about["about"] == "forget_scope":
            self.fading.clear()
        self.fading.update(about.get("fading", {}))
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

    def let_fade(self) -> None:
        """Forgetting all conversations was begun, and did not end: each message that was there may go, at any
        time.
        """
        sessions = [subject for subject in self.texts if subject.startswith(SESSIONS)]
        fading = {one: [*self.fading.get(one, []), *lines_of(self.texts[one])] for one in sessions}
        self.finish(self.begin("fade", texts=dict.fromkeys(sessions), fading=fading))

    def allows(self, subject: str, found: str | None, text: str | None) -> bool:
        """Whether a subject that holds this text may be read as what was found.

        What faded is gone from then on.
        """
        fading = self.fading.get(subject, [])
        if not fading:
            return found == text
        lines, stay = lines_of(found), lines_of(text)
        left = lines[: len(lines) - len(stay)]
        if lines[len(left) :] != stay or not _is_in_order_among(left, fading):
            return False
        if left != fading:
            self.finish(self.begin("fade", fading={subject: left}))
        return True

    def _write(self, line: dict[str, Any]) -> None:
        with self._journal.open("ab") as file:
            # A line that a kill cut short ends here.
            file.write(b"\n" + json.dumps(line).encode())


def _is_in_order_among(some: Iterable[str], all_of_them: Iterable[str]) -> bool:
    rest = iter(all_of_them)
    return all(one in rest for one in some)


class Facts:
    """The facts of a worker: in each lane it commits one after the other, and notes how many were
    acknowledged.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._file = os.open(folder / f"{name}.acknowledged", os.O_RDWR | os.O_CREAT)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def acknowledged(self, lane: int) -> int:
        """How many facts of a lane were acknowledged."""
        return int(os.pread(self._file, 12, lane * 12).strip(b"\0") or 0)

    def acknowledge(self, lane: int, facts: int) -> None:
        """Note it with one small write at one place: a kill comes before or after it."""
        os.pwrite(self._file, b"%012d" % facts, lane * 12)

    def fact(self, lane: int, number: int) -> Write:
        """The fact of this number."""
        value = f"Fact {number} of {self.name} in {lane} weighs {number * 7919 % 10_007} grams."
        return Write.of(
            FACTS, scoped_key(RowKind.TTL, SHARED, f"{self.name}/{lane}/{number}"), ActionType.WRITE, value
        )

    def check(self, store: Store, sample: Iterable[float]) -> None:
        """All that was acknowledged is there, at most one more of each lane is, and nothing behind it.

        Of old facts some are looked at.

        Args:
            sample: Random numbers below 1 without end: which of the old facts.
        """
        dice, known = iter(sample), [(lane, self.acknowledged(lane)) for lane in range(LANES)]
        there = {
            (lane, number)
            for lane, facts in known
            for number in (
                *range(max(0, facts - _LAST_FACTS), facts),
                *(int(next(dice) * facts) for _ in range(_SAMPLED_FACTS if facts else 0)),
            )
        }
        behind = {(lane, facts + more) for lane, facts in known for more in (0, 1)}
        found = set(self._found(store, sorted(there | behind)))
        lost = sorted(there - found)
        require(not lost, f"facts of {self.name} were acknowledged, and are lost: {lost[:9]}")
        for lane, facts in known:
            problem = f"fact {facts + 1} of {self.name} in {lane} was never remembered"
            require((lane, facts + 1) not in found, problem)
            if (lane, facts) in found:
                self.acknowledge(lane, facts + 1)

    def check_all(self, store: Store) -> int:
        """Everything that was acknowledged is there, and is what was committed.

        Returns how many facts there are.
        """
        known = [(lane, self.acknowledged(lane)) for lane in range(LANES)]
        facts = sum(facts for _, facts in known)
        there = sum(
            1
            for _ in self._found(store, ((lane, number) for lane, facts in known for number in range(facts)))
        )
        require(there == facts, f"{facts - there} facts of {self.name} were acknowledged, and are lost")
        return facts

    def _found(self, store: Store, places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Which facts are there. It is a violation if one is not what was committed."""
        rest = iter(places)
        while facts := {place: self.fact(*place) for place in islice(rest, _KEYS_A_READ)}:
            found = store.read(FACTS, [fact.key for fact in facts.values()])
            for place, fact in facts.items():
                if fact.key in found:
                    require(found[fact.key].content == fact.content, f"{fact.key} is not what was committed")
                    yield place
