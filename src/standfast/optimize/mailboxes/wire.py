"""How a message body is encoded: a header line and a body line, both JSON.

    {"kind":"EvalRequest","reply_to":"replies-7","sent_at":"2026-01-01T00:00:00.000000Z"}
    {"sample":{…},…}

A value of a class that is registered with ``message_kind`` is decoded as that class; plain JSON stays plain
JSON. A dataclass is registered by its module and name when it is first sent, so within one process it needs
nothing; a program that only receives it must register it. Nothing else is accepted, so a message can't make a
receiver run code that it did not choose.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from math import isfinite
from typing import Any, Final, Protocol, TypeVar

import msgspec

from standfast.errors import StandfastError
from standfast.limits import MAX_MESSAGE_BYTES
from standfast.optimize.errors import MailboxError, UndecodableBody
from standfast.records.conversion import converted, decoded

PLAIN: Final = "json"


_W = TypeVar("_W", bound=type)
_KINDS: Final[dict[str, type]] = {}
_NAMES: Final[dict[type, str]] = {}


def message_kind(name: str | None = None) -> Callable[[_W], _W]:
    """Register a class whose values can be sent: a dataclass, or one with ``as_json`` and ``from_json``.

    The name is part of the wire format; without one it is the class's module and name.

    Example:
        >>> @message_kind("Ticket")
        ... @dataclass(frozen=True)
        ... class Ticket:
        ...     number: int
    """

    def register(kind: _W) -> _W:
        wire_name = name or f"{kind.__module__}:{kind.__qualname__}"
        assert wire_name != PLAIN, f"{PLAIN} is reserved for plain JSON"
        assert wire_name not in _KINDS or name is None, (
            f"{wire_name} is already registered by {_KINDS[wire_name]}"
        )
        _KINDS[wire_name], _NAMES[kind] = kind, wire_name
        return kind

    return register


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of a message."""

    kind: str
    reply_to: str | None = None
    sent_at: str


class Codec(Protocol):
    """Encodes and decodes messages. Every backend stores these bytes."""

    def encode(self, body: Any, *, mailbox: str, reply_to: str | None, sent_at: str) -> bytes:
        """Return a message's bytes, or raise ``MailboxError``."""
        ...

    def decode(self, content: bytes) -> tuple[Header, Any]:
        """Return the header and the body, or raise ``UndecodableBody``."""
        ...


class WireCodec:
    """The default codec."""

    def encode(self, body: Any, *, mailbox: str, reply_to: str | None, sent_at: str) -> bytes:
        """Return the header line and the body line."""
        if is_dataclass(body) and type(body) not in _NAMES:
            message_kind()(type(body))
        kind = _NAMES.get(type(body), PLAIN)
        try:
            plain = body if kind == PLAIN else _plain(body)
            _check(plain)
            encoded = msgspec.json.encode(plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise MailboxError("unsendable_body", mailbox=mailbox, problem=str(error)) from None
        content = (
            msgspec.json.encode(Header(kind=kind, reply_to=reply_to, sent_at=sent_at))
            + b"\n"
            + encoded
            + b"\n"
        )
        if len(content) > MAX_MESSAGE_BYTES:
            problem = (
                f"it takes {len(content)} bytes and the limit is {MAX_MESSAGE_BYTES}; store it and send where"
                " it is"
            )
            raise MailboxError("unsendable_body", mailbox=mailbox, problem=problem)
        return content

    def decode(self, content: bytes) -> tuple[Header, Any]:
        """Return the header, and the body as an instance of its class."""
        first, newline, second = content.partition(b"\n")
        try:
            header = decoded(first, Header)
            plain = msgspec.json.decode(second)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise UndecodableBody(problem=str(error)) from None
        if not newline:
            raise UndecodableBody(problem="it has no body")
        if header.kind == PLAIN:
            return header, plain
        kind = _KINDS.get(header.kind)
        if kind is None:
            problem = (
                f"unknown message kind {header.kind!r:.80}; register its class with message_kind, or import"
                " the module that does"
            )
            raise UndecodableBody(problem=problem)
        try:
            return header, converted(plain, kind) if is_dataclass(kind) else kind.from_json(plain)  # type: ignore[attr-defined]  # Encoding checked that it has one.
        except (StandfastError, msgspec.ValidationError) as error:
            raise UndecodableBody(problem=str(error)) from None


def _plain(body: Any) -> object:
    """Return a value of a registered class as plain JSON.

    Dates and ids in a dataclass become strings and come back as they were.
    """
    return msgspec.to_builtins(body) if is_dataclass(body) else body.as_json()


def _check(value: object) -> None:
    """Refuse values that the encoder would change silently, such as NaN (to null) or a date (to a string)."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return
    if isinstance(value, dict) and kind is dict:
        for key, member in value.items():
            if type(key) is not str:
                raise TypeError(f"an object has the key {key!r:.40}, which is not a string")
            _check(member)
    elif isinstance(value, list | tuple) and kind in (list, tuple):
        for member in value:
            _check(member)
    elif isinstance(value, float) and kind is float:
        if not isfinite(value):
            raise ValueError(f"{value} is not a JSON number")
    else:
        problem = f"a {kind.__name__} is not a JSON value, and its class is not registered with message_kind"
        raise TypeError(problem)
