"""A secret is put into every parameter of every public call, the process is killed, and the files are
searched.
"""

import inspect
import re
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from standfast import Memory
from standfast.memory.run import Run
from standfast.recall.index.segment import _DIGEST_BYTES
from standfast.store.compression import DICTIONARY
from standfast.traces.folder import read_artifact
from tests.secrecy.calls import SECRET
from tests.secrecy.doors import DOORS, LIBRARY_CALLS, RUN_CALLS, STORE
from tests.subprocesses import ROOT

# A kind and two hashes stand before what is deflated.
_LONGEST_HEAD_BYTES = 80
_SECRET = re.compile(SECRET.encode(), re.IGNORECASE)
# What takes no text of its own: objects, numbers, other calls' answers; and the doors that are tried apart.
_OTHER_VERBS = {
    *("at", "checkpoint", "close", "due", "finish_forgetting", "open", "patterns", "receipt", "retry", "run"),
    *("quarantines", "sweep", "tail", "verification", "verify"),
}
_OTHER_RUN_VERBS = {
    *("commit", "discard", "forget_request", "lane", "recall_request", "remember_request", "resume", "tool"),
}
_NO_TEXT = {"self", "extract", "background", "token_counter"}
# What must succeed as it stands, or its parameters were never stored.
_SUCCEEDING = {
    "http": {"remember", "remember_batch", "add", "recall", "recall_batch", "create_key", "open_run"},
    "mcp": {"memory_remember", "memory_add", "memory_read"},
}


def _traces_of_the_secret(folder: Path, secret: re.Pattern[bytes] = _SECRET) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        content = read_artifact(path) if path.is_file() else b""
        for found in secret.finditer(name.encode() + b"\n" + content):
            around = (name.encode() + b"\n" + content)[max(0, found.start() - 80) : found.end()]
            yield f"{name}: {around!r}"
    # A copy, because a plain connection would write pages without their checksums.
    copy = shutil.copytree(folder, folder.with_name("copy"))
    connection = apsw.Connection(str(copy / STORE))
    for (part,) in connection.execute("SELECT content FROM segment_parts"):
        if secret.search(zlib.decompress(part[_DIGEST_BYTES:])):
            yield "a segment of the index"
    for table in ("ledger", "versions", "buffers"):
        for (content,) in connection.execute(
            f"SELECT content FROM {table} WHERE content IS NOT NULL"
        ):  # Three names.
            if any(map(secret.search, _inflated(content))):
                yield f"a row of {table}"
    connection.close()


def _inflated(stored: bytes) -> Iterator[bytes]:
    """What a row holds, wherever its deflated part begins."""
    for start in range(min(len(stored), _LONGEST_HEAD_BYTES)):
        inflate = zlib.decompressobj(-zlib.MAX_WBITS, DICTIONARY)
        with suppress(zlib.error):
            yield inflate.decompress(stored[start:])


def test_the_search_reads_what_the_store_deflates(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    with Memory.open(str(folder / STORE)) as memory:
        commit = memory.remember(f"A word such as {SECRET[:12]} passes, because it is no key.")

    assert commit.accepted
    assert "a row of versions" in list(_traces_of_the_secret(folder, re.compile(SECRET[:12].encode())))


@pytest.mark.parametrize("door", DOORS)
def test_no_byte_of_a_secret_stays_after_it_came_in_by(door: str, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    ended = subprocess.run(
        [sys.executable, "-m", "tests.secrecy.doors", door, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    answers = dict(line.split(" ") for line in ended.stdout.splitlines() if line.count(" ") == 1)

    assert ended.returncode == -signal.SIGKILL, ended.stderr[-2_000:]
    assert {name for name in _SUCCEEDING.get(door, ()) if int(answers[name]) >= 300} == set()
    assert list(_traces_of_the_secret(folder)) == []
    with Memory.open(str(folder / STORE)) as memory:
        assert list(memory.verify()) == []


@pytest.mark.parametrize(
    ("kind", "calls", "others"), [(Memory, LIBRARY_CALLS, _OTHER_VERBS), (Run, RUN_CALLS, _OTHER_RUN_VERBS)]
)
def test_every_verb_with_every_parameter_is_tried(
    kind: type, calls: dict[str, dict[str, object]], others: set[str]
) -> None:
    verbs = {
        name
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_") and not inspect.isclass(member)
    }

    assert verbs == calls.keys() | others
    for name, arguments in calls.items():
        parameters = inspect.signature(getattr(kind, name)).parameters.keys() - _NO_TEXT
        assert parameters - arguments.keys() == set(), name
