"""From the name in ``reply_to`` to the mailbox that a reply is sent to."""

import threading
from typing import Any, Protocol

from standfast.errors import NoReplyAddress, ReplyMailboxClosed, UnresolvableReply
from standfast.optimize.mailboxes.mailbox import Mailbox, Message


class MailboxResolver(Protocol):
    """Knows mailboxes by name. A name that it does not know is None, never a mailbox made on the spot."""

    def resolve(self, name: str) -> Mailbox[Any, Any] | None:
        """The mailbox of that name, if it is known; ``ReplyMailboxClosed`` if it was, until its owner closed it."""
        ...

    def register(self, name: str, mailbox: Mailbox[Any, Any]) -> None:
        """Make a mailbox known under a name; the latest one wins."""
        ...

    def forget(self, name: str) -> None:
        """The name leads nowhere from now on."""
        ...


class InMemoryMailboxResolver:
    """The mailboxes of one process."""

    def __init__(self) -> None:
        self._known: dict[str, Mailbox[Any, Any]] = {}
        self._closed: set[str] = set()
        self._lock = threading.Lock()

    def resolve(self, name: str) -> Mailbox[Any, Any] | None:
        """The mailbox of that name, if it is known."""
        with self._lock:
            if name in self._closed:
                raise ReplyMailboxClosed(mailbox=name, reply_to=name)
            return self._known.get(name)

    def register(self, name: str, mailbox: Mailbox[Any, Any]) -> None:
        """Make a mailbox known under a name."""
        with self._lock:
            self._known[name] = mailbox
            self._closed.discard(name)

    def forget(self, name: str) -> None:
        """The name leads nowhere from now on."""
        with self._lock:
            if self._known.pop(name, None) is not None:
                self._closed.add(name)


def send_reply(
    message: Message[Any, Any], body: Any, *, mailbox: str, resolver: MailboxResolver | None
) -> str:
    """Send a reply where the message wants it, or say why that can't be."""
    if message.reply_to is None:
        raise NoReplyAddress(message_id=message.message_id, mailbox=mailbox)
    target = resolver.resolve(message.reply_to) if resolver is not None else None
    if target is None:
        raise UnresolvableReply(mailbox=mailbox, reply_to=message.reply_to)
    return target.send(body)
