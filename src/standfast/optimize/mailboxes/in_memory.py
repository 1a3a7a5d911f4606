"""A mailbox inside one process: for tests, for the command line, and as the plainest reading of the laws.

Bodies are kept as bytes, so that a receiver gets a value of its own, exactly as it would over a network.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Unpack

from standfast.canon import utc_text
from standfast.errors import ReplyMailboxClosed, UndecodableBody
from standfast.limits import MAX_BLOCK_SECONDS
from standfast.optimize.mailboxes.mailbox import (
    BodyT,
    DeadLetter,
    DeadReason,
    Front,
    InMemoryMailboxResolver,
    Mailbox,
    MailboxCounts,
    MailboxResolver,
    Message,
    Options,
    ReplyT,
)


@dataclass(slots=True)
class _Held:
    content: bytes
    allowed: int
    delivery_count: int = 0


class InMemoryMailbox(Front[BodyT, ReplyT]):
    """A mailbox whose messages live as long as this object. ``ManualClock`` lets tests end leases when they like."""

    def __init__(self, **options: Unpack[Options]) -> None:
        given = options.get("reply_resolver")
        self._known: MailboxResolver = InMemoryMailboxResolver() if given is None else given
        options["reply_resolver"] = self._known
        super().__init__(**options)
        self._changed = threading.Condition()
        self._held: dict[str, _Held] = {}
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._leased: dict[str, float] = {}
        self._delayed: dict[str, float] = {}
        self._dead: dict[str, DeadLetter] = {}
        self._interrupts = 0

    def reply_mailbox(self, name: str) -> Mailbox[Any, None]:
        """The temporary mailbox of that name beside this one."""
        with suppress(ReplyMailboxClosed):
            known = self._known.resolve(name)
            if known is not None:
                return known
        made: InMemoryMailbox[Any, None] = InMemoryMailbox(**self._alike(name))
        made._temporary = True
        self._known.register(name, made)
        return made

    def counts(self) -> MailboxCounts:
        """How many messages are in each state now."""
        with self._changed:
            # Only counted, not moved: looking at a mailbox changes nothing, not even the order of what is due.
            now = self._clock.monotonic()
            leased, delayed = (
                sum(at > now for at in hidden.values()) for hidden in (self._leased, self._delayed)
            )
            due = len(self._leased) - leased + len(self._delayed) - delayed
            return MailboxCounts(
                ready=len(self._ready) + due, leased=leased, delayed=delayed, dead=len(self._dead)
            )

    def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """The dead letters, oldest first."""
        with self._changed:
            return sorted(self._dead.values(), key=lambda letter: (letter.died_at, letter.message_id))[:limit]

    def purge(self) -> int:
        """Throw away every message but the dead letters."""
        with self._changed:
            living = [*self._ready, *self._leased, *self._delayed]
            for message_id in living:
                del self._held[message_id]
            for state in (self._ready, self._leased, self._delayed):
                state.clear()
            return len(living)

    def interrupt(self) -> None:
        """Let those who wait in ``receive`` return at once."""
        with self._changed:
            self._interrupts += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Stop using the mailbox; waiting receivers return. A ``reply_mailbox`` is no longer known."""
        with self._changed:
            self._closed = True
        self.interrupt()
        if self._temporary:
            self._known.forget(self._name)

    def _put(self, messages: Sequence[tuple[str, bytes]]) -> None:
        with self._changed:
            for message_id, content in messages:
                self._held[message_id] = _Held(content, self._max_deliveries)
                self._ready[message_id] = None
            self._changed.notify(len(messages))

    def _await(
        self, max_messages: int, visibility_timeout: float, wait_time_seconds: float
    ) -> list[Message[BodyT, ReplyT]]:
        with self._changed:
            interrupts, left_seconds = self._interrupts, wait_time_seconds
            while True:
                if taken := self._take(max_messages, visibility_timeout):
                    return taken
                if left_seconds <= 0 or self._interrupts != interrupts or self._closed:
                    # Whoever waits on takes over watching the next lease's end.
                    self._changed.notify()
                    return []
                begun = self._clock.monotonic()
                pause = min(left_seconds, self._seconds_to_next(), MAX_BLOCK_SECONDS)
                woken = self._changed.wait(pause)
                # A manual clock stands still while we wait, so a pause that was not cut short counts in full.
                passed = self._clock.monotonic() - begun
                left_seconds -= passed if woken else max(passed, pause)

    def _take(self, max_messages: int, visibility_timeout: float) -> list[Message[BodyT, ReplyT]]:
        self._surface()
        taken: list[Message[BodyT, ReplyT]] = []
        while self._ready and len(taken) < max_messages:
            message_id, _ = self._ready.popitem(last=False)
            held = self._held[message_id]
            if held.delivery_count >= held.allowed:
                problem = f"delivered {held.delivery_count} times and never settled"
                self._bury(message_id, DeadReason.DELIVERED_TOO_OFTEN, problem)
                continue
            held.delivery_count += 1
            try:
                taken.append(self._read(f"{message_id}:{held.delivery_count}", held.content))
            except UndecodableBody as error:
                self._bury(message_id, DeadReason.UNDECODABLE, str(error))
            else:
                self._leased[message_id] = self._clock.monotonic() + visibility_timeout
        if taken:
            # Another who waits must learn of the new lease's end, or of what is still ready.
            self._changed.notify()
        return taken

    def _surface(self) -> None:
        """What is hidden and due becomes ready, before what was never delivered: first due, first out."""
        now = self._clock.monotonic()
        due = sorted(
            (at, message_id)
            for hidden in (self._leased, self._delayed)
            for message_id, at in hidden.items()
            if at <= now
        )
        for _, message_id in reversed(due):
            self._leased.pop(message_id, None)
            self._delayed.pop(message_id, None)
            self._ready[message_id] = None
            self._ready.move_to_end(message_id, last=False)

    def _seconds_to_next(self) -> float:
        hidden = [*self._leased.values(), *self._delayed.values()]
        return max(min(hidden, default=float("inf")) - self._clock.monotonic(), 0.0)

    def _leased_id(self, receipt_handle: str) -> str | None:
        """Whose receipt this is, if it is the latest and its time is not over."""
        message_id, _, count = receipt_handle.rpartition(":")
        held = self._held.get(message_id)
        if held is None or str(held.delivery_count) != count:
            return None
        return message_id if self._leased.get(message_id, float("-inf")) > self._clock.monotonic() else None

    def _acknowledged(self, receipt_handles: Sequence[str]) -> list[str]:
        with self._changed:
            stale = []
            for receipt_handle in receipt_handles:
                message_id = self._leased_id(receipt_handle)
                if message_id is None:
                    stale.append(receipt_handle)
                else:
                    del self._leased[message_id], self._held[message_id]
        return stale

    def _given_back(self, receipt_handle: str, seconds: float) -> bool:
        with self._changed:
            message_id = self._leased_id(receipt_handle)
            if message_id is None:
                return False
            del self._leased[message_id]
            if seconds == 0:
                self._ready[message_id] = None
                self._ready.move_to_end(message_id, last=False)
            else:
                self._delayed[message_id] = self._clock.monotonic() + seconds
            self._changed.notify_all()
        return True

    def _extended(self, receipt_handle: str, seconds: float) -> bool:
        with self._changed:
            message_id = self._leased_id(receipt_handle)
            if message_id is None:
                return False
            self._leased[message_id] = self._clock.monotonic() + seconds
            self._changed.notify_all()
        return True

    def _given_up(self, receipt_handle: str, problem: str) -> bool:
        with self._changed:
            message_id = self._leased_id(receipt_handle)
            if message_id is None:
                return False
            del self._leased[message_id]
            self._bury(message_id, DeadReason.GIVEN_UP, problem)
        return True

    def _bury(self, message_id: str, reason: DeadReason, problem: str) -> None:
        held = self._held[message_id]
        self._dead[message_id] = DeadLetter(
            message_id=message_id,
            content=held.content,
            reason=reason,
            problem=problem,
            delivery_count=held.delivery_count,
            died_at=utc_text(self._clock.now()),
        )

    def _exhumed(self, message_id: str, deliveries: int) -> bool:
        with self._changed:
            letter = self._dead.pop(message_id, None)
            if letter is None:
                return False
            if deliveries:
                self._held[message_id].allowed = letter.delivery_count + deliveries
                self._ready[message_id] = None
                self._changed.notify()
            else:
                del self._held[message_id]
        return True
