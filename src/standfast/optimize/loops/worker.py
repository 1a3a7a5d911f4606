"""WorkerLoop: takes requests from a mailbox, one at a time, and replies to each.

No request stops the loop. A request that fails gets an error as its reply, or becomes a dead letter if there is nowhere to
reply to. While a server is away the loop waits. A request that is interrupted by a shutdown goes back to the queue.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from standfast.clock import Clock, SystemClock
from standfast.errors import (
    CacheUnavailable,
    CommitAborted,
    LoopStopping,
    MailboxClosed,
    MailboxError,
    MailboxUnavailable,
    NoReplyAddress,
    OutcomeUnknown,
    OverridesUnavailable,
    ReplyMailboxClosed,
    StaleReceipt,
    StandfastError,
    StoreBusy,
    StoreFailed,
    UnresolvableReply,
)
from standfast.limits import LOOP_BACKOFF_SECONDS, MAX_LOOP_BACKOFF_SECONDS, MAX_RETRY_DELAY_SECONDS
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
        """Seconds since the last heartbeat. Waiting for requests does not count; a long handler calls ``beat``."""
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
            with _LeaseKeeper(visibility_timeout) as keeper:
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
            # The lease ended, for example because this machine was suspended. Another worker answers too; the reply's
            # request id shows that both belong to one request.
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
                str(NoReplyAddress(message_id=message.message_id, mailbox=self.requests.name))
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

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finished.set()
        self._thread.join()

    def _extend_leases(self) -> None:
        seen: Message[Any, Any] | None = None
        while not self._finished.wait(self._timeout / 4):
            current = self._current
            # A message seen at the last check too is between a quarter and a half of its lease old.
            if current is not None and current is seen:
                # A stale receipt shows when the message is settled; an unreachable server may be back by then.
                with suppress(MailboxError):
                    current.extend_visibility(self._timeout)
            seen = current


def error_text(error: Exception) -> str:
    """Return an error as a reply states it: its code and its message."""
    code: Any = getattr(error, "code", None)
    return f"{code or type(error).__name__}: {error}"
