"""A loop that takes requests from a mailbox, one at a time, and answers each of them.

Whatever a request does, the loop lives on: a bad request gets an error as its reply or becomes a dead letter; a failing
server is waited for; a request that was interrupted goes back to the queue.
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

_PASSING: Final = (
    MailboxUnavailable,
    OverridesUnavailable,
    CacheUnavailable,
    CommitAborted,
    StoreBusy,
    StoreFailed,
    OutcomeUnknown,
)
"""Failures that end by themselves: the same request can succeed later, from a newer snapshot perhaps."""


class WorkerLoop(ABC, Generic[RequestT, ResultT]):
    """The part that all loops share. A loop says what it takes, how it handles it, and how it tells an error."""

    takes: ClassVar[type]
    name: str = "worker"

    def __init__(self, *, requests: Mailbox[RequestT, ResultT], clock: Clock | None = None) -> None:
        self.requests = requests
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._beat_at = self._clock.monotonic()
        self._waits_seconds = 0.0
        self._retry_passing_failures = 3

    @abstractmethod
    def handle(self, request: RequestT) -> ResultT:
        """Do what is asked. An exception becomes the reply that ``failed`` makes of it."""

    @abstractmethod
    def failed(self, request: RequestT, error: Exception) -> ResultT:
        """The reply that tells the sender of an error."""

    @property
    def stopping(self) -> bool:
        """Whether the loop was asked to stop."""
        return self._stop.is_set()

    @property
    def running(self) -> bool:
        """Whether ``run`` is under way."""
        return not self._idle.is_set()

    @property
    def quiet_seconds(self) -> float:
        """How long the loop has given no sign of life. Waiting for requests is life; a handler has to say so itself."""
        return max(self._clock.monotonic() - self._beat_at - self._waits_seconds, 0.0)

    def beat(self) -> None:
        """A sign of life. Long handlers give one now and then; it raises ``LoopStopping`` when it is time to stop."""
        self._beat_at = self._clock.monotonic()
        if self._stop.is_set():
            raise LoopStopping(loop=self.name)

    def run(
        self,
        *,
        max_iterations: int | None = None,
        visibility_timeout: float = 300,
        wait_time_seconds: float = 20,
    ) -> None:
        """Take and answer requests until ``shutdown``, or until that many looks into the mailbox.

        A shutdown that was asked for before this was called counts as well.
        """
        self._idle.clear()
        try:
            with _Keeper(visibility_timeout) as keeper:
                self._take_requests(keeper, max_iterations, visibility_timeout, wait_time_seconds)
        finally:
            self._idle.set()

    def _take_requests(
        self,
        keeper: "_Keeper",
        max_iterations: int | None,
        visibility_timeout: float,
        wait_time_seconds: float,
    ) -> None:
        iterations, failures = 0, 0
        while not self._stop.is_set() and (max_iterations is None or iterations < max_iterations):
            self._beat_at, self._waits_seconds = self._clock.monotonic(), wait_time_seconds
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
            self._beat_at, self._waits_seconds = self._clock.monotonic(), 0.0
            for message in messages:
                self._process(message, keeper)
            iterations += 1

    def shutdown(self, *, timeout: float = 30.0) -> bool:
        """Ask the loop to stop and wait for it; says whether it has stopped."""
        self._stop.set()
        with suppress(MailboxError):
            self.requests.interrupt()
        return self._idle.wait(timeout)

    def _process(self, message: Message[RequestT, ResultT], keeper: "_Keeper") -> None:
        if self._stop.is_set():
            with suppress(MailboxError):
                message.nack()
            return
        try:
            with keeper.holding(message):
                self._answer(message)
        except StaleReceipt:
            # The lease was lost, to a pause of this machine perhaps. Whoever has the request now answers it too, and
            # replies are told apart by request id.
            return
        except MailboxUnavailable:
            # It stays leased and comes back when the lease is over.
            return
        except Exception as error:  # noqa: BLE001  # Not even a reply that can't be made stops the loop.
            with suppress(MailboxError):
                message.dead_letter(f"{type(error).__name__}: {error}")

    def _answer(self, message: Message[RequestT, ResultT]) -> None:
        if not isinstance(message.body, self.takes):
            kind = type(message.body).__name__
            message.dead_letter(f"{self.name} takes {self.takes.__name__}, not {kind}")
            return
        try:
            reply = self.handle(message.body)
        except LoopStopping:
            message.nack()
            return
        except Exception as error:  # noqa: BLE001  # Whatever a handler does, the loop lives on and the sender hears of it.
            if isinstance(error, _PASSING) and message.delivery_count <= self._retry_passing_failures:
                message.nack(visibility_timeout=min(2.0**message.delivery_count, MAX_RETRY_DELAY_SECONDS))
                return
            reply = self.failed(message.body, error)
        self._beat_at = self._clock.monotonic()
        try:
            message.reply(reply)
        except ReplyMailboxClosed:
            # Who asked has the answer from an earlier delivery, or gave up: nobody waits.
            message.acknowledge()
            return
        except (NoReplyAddress, UnresolvableReply) as error:
            message.dead_letter(str(error))
            return
        except StandfastError as error:
            if isinstance(error, _PASSING):
                raise
            message.reply(self.failed(message.body, error))
        message.acknowledge()


class _Keeper:
    """Keeps the lease of the message that is being handled, from a thread of its own.

    It looks a few times in the length of a lease and is told of nothing, so that short work costs it nothing.
    """

    def __init__(self, visibility_timeout: float) -> None:
        self._timeout = visibility_timeout
        self._held: Message[Any, Any] | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)

    @contextmanager
    def holding(self, message: Message[Any, Any]) -> Iterator[None]:
        """While this block lasts, the message stays ours."""
        self._held = message
        try:
            yield
        finally:
            self._held = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _keep(self) -> None:
        seen: Message[Any, Any] | None = None
        while not self._over.wait(self._timeout / 4):
            held = self._held
            # One that was here at the last look is at least a quarter old, and at most a half when it is extended.
            if held is not None and held is seen:
                # A receipt that is stale shows when the message is settled; a server that is away may be back by then.
                with suppress(MailboxError):
                    held.extend_visibility(self._timeout)
            seen = held


def error_text(error: Exception) -> str:
    """An error as a reply tells it: its code and its words."""
    code: Any = getattr(error, "code", None)
    return f"{code or type(error).__name__}: {error}"
