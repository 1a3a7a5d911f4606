"""A line to a server that is cut when the answer comes: the work is done, and the caller does not know."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class CuttingProxy:
    """Listens, passes on, and drops the first ``cuts`` answers with their connections."""

    def __init__(self, target_port: int, *, cuts: int) -> None:
        self._target = target_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]
        self.cuts = cuts
        self.cut = 0

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A listener that is only closed would leave its thread waiting in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def _begin(self, work: object, *given: object) -> None:
        thread = threading.Thread(target=work, args=given)  # type: ignore[arg-type]  # Methods of this class.
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                self._begin(self._pass, caller)

    def _pass(self, caller: socket.socket) -> None:
        with caller, socket.create_connection(("127.0.0.1", self._target)) as server:
            self._begin(self._up, caller, server)
            with contextlib.suppress(OSError):
                while answer := server.recv(65_536):
                    if self.cut < self.cuts:
                        self.cut += 1
                        break
                    caller.sendall(answer)
            for end in (caller, server):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def _up(caller: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := caller.recv(65_536):
                server.sendall(data)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_WR)
