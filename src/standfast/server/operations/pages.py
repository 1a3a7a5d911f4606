"""The pages of long lists. A cursor grants nothing, so it is neither signed nor stored; the schema of a query refuses a malformed one."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from standfast.errors import BadRequest
from standfast.limits import MAX_PAGE_BYTES

_Item = TypeVar("_Item")
Position = int | str | tuple[int, str]
"""Where an item stands in a list: a number, a name, or a number and a name."""


def encode_cursor(position: Position) -> str:
    """A position in a list as a token that fits into a URL."""
    match position:
        case int():
            return str(position)
        case str():
            return position.encode("utf-8", "surrogateescape").hex()
        case number, name:
            return f"{number}-{encode_cursor(name)}"


def decode_number(cursor: str | None) -> int:
    """The number in a ``NumberCursor``; 0 without one."""
    return 0 if cursor is None else int(cursor)


def decode_name(cursor: str | None) -> str:
    """The name in a ``NameCursor``; empty without one."""
    return bytes.fromhex(cursor or "").decode("utf-8", "surrogateescape")


def decode_place(cursor: str | None) -> tuple[int, str]:
    """The number and the name in a ``PlaceCursor``; 0 and empty without one."""
    number, _, name = (cursor or "0-").partition("-")
    return int(number), decode_name(name)


def wrong_cursor() -> BadRequest:
    """The error for a cursor that belongs to another list."""
    return BadRequest(problem="the cursor does not belong to this list; start again without a cursor")


def paginate(
    items: Iterable[_Item], *, limit: int, size: Callable[[_Item], int], position: Callable[[_Item], Position]
) -> tuple[list[_Item], str | None]:
    """Return the first items up to a limit in number and bytes, at least one, and the cursor of the next page if any.

    Args:
        size: The bytes that an item counts for.
        position: Where an item stands in the list, for the cursor.
    """
    page: list[_Item] = []
    left_bytes = MAX_PAGE_BYTES
    for item in items:
        left_bytes -= size(item)
        if page and (len(page) == limit or left_bytes < 0):
            return page, encode_cursor(position(page[-1]))
        page.append(item)
    return page, None
