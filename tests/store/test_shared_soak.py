"""The short form of the shared soak, and that it would notice."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from standfast.memory import Memory
from tests.figures import Figures
from tests.shared_soak_model import THANKS, Journal, RoundJudge
from tests.soak_model import Violation

ROOT = Path(__file__).parents[2]
SCOPE = "team/r0/0"


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_processes_that_share_everything_and_are_killed_leave_what_their_journals_say(
    backend: str, request: pytest.FixtureRequest, ram_folder: Path, figures: Figures
) -> None:
    store = "shared.db" if backend == "sqlite" else request.getfixturevalue("postgres_store_url")
    words = ["--store", store, "--rounds", "1", "--round-seconds", "200", "--workers", "2"]
    words += ["--calls", "12", "--kills", "3"]
    command = [sys.executable, "-m", "tests.shared_soak", str(ram_folder), *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)

    assert ended.returncode == 0, ended.stderr[-3_000:]
    done = json.loads(ended.stdout)
    assert done["calls"] >= 2 * 3 * 12
    assert done["cuts"] == 3
    figures("shared soak", calls=done["calls"], kills=done["kills"], violations=0)


class Told:
    """A memory, and a journal that may say something else."""

    def __init__(self, folder: Path) -> None:
        self.memory = Memory.open(":memory:")
        self._path = folder / "r0.w0-0.journal"
        self._journal = Journal(self._path)
        self._calls = 0

    def tell(self, verb: str, answer: dict[str, Any] | None, *, scope: str = SCOPE, **facts: Any) -> None:
        """Write a call into the journal, as if it had been made now."""
        self._calls += 1
        head = self.memory.store.head()
        call = {"id": str(self._calls), "verb": verb, "scope": scope, "head": head, "facts": facts}
        self._journal.write(call)
        if answer is not None:
            self._journal.write({"id": str(self._calls), "answer": {"head": head + 1, **answer}})

    def add(self, *texts: str, told: tuple[str, ...] | None = None, answered: bool = True) -> None:
        """Add turns, and tell the same or something else."""
        said = list(texts if told is None else told)
        answer = {"positions": list(range(len(said))), "snapshot": self.memory.store.head() + 1}
        self.tell("add", answer if answered else None, session="s", texts=said)
        for text in texts:
            self.memory.add([{"role": "user", "content": text}], scope=SCOPE, session="s")

    def overwrite(self, text: str, *, stored: bool = True, answered: bool = True) -> None:
        """Overwrite a subject; if it is not stored, it is only told."""
        answer = {"snapshot": self.memory.store.head() + 1} if answered else None
        self.tell("overwrite", answer, subject="gate", texts=[text])
        if stored:
            self.memory.remember(text, subject="gate", scope=SCOPE)

    def forget_scope(self, *, erased: bool = True) -> None:
        """Forget the scope, or only tell it."""
        self.tell("forget_scope", {"records": 1})
        if erased:
            self.memory.forget(scope=SCOPE, reason="asked for")

    def judge(self) -> None:
        """Hold the journal against the memory."""
        RoundJudge(self.memory, [self._path]).judge()


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_what_was_acknowledged_and_what_may_have_been_is_allowed(told: Told) -> None:
    told.add("One.")
    told.overwrite("The gate opens at 7.")
    told.overwrite("The gate opens at 8.", answered=False)
    told.overwrite("The gate opens at 9.", answered=False, stored=False)
    told.judge()
    told.forget_scope()
    told.overwrite("The gate opens at 10.")
    told.judge()


def test_a_turn_that_is_lost_is_noticed(told: Told) -> None:
    told.tell("add", {"positions": [0], "snapshot": 1}, session="s", texts=["One."])

    with pytest.raises(Violation, match=r"'One\.' at 0 is lost"):
        told.judge()


def test_a_turn_that_is_doubled_or_of_nobody_is_noticed(told: Told) -> None:
    told.add(THANKS, THANKS, told=(THANKS,))

    with pytest.raises(Violation, match="turns of no call, or doubled"):
        told.judge()


def test_a_turn_that_says_something_else_is_noticed(told: Told) -> None:
    told.add("One.", told=("Two.",))

    with pytest.raises(Violation, match=r"0 says 'One\.' and not 'Two\.'"):
        told.judge()


def test_two_turns_at_one_position_are_noticed(told: Told) -> None:
    told.add("One.")
    told.tell("add", {"positions": [0], "snapshot": 1}, session="s", texts=["One."])

    with pytest.raises(Violation, match="two calls were given position 0"):
        told.judge()


def test_what_should_have_been_erased_is_noticed(told: Told) -> None:
    told.add("One.")
    told.forget_scope(erased=False)

    with pytest.raises(Violation, match="was erased and is there"):
        told.judge()


def test_what_was_acknowledged_after_an_erasure_and_is_gone_is_noticed(told: Told) -> None:
    told.overwrite("The gate opens at 7.")
    told.forget_scope()
    told.tell("overwrite", {"snapshot": 2}, subject="gate", texts=["The gate opens at 8."])

    with pytest.raises(Violation, match="is lost"):
        told.judge()


def test_an_overwrite_that_is_lost_is_noticed(told: Told) -> None:
    told.overwrite("The gate opens at 7.", stored=False)

    with pytest.raises(Violation, match="nothing was written at 1"):
        told.judge()


def test_a_version_of_no_call_is_noticed(told: Told) -> None:
    told.overwrite("The gate opens at 7.")
    told.memory.remember("The gate opens at 8.", subject="gate", scope=SCOPE)

    with pytest.raises(Violation, match="versions of no call"):
        told.judge()


def test_a_note_that_is_lost_after_an_erasure_is_noticed(told: Told) -> None:
    told.memory.remember("The pump needs oil.", scope=SCOPE)
    told.forget_scope()
    told.tell("note", {"known": "m1"}, texts=["The pump needs oil."])

    with pytest.raises(Violation, match=r"'The pump needs oil\.' is lost"):
        told.judge()


def test_a_recall_of_what_was_erased_is_noticed(told: Told) -> None:
    told.overwrite("The gate opens at 7.")
    told.forget_scope()
    snapshot = told.memory.store.head()
    told.tell("recall", {"snapshot": snapshot, "texts": ["The gate opens at 7."]}, query="gate")

    with pytest.raises(Violation, match="was erased before it was recalled"):
        told.judge()
