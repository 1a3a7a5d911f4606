"""Health over HTTP, for whoever supervises the process: ``/live`` and ``/ready`` say 200 or 503, and nothing else."""

import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class HealthServer:
    """Answers on an address of its own while its block lasts."""

    def __init__(self, *, host: str, port: int, live: Callable[[], bool], ready: Callable[[], bool]) -> None:
        questions = {"/live": live, "/ready": ready}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                question = questions.get(self.path)
                if question is None:
                    status = HTTPStatus.NOT_FOUND
                else:
                    status = HTTPStatus.OK if question() else HTTPStatus.SERVICE_UNAVAILABLE
                content = status.phrase.encode() + b"\n"
                self.send_response(status)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # The library's signature.
                """A supervisor asks every second; nobody wants to read of it."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._host = host
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self._host}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
