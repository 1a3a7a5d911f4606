"""How a loaded server stops: in bounded time, without noise, and at once on a second signal.

And how it logs.
"""

import contextlib
import io
import json
import logging
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from standfast.limits import MAX_QUEUED_LOG_RECORDS, SERVER_THREADS
from standfast.server import logs
from standfast.server.logs import LogFormat, handlers_kept, logging_to
from tests.server.harness import Served

WAITING_CALLS = 200


class Loaded:
    """A server whose every thread waits for the store, with many more calls in the queue."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.server = Served(folder, "--calls-per-second", "100000", *options, has_mcp=True)
        self.server.start()
        self._connections: list[socket.socket] = []
        # Another process may hold SQLite's write lock, as a backup or a stuck command does.
        self._lock = sqlite3.connect(self.server.store, isolation_level=None)
        self._lock.execute("BEGIN IMMEDIATE")
        body = json.dumps({"text": "Ada likes tea."}).encode()
        head = (
            "POST /v1/namespaces/default/remember HTTP/1.1\r\nHost: localhost\r\nContent-Type:"
            f" application/json\r\nAuthorization: Bearer {self.server.key}\r\nContent-Length:"
            f" {len(body)}\r\n\r\n"
        )
        for _ in range(WAITING_CALLS):
            connection = socket.create_connection(("127.0.0.1", self.server.port.number))
            connection.sendall(head.encode() + body)
            self._connections.append(connection)
        self.wait_until_waiting(WAITING_CALLS - SERVER_THREADS)

    def wait_until_waiting(self, calls: int) -> None:
        """Until the server says that so many calls wait; its metrics do not wait behind them."""
        import httpx

        headers = {"Authorization": f"Bearer {self.server.key}"}
        while True:
            text = httpx.get(f"{self.server.address}/metrics", headers=headers, timeout=20).text
            if f"standfast_calls_waiting {calls}\n" in text:
                return

    def hang_up(self) -> None:
        """Close every connection without waiting for its answer."""
        for connection in self._connections:
            connection.close()

    def unlock(self) -> None:
        """Let the server write again."""
        self._lock.execute("ROLLBACK")

    @property
    def log(self) -> str:
        """What the server has printed and logged."""
        return (self.server.folder / "serve.log").read_text(encoding="utf-8")

    def answers(self) -> list[bytes]:
        """The first line of each answer that was sent."""
        lines = []
        for connection in self._connections:
            connection.settimeout(5)
            with contextlib.suppress(OSError):
                lines.append(connection.recv(65_536).partition(b"\r\n")[0])
        return lines

    def close(self) -> None:
        """End the server, whatever it does."""
        self.hang_up()
        self._lock.close()
        self.server.process.kill()


@pytest.fixture
def loaded(tmp_path: Path) -> Iterator[Loaded]:
    server = Loaded(tmp_path, "--stop-seconds", "0.5")
    yield server
    server.close()


def test_a_server_whose_calls_hang_stops_by_itself_and_says_little(loaded: Loaded) -> None:
    """``stop`` fails if the process does not end."""
    loaded.server.process.stop()
    answers = loaded.answers()

    assert answers.count(b"HTTP/1.1 503 Service Unavailable") == WAITING_CALLS
    assert len(loaded.log) < 5_000
    assert "Traceback" not in loaded.log
    assert "│" not in loaded.log


def test_calls_of_clients_that_hung_up_before_their_turn_are_never_made(loaded: Loaded) -> None:
    import httpx

    loaded.hang_up()
    loaded.wait_until_waiting(0)
    loaded.unlock()
    headers = {"Authorization": f"Bearer {loaded.server.key}"}
    body = {"text": "Bob likes coffee."}
    own = httpx.post(
        f"{loaded.server.address}/v1/namespaces/default/remember", json=body, headers=headers, timeout=60
    )
    metrics = httpx.get(f"{loaded.server.address}/metrics", headers=headers, timeout=20).text

    assert own.status_code == 200
    dropped = (
        f'standfast_requests_total{{operation="remember",status="499"}} {WAITING_CALLS - SERVER_THREADS}'
    )
    assert dropped in metrics


def test_a_second_signal_ends_the_server_at_once(tmp_path: Path) -> None:
    server = Loaded(tmp_path, "--stop-seconds", "3000")
    pid = server.server.process.pids[0]
    child = server.server.process._child
    assert child is not None
    child.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(1)
    child.send_signal(signal.SIGTERM)
    ended = child.wait(20)
    server.close()

    assert pid == child.pid
    assert ended == -signal.SIGTERM


def _logged(log_format: LogFormat, *, message: str, error: Exception | None = None) -> str:
    stream = io.StringIO()
    with logging_to(stream, log_format=log_format):
        try:
            if error is not None:
                raise error
            logging.getLogger("standfast.server").error(
                "%s", message, extra={"fields": {"status": 500, "path": "/a b"}}
            )
        except ValueError:
            logging.getLogger("standfast.server").exception("%s", message)
    return stream.getvalue()


@pytest.mark.parametrize("log_format", LogFormat)
def test_a_log_record_is_one_line_whatever_it_holds(log_format: LogFormat) -> None:
    error = ValueError("two\nlines\x1b[31m")
    text = _logged(log_format, message="a\nb\r\x1b", error=error)

    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert "\x1b" not in text
    assert "ValueError" in text


def test_a_line_of_json_has_the_fields_of_its_record() -> None:
    line = json.loads(_logged(LogFormat.JSON, message="it failed"))

    assert {**line, "at": ""} == {
        "at": "",
        "level": "error",
        "logger": "standfast.server",
        "message": "it failed",
        "status": 500,
        "path": "/a b",
    }
    assert line["at"].endswith("Z")
    assert _logged(LogFormat.TEXT, message="it failed").endswith('it failed status=500 path="/a b"\n')


class _Stuck(io.StringIO):
    """A terminal that nobody reads until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = threading.Event()

    def write(self, text: str) -> int:
        self.let_go.wait()
        return super().write(text)


def test_logging_never_waits_for_the_stream_and_counts_what_it_leaves_out() -> None:
    stream = _Stuck()
    many = MAX_QUEUED_LOG_RECORDS + 100
    with logging_to(stream):
        for number in range(many):
            logging.getLogger("standfast.server").error("record %s", number)
        stream.let_go.set()
    lines = stream.getvalue().splitlines()
    written = [line for line in lines if "record " in line and "left out" not in line]
    left_out = [int(line.split()[3]) for line in lines if "left out" in line]

    assert len(written) + sum(left_out) == many
    assert sum(left_out) >= 99


def test_the_writer_thread_formats_what_is_logged() -> None:
    """Formatting a traceback takes long, and must not happen where the event loop runs."""
    threads = []

    class Message:
        def __str__(self) -> str:
            threads.append(threading.current_thread())
            return "text"

    with logging_to(io.StringIO()):
        logging.getLogger("standfast.server").error("%s", Message())

    assert threads
    assert threading.current_thread() not in threads


def test_the_mcp_sdk_installs_no_log_handler() -> None:
    program = (
        "import logging\n"
        "from standfast.server.mcp.server import build_server\n"
        "from standfast.server.operations.gateway import Gateway\n"
        "from standfast.settings import Settings\n"
        "gateway = Gateway.open(Settings(store=':memory:'), create=True)\n"
        "build_server(gateway, lambda _: None)\n"
        "print(logging.getLogger().handlers, logging.getLogger().level)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout == f"[] {logging.WARNING}\n"


def test_handlers_that_were_there_stay() -> None:
    before = list(logging.getLogger().handlers)
    with handlers_kept():
        logging.basicConfig(level=logging.DEBUG)
    assert logging.getLogger().handlers == before
    with logs.logging_to(io.StringIO()):
        assert logging.getLogger().handlers != before
    assert logging.getLogger().handlers == before
