"""The notary signs every head that extends what it signed before, and no other, whoever else is there and
whatever dies.
"""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import combinations
from pathlib import Path
from unittest.mock import patch

import pytest

from standfast.errors import BrokenChain, InvalidValue, NotProven
from standfast.ledger.chain import Entry, extend
from standfast.ledger.checkpoint import Checkpoint, CheckpointFile, verify_receipt
from standfast.ledger.notary import Notary
from standfast.ledger.note import KeyFile, VerifyingKey, log_name
from standfast.memory import Memory
from standfast.memory.memory_ledger import MemoryLedger
from standfast.store.commit import Fact
from standfast.store.opening import open_store
from tests.figures import Figures
from tests.ledger import independent
from tests.ledger.builders import LOG_KEY, entries
from tests.raising import raises_code

ROOT = Path(__file__).parents[2]
LEDGER = entries(60)
MOST_STEPS = 60


def notary(folder: Path, ledger: "list[Entry] | tuple[Entry, ...]") -> Notary:
    """A notary over a ledger that the test can change under it."""
    return Notary(LOG_KEY, CheckpointFile(folder / "checkpoints"), lambda after: ledger[after:])


def sizes(folder: Path) -> list[int]:
    notes = CheckpointFile(folder / "checkpoints").read().notes
    return [Checkpoint.verify(note, [LOG_KEY.verifying_key]).size for note in notes]


def crowd(*words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.ledger.crowd", *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def together(*processes: "subprocess.Popen[str]") -> list[str]:
    """Let them go at once; what each says at its end."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    return [process.communicate("\n", timeout=60)[0].strip() for process in processes]


def test_a_head_is_signed_once(tmp_path: Path) -> None:
    ledger = list(LEDGER[:5])
    first = notary(tmp_path, ledger)
    note = first.checkpoint()
    assert first.checkpoint() == notary(tmp_path, ledger).checkpoint() == note
    ledger += LEDGER[5:7]
    first.checkpoint()

    assert sizes(tmp_path) == [5, 7]


@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("change", ["cut", "changed", "empty"])
def test_what_contradicts_a_checkpoint_is_not_signed(tmp_path: Path, change: str, fresh: bool) -> None:
    ledger = list(LEDGER[:20])
    signer = notary(tmp_path, ledger)
    signer.checkpoint()
    other = {"cut": LEDGER[:12], "changed": entries(61)[:0], "empty": ()}[change]
    ledger[:] = _forked(20, 25) if change == "changed" else other

    first_wrong = 20 if change == "changed" or not fresh else len(ledger) + 1
    with pytest.raises(BrokenChain, match=f"breaks at entry {first_wrong}:"):
        (notary(tmp_path, ledger) if fresh else signer).checkpoint()
    assert sizes(tmp_path) == [20]


def _forked(at: int, size: int) -> list[Entry]:
    """A sound ledger that is the same only up to a place."""
    made = list(LEDGER[: at - 1])
    while len(made) < size:
        made.append(
            extend(made[-1].tip, kind="forged", at="2026-01-01T00:00:00.000000Z", body={"n": len(made)})
        )
    return made


def test_of_two_processes_with_different_ledgers_one_is_signed_for(tmp_path: Path) -> None:
    """Copies of one store, each with its own next entry, share the key and the file of checkpoints."""
    (tmp_path / "a").mkdir()
    with Memory.open(str(tmp_path / "a" / "store.db")) as memory:
        memory.store.append_fact(Fact.of("note", {"number": 0}))
        memory.checkpoint()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    mirror = tmp_path / "a" / "store.db-files/checkpoints"
    (tmp_path / "b" / "store.db-files/checkpoints").unlink()
    (tmp_path / "b" / "store.db-files/checkpoints").hardlink_to(mirror)
    answers = together(*(crowd("sign", str(tmp_path / name / "store.db"), "3") for name in "ab"))
    signed = [name for name, answer in zip("ab", answers, strict=True) if answer == "signed"]

    assert len(signed) == 1, answers
    with Memory.open(str(tmp_path / signed[0] / "store.db")) as memory:
        assert list(memory.verify()) == []


def test_processes_that_share_a_store_sign_side_by_side(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    Memory.open(path).close()
    answers = together(*(crowd("sign", path, "8") for _ in range(2)))

    assert answers == ["signed"] * 2
    with Memory.open(path) as memory:
        assert list(memory.verify()) == []
        kinds = [entry.read()["kind"] for entry in memory.store.entries()]
        assert (kinds.count("note"), kinds.count("log_key")) == (16, 1)


def test_a_key_made_by_many_at_once_is_one_key(tmp_path: Path) -> None:
    path = tmp_path / "log.key"
    told = set(together(*(crowd("key", str(path)) for _ in range(3))))

    assert len(told) == 1
    assert told == {path.with_suffix(".pub").read_text(encoding="ascii").strip()}
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.key", "log.pub"]


def test_who_only_verifies_makes_no_key_and_needs_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Memory.open(str(path)) as memory:
        memory.store.append_fact(Fact.of("note", {}))
        assert list(memory.verify()) == []
        assert not (tmp_path / "store.db-files/log.key").exists()
        memory.checkpoint()
    (tmp_path / "store.db-files/log.key").unlink()
    with Memory.open(str(path)) as memory:
        assert list(memory.verify()) == []

    assert not (tmp_path / "store.db-files/log.key").exists()


def test_a_key_that_can_t_be_used_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "other").write_text("no key", encoding="ascii")
    for name in ("folder", "binary", "nowhere/key"):
        with raises_code("log_key_failed"):
            KeyFile(tmp_path / name, name="test/log").load()
    with pytest.raises(InvalidValue):
        KeyFile(tmp_path / "other", name="test/log").load()


def test_a_public_half_that_got_lost_is_put_back(tmp_path: Path) -> None:
    held = KeyFile(tmp_path / "log.key", name="test/log")
    key = held.load().verifying_key
    held.public_path.unlink()
    KeyFile(tmp_path / "log.key", name="another/name").load()

    assert VerifyingKey.parse(held.public_path.read_text(encoding="ascii").strip()) == key


@pytest.mark.parametrize("name", ["my store.db", "a+b.db", "données.db", "x" * 200 + ".db", "-.db"])
def test_a_store_of_any_name_can_be_signed_for(tmp_path: Path, name: str) -> None:
    with Memory.open(str(tmp_path / name)) as memory:
        memory.store.append_fact(Fact.of("note", {}))
        receipt = memory.receipt(1)
        assert list(memory.verify()) == []

    assert receipt.checkpoint.startswith(log_name(Path(name)) + "\n")


def test_receipts_are_verified_before_they_are_handed_out(tmp_path: Path) -> None:
    ledger = list(LEDGER[:20])
    signer = notary(tmp_path, ledger)
    for seq in (1, 13, 20):
        assert verify_receipt(signer.receipt(seq), LOG_KEY.verifying_key)["seq"] == seq
    ledger[12] = _forked(13, 20)[12]

    with pytest.raises(NotProven):
        signer.receipt(13)
    for wrong in (0, 21, -1, True, "1"):
        with pytest.raises(InvalidValue, match="entries 1 to 20"):
            signer.receipt(wrong)  # type: ignore[arg-type]  # As a careless caller would.


def test_every_checkpoint_is_proved_to_extend_every_older_one(tmp_path: Path) -> None:
    ledger: list[Entry] = []
    signer = notary(tmp_path, ledger)
    notes = []
    for size in (1, 2, 3, 7, 8, 33, 60):
        ledger[:] = LEDGER[:size]
        notes.append(signer.checkpoint())
    key = LOG_KEY.verifying_key
    for older, newer in combinations(notes, 2):
        proof = signer.consistency_proof(older, newer)
        old, new = (Checkpoint.verify(note, [key]) for note in (older, newer))
        new.verify_extends(old, proof)
        independent.check_consistency(
            old.size,
            bytes.fromhex(old.root_hash),
            new.size,
            bytes.fromhex(new.root_hash),
            [bytes.fromhex(one) for one in proof],
        )
    latest = signer.consistency_proof(notes[0])
    assert latest == signer.consistency_proof(notes[0], notes[-1])


def _signed_for_thrice(folder: Path) -> tuple[str, Path]:
    """A store, and the mirror with its three checkpoints."""
    path = str(folder / "store.db")
    with Memory.open(path) as memory:
        for number in range(3):
            memory.store.append_fact(Fact.of("note", {"number": number}))
            memory.checkpoint()
    return path, folder / "store.db-files/checkpoints"


@contextmanager
def _unsigning(path: str) -> Iterator[Memory]:
    """A memory that signs only if it is asked to."""
    with closing(open_store(path, create=False)) as store:
        yield Memory(store, notary=Notary.for_store(path, store.entries, store.branches, store.announce_key))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.95])
def test_a_line_that_a_crash_tore_is_no_problem_and_what_it_was_to_cover_is_signed_again(
    tmp_path: Path, share: float
) -> None:
    # The process ends before the checkpoint is in the database.
    with patch.object(MemoryLedger, "_publish"):
        path, mirror = _signed_for_thrice(tmp_path)
    whole = mirror.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    mirror.write_bytes(whole[: last + 1 + int((len(whole) - last) * share)])
    with _unsigning(path) as memory:
        torn = memory.verification()
        memory.store.append_fact(Fact.of("note", {"number": 3}))
        memory.checkpoint()
        healed = memory.verification()

    assert (torn.state, torn.tail.unsigned_entries) == ("unsigned_tail", 1)
    assert (healed.state, healed.problems) == ("sound", ())
    assert mirror.read_bytes().startswith(whole[: last + 1]), "nothing is rewritten"


def test_what_another_notary_signed_and_published_is_not_signed_again(tmp_path: Path) -> None:
    """Each has a file of its own, as servers on one database have."""
    path, _ = _signed_for_thrice(tmp_path)
    own = CheckpointFile(tmp_path / "own")
    with closing(open_store(path, create=False)) as store:
        memory = Memory(store, notary=Notary(LOG_KEY, own, store.entries))

        assert memory.ledger.sign_if_due()
        assert own.read().notes == ()


def test_a_line_that_a_hand_changed_is_told_for_ever(tmp_path: Path) -> None:
    path, mirror = _signed_for_thrice(tmp_path)
    lines = mirror.read_bytes().splitlines()
    mirror.write_bytes(b"\n".join([lines[0], b"oops", *lines[1:]]) + b"\n")
    with Memory.open(path) as memory:
        memory.store.append_fact(Fact.of("note", {"number": 3}))
        memory.checkpoint()

        assert list(memory.verify()) == ["line 2 of the checkpoints is torn"]


def test_whoever_may_not_read_the_secret_reads_the_public_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = KeyFile(tmp_path / "log.key", name="test/log")
    assert key.public() is None
    verifying = key.load().verifying_key
    assert key.public() == verifying
    key.path.write_text("not for these eyes", encoding="ascii")
    monkeypatch.setattr("os.access", lambda *_: False)

    assert KeyFile(key.path, name="test/log").public() == verifying


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Callable[[int], int]]:
    """Kills a process at a step of signing for the store in the folder; gives its exit code."""
    process = crowd("die", str(tmp_path / "store.db"))
    assert process.stdin is not None
    assert process.stdout is not None
    given, told = process.stdin, process.stdout

    def die_at(step: int) -> int:
        given.write(f"{step}\n")
        given.flush()
        return int(told.readline())

    yield die_at
    process.communicate(timeout=60)


def test_killed_between_commit_and_checkpoint_nothing_is_lost_and_the_next_one_signs(
    tmp_path: Path, doomed: Callable[[int], int]
) -> None:
    assert doomed(0) == -signal.SIGKILL
    with _unsigning(str(tmp_path / "store.db")) as memory:
        assert [entry.read()["kind"] for entry in memory.store.entries()] == ["note"]
        assert list(memory.verify()) == []
        note = memory.checkpoint()
        assert note is not None
        assert "\n2\n" in note, "the note, and the key that signs"
        assert memory.verification().state == "sound"


def test_killed_at_any_step_of_signing_the_next_one_signs(
    tmp_path: Path, doomed: Callable[[int], int], figures: Figures
) -> None:
    """Each process dies one step later than the one before it, until one survives; key and mirror are made on
    the way.
    """
    path = str(tmp_path / "store.db")
    for folder in ("signed before", "never signed"):
        for step in range(MOST_STEPS):
            if folder == "never signed":
                for file in (*tmp_path.glob("store.db*/*"), *tmp_path.glob("store.db?*")):
                    file.unlink() if file.is_file() else file.rmdir()
                (tmp_path / "store.db").unlink(missing_ok=True)
            before = _length(path)
            code = doomed(step)
            with _unsigning(path) as memory:
                found = memory.verification()
                notes = [entry for entry in memory.store.entries() if entry.read()["kind"] == "note"]

            assert code in (0, -signal.SIGKILL)
            assert len(notes) == before + 1, "what was committed is there"
            assert found.holds, found.problems
            with Memory.open(path) as memory:
                memory.checkpoint()
                assert memory.verification().state == "sound"
            figures("Killed at every step of signing a checkpoint", steps=1)
            if code == 0:
                break
        else:
            pytest.fail("it never survived")


def _length(path: str) -> int:
    with closing(open_store(path, create=True)) as store:
        return sum(entry.read()["kind"] == "note" for entry in store.entries())


def test_a_proof_ends_where_its_newer_checkpoint_does_though_others_append_meanwhile(tmp_path: Path) -> None:
    """At every reading of the ledger there is one more entry."""
    growing: list[Entry] = list(LEDGER[:5])

    def entries_after(after: int) -> list[Entry]:
        growing.append(LEDGER[len(growing)])
        return growing[after:]

    signer = Notary(LOG_KEY, CheckpointFile(tmp_path / "checkpoints"), entries_after)
    older = signer.checkpoint()
    newer = signer.checkpoint()
    proof = signer.consistency_proof(older, newer)

    assert older is not None
    assert newer is not None
    assert notary(tmp_path / "still", LEDGER).consistency_proof(older, newer) == proof
