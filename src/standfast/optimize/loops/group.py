"""LoopGroup: runs loops in threads, watches them, stops them together, and serves health checks over HTTP."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Protocol, Self

from standfast.clock import Clock, SystemClock
from standfast.errors import LoopCrashed, LoopStalled
from standfast.limits import LOOP_STALL_SECONDS


class HealthServer:
    """Serves ``/live`` and ``/ready`` with 200 or 503 while its block lasts."""

    def __init__(self, *, host: str, port: int, live: Callable[[], bool], ready: Callable[[], bool]) -> None:
        checks = {"/live": live, "/ready": ready}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                check = checks.get(self.path)
                if check is None:
                    status = HTTPStatus.NOT_FOUND
                else:
                    status = HTTPStatus.OK if check() else HTTPStatus.SERVICE_UNAVAILABLE
                content = status.phrase.encode() + b"\n"
                self.send_response(status)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # The library's signature.
                """Log nothing: supervisors ask every second."""

        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self._host = host
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The server's address."""
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


class Loop(Protocol):
    """What a group needs of a loop."""

    name: str

    @property
    def running(self) -> bool:
        """Whether ``run`` is executing."""
        ...

    @property
    def quiet_seconds(self) -> float:
        """Seconds since the last heartbeat."""
        ...

    def run(
        self,
        *,
        max_iterations: int | None = None,
        visibility_timeout: float = 300,
        wait_time_seconds: float = 20,
    ) -> None:
        """Work until shutdown."""
        ...

    def shutdown(self, *, timeout: float = 30.0) -> bool:
        """Request shutdown; return whether the loop stopped in time."""
        ...


class LoopGroup:
    """Runs loops until one crashes or stalls, a signal arrives, or ``shutdown`` is called; then stops all of them.

    Args:
        stall_seconds: How long a loop may go without a heartbeat.
        stop_seconds: How long to wait for loops to stop.
        health_port: Serve ``GET /live`` and ``GET /ready`` on this port; 0 takes a free one.
    """

    def __init__(
        self,
        *,
        loops: Sequence[Loop],
        stall_seconds: float = LOOP_STALL_SECONDS,
        stop_seconds: float = 30.0,
        health_port: int | None = None,
        health_host: str = "127.0.0.1",
        clock: Clock | None = None,
    ) -> None:
        self._loops = tuple(loops)
        self._stall_seconds, self._stop_seconds = stall_seconds, stop_seconds
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._failure: LoopCrashed | LoopStalled | None = None
        self._lock = threading.Lock()
        self._started = False
        self._running_loops = len(self._loops)
        self._health = (
            None
            if health_port is None
            else HealthServer(host=health_host, port=health_port, live=self.is_live, ready=self.is_ready)
        )

    @property
    def health_url(self) -> str | None:
        """The address of the health checks, or None."""
        return None if self._health is None else self._health.url

    def is_live(self) -> bool:
        """Return whether no loop has crashed or stalled."""
        return self._failure is None and not self._stalled()

    def is_ready(self) -> bool:
        """Return whether every loop takes requests."""
        return self._started and not self._stop.is_set() and all(loop.running for loop in self._loops)

    def run(
        self,
        *,
        max_iterations: int | None = None,
        visibility_timeout: float = 300,
        wait_time_seconds: float = 20,
    ) -> None:
        """Run all loops until they have ended; then raise ``LoopCrashed`` or ``LoopStalled`` if one did."""

        def run_loop(loop: Loop) -> None:
            loop.run(
                max_iterations=max_iterations,
                visibility_timeout=visibility_timeout,
                wait_time_seconds=wait_time_seconds,
            )

        threads = [
            threading.Thread(target=self._run_watched, args=(loop, run_loop), name=loop.name, daemon=True)
            for loop in self._loops
        ]
        with self._signals(), self._served():
            for thread in threads:
                thread.start()
            self._started = True
            self._watch()
            self._stop_all()
            for thread in threads:
                thread.join(self._stop_seconds)
        if self._failure is not None:
            raise self._failure

    def shutdown(self, *, timeout: float = 30.0) -> bool:
        """Stop all loops; return whether all stopped in time."""
        self._stop.set()
        return self._stop_all(timeout)

    def _run_watched(self, loop: Loop, run_loop: Callable[[Loop], None]) -> None:
        try:
            run_loop(loop)
        except BaseException as error:  # noqa: BLE001  # Any crash ends the group, which reports it.
            self._fail(LoopCrashed(loop=loop.name, problem=f"{type(error).__name__}: {error}"))
        with self._lock:
            self._running_loops -= 1
            if not self._running_loops:
                self._stop.set()

    def _watch(self) -> None:
        """Wait until all loops have ended or there is a reason to stop them."""
        while not self._stop.wait(min(self._stall_seconds / 4, 1.0)):
            if stalled := self._stalled():
                loop = stalled[0]
                self._fail(LoopStalled(loop=loop.name, stalled_seconds=round(loop.quiet_seconds)))

    def _stalled(self) -> list[Loop]:
        return [loop for loop in self._loops if loop.running and loop.quiet_seconds > self._stall_seconds]

    def _fail(self, failure: LoopCrashed | LoopStalled) -> None:
        with self._lock:
            self._failure = self._failure or failure
        self._stop.set()

    def _stop_all(self, timeout: float | None = None) -> bool:
        """Stop all loops in parallel and wait for them."""
        wait_seconds = self._stop_seconds if timeout is None else timeout
        stoppers = [
            threading.Thread(target=loop.shutdown, kwargs={"timeout": wait_seconds}, daemon=True)
            for loop in self._loops
        ]
        for stopper in stoppers:
            stopper.start()
        for stopper in stoppers:
            stopper.join(wait_seconds + 1)
        return not any(loop.running for loop in self._loops)

    @contextmanager
    def _served(self) -> Iterator[None]:
        if self._health is None:
            yield
            return
        with self._health:
            yield

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop the group on SIGTERM and SIGINT. Only the main thread can handle signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        for number in before:
            signal.signal(number, lambda *_: self._stop.set())
        try:
            yield
        finally:
            for number, handler in before.items():
                with suppress(TypeError):
                    signal.signal(number, handler)
