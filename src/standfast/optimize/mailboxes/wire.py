"""How a body becomes bytes and is itself again: a header line and a body, both JSON.

    {"kind":"EvalRequest","reply_to":"replies-7","sent_at":"2026-01-01T00:00:00.000000Z"}
    {"sample":{…},…}

A value of a class that was registered with ``message_kind`` comes back as that class; plain JSON comes back as plain JSON.
Nothing else is accepted, above all nothing that would run code when it is read.
"""

from collections.abc import Callable
from math import isfinite
from typing import Any, Final, Protocol, Self, TypeVar

import msgspec

from standfast.errors import StandfastError, UndecodableBody, UnsendableBody
from standfast.limits import MAX_MESSAGE_BYTES

PLAIN: Final = "json"


class Wired(Protocol):
    """What a class must offer to travel: plain JSON of it, and itself from that."""

    def as_json(self) -> dict[str, Any]:
        """The value as plain JSON."""
        ...

    @classmethod
    def from_json(cls, plain: object) -> Self:
        """The value that ``as_json`` gave."""
        ...


_W = TypeVar("_W", bound=type[Wired])
_KINDS: Final[dict[str, type[Wired]]] = {}


def message_kind(name: str) -> Callable[[_W], _W]:
    """Let values of a class travel under that name. The name is part of the wire format: keep it."""

    def register(kind: _W) -> _W:
        assert name != PLAIN, f"{PLAIN} is the kind of plain JSON"
        assert name not in _KINDS, f"{name} is taken by {_KINDS.get(name)}"
        _KINDS[name] = kind
        return kind

    return register


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first line of a message."""

    kind: str
    reply_to: str | None = None
    sent_at: str


class Codec(Protocol):
    """Turns bodies into bytes and back. Both backends of a mailbox store these bytes."""

    def encode(self, body: Any, *, mailbox: str, reply_to: str | None, sent_at: str) -> bytes:
        """The bytes of a message; an ``UnsendableBody`` if there are none."""
        ...

    def decode(self, content: bytes) -> tuple[Header, Any]:
        """What ``encode`` was given; an ``UndecodableBody`` for any other bytes."""
        ...


class WireCodec:
    """The codec that all mailboxes use if they are not told otherwise."""

    def encode(self, body: Any, *, mailbox: str, reply_to: str | None, sent_at: str) -> bytes:
        """The header line and the body's JSON."""
        kind = next((name for name, known in _KINDS.items() if type(body) is known), PLAIN)
        plain = body if kind == PLAIN else body.as_json()
        try:
            _check(plain)
            told = msgspec.json.encode(plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise UnsendableBody(mailbox=mailbox, problem=str(error)) from None
        content = (
            msgspec.json.encode(Header(kind=kind, reply_to=reply_to, sent_at=sent_at)) + b"\n" + told + b"\n"
        )
        if len(content) > MAX_MESSAGE_BYTES:
            problem = f"it takes {len(content)} bytes, and a message may take {MAX_MESSAGE_BYTES}; send where it is stored instead"
            raise UnsendableBody(mailbox=mailbox, problem=problem)
        return content

    def decode(self, content: bytes) -> tuple[Header, Any]:
        """The header and the body as its own class."""
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
            problem = f"this program knows no message of kind {header.kind!r:.80}; import its module, or update the program"
            raise UndecodableBody(problem=problem)
        try:
            return header, kind.from_json(plain)
        except StandfastError as error:
            raise UndecodableBody(problem=str(error)) from None


def _check(value: object) -> None:
    """Refuse what JSON has no word for, because the encoder would find one: null for NaN, text for a date."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return
    if isinstance(value, dict) and kind is dict:
        for key, member in value.items():
            if type(key) is not str:
                raise TypeError(f"an object has the key {key!r:.40}, which is no string")
            _check(member)
    elif isinstance(value, list | tuple) and kind in (list, tuple):
        for member in value:
            _check(member)
    elif isinstance(value, float) and kind is float:
        if not isfinite(value):
            raise ValueError(f"{value} is no JSON number")
    else:
        problem = f"a {kind.__name__} is no JSON value, and its class is not registered with message_kind"
        raise TypeError(problem)
