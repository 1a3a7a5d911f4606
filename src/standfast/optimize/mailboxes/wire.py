"""How a message body is encoded: a header line and a body line, both JSON.

    {"kind":"EvalRequest","reply_to":"replies-7","sent_at":"2026-01-01T00:00:00.000000Z"}
    {"sample":{…},…}

A value of a class that is registered with ``message_kind`` is decoded as that class; plain JSON stays plain JSON. Nothing
else is accepted, so decoding a message never runs code.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any, Final, Protocol, Self, TypeVar

import msgspec

from standfast.errors import StandfastError, UndecodableBody, UnsendableBody
from standfast.limits import MAX_MESSAGE_BYTES

PLAIN: Final = "json"


class WireValue(Protocol):
    """What a class needs to be sent: a conversion to plain JSON and back."""

    def as_json(self) -> dict[str, Any]:
        """Return the value as plain JSON."""
        ...

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """Return the value that ``as_json`` converted."""
        ...


_W = TypeVar("_W", bound=type[WireValue])
_KINDS: Final[dict[str, type[WireValue]]] = {}


def message_kind(name: str) -> Callable[[_W], _W]:
    """Register a class under a name, so that its values can be sent. The name is part of the wire format.

    Example:
        >>> @message_kind("Ticket")
        ... class Ticket(Value, frozen=True, kw_only=True): ...
    """

    def register(kind: _W) -> _W:
        assert name != PLAIN, f"{PLAIN} is reserved for plain JSON"
        assert name not in _KINDS, f"{name} is already registered by {_KINDS.get(name)}"
        _KINDS[name] = kind
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
        """Return a message's bytes, or raise ``UnsendableBody``."""
        ...

    def decode(self, content: bytes) -> tuple[Header, Any]:
        """Return the header and the body, or raise ``UndecodableBody``."""
        ...


class WireCodec:
    """The default codec."""

    def encode(self, body: Any, *, mailbox: str, reply_to: str | None, sent_at: str) -> bytes:
        """Return the header line and the body line."""
        kind = next((name for name, known in _KINDS.items() if type(body) is known), PLAIN)
        plain = body if kind == PLAIN else body.as_json()
        try:
            _check(plain)
            encoded = msgspec.json.encode(plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise UnsendableBody(mailbox=mailbox, problem=str(error)) from None
        content = (
            msgspec.json.encode(Header(kind=kind, reply_to=reply_to, sent_at=sent_at))
            + b"\n"
            + encoded
            + b"\n"
        )
        if len(content) > MAX_MESSAGE_BYTES:
            problem = f"it takes {len(content)} bytes and the limit is {MAX_MESSAGE_BYTES}; store it and send where it is"
            raise UnsendableBody(mailbox=mailbox, problem=problem)
        return content

    def decode(self, content: bytes) -> tuple[Header, Any]:
        """Return the header, and the body as an instance of its class."""
        first, newline, second = content.partition(b"\n")
        try:
            header = msgspec.json.decode(first, type=Header)
            plain = msgspec.json.decode(second)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise UndecodableBody(problem=str(error)) from None
        if not newline:
            raise UndecodableBody(problem="it has no body")
        if header.kind == PLAIN:
            return header, plain
        kind = _KINDS.get(header.kind)
        if kind is None:
            problem = f"unknown message kind {header.kind!r:.80}; import the module that registers it, or update this program"
            raise UndecodableBody(problem=problem)
        try:
            return header, kind.from_json(plain)
        except StandfastError as error:
            raise UndecodableBody(problem=str(error)) from None


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
