"""A TCP proxy on loopback that cuts a connection after a given number of bytes, in either direction."""

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

CHUNK_BYTES = 1 << 16
POLL_SECONDS = 0.05
TO_SERVER, TO_CLIENT = "to_server", "to_client"
LATE_SECONDS = 0.5


class _Pair:
    """The two ends of one connection."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.ends = {TO_SERVER: (client, server), TO_CLIENT: (server, client)}
        # How much may still pass before this connection is cut; None is any amount.
        self.patience_bytes: int | None = None

    def close(self) -> None:
        for end in self.ends[TO_SERVER]:
            end.close()


class CuttingProxy:
    """Passes bytes on until told to cut. One thread serves all connections; counts are of all of them."""

    def __init__(self, url: str) -> None:
        self._target = urlsplit(url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve)
        self._over = False
        self._cut_after: tuple[str, int] | None = None
        self._late = False
        self.passed_bytes = {TO_SERVER: 0, TO_CLIENT: 0}
        self.cuts = 0
        self.patience: Callable[[], int] | None = None
        """Asked at each new connection how many bytes it may carry before it is cut."""

    @property
    def url(self) -> str:
        """The server's URL, through this proxy."""
        port: int = self._listener.getsockname()[1]
        return urlunsplit(self._target._replace(netloc=f"{self._target.username}@127.0.0.1:{port}"))

    def cut_after(self, direction: str, passed_bytes: int, *, late: bool = False) -> None:
        """Cut the connection that carries the next so many bytes in a direction.

        With ``late`` only the client hears of it; what it had sent reaches the server some time later.
        """
        self._late = late
        self._cut_after = (direction, passed_bytes)

    def _serve(self) -> None:
        while not self._over:
            for key, _ in self._selector.select(POLL_SECONDS):
                if key.data is None:
                    self._accept()
                else:
                    self._pass_on(*key.data)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection((self._target.hostname or "", self._target.port or 0))
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = _Pair(client, server)
        pair.patience_bytes = None if self.patience is None else self.patience()
        self._selector.register(client, selectors.EVENT_READ, (pair, TO_SERVER))
        self._selector.register(server, selectors.EVENT_READ, (pair, TO_CLIENT))

    def _pass_on(self, pair: _Pair, direction: str) -> None:
        source, sink = pair.ends[direction]
        if source.fileno() < 0:
            return  # It was cut by what came just before.
        try:
            data = source.recv(CHUNK_BYTES)
            allowed = self._allowed(pair, direction, len(data))
            if allowed is not None and self._late:
                self._deliver_late(pair, data)
                return
            # Counted first: who got the last byte may ask at once how many there were.
            self.passed_bytes[direction] += len(data)
            sink.sendall(data[:allowed])
        except OSError:
            data, allowed = b"", None
        if not data or allowed is not None:
            self._cut(pair)

    def _allowed(self, pair: _Pair, direction: str, coming_bytes: int) -> int | None:
        """How many of the bytes to pass on before the cut; None if there is no cut among them."""
        if pair.patience_bytes is not None:
            pair.patience_bytes -= coming_bytes
            if pair.patience_bytes < 0:
                self.cuts += 1
                return coming_bytes + pair.patience_bytes
        if self._cut_after is None or self._cut_after[0] != direction:
            return None
        left_bytes = self._cut_after[1]
        if left_bytes >= coming_bytes:
            self._cut_after = (direction, left_bytes - coming_bytes)
            return None
        self._cut_after = None
        self.cuts += 1
        return left_bytes

    def _deliver_late(self, pair: _Pair, data: bytes) -> None:
        client, server = pair.ends[TO_SERVER]
        self._selector.unregister(client)
        self._selector.unregister(server)
        client.close()

        def deliver() -> None:
            with suppress(OSError):
                server.sendall(data)
            server.close()

        threading.Timer(LATE_SECONDS, deliver).start()

    def _cut(self, pair: _Pair) -> None:
        for end in pair.ends[TO_SERVER]:
            self._selector.unregister(end)
        pair.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over = True
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                key.data[0].close()
        self._selector.close()
        self._listener.close()
