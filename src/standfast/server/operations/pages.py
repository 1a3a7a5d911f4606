"""Pages of long lists. A cursor says where to go on; it gives no rights, so it is neither signed nor kept."""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import msgspec

from standfast.errors import BadRequest
from standfast.limits import MAX_PAGE_BYTES

_T = TypeVar("_T")
_Place = TypeVar("_Place")


def cursor_of(place: object) -> str:
    """A place as an opaque word that fits into an address."""
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).rstrip(b"=").decode()


def place_of(cursor: str, kind: type[_Place]) -> _Place:
    """The place that a cursor names; ``BadRequest`` if it is none of this list's."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        return msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=kind)
    except (binascii.Error, UnicodeError, msgspec.MsgspecError):
        raise BadRequest(problem="the cursor is none of this list's; begin without one") from None


def page_of(
    items: Iterable[_T], *, limit: int, size: Callable[[_T], int], place: Callable[[_T], object]
) -> tuple[list[_T], str | None]:
    """The first items up to a limit in number and bytes (one at least), and the cursor behind them if there are more."""
    page: list[_T] = []
    room_bytes = MAX_PAGE_BYTES
    walk: Iterator[_T] = iter(items)
    for item in walk:
        room_bytes -= size(item)
        if page and (len(page) == limit or room_bytes < 0):
            return page, cursor_of(place(page[-1]))
        page.append(item)
    return page, None
