"""Several servers on one PostgreSQL behind a small proxy, and callers that note what was acknowledged."""

import contextlib
import itertools
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from standfast.client import Client
from standfast.errors import StandfastError
from standfast.server.access.keys import Keyring
from standfast.store.opening import open_store
from tests.server.harness import HANDBOOK, Served

_T = TypeVar("_T")


class RoundRobinProxy:
    """Passes each request to the next server.

    One that does not take the connection is passed over, as proxies do.
    """

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self._turns = itertools.count()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1_024)
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.passed_over = 0
        self.broken = 0

    def __enter__(self) -> Self:
        self._begin(threading.Thread(target=self._accept, daemon=True))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in (self._listener, *self._connections):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _begin(self, thread: threading.Thread) -> None:
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections.add(caller)
                self._begin(threading.Thread(target=self._serve, args=(caller,), daemon=True))

    def _serve(self, caller: socket.socket) -> None:
        servers: dict[int, socket.socket] = {}
        with contextlib.suppress(OSError, EOFError), caller:
            while True:
                caller.sendall(self._answer(_message(caller), servers))
        for server in servers.values():
            server.close()
        self._connections.discard(caller)

    def _answer(self, request: bytes, servers: dict[int, socket.socket]) -> bytes:
        """The next server's answer. A kept connection that the server has closed is opened again."""
        for _ in range(2 * len(self._ports)):
            port = self._ports[next(self._turns) % len(self._ports)]
            kept = servers.pop(port, None)
            if kept is not None and _is_closed(kept):
                kept.close()
                kept = None
            try:
                server = kept or _connected(port)
            except OSError:
                self.passed_over += 1
                continue
            try:
                server.sendall(request)
                answer = _message(server)
            except (OSError, EOFError):
                server.close()
                self.broken += 1
                return b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n"
            if b"\r\nconnection: close" not in answer.partition(b"\r\n\r\n")[0].lower():
                servers[port] = server
            else:
                server.close()
            return answer
        return b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


def _connected(port: int) -> socket.socket:
    server = socket.create_connection(("127.0.0.1", port))
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return server


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.setblocking(True)


def _message(connection: socket.socket) -> bytes:
    """One HTTP message with a declared length."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _received(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    lengths = [
        int(line.split(b":")[1])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    while len(body) < sum(lengths):
        part = _received(connection)
        body += part
    return head + b"\r\n\r\n" + body


def _received(connection: socket.socket) -> bytes:
    part = connection.recv(65_536)
    if not part:
        raise EOFError
    return part


class ReplicaSet:
    """Servers on one store. They start together, and each can be killed, stopped and started again."""

    def __init__(self, folder: Path, store: str, count: int = 3) -> None:
        self._store = store
        self.key = ""
        self.servers: list[Served] = []
        for number in range(count):
            own = folder / f"replica{number}"
            own.mkdir()
            self.servers.append(Served(own, "--calls-per-second", "100000", "--store", store))

    def start(self) -> None:
        """Create a key and start all of them at once."""
        store = open_store(self._store, create=True)
        _, self.key = Keyring(store).create(name="load", role="operator", namespaces=["*"])
        store.close()
        threads = [threading.Thread(target=server.start) for server in self.servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def stop(self) -> None:
        """Stop all of them."""
        for server in self.servers:
            server.process.stop()

    @property
    def ports(self) -> list[int]:
        """Where they listen."""
        return [server.port.number for server in self.servers]


class AcknowledgedCaller(threading.Thread):
    """Remembers single facts and whole runs in turn, and notes what was acknowledged and how long it took.

    It goes on with the same request key when a call fails for good, as a careful program does. With
    ``pace_seconds`` it makes a call that often; without, as fast as it is answered.
    """

    def __init__(
        self, address: str, key: str, name: str, stop: threading.Event, *, pace_seconds: float = 0.0
    ) -> None:
        super().__init__(daemon=True)
        self._client = Client(address, key=key, namespace="load", timeout_seconds=30)
        self._name = name
        self._stop_now = stop
        self._pace_seconds = pace_seconds
        self._next_call = time.perf_counter()
        self.acknowledged: list[str] = []
        self.seconds: list[float] = []
        self.errors: list[StandfastError] = []

    def run(self) -> None:
        """Call until it is told to stop."""
        with self._client:
            for number in itertools.count():
                if self._stop_now.is_set():
                    return
                try:
                    self._run(number) if number % 2 else self._remember(number)
                except StandfastError as error:
                    self.errors.append(error)

    def _remember(self, number: int) -> None:
        subject = f"{self._name}/{number}"
        self._timed(
            lambda: self._client.remember(
                _text(subject), subject=subject, source=HANDBOOK, request_key=subject
            )
        )
        self.acknowledged.append(subject)

    def _run(self, number: int) -> None:
        subjects = [f"{self._name}/{number}/{part}" for part in range(3)]
        run = self._timed(lambda: self._client.run(workflow="load", mode="buffered_write"))
        for subject in subjects:
            self._timed(lambda: run.remember(_text(subject), subject=subject, source=HANDBOOK))  # noqa: B023
        self._timed(lambda: run.recall(f"Where is crate {number}?", tokens=200))
        self._timed(run.commit)
        self.acknowledged += subjects

    def _timed(self, call: Callable[[], _T]) -> _T:
        time.sleep(max(0.0, self._next_call - time.perf_counter()))
        began = time.perf_counter()
        self._next_call = max(began, self._next_call + self._pace_seconds)
        answer = call()
        self.seconds.append(time.perf_counter() - began)
        return answer


def _text(subject: str) -> str:
    digits = sum(ord(letter) * place for place, letter in enumerate(subject, 1))
    return f"Warehouse {subject} keeps crate {digits} on shelf {digits % 89}."
