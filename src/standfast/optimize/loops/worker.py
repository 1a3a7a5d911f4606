"""WorkerLoop takes requests from a mailbox and replies to each; LoopGroup runs several loops in threads.

No request stops the loop. A request that fails gets an error as its reply, or becomes a dead letter if there
is nowhere to reply to. While a server is away the loop waits. A request that is interrupted by a shutdown
goes back to the queue.
"""

import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final, Generic, TypeVar

from standfast.clock import Clock, SystemClock
from standfast.errors import (
    CommitAborted,
    OutcomeUnknown,
    StandfastError,
    StoreBusy,
    StoreFailed,
)
from standfast.limits import (
    LOOP_BACKOFF_SECONDS,
    LOOP_STALL_SECONDS,
    MAX_LOOP_BACKOFF_SECONDS,
    MAX_RETRY_DELAY_SECONDS,
)
from standfast.optimize.errors import (
    CacheUnavailable,
    LoopError,
    LoopStopping,
    MailboxClosed,
    MailboxError,
    MailboxUnavailable,
    OverridesUnavailable,
    ReplyMailboxClosed,
    StaleReceipt,
    UnresolvableReply,
)
from standfast.optimize.mailboxes.mailbox import Mailbox, Message

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")

_TRANSIENT: Final = (
    MailboxUnavailable,
    OverridesUnavailable,
    CacheUnavailable,
    CommitAborted,
    StoreBusy,
    StoreFailed,
    OutcomeUnknown,
)
"""Failures after which the same request can succeed later."""


class WorkerLoop(ABC, Generic[RequestT, ResultT]):
    """The base of all loops. A subclass sets ``takes`` and implements ``handle`` and ``failed``."""

    takes: ClassVar[type]
    name: str = "worker"

    def __init__(self, *, requests: Mailbox[RequestT, ResultT], clock: Clock | None = None) -> None:
        self.requests = requests
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._last_beat = self._clock.monotonic()
        self._waiting_seconds = 0.0
        self._max_transient_retries = 3

    @abstractmethod
    def handle(self, request: RequestT) -> ResultT:
        """Answer a request. An exception is passed to ``failed``, whose result is the reply."""

    @abstractmethod
    def failed(self, request: RequestT, error: Exception) -> ResultT:
        """Return the reply for a request that raised an error."""

    @property
    def stopping(self) -> bool:
        """Whether shutdown was requested."""
        return self._stop.is_set()

    @property
    def running(self) -> bool:
        """Whether ``run`` is executing."""
        return not self._idle.is_set()

    @property
    def quiet_seconds(self) -> float:
        """Seconds since the last heartbeat. Waiting does not count; a long handler calls ``beat``."""
        return max(self._clock.monotonic() - self._last_beat - self._waiting_seconds, 0.0)

    def beat(self) -> None:
        """Report progress from a long handler. Raises ``LoopStopping`` if shutdown was requested."""
        self._last_beat = self._clock.monotonic()
        if self._stop.is_set():
            raise LoopStopping(loop=self.name)

    def run(
        self,
        *,
        max_iterations: int | None = None,
        visibility_timeout: float = 300,
        wait_time_seconds: float = 20,
    ) -> None:
        """Process requests until ``shutdown``, or for ``max_iterations`` calls of ``receive``.

        A shutdown that was requested before this call counts too.
        """
        self._idle.clear()
        try:
            keeper = _LeaseKeeper(visibility_timeout)
            with keeper.running():
                self._take_requests(keeper, max_iterations, visibility_timeout, wait_time_seconds)
        finally:
            self._idle.set()

    def _take_requests(
        self,
        keeper: "_LeaseKeeper",
        max_iterations: int | None,
        visibility_timeout: float,
        wait_time_seconds: float,
    ) -> None:
        iterations, failures = 0, 0
        while not self._stop.is_set() and (max_iterations is None or iterations < max_iterations):
            self._last_beat, self._waiting_seconds = self._clock.monotonic(), wait_time_seconds
            try:
                messages = self.requests.receive(
                    visibility_timeout=visibility_timeout, wait_time_seconds=wait_time_seconds
                )
                failures = 0
            except MailboxClosed:
                return
            except MailboxUnavailable:
                failures += 1
                self._stop.wait(min(LOOP_BACKOFF_SECONDS * 2**failures, MAX_LOOP_BACKOFF_SECONDS))
                continue
            self._last_beat, self._waiting_seconds = self._clock.monotonic(), 0.0
            for message in messages:
                self._process(message, keeper)
            iterations += 1

    def shutdown(self, *, timeout: float = 30.0) -> bool:
        """Request shutdown and wait; return whether the loop has stopped."""
        self._stop.set()
        with suppress(MailboxError):
            self.requests.interrupt()
        return self._idle.wait(timeout)

    def _process(self, message: Message[RequestT, ResultT], keeper: "_LeaseKeeper") -> None:
        if self._stop.is_set():
            with suppress(MailboxError):
                message.nack()
            return
        try:
            with keeper.holding(message):
                self._answer(message)
        except StaleReceipt:
            # The lease ended, for example because this machine was suspended. Another worker answers too; the
            # reply's request id shows that both belong to one request.
            return
        except MailboxUnavailable:
            # The message is delivered again when its lease ends.
            return
        except Exception as error:  # noqa: BLE001  # A failing reply must not stop the loop.
            with suppress(MailboxError):
                message.dead_letter(f"{type(error).__name__}: {error}")

    def _answer(self, message: Message[RequestT, ResultT]) -> None:
        if not isinstance(message.body, self.takes):
            kind = type(message.body).__name__
            message.dead_letter(f"{self.name} takes {self.takes.__name__}, not {kind}")
            return
        if message.reply_to is None:
            # Refused before any work: nobody would get the answer.
            message.dead_letter(
                str(
                    MailboxError(
                        "no_reply_address", message_id=message.message_id, mailbox=self.requests.name
                    )
                )
            )
            return
        try:
            reply = self.handle(message.body)
        except LoopStopping:
            message.nack()
            return
        except Exception as error:  # noqa: BLE001  # The sender gets every error; the loop goes on.
            if isinstance(error, _TRANSIENT) and message.delivery_count <= self._max_transient_retries:
                message.nack(visibility_timeout=min(2.0**message.delivery_count, MAX_RETRY_DELAY_SECONDS))
                return
            reply = self.failed(message.body, error)
        self._last_beat = self._clock.monotonic()
        try:
            message.reply(reply)
        except ReplyMailboxClosed:
            # The sender has the answer from an earlier delivery, or gave up.
            message.acknowledge()
            return
        except UnresolvableReply as error:
            message.dead_letter(str(error))
            return
        except StandfastError as error:
            if isinstance(error, _TRANSIENT):
                raise
            message.reply(self.failed(message.body, error))
        message.acknowledge()


class _LeaseKeeper:
    """Extends the lease of the current message from a thread of its own.

    It checks four times per lease, so that short work never extends a lease.
    """

    def __init__(self, visibility_timeout: float) -> None:
        self._timeout = visibility_timeout
        self._current: Message[Any, Any] | None = None
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._extend_leases, daemon=True)

    @contextmanager
    def holding(self, message: Message[Any, Any]) -> Iterator[None]:
        """Keep the message leased while the block runs."""
        self._current = message
        try:
            yield
        finally:
            self._current = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Extend leases while the block lasts."""
        self._thread.start()
        try:
            yield
        finally:
            self._finished.set()
            self._thread.join()

    def _extend_leases(self) -> None:
        seen: Message[Any, Any] | None = None
        while not self._finished.wait(self._timeout / 4):
            current = self._current
            # A message seen at the last check too is between a quarter and a half of its lease old.
            if current is not None and current is seen:
                # A stale receipt shows when the message is settled; an unreachable server may be back by
                # then.
                with suppress(MailboxError):
                    current.extend_visibility(self._timeout)
            seen = current


def error_text(error: Exception) -> str:
    """Return an error as a reply states it: its code and its message."""
    code: Any = getattr(error, "code", None)
    return f"{code or type(error).__name__}: {error}"


class HealthServer:
    """Serves ``/live`` and ``/ready`` with 200 or 503."""

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

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve while the block lasts."""
        self._thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


class LoopGroup:
    """Runs loops until one crashes or stalls, a signal arrives, or ``shutdown`` is called; then stops all.

    Args:
        stall_seconds: How long a loop may go without a heartbeat.
        stop_seconds: How long to wait for loops to stop.
        health_port: Serve ``GET /live`` and ``GET /ready`` on this port; 0 takes a free one.
    """

    def __init__(
        self,
        *,
        loops: Sequence[WorkerLoop[Any, Any]],
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
        self._failure: LoopError | None = None
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
        """Run all loops until they have ended; then raise ``LoopError`` if one crashed or stalled."""

        def run_loop(loop: WorkerLoop[Any, Any]) -> None:
            loop.run(
                max_iterations=max_iterations,
                visibility_timeout=visibility_timeout,
                wait_time_seconds=wait_time_seconds,
            )

        threads = [
            threading.Thread(target=self._run_watched, args=(loop, run_loop), name=loop.name, daemon=True)
            for loop in self._loops
        ]
        serving = nullcontext() if self._health is None else self._health.serving()
        with self._signals(), serving:
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

    def _run_watched(
        self, loop: WorkerLoop[Any, Any], run_loop: Callable[[WorkerLoop[Any, Any]], None]
    ) -> None:
        try:
            run_loop(loop)
        except BaseException as error:  # noqa: BLE001  # Any crash ends the group, which reports it.
            self._fail(LoopError("loop_crashed", loop=loop.name, problem=f"{type(error).__name__}: {error}"))
        with self._lock:
            self._running_loops -= 1
            if not self._running_loops:
                self._stop.set()

    def _watch(self) -> None:
        """Wait until all loops have ended or there is a reason to stop them."""
        while not self._stop.wait(min(self._stall_seconds / 4, 1.0)):
            if stalled := self._stalled():
                loop = stalled[0]
                self._fail(
                    LoopError("loop_stalled", loop=loop.name, stalled_seconds=round(loop.quiet_seconds))
                )

    def _stalled(self) -> list[WorkerLoop[Any, Any]]:
        return [loop for loop in self._loops if loop.running and loop.quiet_seconds > self._stall_seconds]

    def _fail(self, failure: LoopError) -> None:
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
