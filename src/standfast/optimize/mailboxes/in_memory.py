"""A mailbox inside one process, for tests, the command line and single-process deployments.

Bodies are stored as bytes, so that a receiver gets its own copy, as it would over a network.
"""

import heapq
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from standfast.limits import MAX_BLOCK_SECONDS
from standfast.optimize.errors import ReplyMailboxClosed, UndecodableBody
from standfast.optimize.mailboxes.mailbox import (
    BodyT,
    DeadLetter,
    DeadReason,
    InMemoryMailboxResolver,
    Mailbox,
    MailboxCounts,
    MailboxResolver,
    Message,
    ReplyT,
)
from standfast.records.canon import utc_text


@dataclass(slots=True)
class _StoredMessage:
    content: bytes
    allowed_deliveries: int
    delivery_count: int = 0


class InMemoryMailbox(Mailbox[BodyT, ReplyT]):
    """A mailbox whose messages live as long as this object. Pass a ``ManualClock`` to end leases in tests."""

    def _open(self) -> None:
        self._registry: MailboxResolver = self._resolver or InMemoryMailboxResolver()
        self._resolver = self._registry
        self._changed = threading.Condition()
        self._messages: dict[str, _StoredMessage] = {}
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._leased: dict[str, float] = {}
        self._delayed: dict[str, float] = {}
        # When leases and delays end, earliest first. Entries that no longer hold are skipped when they come
        # up.
        self._ends: list[tuple[float, str]] = []
        self._dead: dict[str, DeadLetter] = {}
        self._interrupts = 0

    def reply_mailbox(self, name: str) -> Mailbox[Any, None]:
        """Return the temporary mailbox of that name, to which receivers of this mailbox can reply."""
        with suppress(ReplyMailboxClosed):
            existing = self._registry.resolve(name)
            if existing is not None:
                return existing
        created: InMemoryMailbox[Any, None] = InMemoryMailbox(
            name=name,
            reply_resolver=self._registry,
            max_deliveries=self._max_deliveries,
            codec=self._codec,
            clock=self._clock,
            ids=self._ids,
        )
        created._temporary = True
        self._registry.register(name, created)
        return created

    def counts(self) -> MailboxCounts:
        """Return how many messages are in each state now."""
        with self._changed:
            # Due messages are counted as ready but not moved: reading must not change the order.
            now = self._clock.monotonic()
            leased = sum(until > now for until in self._leased.values())
            delayed = sum(until > now for until in self._delayed.values())
            due = len(self._leased) - leased + len(self._delayed) - delayed
            return MailboxCounts(
                ready=len(self._ready) + due, leased=leased, delayed=delayed, dead=len(self._dead)
            )

    def dead_letters(self, *, limit: int = 100) -> list[DeadLetter]:
        """Return the dead letters, oldest first."""
        with self._changed:
            return sorted(self._dead.values(), key=lambda letter: (letter.died_at, letter.message_id))[:limit]

    def purge(self) -> int:
        """Delete every message except dead letters; return how many there were."""
        with self._changed:
            living = [*self._ready, *self._leased, *self._delayed]
            for message_id in living:
                del self._messages[message_id]
            for state in (self._ready, self._leased, self._delayed, self._ends):
                state.clear()
            return len(living)

    def interrupt(self) -> None:
        """Make every waiting ``receive`` return at once."""
        with self._changed:
            self._interrupts += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Stop using the mailbox; waiting receivers return. A ``reply_mailbox`` takes no more replies."""
        with self._changed:
            self._closed = True
        self.interrupt()
        if self._temporary:
            self._registry.forget(self._name)

    def _put(self, messages: Sequence[tuple[str, bytes]], delay_seconds: float) -> bool:
        with self._changed:
            size = len(self._messages) - len(self._dead)
            if self._max_size is not None and size + len(messages) > self._max_size:
                return False
            until = self._clock.monotonic() + delay_seconds
            for message_id, content in messages:
                self._messages[message_id] = _StoredMessage(content, self._max_deliveries)
                if delay_seconds:
                    self._hide(self._delayed, message_id, until)
                else:
                    self._ready[message_id] = None
            self._changed.notify(len(messages))
        return True

    def _hide(self, hidden: dict[str, float], message_id: str, until: float) -> None:
        hidden[message_id] = until
        heapq.heappush(self._ends, (until, message_id))

    def _next_end(self) -> tuple[float, str] | None:
        """Return when the next lease or delay ends, and of which message."""
        while self._ends:
            until, message_id = self._ends[0]
            if until in (self._leased.get(message_id), self._delayed.get(message_id)):
                return until, message_id
            heapq.heappop(self._ends)
        return None

    def _lease(
        self, max_messages: int, visibility_timeout: float, wait_time_seconds: float
    ) -> list[Message[BodyT, ReplyT]]:
        with self._changed:
            interrupts, left_seconds = self._interrupts, wait_time_seconds
            while True:
                if leased := self._lease_ready(max_messages, visibility_timeout):
                    return leased
                if left_seconds <= 0 or self._interrupts != interrupts or self._closed:
                    # Another waiting receiver has to watch for the end of the next lease instead.
                    self._changed.notify()
                    return []
                started = self._clock.monotonic()
                pause = min(left_seconds, self._seconds_to_next(), MAX_BLOCK_SECONDS)
                woken = self._changed.wait(pause)
                # A manual clock stands still while we wait, so a pause that ran to its end counts in full.
                passed = self._clock.monotonic() - started
                left_seconds -= passed if woken else max(passed, pause)

    def _lease_ready(self, max_messages: int, visibility_timeout: float) -> list[Message[BodyT, ReplyT]]:
        self._requeue_due()
        leased: list[Message[BodyT, ReplyT]] = []
        while self._ready and len(leased) < max_messages:
            message_id, _ = self._ready.popitem(last=False)
            stored = self._messages[message_id]
            if stored.delivery_count >= stored.allowed_deliveries:
                problem = f"delivered {stored.delivery_count} times and never acknowledged"
                self._add_dead_letter(message_id, DeadReason.DELIVERED_TOO_OFTEN, problem)
                continue
            stored.delivery_count += 1
            try:
                leased.append(self._decode(f"{message_id}:{stored.delivery_count}", stored.content))
            except UndecodableBody as error:
                self._add_dead_letter(message_id, DeadReason.UNDECODABLE, str(error))
            else:
                self._hide(self._leased, message_id, self._clock.monotonic() + visibility_timeout)
        if leased:
            # Another waiting receiver must learn when the new lease ends, or that more is ready.
            self._changed.notify()
        return leased

    def _requeue_due(self) -> None:
        """Make due messages ready, ahead of new ones: first due, first out."""
        now = self._clock.monotonic()
        due = []
        while (end := self._next_end()) is not None and end[0] <= now:
            due.append(end[1])
            self._leased.pop(end[1], None)
            self._delayed.pop(end[1], None)
        for message_id in reversed(due):
            self._ready[message_id] = None
            self._ready.move_to_end(message_id, last=False)

    def _seconds_to_next(self) -> float:
        end = self._next_end()
        return float("inf") if end is None else max(end[0] - self._clock.monotonic(), 0.0)

    def _leased_id(self, receipt_handle: str) -> str | None:
        """Return the message of a receipt if the receipt is the latest and its lease has not ended."""
        message_id, _, count = receipt_handle.rpartition(":")
        stored = self._messages.get(message_id)
        if stored is None or str(stored.delivery_count) != count:
            return None
        return message_id if self._leased.get(message_id, float("-inf")) > self._clock.monotonic() else None

    def _settle(self, receipt_handles: Sequence[str]) -> list[str]:
        with self._changed:
            stale = []
            for receipt_handle in receipt_handles:
                message_id = self._leased_id(receipt_handle)
                if message_id is None:
                    stale.append(receipt_handle)
                else:
                    del self._leased[message_id], self._messages[message_id]
        return stale

    def _release(self, receipt_handle: str, seconds: float) -> bool:
        with self._changed:
            message_id = self._leased_id(receipt_handle)
            if message_id is None:
                return False
            del self._leased[message_id]
            if seconds == 0:
                self._ready[message_id] = None
                self._ready.move_to_end(message_id, last=False)
            else:
                self._hide(self._delayed, message_id, self._clock.monotonic() + seconds)
            self._changed.notify_all()
        return True

    def _extend(self, receipt_handle: str, seconds: float) -> bool:
        with self._changed:
            message_id = self._leased_id(receipt_handle)
            if message_id is None:
                return False
            self._hide(self._leased, message_id, self._clock.monotonic() + seconds)
            self._changed.notify_all()
        return True

    def _bury(self, receipt_handle: str, problem: str) -> bool:
        with self._changed:
            message_id = self._leased_id(receipt_handle)
            if message_id is None:
                return False
            del self._leased[message_id]
            self._add_dead_letter(message_id, DeadReason.GIVEN_UP, problem)
        return True

    def _add_dead_letter(self, message_id: str, reason: DeadReason, problem: str) -> None:
        stored = self._messages[message_id]
        self._dead[message_id] = DeadLetter(
            message_id=message_id,
            content=stored.content,
            reason=reason,
            problem=problem,
            delivery_count=stored.delivery_count,
            died_at=utc_text(self._clock.now()),
        )

    def _revive(self, message_id: str, deliveries: int) -> bool:
        with self._changed:
            letter = self._dead.pop(message_id, None)
            if letter is None:
                return False
            if deliveries:
                self._messages[message_id].allowed_deliveries = letter.delivery_count + deliveries
                self._ready[message_id] = None
                self._changed.notify()
            else:
                del self._messages[message_id]
        return True
