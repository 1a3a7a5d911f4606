"""What can go wrong between a sender and a receiver."""

from standfast.errors.root import StandfastError


class MailboxError(StandfastError):
    """A mailbox can't do this, or not now."""

    code = "mailbox"
    says = "The mailbox can't do this."


class MailboxClosed(MailboxError):
    """The mailbox object has been closed. What lies in the mailbox itself is still there."""

    code = "mailbox_closed"
    says = "Mailbox {mailbox} is closed here; open it again to use it."


class StaleReceipt(MailboxError):
    """The message is no longer this receiver's: its time was over, or it has been settled already."""

    code = "stale_receipt"
    says = "Mailbox {mailbox} refuses receipt {receipt_handle}: the message is settled or its visibility timeout is over; receive it again, or ask for a longer timeout."


class NoReplyAddress(MailboxError):
    """The sender did not say where a reply goes."""

    code = "no_reply_address"
    says = (
        "Message {message_id} of mailbox {mailbox} names no reply_to; send it with one if a reply is wanted."
    )


class UnresolvableReply(MailboxError):
    """Nobody knows the mailbox that a reply should go to."""

    code = "unresolvable_reply"
    says = "Mailbox {mailbox} can't find the reply mailbox {reply_to}; give it a reply_resolver, and register the reply mailbox there."


class ReplyMailboxClosed(UnresolvableReply):
    """The mailbox that a reply should go to was closed by its owner: nobody waits for the reply any more."""

    code = "reply_mailbox_closed"
    says = "The reply mailbox {reply_to} was closed by its owner before mailbox {mailbox} could reply; drop the reply."


class UnsendableBody(MailboxError):
    """What was given can't be put into a message."""

    code = "unsendable_body"
    says = "Mailbox {mailbox} can't send this: {problem}"


class UndecodableBody(MailboxError):
    """The bytes of a message are none of ours, or of a kind that this program does not know."""

    code = "undecodable_body"
    says = "The message can't be read: {problem}"


class NoSuchDeadLetter(MailboxError):
    """There is no dead letter of that id."""

    code = "no_such_dead_letter"
    says = "Mailbox {mailbox} has no dead letter {message_id}; list them with dead_letters()."


class MailboxUnavailable(MailboxError):
    """The server behind the mailbox does not answer, or refuses. What it took before is kept."""

    code = "mailbox_unavailable"
    says = "Mailbox {mailbox} can't reach its server: {problem}; try again when it answers."
