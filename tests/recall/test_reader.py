"""What a store may hold and what may happen to it: the reader survives, tells what it passed over, and
touches nothing.
"""

import hashlib
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from standfast.errors import RecallError, UnreadableStore
from standfast.recall.answers import RecallAnswer
from standfast.recall.candidates import Candidate, Fault, read_block, read_line
from standfast.recall.jsonl import JsonlSource
from standfast.recall.package import ContextPackage
from standfast.recall.phase6 import explain
from standfast.recall.request import MemoryControllerInput

GOOD = b'{"memory_id":"good","text":"refund"}'
ROOT = Path(__file__).parents[2]


def _read(path: Path, **fields: Any) -> RecallAnswer:
    plain = {"query": "refund", "store_paths": [str(path)], "budget": {"max_excerpt_tokens": 100}}
    return explain(MemoryControllerInput.from_json(plain | fields))


def _faults(answer: RecallAnswer) -> list[tuple[int | str, Fault]]:
    return [(fault.line.place, fault.line.fault) for fault in answer.explanation.faults]


def _selected(answer: RecallAnswer) -> list[str]:
    return [item.memory_id for item in answer.package.items]


MORE_FIELDS = b'{"memory_id":"a","text":"b","more":1}'
PLAIN_REFS = b'{"memory_id":"a","text":"b","refs":[{"n":1}]}'


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"memory_id":"x","text":"\xff"}', Fault.NOT_UTF8),
        (b'{"memory_id":"x","text":"a","n":NaN}', Fault.NOT_JSON),
        (b'{"memory_id":"x","text":"a","text":"b"}', Fault.DUPLICATE_KEY),
        (b'{"memory_id":"x","text":"a","z":' + b"[" * 100_000 + b"]" * 100_000 + b"}", Fault.TOO_DEEP),
        (b'{"memory_id":"x","text":"' + b"a" * (1 << 20) + b'"}', Fault.TOO_LONG),
        (b'{"memory_id":"x","text":"cut sho', Fault.NOT_JSON),
        (b"[1,2]", Fault.NOT_AN_OBJECT),
        (b'{"memory_id":7,"text":"a"}', Fault.NO_MEMORY_ID),
        (b'{"memory_id":"x"}', Fault.NO_TEXT),
        (b'{"memory_id":"x","text":"a","ts_utc":7}', Fault.BAD_TIMESTAMP),
        (b'{"memory_id":"x","text":"a","tags":{}}', Fault.BAD_TAGS),
        (b'{"memory_id":"x","text":"a","refs":["b"]}', Fault.BAD_REFS),
        (b'{"memory_id":"x","text":"\\udc00"}', Fault.NOT_CANONICAL),
    ],
    ids=lambda case: case.name if isinstance(case, Fault) else "",
)
def test_a_bad_line_is_told_with_its_place_and_costs_no_good_one(
    line: bytes, fault: Fault, tmp_path: Path
) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(GOOD + b"\n\n" + line + b"\r\n" + GOOD)
    answer = _read(path)
    (dropped,) = answer.package.as_json()["selection"]["dropped"]

    assert _selected(answer) == ["good", "good"]
    assert _faults(answer) == [(3, fault)]
    assert dropped["reason"] == "invalid_record_schema"
    assert dropped["record_hash"] == hashlib.sha256(line).hexdigest()


def test_every_fault_is_shown_by_a_case_above() -> None:
    (mark,) = test_a_bad_line_is_told_with_its_place_and_costs_no_good_one.pytestmark  # type: ignore[attr-defined]

    assert {fault for _, fault in mark.args[1]} == set(Fault)


def _nested(levels: int) -> bytes:
    """A line with an ignored field, so many levels deep in all."""
    return b'{"memory_id":"x","text":"a","z":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"


def _refs_nested(levels: int) -> bytes:
    inner = b"[" * (levels - 3) + b"]" * (levels - 3)
    return b'{"memory_id":"x","text":"a","refs":[{"a":' + inner + b"}]}"


def _long(size_bytes: int) -> bytes:
    return b'{"memory_id":"x","text":"' + b"a" * (size_bytes - 27) + b'"}'


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (_nested(128), None),
        (_nested(129), Fault.TOO_DEEP),
        (_refs_nested(129), Fault.TOO_DEEP),
        (b'{"memory_id":"x","text":"' + b"[" * 129 + b'"}', None),
        (_long(1 << 20), Fault.NOT_CANONICAL),
        (_long((1 << 20) + 1), Fault.TOO_LONG),
        (b'{"memory_id":"x",' + b" " * (1 << 20) + b'"text":"a"}', Fault.TOO_LONG),
        (b'{"memory_id":"x","text":"a","refs":[{"n":9007199254740991}]}', None),
        (b'{"memory_id":"x","text":"a","refs":[{"n":9007199254740992}]}', Fault.NOT_CANONICAL),
        (b'{"memory_id":"x","text":"a","refs":[{"n":-9007199254740991}]}', None),
        (b'{"memory_id":"x","text":"a","refs":[{"n":-9007199254740992}]}', Fault.NOT_CANONICAL),
        (b'{"memory_id":"x","text":"a","refs":[{"n":[1e300]}]}', Fault.NOT_CANONICAL),
        (b'{"memory_id":"x","text":"a","n":9007199254740992}', None),
        (b'{"memory_id":"x","text":"a","n":1,"n":2}', None),
        ('{"memory_id":"x","text":"a","refs":[{"\u00fc":1,"u\u0308":2}]}'.encode(), Fault.NOT_CANONICAL),
        (b'{"memory_id":"x","text":"a","m":{"text":"b","memory_id":"c"}}', None),
        (b'{"memory_id":"x","text":"a","\\u0074ext":"b"}', Fault.DUPLICATE_KEY),
        (b'{"memory_id":"x","text":"a","refs":[{"k":1,"k":2}]}', Fault.DUPLICATE_KEY),
        (b'{"memory_id":"x","text":"a","refs":[{"a":[{"k":1,"k":2}]},{}]}', Fault.DUPLICATE_KEY),
        (b'{"memory_id":"x","text":"a","ts_utc":null,"tags":null,"refs":null}', None),
        (b'{"memory_id":"","text":""}', None),
    ],
)
def test_a_line_is_read_alike_alone_and_in_a_block(line: bytes, fault: Fault | None) -> None:
    alone = read_line(line)
    block = read_block(GOOD + b"\n" + line + b"\n" + GOOD + b"\n")

    mixed = read_block(b"\n".join([MORE_FIELDS, PLAIN_REFS, line, b""]))

    assert (alone if isinstance(alone, Fault) else None) is fault
    assert (block[1] if isinstance(block[1], Fault) else None) is fault
    assert (mixed[2] if isinstance(mixed[2], Fault) else None) is fault
    assert isinstance(block[0], Candidate)
    assert isinstance(block[2], Candidate)


@pytest.mark.parametrize("form", ["full", "counts"])
def test_an_explanation_has_the_first_hundred_bad_lines(form: str, tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes(b"bad\n" * 101 + GOOD)
    answer = _read(path, dropped=form)
    assert isinstance(answer.package, ContextPackage)
    dropped = answer.package.selection.dropped

    assert [place for place, _ in _faults(answer)] == list(range(1, 101))
    assert answer.explanation.counts["invalid_record_schema"] == 101
    assert (dropped["invalid_record_schema"] if isinstance(dropped, dict) else len(dropped)) == 101


def test_a_line_of_fifty_megabytes_takes_no_fifty_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    with path.open("wb") as file:
        file.write(GOOD + b"\n")
        for _ in range(50):
            file.write(b"x" * (1 << 20))
        file.write(b"\n" + GOOD)
    tracemalloc.start()
    answer = _read(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert _selected(answer) == ["good", "good"]
    assert _faults(answer) == [(2, Fault.TOO_LONG)]
    assert peak < 8 << 20


def test_a_cold_read_takes_the_same_memory_whatever_the_stores_size(tmp_path: Path) -> None:
    peaks = []
    for count in (4_000, 16_000):
        path = tmp_path / f"{count}.jsonl"
        lines = (f'{{"memory_id":"m{number}","text":"refund {number % 97}"}}\n' for number in range(count))
        path.write_text("".join(lines), encoding="utf-8")
        tracemalloc.start()
        _read(path, dropped="counts")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < peaks[0] * 1.2


def test_a_file_that_grows_while_it_is_read_shows_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_bytes((GOOD + b"\n") * 5_000)
    batches = JsonlSource(str(path)).batches()
    first = next(batches)
    with path.open("ab") as file:
        file.write((GOOD + b"\n") * 5_000)

    assert len(first) + sum(map(len, batches)) == 5_000


def test_a_line_that_is_just_being_written_is_a_bad_one_until_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    for cut in range(1, len(GOOD)):
        path.write_bytes(GOOD + b"\n" + GOOD[:cut])

        assert _selected(_read(path)) == ["good"]
    path.write_bytes(GOOD + b"\n" + GOOD)
    assert _selected(_read(path)) == ["good", "good"]


def test_an_empty_file_is_an_empty_store(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.touch()

    assert _selected(_read(path)) == []
    assert sum(map(len, JsonlSource(str(path)).batches())) == 0


@pytest.mark.parametrize("kind", ["missing", "below a file", "folder", "pipe", "forbidden"])
def test_what_can_not_be_read_is_an_error_that_is_always_the_same(kind: str, tmp_path: Path) -> None:
    good, path = tmp_path / "a.jsonl", tmp_path / "store.jsonl"
    good.write_bytes(GOOD)
    match kind:
        case "below a file":
            path = good / "store.jsonl"
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "forbidden":
            path.symlink_to(path.name)
    told = []
    for _ in range(2):
        with pytest.raises(RecallError) as caught:
            _read(path, store_paths=[str(good), str(path)])
        told.append(str(caught.value))

    assert told[0] == told[1]
    assert isinstance(caught.value, UnreadableStore)
    is_missing = kind in ("missing", "below a file")
    assert caught.value.code == ("recall_missing_store" if is_missing else "recall_unreadable_store")


# Fails at any attempt to write, to look at a clock or the environment, to roll dice or to open a connection.
POISONED = """
import sys, os, time, random, datetime, socket, uuid

from standfast.recall import phase6, request

def poison(*_args, **_names):
    raise SystemExit("something was consulted that must not be")

for module, names in ((time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "localtime", "gmtime")),
                      (random, ("random", "randrange", "choice", "seed")), (uuid, ("uuid4", "uuid1")),
                      (os, ("urandom", "getenv")), (socket, ("socket", "create_connection"))):
    for name in names:
        setattr(module, name, poison)

class Environment(dict):
    __getitem__ = get = __contains__ = __iter__ = poison

os.environ = Environment()

class Never(datetime.datetime):
    now = utcnow = today = poison

datetime.datetime = Never

def watch(event, arguments):
    writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & writes:
        poison()
    if event.startswith(("socket.", "subprocess.", "os.rename", "os.remove", "os.mkdir", "os.chmod", "os.utime",
                         "os.link", "os.symlink", "os.truncate", "os.putenv", "fcntl.")):
        poison()

sys.addaudithook(watch)
plain = {"query": "refund", "store_paths": [sys.argv[1]], "budget": {"max_excerpt_tokens": 100},
         "scoring": {"enable_recency_weight": True}, "now_utc": "2026-01-15T10:30:00Z"}
asked = request.MemoryControllerInput.from_json(plain)
package = phase6.read(asked)
print(package.package_hash, len(package.text), len(package.receipt(asked).data))
"""  # noqa: E501  # A text as a whole.


def test_nothing_is_consulted_but_the_store_and_nothing_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "stores"
    folder.mkdir()
    path = folder / "store.jsonl"
    path.write_bytes(GOOD + b"\nbad\n")
    path.chmod(0o444)
    folder.chmod(0o555)
    before = path.stat()
    result = subprocess.run(
        [sys.executable, "-c", POISONED, str(path)], capture_output=True, text=True, check=False, cwd=ROOT
    )
    after = path.stat()
    folder.chmod(0o755)

    assert result.returncode == 0, result.stderr
    assert path.read_bytes() == GOOD + b"\nbad\n"
    assert (after.st_mtime_ns, after.st_ctime_ns, after.st_mode, after.st_size) == (
        before.st_mtime_ns,
        before.st_ctime_ns,
        before.st_mode,
        before.st_size,
    )
    assert [entry.name for entry in folder.iterdir()] == ["store.jsonl"]
