"""What the workers of the shared soak did, by their journals, and whether the store agrees.

Every thread of every worker has a journal: a line before each call with what it is about to do and the newest
snapshot, and one after it with the answer. Calls are ordered by the snapshots of their receipts, so nobody's
clock matters. Of an erasure the store says up to which snapshot it erases; that it may neither be before the
call nor after the commit that stored the intent is checked too.

    what must be there   written behind the snapshot of every erasure that reaches it
    what must be gone    written up to the snapshot of an erasure that has ended, or before a call that was
                         answered
    either               written up to the snapshot of an erasure that was begun, or by a call without an
                         answer
"""

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

from standfast.memory import Memory
from standfast.memory.erasure_targets import ErasureIntent
from standfast.records.rows import SYSTEM_NAMESPACE, RowKind
from standfast.records.scopes import is_within, prefix_of
from standfast.records.vocabulary import ActionType, Band
from standfast.store.store import Store
from tests.soak_model import require

THANKS = "Thanks!"
"""A turn that many say; every other text is said once."""


class Journal:
    """The calls of one thread, one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        # A line that a kill cut short ends here.
        os.write(self._file, b"\n")

    def write(self, line: dict[str, Any]) -> None:
        """Append a line, with one write: a kill comes before or after it."""
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass(slots=True)
class Call:
    """A call: what it was about to do, the newest snapshot before it, and its answer, if there is one."""

    verb: str
    scope: str
    head: int
    facts: dict[str, Any]
    answer: dict[str, Any] | None = None

    @property
    def first(self) -> float:
        """The first snapshot that may hold what it wrote."""
        return self.answer.get("snapshot", self.head + 1) if self.answer else self.head + 1

    @property
    def last(self) -> float:
        """The last one; without an answer there is none."""
        return self.answer.get("snapshot", self.answer["head"]) if self.answer else inf


def read_calls(paths: Iterable[Path]) -> list[Call]:
    """All calls in journals. A repeated call under the same run id is one call."""
    calls: list[Call] = []
    for path in paths:
        begun: dict[str, Call] = {}
        for line in path.read_bytes().splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if "answer" in told:
                begun[told["id"]].answer = told["answer"]
            elif told["id"] not in begun:
                begun[told["id"]] = Call(told["verb"], told["scope"], told["head"], told["facts"])
        calls.extend(begun.values())
    return calls


@dataclass(slots=True)
class Erasure:
    """An erasure of a scope by the store's own rows: up to which snapshot, and the one that ended it."""

    scope: str
    until: int
    begun: int
    ended: float = inf


def erasures_of(store: Store) -> list[Erasure]:
    """Every erasure of a scope that was ever begun."""
    found = []
    for versions in store.versions_by_key(SYSTEM_NAMESPACE, prefix=prefix_of(RowKind.FORGETTING)):
        intent = ErasureIntent.read(versions[0])
        is_over = versions[-1].content is None
        ended = versions[-1].memory_snapshot_id if is_over else inf
        found.append(Erasure(intent.target.scope, intent.until, versions[0].memory_snapshot_id, ended))
    return found


@dataclass(slots=True)
class ScopeJudge:
    """Holds the calls on one scope against the store.

    Args:
        calls: Those that reach the scope, erasures of scopes above it included.
        erasures: Those that reach it, by the store.
    """

    memory: Memory
    scope: str
    calls: list[Call]
    erasures: list[Erasure]
    done: Counter[str] = field(default_factory=Counter)

    def of(self, *verbs: str) -> list[Call]:
        """The calls of some verbs on this very scope."""
        return [call for call in self.calls if call.verb in verbs and call.scope == self.scope]

    def may_be_gone(self, call: Call) -> bool:
        """Whether an erasure of the scope may have taken what a call wrote."""
        return any(call.first <= one.until for one in self.erasures)

    def must_be_gone(self, call: Call) -> bool:
        """Whether an erasure of the scope that has ended must have taken it."""
        by_store = any(call.last <= one.until and one.ended < inf for one in self.erasures)
        answered = (one for one in self.calls if one.verb == "forget_scope" and one.answer is not None)
        return by_store or any(call.last <= one.head for one in answered)

    def judge(self) -> None:
        """Check everything that the scope holds."""
        for session in sorted({call.facts["session"] for call in self.of("add")}):
            self._judge_session(session)
        for subject in sorted({call.facts["subject"] for call in self.of("overwrite", "forget")}):
            self._judge_subject(subject)
        held = Counter(one.text for one in self.memory.records(band=Band.LEDGER, scope=self.scope))
        self._judge_texts(held)
        known = {text for call in self.calls for text in call.facts.get("texts", ())}
        strange = sorted(held.keys() - known)
        require(not strange, f"{self.scope} holds what nobody wrote: {strange[:3]}")
        self._judge_recalls()

    def _judge_session(self, session: str) -> None:
        """No turn is dropped, doubled or brought back."""
        said: dict[int, str | None] = {}
        for one in self.memory.session(session, scope=self.scope):
            require(one.position not in said, f"two turns of {session} are at {one.position}")
            said[one.position] = one.text
        place, unanswered = f"{self.scope} {session}", Counter[str]()
        taken: dict[int, str] = {}
        for call in (one for one in self.of("add") if one.facts["session"] == session):
            if call.answer is None:
                unanswered.update(call.facts["texts"])
                continue
            for position, text in zip(call.answer["positions"], call.facts["texts"], strict=True):
                self.done["turns"] += 1
                require(position not in taken, f"{place}: two calls were given position {position}")
                taken[position] = text
                found = said.pop(position, None)
                require(found in (None, text), f"{place}: {position} says {found!r} and not {text!r}")
                require(found or self.may_be_gone(call), f"{place}: {text!r} at {position} is lost")
                require(not (found and self.must_be_gone(call)), f"{place}: {text!r} was erased and is there")
        extra = Counter(map(str, said.values())) - unanswered
        require(not extra, f"{place}: turns of no call, or doubled: {sorted(extra)[:3]}")

    def _judge_subject(self, subject: str) -> None:
        """Every version that was acknowledged is there or was erased, and nothing else is."""
        entries = [
            one
            for one in self.memory.history(subject, scope=self.scope)
            if one.key.startswith(f"{Band.LEDGER}/")
        ]
        writes = {
            one.memory_snapshot_id: one.record.text if one.record is not None else None
            for one in entries
            if one.action is not ActionType.EXPIRE
        }
        forgets = [one for one in self.of("forget") if one.facts["subject"] == subject]
        place, unanswered = f"{self.scope} {subject}", Counter[str]()
        for call in (one for one in self.of("overwrite") if one.facts["subject"] == subject):
            (text,) = call.facts["texts"]
            if call.answer is None:
                unanswered[text] += 1
                continue
            self.done["overwrites"] += 1
            snapshot = call.answer["snapshot"]
            require(snapshot in writes, f"{place}: nothing was written at {snapshot}: {text!r} is lost")
            found = writes.pop(snapshot)
            may, must = self._is_forgotten(forgets, snapshot)
            require(found in (None, text), f"{place}: {snapshot} holds {found!r} and not {text!r}")
            require(found or may or self.may_be_gone(call), f"{place}: {text!r} at {snapshot} is lost")
            is_gone = must or self.must_be_gone(call)
            require(not (found and is_gone), f"{place}: {text!r} was erased and is there")
        extra = Counter(text for text in writes.values() if text is not None) - unanswered
        require(not extra, f"{place}: versions of no call, or doubled: {sorted(extra)[:3]}")
        require(len(writes) <= unanswered.total(), f"{place}: {len(writes)} versions are of no call")

    def _is_forgotten(self, forgets: list[Call], snapshot: int) -> tuple[bool, bool]:
        """Whether forgetting the subject may have taken a version, and whether it must have."""
        may = must = False
        for call in forgets:
            if call.answer is None:
                may = True
            else:
                # It takes the versions of some snapshot between its beginning and its commit.
                may = may or (call.answer["records"] > 0 and snapshot < call.answer["snapshot"])
                must = must or snapshot <= call.head
        return may or must, must

    def _judge_texts(self, held: Counter[str]) -> None:
        """What was imported, or noted by many in the same words: it is there unless an erasure came later."""
        by_text: dict[str, list[Call]] = defaultdict(list)
        for call in self.of("note", "import"):
            for text in call.facts["texts"]:
                by_text[text].append(call)
        for text, calls in by_text.items():
            answered = [call for call in calls if call.answer is not None]
            self.done["notes"] += len(answered)
            # A text that was known is as old as the answer's snapshot, at least.
            if any(not any(call.head <= one.until for one in self.erasures) for call in answered):
                require(held[text], f"{self.scope}: {text!r} is lost")
            if all(self.must_be_gone(call) for call in calls):
                require(not held[text], f"{self.scope}: {text!r} was erased and is there")
            if held[text] > 1:
                self.done["notes that are there twice"] += 1

    def _judge_recalls(self) -> None:
        """A recall shows nothing that had been erased when it was asked, and nothing from the future."""
        written = {
            text: call
            for call in self.of("add", "overwrite", "import")
            for text in call.facts["texts"]
            if text != THANKS
        }
        for recall in self.of("recall"):
            if recall.answer is None:
                continue
            self.done["recalls"] += 1
            snapshot = recall.answer["snapshot"]
            for text in recall.answer["texts"]:
                call = written.get(text)
                if call is None:
                    continue
                is_over = any(call.last <= one.until and one.ended <= recall.head for one in self.erasures)
                require(
                    not is_over, f"{self.scope}: {text!r} was erased before it was recalled at {snapshot}"
                )
                require(call.head < snapshot, f"{self.scope}: {text!r} was recalled before it was written")


class RoundJudge:
    """Holds all journals of a round against the store."""

    def __init__(self, memory: Memory, journals: Iterable[Path]) -> None:
        self._memory = memory
        self._calls = read_calls(journals)

    @cached_property
    def _erasures(self) -> list[Erasure]:
        return erasures_of(self._memory.store)

    def judge(self) -> Counter[str]:
        """Check every scope that was written to. Returns what was looked at."""
        done: Counter[str] = Counter()
        for one in self._erasures:
            require(one.until < one.begun, f"an erasure of {one.scope} reaches behind its intent")
        for call in self._calls:
            done[f"{call.verb} answered" if call.answer is not None else "unanswered"] += 1
        for scope in sorted({call.scope for call in self._calls if call.verb != "forget_scope"}):
            calls = [call for call in self._calls if call.scope == scope or is_within(scope, call.scope)]
            reaching = [one for one in self._erasures if is_within(scope, one.scope)]
            judge = ScopeJudge(self._memory, scope, calls, reaching)
            judge.judge()
            done.update(judge.done)
        return done
