"""Judging in worker processes: what is stored is the same, whatever goes on."""

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import pytest

from standfast.adapters import importing
from standfast.adapters.importing import ImportReport, import_file
from standfast.adapters.judging_workers import _applied, _CommitSender
from standfast.clock import ManualClock
from standfast.errors import InvalidValue, StandfastError, StoreFailed
from standfast.govern.judge import FloorRegistry
from standfast.govern.judge.judge import Claim, JudgingContext
from standfast.memory import Memory
from standfast.policies import BandBudget
from standfast.records.origins import Origin
from standfast.records.rows import SYSTEM_NAMESPACE
from standfast.records.vocabulary import ActionType, Band
from standfast.store.commit import Commit, Write
from standfast.store.pipeline import Submission
from tests.adapters.test_importing import ATTACK, lines, texts
from tests.memory.test_audit import OLD, propose, seal

START = datetime(2026, 11, 16, tzinfo=UTC)


class StillClock(ManualClock):
    """A clock that stands still, also while somebody waits for a turn."""

    def sleep(self, seconds: float) -> None:
        """Return at once."""


def opened(path: str, **options: Any) -> Memory:
    """A memory whose clock stands still, so that two imports of a file may be compared to the byte."""
    return Memory.open(path, clock=StillClock(START), notary=None, **options)


def imported(folder: Path, file: Path, workers: int, **options: Any) -> tuple[ImportReport, list[Any]]:
    """The report of an import into a new store, and every row that it holds, in the order of commits."""
    path = str(folder / f"{file.stem}-{workers}.db")
    with opened(path, **options) as memory:
        memory.remember("Ada's plan is basic.", subject="plan", source={"kind": "user", "id": "ada"})
        memory.remember("Crate 3 is on shelf 9.", subject="crate")
        report = import_file(
            memory,
            file,
            file_format="jsonl",
            workers=workers,
            open_memory=partial(opened, path, **options),
            max_origin=Origin.TRUSTED,
        )
        assert list(memory.verify()) == []
        assert memory.warnings == []
        rows = [row for commit in range(1, memory.store.head() + 1) for row in stored_by(memory, commit)]
    return report, rows


def stored_by(memory: Memory, commit: int) -> Iterator[tuple[str, str, str]]:
    """The rows of a commit. That of an idempotency key names the attempt, and the related records then."""
    for one in memory.store.versions_of(commit):
        content = "" if one.namespace == SYSTEM_NAMESPACE else (one.content or b"").decode()
        yield one.key, one.action, content


def rows_that_depend_on_each_other() -> Iterator[dict[str, Any]]:
    """Texts of which many are judged by what other parts of the file say."""
    for number in range(120):
        yield {"text": f"Crate {number} is on shelf {number * 7}."}
        if number % 12 == 0:
            yield {"text": "Thanks, that is all for today then."}
            yield {"text": f"The plan of Ada has {number} seats.", "subject": "plan"}
            yield {"text": f"Bob lives at number {number}.", "subject": "bob", "scope": "user/bob"}
            yield {"text": f"Ada moved to Oslo in {1980 + number // 12}.", "scope": "user/ada"}
        if number % 31 == 0:
            yield {"text": ATTACK, "source": {"kind": "web", "id": f"https://evil.example/{number}"}}
            source = {"kind": "doc", "id": f"book-{number}"}
            yield {"text": "The shop opens at nine in the morning.", "source": source}
        if number % 50 == 9:
            cited = {"kind": "memory", "id": "bob", "scope": "user/bob"}
            yield {"text": f"Bob has a garden since {number}.", "refs": [cited], "scope": "user/bob"}
            yield {"text": f"Nobody is above rule {number}.", "band": "VAULT", "memory_id": f"rule/{number}"}
            yield {"no": "text"}


def test_what_is_stored_is_the_same_for_any_number_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "IMPORT_PART_FACTS", 17)
    file = tmp_path / "facts.jsonl"
    file.write_text(lines(*rows_that_depend_on_each_other()), encoding="utf-8")
    alone, rows = imported(tmp_path, file, 1)

    assert alone.accepted > 130
    assert alone.known > 8
    assert alone.rejected > 4
    assert imported(tmp_path, file, 2) == (alone, rows)


def test_what_is_stored_is_the_same_also_if_a_band_has_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "IMPORT_PART_FACTS", 7)
    file = tmp_path / "facts.jsonl"
    file.write_text(
        lines(*({"text": f"Box {number % 10} is on shelf {number % 10}."} for number in range(84)))
    )
    budget = BandBudget(band=Band.LEDGER, max_bytes=10_000_000, policy="AlwaysWrite")
    alone, rows = imported(tmp_path, file, 1, budgets=[budget])

    assert (alone.accepted, alone.known) == (10, 74)
    assert imported(tmp_path, file, 2, budgets=[budget]) == (alone, rows)


def test_what_stands_later_in_a_file_is_said_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "IMPORT_PART_FACTS", 30)
    file, path = tmp_path / "facts.jsonl", str(tmp_path / "facts.db")
    said = [f"Crate {number} is on shelf {number * 7}." for number in range(180)]
    said[29:31] = "Ada lives in Oslo.", "Ada lives in Bergen."
    file.write_text(lines(*({"text": text} for text in said)))
    opener = partial(Memory.open, path, notary=None)
    with opener() as memory:
        import_file(memory, file, file_format="jsonl", workers=2, open_memory=opener)
        records = sorted(memory.records(band=Band.LEDGER), key=lambda one: one.ts_utc or "")
        recalled = memory.recall("Where does Ada live?").text

        assert [one.text for one in records] == said
        assert len({one.ts_utc for one in records}) == 180
        assert "Ada lives in Oslo. (said later" in recalled


def test_a_value_that_returns_in_a_file_is_said_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it differs from is in a part that is judged at the same time."""
    monkeypatch.setattr(importing, "IMPORT_PART_FACTS", 30)
    file, path = tmp_path / "facts.jsonl", str(tmp_path / "facts.db")
    crates = [f"Crate {number} is red." for number in range(29)]
    file.write_text(
        lines(*({"text": text} for text in (*crates, "Ada lives in Bergen.", "Ada lives in Oslo.")))
    )
    opener = partial(Memory.open, path, notary=None)
    with opener() as memory:
        memory.remember("Ada lives in Oslo.")
        report = import_file(memory, file, file_format="jsonl", workers=2, open_memory=opener)

        assert (report.accepted, report.known) == (31, 0)
        assert "Ada lives in Bergen. (said later" in memory.recall("Where does Ada live?").text


def test_who_writes_all_the_time_does_not_keep_an_import_from_its_commits(tmp_path: Path) -> None:
    file, path = tmp_path / "facts.jsonl", str(tmp_path / "facts.db")
    file.write_text(lines({"text": "Ada's plan is large.", "subject": "plan"}))
    with opened(path) as memory, opened(path) as other:
        written, watch = count(1), memory.store.before_commit["default"]

        def writes_under_what_was_read(commit: Commit) -> None:
            number = next(written)
            other.remember(f"Plan {number} costs {number} euros.", subject=f"plan {number}")
            watch(commit)

        memory.store.before_commit["default"] = writes_under_what_was_read
        report = import_file(memory, file, file_format="jsonl", workers=2, open_memory=partial(opened, path))

        assert report.accepted == 1
        assert next(written) <= 4
        assert "Ada's plan is large." in texts(memory)


USER: dict[str, Any] = {"kind": "user", "id": "ada"}
SITE: dict[str, Any] = {"kind": "web", "id": "https://evil.example/a"}


def says_the_same(memory: Memory) -> None:
    """Somebody says what the file says."""
    memory.remember("VAT is 19 %.")


def says_what_is_cited(memory: Memory) -> None:
    """Somebody says what the file cites."""
    memory.remember("Bob has a garden.", subject="bob", source=USER)


def says_something_next_to_it(memory: Memory) -> None:
    """A document says something else next to what the user said."""
    memory.remember("Ada's plan is free.", subject="plan", source={"kind": "doc", "id": "prices"})


def finds_it_wrong(memory: Memory) -> None:
    """An operator takes what is known out of recall."""
    memory.quarantine("plan", reason="nobody knows who said it")


def makes_it_law(memory: Memory) -> None:
    """A person signs what the file says otherwise."""
    seal(memory, propose(memory, OLD, "law/1"), "1" * 32)


def forgives_the_site(memory: Memory) -> None:
    """An operator lifts what is held against the site, which attacked before."""
    memory.lift_pattern("web:evil.example", reason="it was ours")


@pytest.mark.parametrize(
    ("row", "meanwhile"),
    [
        ({"text": "VAT is 19 %."}, says_the_same),
        (
            {"text": "Bob grows roses.", "source": USER, "refs": [{"kind": "memory", "id": "bob"}]},
            says_what_is_cited,
        ),
        ({"text": "Ada's plan is large.", "source": USER, "subject": "plan"}, says_something_next_to_it),
        ({"text": "Roses need water.", "source": SITE}, forgives_the_site),
        ({"text": "Ada's plan is basic.", "source": USER}, finds_it_wrong),
        ({"text": OLD}, makes_it_law),
    ],
)
def test_a_part_is_judged_again_if_what_it_was_judged_by_has_changed(
    tmp_path: Path, row: dict[str, Any], meanwhile: Callable[[Memory], None]
) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text(lines(row), encoding="utf-8")
    importer = importing._Importer(run_prefix="r", dry_run=False, max_origin=Origin.TRUSTED)
    (part,) = importing._parts(importing.READERS["jsonl"](file, "shared"))

    def outcome(path: str, *, before: bool) -> tuple[Any, list[str]]:
        """What becomes of the part if the others write before it is judged, or after."""
        with opened(path) as memory, opened(path) as judging:
            memory.remember("Ada's plan is basic.", subject="plan", source=USER)
            for number in range(3):
                memory.remember(f"{ATTACK} {number}", source=SITE)
            # What a part before this one looked up is kept in memory.
            judging.remember("Nothing is known of Bob.")
            ours, theirs = Pipe()
            _CommitSender(theirs, judging)
            waiting = [meanwhile]

            def serve() -> None:
                with suppress(EOFError):
                    while True:
                        judged = ours.recv()
                        while waiting:
                            waiting.pop()(memory)
                        ours.send(_applied(memory, judged, turn=memory.store.head()))

            if before:
                waiting.pop()(memory)
                reported = importer.take(memory, part)
            else:
                server = threading.Thread(target=serve)
                server.start()
                reported = importer.take(judging, part)
                theirs.close()
                server.join()
            kept = [
                f"{one.band} {one.origin} {one.verdict} {len(one.supersedes)} {one.text}"
                for band in (Band.LEDGER, Band.VOID, Band.WITNESS)
                for one in memory.records(band=band)
            ]
            return reported, sorted(kept)

    alone = outcome(str(tmp_path / "alone.db"), before=True)

    assert outcome(str(tmp_path / "worker.db"), before=False) == alone


def test_conversations_are_judged_by_workers_too(tmp_path: Path) -> None:
    chats = [
        {
            "uuid": f"chat-{number}",
            "name": "",
            "chat_messages": [
                {"uuid": f"{number}-{turn}", "sender": sender, "text": f"{sender} says {turn} of {number}."}
                for turn, sender in enumerate(("human", "assistant") * 3)
            ],
        }
        for number in range(7)
    ]
    file, path = tmp_path / "conversations.json", str(tmp_path / "chats.db")
    file.write_text(json.dumps(chats), encoding="utf-8")
    with opened(path) as memory:
        opener = partial(opened, path)
        report = import_file(memory, file, file_format="claude", workers=2, open_memory=opener)

        assert report.accepted == 42
        assert len(texts(memory)) == 42


def test_the_instants_of_a_part_lie_within_it_also_if_it_is_judged_again(tmp_path: Path) -> None:
    clock, (ours, theirs) = ManualClock(START), Pipe()
    writes = [Write.of("default", "LEDGER/shared//a", ActionType.WRITE, {"text": "VAT is 19 %."})]
    refused = Submission(Commit.of(run_id="r", memory_snapshot_id=0, policy_set_id="p", writes=writes))

    def instants(memory: Memory, number: int) -> set[datetime]:
        found = set()
        for _ in range(number):
            clock.advance(seconds=1)
            found.add(memory.store.clock.now())
        return found

    with Memory.open(str(tmp_path / "facts.db"), clock=clock, notary=None) as memory:
        sender = _CommitSender(theirs, memory)
        sender.begin(START)
        first = instants(memory, 700)
        ours.send(StoreFailed("worker_ended", exit_code=1))
        sender._submit(refused)
        again = instants(memory, 2000)

    assert first < again
    assert len(again) == 999
    assert min(again) > START
    assert max(again) < START + timedelta(milliseconds=1)


class FatalFloor:
    """Ends a worker process that judges a certain text, as a kill would."""

    name, threshold, hard = "F10_Fatal", 0.5, True

    def __init__(self, flag: str) -> None:
        self._flag = Path(flag)

    def check(self, claim: Claim, context: JudgingContext) -> tuple[float, str]:
        """Passes in the process of the test."""
        _ = context
        if (
            "Crate 70 " in claim.record.text
            and self._flag.exists()
            and os.getpid() != int(self._flag.read_text())
        ):
            self._flag.unlink()
            os._exit(9)
        return 1.0, ""


def with_fatal_floor(path: str, flag: str) -> Memory:
    """A memory with that floor."""
    floors: Iterable[Any] = [*FloorRegistry.shipped(), FatalFloor(flag)]
    return opened(path, floors=floors)


def test_a_worker_that_is_killed_loses_nothing_and_the_import_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "IMPORT_PART_FACTS", 20)
    file, path, flag = tmp_path / "facts.jsonl", str(tmp_path / "facts.db"), str(tmp_path / "flag")
    file.write_text(lines(*({"text": f"Crate {n} is on shelf {n * 7}."} for n in range(120))))
    Path(flag).write_text(str(os.getpid()))
    with with_fatal_floor(path, flag) as memory:
        opener = partial(with_fatal_floor, path, flag)
        with pytest.raises(StoreFailed, match="exit code 9"):
            import_file(memory, file, file_format="jsonl", workers=2, open_memory=opener)
        before = len(texts(memory))
        rehearsed = import_file(
            memory, file, file_format="jsonl", dry_run=True, workers=2, open_memory=opener
        )
        assert rehearsed.read == 120
        assert len(texts(memory)) == before
        report = import_file(memory, file, file_format="jsonl", workers=2, open_memory=opener)

        assert before == 60
        assert (report.accepted, report.resumed) == (120, 60)
        assert len(texts(memory)) == 120
        assert list(memory.verify()) == []


def test_all_or_nothing_is_decided_in_the_turn_of_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a part cites may be in the part before it."""
    monkeypatch.setattr(importing, "IMPORT_PART_FACTS", 2)
    file = tmp_path / "facts.jsonl"
    cites = {"text": "Always answer Ada in German.", "source": {"kind": "memory", "id": "language"}}
    said = {"text": "Ada wants answers in German.", "subject": "language", "source": USER}
    attack = {"text": ATTACK, "source": SITE}
    crates = [{"text": f"Crate {number} is red."} for number in range(3)]
    file.write_text(lines(said, crates[0], crates[1], cites, crates[2], attack))

    def outcome(workers: int) -> tuple[str, list[str], int]:
        path = str(tmp_path / f"facts-{workers}.db")
        opener = partial(opened, path, commit_policy="all_or_nothing")
        with opener() as memory:
            with pytest.raises(StandfastError, match="all_or_nothing") as refused:
                import_file(
                    memory,
                    file,
                    file_format="jsonl",
                    max_origin=Origin.TRUSTED,
                    workers=workers,
                    open_memory=opener,
                )
            return str(refused.value), sorted(texts(memory)), memory.store.head()

    alone = outcome(1)

    assert len(alone[1]) == 4
    assert outcome(3) == alone


@pytest.mark.parametrize(
    ("workers", "options", "problem"),
    [
        (0, {}, "it must be 1 to 64, not 0"),
        (65, {}, "it must be 1 to 64, not 65"),
        (2, {"namespace": "other"}, "it opens another memory in a worker"),
        (2, {"ceiling": "read_only"}, "the same policies, ceiling and embedder"),
        (2, {"embedder": "none"}, "the same policies, ceiling and embedder"),
    ],
)
def test_workers_that_can_not_work_are_refused(
    tmp_path: Path, workers: int, options: dict[str, Any], problem: str
) -> None:
    file, path = tmp_path / "facts.jsonl", str(tmp_path / "facts.db")
    file.write_text(lines({"text": "VAT is 19 %."}))
    with opened(path) as memory:
        opener = partial(opened, path, **options)
        with pytest.raises(InvalidValue, match=problem):
            import_file(memory, file, file_format="jsonl", workers=workers, open_memory=opener)
        with pytest.raises(InvalidValue, match="give open_memory="):
            import_file(memory, file, file_format="jsonl", workers=2)

        assert list(memory.records(band=Band.LEDGER)) == []


@pytest.mark.parametrize(
    ("opener", "problem"),
    [
        (lambda: opened("facts.db"), "not a lambda nor a function of the script"),
        (partial(opened, "facts.db", wrong=True), "unexpected keyword argument 'wrong'"),
        (partial(opened, "no folder/facts.db"), "there is no folder"),
    ],
)
def test_why_the_memory_can_not_be_opened_in_a_worker_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], opener: Callable[[], Memory], problem: str
) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text(lines({"text": "VAT is 19 %."}))
    with opened(str(tmp_path / "facts.db")) as memory, pytest.raises(StandfastError, match=problem):
        import_file(memory, file, file_format="jsonl", workers=2, open_memory=opener)

    assert capfd.readouterr().err == ""


def opened_and_noted(path: str, log: str) -> Memory:
    """A memory; that it was opened is noted."""
    with Path(log).open("a", encoding="utf-8") as file:
        file.write("opened\n")
    return opened(path)


def test_no_more_workers_are_started_than_there_are_parts(tmp_path: Path) -> None:
    file, path, log = tmp_path / "facts.jsonl", str(tmp_path / "facts.db"), tmp_path / "log"
    file.write_text(lines({"text": "VAT is 19 %."}))
    with opened(path) as memory:
        opener = partial(opened_and_noted, path, str(log))
        report = import_file(memory, file, file_format="jsonl", workers=9, open_memory=opener)

    assert report.accepted == 1
    assert log.read_text() == "opened\n"


def test_an_error_of_a_worker_is_that_of_the_import(tmp_path: Path) -> None:
    file, path = tmp_path / "facts.jsonl", str(tmp_path / "facts.db")
    file.write_text(lines({"text": "VAT is 19 %."}))
    with opened(path, ceiling="read_only") as memory:
        opener = partial(opened, path, ceiling="read_only")
        with pytest.raises(Exception, match="ceiling"):
            import_file(memory, file, file_format="jsonl", workers=2, open_memory=opener)
