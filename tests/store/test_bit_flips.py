"""Bit flips: whatever bit of the files is wrong, an answer is right, or an error, or not given; never wrong.

A failing case names its file and bit; ``damaged`` makes it again.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from standfast.clock import ManualClock, seeded
from standfast.errors import Corruption, StoreError
from standfast.store.protocol import Version
from standfast.store.sqlite import file as sqlite_file
from standfast.store.store import Store
from tests.figures import Figures
from tests.store.builders import NAMESPACE, commit, expire, merge, noise, sqlite_store, write
from tests.store.faulty_disk import fold

FAST_CHUNKS, FAST_FLIPS = 2, 1_000
SLOW_CHUNKS, SLOW_FLIPS = 10, 20_000
DATABASE_HEADER_BITS = 100 * 8

COMMITS = (
    commit("r1", *(write(f"a{number}", {"number": number}) for number in range(12))),
    commit("r2", merge("a0", "changed"), write("long", noise(9_000)), at=1),
    commit("r3", expire("a1"), merge("a2", "y" * 2_000), write("ü", [1.5, None, "ü"]), at=2),
    commit("r4", merge("long", "z" * 5_000), write("a1", "again"), at=3),
    commit("r5", write("b", "the log begins here"), at=4),
    commit("r6", merge("b", noise(3_000)), expire("a3"), at=5),
    commit("r7", write("last", "acknowledged"), at=6),
)
STAGED = commit("staged", write("s"), at=4)
KEYS = sorted({change.key for asked in COMMITS for change in asked.writes} | {"s", "nothing"})
Files = dict[str, bytes]


class Flip(NamedTuple):
    """One wrong bit in one of the files."""

    file: str
    bit: int


class Original(NamedTuple):
    """A store's files as they should be."""

    kind: str
    files: Files

    def damaged(self, flip: Flip) -> Files:
        """The files, with one wrong bit."""
        data = bytearray(self.files[flip.file])
        data[flip.bit // 8] ^= 1 << flip.bit % 8
        return self.files | {flip.file: bytes(data)}


def ask_everything(store: Store) -> dict[str, Any]:
    """Every question that can be asked, each with its answer or the error that was raised instead."""
    questions: dict[str, Callable[[], Any]] = {"head": store.head}
    for at in range(len(COMMITS) + 1):
        questions[f"scan at {at}"] = partial(_scanned, store, at)
        questions[f"read at {at}"] = partial(store.read, NAMESPACE, KEYS, at=at)
    for key in KEYS:
        questions[f"history of {key}"] = partial(store.history, NAMESPACE, key)
    for asked in (*COMMITS, STAGED):
        questions[f"status of {asked.run_id}"] = partial(store.status, asked.commit_id)
    return {question: _answered(ask) for question, ask in questions.items()}


def _scanned(store: Store, at: int) -> list[Version]:
    return list(store.scan(NAMESPACE, at=at))


def _verified(store: Store) -> list[str]:
    return list(store.verify())


def _answered(ask: Callable[[], Any]) -> Any:
    """Only our own errors are answers; any other fails the test."""
    try:
        return ask()
    except StoreError as error:
        return error


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> tuple[Original, Original]:
    """The files of a store that was closed, and of one that is at work, with a log."""
    path = tmp_path_factory.mktemp("original") / "store.db"
    store = sqlite_store(path, ManualClock())
    for number, asked in enumerate(COMMITS):
        if number == 4:
            store.stage(STAGED)
            fold(store)
        store.commit(asked)
    working = _files(path)
    store.close()
    return Original("working", working), Original("closed", _files(path))


@pytest.fixture(scope="module")
def truth(originals: tuple[Original, Original], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the undamaged stores answer, both the same."""
    told = []
    for original in originals:
        path = _laid_out(original.files, tmp_path_factory.mktemp("truth"))
        store = sqlite_store(path, ManualClock())
        told.append(ask_everything(store))
        assert _verified(store) == []
        store.close()
    assert told[0] == told[1]
    assert not any(isinstance(answer, Exception) for answer in told[0].values())
    return told[0]


def _files(path: Path) -> Files:
    found = {name: Path(f"{path}{name}") for name in ("", "-wal", "-files/head")}
    return {name: file.read_bytes() for name, file in found.items() if file.exists()}


def _laid_out(files: Files, folder: Path) -> Path:
    path = folder / "store.db"
    for name in ("", "-wal", "-shm", "-journal", "-files/head"):
        file = Path(f"{path}{name}")
        file.unlink(missing_ok=True)
        if name in files:
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(files[name])
    return path


def noticed(files: Files, truth: dict[str, Any], folder: Path) -> str:
    """Where the damage shows; an answer that is neither right nor an error is told as "silent"."""
    try:
        store = sqlite_store(_laid_out(files, folder), ManualClock())
    except StoreError:
        return "detected at open"
    answers = ask_everything(store)
    told = _answered(partial(_verified, store))
    store.close()
    wrong = {question: answer for question, answer in answers.items() if answer != truth[question]}
    if silent := [question for question, answer in wrong.items() if not isinstance(answer, StoreError)]:
        return f"silent: {silent}"
    if wrong:
        return "detected at read"
    return "detected by verify" if told else "harmless"


def _flips(originals: tuple[Original, Original], seed: int, count: int) -> Iterator[tuple[Original, Flip]]:
    """Wrong bits anywhere: as many in the log as in the databases, and a few in the head file."""
    dice = seeded(seed)
    working, closed = originals
    places = [
        (closed, ""),
        (closed, ""),
        (working, ""),
        (working, "-wal"),
        (working, "-wal"),
        (working, "-wal"),
    ]
    places = [*places * 5, (working, "-files/head")]
    for _ in range(count):
        original, file = dice.choice(places)
        yield original, Flip(file, dice.randrange(len(original.files[file]) * 8))


def _tried(flips: Iterable[tuple[Original, Flip]], truth: dict[str, Any], folder: Path) -> Counter[str]:
    found: Counter[str] = Counter(flips=0, silent=0)
    for original, flip in flips:
        verdict = noticed(original.damaged(flip), truth, folder)
        assert not verdict.startswith("silent"), f"{verdict} after {flip} of the {original.kind} store"
        found.update(("flips", verdict))
    return found


@pytest.mark.parametrize("seed", range(FAST_CHUNKS))
def test_a_flipped_bit_is_never_a_wrong_answer(
    originals: tuple[Original, Original], truth: dict[str, Any], ram_folder: Path, seed: int, figures: Figures
) -> None:
    found = _tried(_flips(originals, seed, FAST_FLIPS // FAST_CHUNKS), truth, ram_folder)
    figures("bit flips", found)

    assert found["detected at open"] > 0
    assert found["detected at read"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(FAST_CHUNKS, FAST_CHUNKS + SLOW_CHUNKS))
def test_a_flipped_bit_of_twenty_thousand_is_never_a_wrong_answer(
    originals: tuple[Original, Original], truth: dict[str, Any], ram_folder: Path, seed: int, figures: Figures
) -> None:
    found = _tried(_flips(originals, seed, SLOW_FLIPS // SLOW_CHUNKS), truth, ram_folder)
    figures("bit flips", found)

    assert found["flips"] == SLOW_FLIPS // SLOW_CHUNKS


def test_no_bit_of_the_database_header_is_wrong_unnoticed(
    originals: tuple[Original, Original], truth: dict[str, Any], ram_folder: Path, figures: Figures
) -> None:
    """SQLite reads it before any checksum is verified, and it says whether there are checksums at all."""
    flips = ((originals[1], Flip("", bit)) for bit in range(DATABASE_HEADER_BITS))
    found = _tried(flips, truth, ram_folder)
    figures("bit flips in the header", found)

    assert found["detected at open"] + found["detected at read"] == DATABASE_HEADER_BITS


def test_without_checksums_and_fingerprints_the_same_flips_would_be_wrong_answers(
    originals: tuple[Original, Original],
    truth: dict[str, Any],
    ram_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proof can fail: it is the two checks that make it hold."""
    connect = sqlite_file._connect

    def connect_unchecked(path: str, flags: int) -> apsw.Connection:
        connection = connect(path, flags)
        connection.execute("PRAGMA checksum_verification = OFF").fetchall()
        return connection

    monkeypatch.setattr(sqlite_file, "_connect", connect_unchecked)
    monkeypatch.setattr(sqlite_file, "_refuse_missing_checksums", lambda *_: None)
    monkeypatch.setattr("standfast.store.store.verified", lambda version: version)
    flips = [flip for flip in _flips(originals, seed=0, count=300) if flip[1].file == ""]

    assert any(_is_fooled(original.damaged(flip), truth, ram_folder) for original, flip in flips)


def _is_fooled(files: Files, truth: dict[str, Any], folder: Path) -> bool:
    try:
        return noticed(files, truth, folder).startswith("silent")
    except Exception:  # noqa: BLE001  # Damage that nobody checks for may raise anything.
        return False


@pytest.mark.parametrize("seed", range(2))
def test_a_file_that_was_cut_short_is_never_a_wrong_answer(
    originals: tuple[Original, Original], truth: dict[str, Any], ram_folder: Path, seed: int, figures: Figures
) -> None:
    dice = seeded(seed)
    found: Counter[str] = Counter(cuts=0, silent=0)
    for _ in range(50):
        original, file = dice.choice([(originals[0], ""), (originals[0], "-wal"), (originals[1], "")])
        size = dice.randrange(len(original.files[file]))
        cut = original.files | {file: original.files[file][:size]}
        verdict = noticed(cut, truth, ram_folder)
        found.update(("cuts", verdict))

        assert not verdict.startswith("silent"), f"{verdict} after {original.kind}{file} was cut to {size}"
    figures("files cut short", found)


def test_a_last_page_that_is_only_half_there_is_never_a_wrong_answer(
    originals: tuple[Original, Original], truth: dict[str, Any], ram_folder: Path
) -> None:
    """SQLite takes what is missing at the very end of the file for zeros, and no checksum is verified
    there.
    """
    whole = originals[1].files[""]
    for missing in range(1, 4096, 61):
        cut = originals[1].files | {"": whole[:-missing]}

        assert noticed(cut, truth, ram_folder) == "detected at open", missing


@pytest.mark.parametrize("seed", range(50))
def test_what_is_refused_is_left_as_it_was_found(
    originals: tuple[Original, Original], truth: dict[str, Any], ram_folder: Path, seed: int
) -> None:
    """Whoever flips the bit back, or brings a better copy of the log, loses nothing by having tried to open
    it.
    """
    working = originals[0]
    flip = Flip("-wal", seeded(seed).randrange(32 * 8 if seed % 2 else len(working.files["-wal"]) * 4))
    path = _laid_out(working.damaged(flip), ram_folder)
    for _ in range(2):
        with pytest.raises(Corruption):
            sqlite_store(path, ManualClock())
    damaged = _files(path)
    healed = Original("healed", damaged).damaged(flip)

    assert damaged["-wal"] == working.damaged(flip)["-wal"]
    assert noticed(healed, truth, ram_folder) == "harmless"


def test_a_lost_end_of_the_log_is_noticed_by_the_head_file_alone(
    originals: tuple[Original, Original], truth: dict[str, Any], ram_folder: Path
) -> None:
    working = originals[0]
    frame = working.files["-wal"].rfind(b"acknowledged")
    damaged = working.damaged(Flip("-wal", frame * 8))
    unwitnessed = {name: data for name, data in damaged.items() if name != "-files/head"}

    assert noticed(damaged, truth, ram_folder) == "detected at open"
    assert noticed(unwitnessed, truth, ram_folder).startswith("silent")


def test_any_changed_byte_of_a_stored_record_is_told_with_the_name_of_the_record(tmp_path: Path) -> None:
    """Changed by SQL, past the triggers, so that the page has its checksum and only the fingerprint can
    tell.
    """
    path = tmp_path / "store.db"
    store = sqlite_store(path, ManualClock())
    store.commit(commit("r1", write("victim", {"text": "ü", "numbers": [1, 2.5]}), write("bystander")))
    intruder = apsw.Connection(str(path), vfs="cksmvfs")
    content: bytes = intruder.execute("SELECT content FROM versions WHERE key = 'victim'").get
    intruder.execute("DROP TRIGGER versions_never_change")
    for place in range(len(content)):
        wrong = bytearray(content)
        wrong[place] ^= 1 + place % 255
        intruder.execute("UPDATE versions SET content = ? WHERE key = 'victim'", (bytes(wrong),))
        for ask in (
            partial(store.read, NAMESPACE, ["victim"]),
            partial(store.history, NAMESPACE, "victim"),
            partial(_scanned, store, 1),
        ):
            with pytest.raises(Corruption, match=f"{NAMESPACE}/victim in snapshot 1"):
                ask()
        assert any(f"{NAMESPACE}/victim in snapshot 1" in problem for problem in store.verify())
        assert list(store.read(NAMESPACE, ["bystander"])) == ["bystander"]
    intruder.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE versions SET action = 7 WHERE key = 'a'",
        "UPDATE versions SET action = 0 WHERE key = 'a'",
        "UPDATE versions SET action = 2 WHERE key = 'a'",
        "UPDATE versions SET key = 'c' WHERE key = 'a'",
        "UPDATE versions SET namespace = '' WHERE key = 'a'",
        "UPDATE versions SET fingerprint = NULL WHERE key = 'a'",
        "UPDATE versions SET id = (2 << 16) + 9 WHERE key = 'a'",
        "DELETE FROM versions WHERE key = 'a'",
        "UPDATE versions SET content = NULL WHERE key = 'a'",
        "UPDATE versions SET content = NULL, erased_by = 2 WHERE key = 'a'",
        "UPDATE versions SET erased_by = 2 WHERE key = 'a'",
        (
            "INSERT INTO versions SELECT (2 << 16) + 9, namespace, 'more', action, fingerprint, content, NULL"
            " FROM versions WHERE key = 'a'"
        ),
        "UPDATE commits SET payload_fingerprint = x'00' WHERE memory_snapshot_id = 1",
        "UPDATE commits SET commit_id = x'00' WHERE memory_snapshot_id = 1",
        "UPDATE commits SET run_id = 'x' WHERE memory_snapshot_id = 1",
        "UPDATE commits SET committed_at = '2025-01-01T00:00:00.000000Z' WHERE memory_snapshot_id = 1",
        "UPDATE commits SET ledger_hash = x'00' WHERE memory_snapshot_id = 1",
        "UPDATE commits SET ledger_seq = 2 WHERE memory_snapshot_id = 1",
        "DELETE FROM commits WHERE memory_snapshot_id = 1",
        "DELETE FROM commits WHERE memory_snapshot_id = 3",
        "DELETE FROM versions WHERE id >> 16 = 3; DELETE FROM commits WHERE memory_snapshot_id = 3",
        "UPDATE ledger SET content = x'00' WHERE seq = 2",
        "UPDATE ledger SET content = (SELECT content FROM ledger WHERE seq = 1) WHERE seq = 2",
        "UPDATE ledger SET hash = x'00' WHERE seq = 3",
        "UPDATE ledger SET seq = 4 WHERE seq = 3",
        "DELETE FROM ledger WHERE seq = 3",
    ],
)
def test_verifying_tells_of_whatever_was_changed_past_the_store(tmp_path: Path, damage: str) -> None:
    store = sqlite_store(tmp_path / "store.db", ManualClock())
    for number, key in enumerate(("a", "b", "c")):
        store.commit(commit(f"r{number}", write(key), at=number))
    intruder = apsw.Connection(str(tmp_path / "store.db"), vfs="cksmvfs")
    intruder.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
    for (trigger,) in intruder.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        intruder.execute(f"DROP TRIGGER {trigger}")
    intruder.execute(damage)
    intruder.close()

    assert _verified(store) != []
