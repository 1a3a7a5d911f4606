"""``standfast serve`` as a process: how it starts, where it refuses to, how it ends, and what a kill
costs.
"""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast.cli import main
from standfast.client import Client
from standfast.errors import StandfastError
from standfast.memory import Memory
from standfast.server.app import check_bind, is_loopback
from tests.raising import raises_code
from tests.server.harness import HANDBOOK, Served


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.8.9.10"])
def test_this_machine_alone_needs_nothing(host: str) -> None:
    assert is_loopback(host)
    check_bind(host, behind_tls=False, has_keys=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "memory.example.com"])
def test_elsewhere_needs_tls_in_front(host: str) -> None:
    with raises_code("unsafe_bind", match="--behind-tls"):
        check_bind(host, behind_tls=False, has_keys=True, host_names=["memory.example.com"])


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1", "localhost"])
def test_behind_tls_needs_keys_and_host_names_wherever_it_listens(host: str) -> None:
    """A proxy on this machine makes a loopback address public, and its log may hold what is printed."""
    with raises_code("unsafe_bind", match="standfast keys create"):
        check_bind(host, behind_tls=True, has_keys=False, host_names=["memory.example.com"])
    with raises_code("unsafe_bind", match="--host-name"):
        check_bind(host, behind_tls=True, has_keys=True)
    check_bind(host, behind_tls=True, has_keys=True, host_names=["memory.example.com"])


def test_the_first_key_is_not_printed_behind_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(
        main, ["serve", "--behind-tls", "--host-name", "memory.example.com", "--json"]
    )

    assert refused.exit_code == 2
    assert "sf_" not in refused.output
    assert json.loads(refused.output)["error"]["code"] == "unsafe_bind"


def test_serving_elsewhere_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(main, ["serve", "--host", "0.0.0.0", "--json"])

    assert refused.exit_code == 2
    assert json.loads(refused.output)["error"]["code"] == "unsafe_bind"


def test_a_port_that_is_taken_is_told_in_words(served: Served, tmp_path: Path) -> None:
    taken = served.standfast(
        "serve", "--port", str(served.port.number), "--store", str(tmp_path / "other.db")
    )

    assert taken.returncode == 2
    assert "Address already in use" in taken.stderr


def test_the_first_key_is_printed_once_and_no_key_is_ever_logged(served: Served) -> None:
    log = (served.folder / "serve.log").read_text(encoding="utf-8")
    with Client(served.address, key=served.key) as client:
        client.status()
    with Client(served.address, key=served.key[:-1] + "x") as stranger, pytest.raises(StandfastError):
        stranger.status()
    secret = served.key.rpartition("_")[2]

    assert log.count(secret) == 1
    assert secret.encode() not in served.store.read_bytes()


def test_stopping_signs_the_head_and_tells_of_refusals(tmp_path: Path) -> None:
    """SIGTERM: calls are finished, counted refusals are logged, and the ledger's head is signed."""
    server = Served(tmp_path)
    server.start()
    with Client(server.address, key=server.key) as client:
        client.remember("EU refunds take 14 days.", source=HANDBOOK)
    with Client(server.address, key="sf_wrong") as stranger:
        for _ in range(30):
            with pytest.raises(StandfastError):
                stranger.status()
    server.process.stop()
    with Memory.open(str(server.store), create=False) as memory:
        entries = [entry.read() for entry in memory.store.entries()]
        problems = list(memory.verify())
    refused = [entry["body"]["told"] for entry in entries if entry["kind"] == "access"]
    checkpoints = (tmp_path / "standfast.db-files/checkpoints").read_text(encoding="utf-8")

    assert problems == []
    assert sum("refused" in fact for fact in refused) == 10
    assert sum(group["times"] for fact in refused for group in fact.get("refused_too", [])) == 20
    assert str(len(entries)) in checkpoints


class _Writer(threading.Thread):
    """Remembers one thing after the other, each under a key of its own, and notes what was acknowledged.

    When the server is gone it waits, and goes on with the same key, as a client that retries does.
    """

    def __init__(self, served: Served, name: str, stop: threading.Event) -> None:
        super().__init__()
        self._client = Client(served.address, key=served.key, namespace="load", timeout_seconds=10)
        self._name = name
        self._stop_now = stop
        self.acknowledged: list[str] = []

    def run(self) -> None:
        with self._client:
            while not self._stop_now.is_set():
                number = len(self.acknowledged)
                subject = f"{self._name}/{number}"
                text = f"Warehouse {self._name} keeps crate {number * 37 + 5} on shelf {number}."
                try:
                    self._client.remember(text, subject=subject, source=HANDBOOK, request_key=subject)
                except StandfastError:
                    self._stop_now.wait(0.05)
                    continue
                self.acknowledged.append(subject)


@pytest.mark.parametrize("kills", [1, pytest.param(15, marks=pytest.mark.slow)])
def test_a_kill_under_load_loses_no_acknowledged_write_and_a_retry_has_one_effect(
    tmp_path: Path, kills: int
) -> None:
    server = Served(tmp_path, "--calls-per-second", "100000")
    server.start()
    stop = threading.Event()
    writers = [_Writer(server, name, stop) for name in ("north", "south", "east")]
    for writer in writers:
        writer.start()
    for _ in range(kills):
        before = sum(len(writer.acknowledged) for writer in writers)
        while sum(len(writer.acknowledged) for writer in writers) < before + 15:
            stop.wait(0.01)
        server.process.kill()
        server.start()
    stop.set()
    for writer in writers:
        writer.join()
    server.process.stop()
    acknowledged = [subject for writer in writers for subject in writer.acknowledged]
    with Memory.open(str(server.store), namespace="load", create=False) as memory:
        versions = {subject: memory.history(subject) for subject in acknowledged}
        written = {record.memory_id for record in memory.records()}
        problems = list(memory.verify())

    assert len(acknowledged) >= 15 * kills
    assert problems == []
    assert {subject for subject, chapters in versions.items() if len(chapters) != 2} == set()
    # At most one a writer was under way when it was stopped.
    assert len(written - set(acknowledged)) <= len(writers)


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    """As after a plain ``pip install standfast``: the packages can't be imported."""
    program = (
        "import sys; sys.modules['starlette'] = sys.modules['mcp'] = None\n"
        "from standfast.cli import main\n"
        "for word in ('serve', 'mcp'):\n"
        "    try: main([word], prog_name='standfast')\n"
        "    except SystemExit as end: print(end.code)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert ended.stdout.split() == ["2", "2"]
    assert [f"pip install 'standfast[{extra}]'" in ended.stderr for extra in ("server", "mcp")] == [
        True,
        True,
    ]
