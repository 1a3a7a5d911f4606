"""Scopes and keys: where in a namespace a record is, and under which key the store has it.

A scope is a path such as ``user/ada``. What names none is in ``shared``. A key is ``KIND/scope//name``, or
``KIND/name`` for rows outside of scopes; ``rows.py`` has the kinds. The kind of a record is its band, and the
name its id. Segments of a scope are never empty, so the first ``//`` ends the scope. A scan with the prefix
``LEDGER/user/ada//`` gives what is in that scope, one with ``LEDGER/user/ada/`` also what is below it.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from standfast.errors import InvalidValue
from standfast.limits import MAX_SCOPE_BYTES, MAX_SCOPE_SEGMENTS, MAX_SCOPES
from standfast.records.canon import normal_string
from standfast.records.rows import RowKind

SHARED: Final = "shared"
"""The scope of what names none."""
# Of the fingerprint of a reading. What is found by them is compared word for word, so a few are enough.
_READING_DIGITS: Final = 20
ALL_SCOPES: Final = "*"
"""What listings take for every scope. It is no scope itself."""


class KeyParts(NamedTuple):
    """A key, taken apart."""

    prefix: str
    scope: str
    name: str


def scoped_key(kind: str, scope: str, name: str) -> str:
    """The key of a row in a scope; of a record, if the kind is its band and the name its id."""
    return f"{kind}/{scope}//{name}"


def row_key(kind: str, name: str) -> str:
    """The key of a row outside of scopes."""
    return f"{kind}/{name}"


def refused_key(scope: str, refusal: str) -> str:
    """The key of a refusal that is remembered in a scope, see ``govern/refusals.py``."""
    return scoped_key(RowKind.REFUSED, scope, refusal)


def said_key(scope: str, reading: str, memory_id: str = "") -> str:
    """The key of the note that a record of a scope says this; without an id, the prefix of all such notes.

    Its row is empty, because the key says everything.
    """
    return scoped_key(RowKind.SAID, scope, f"{reading[:_READING_DIGITS]}/{memory_id}")


def key_parts(key: str) -> KeyParts | None:
    """A key taken apart; None if it is not one that ``scoped_key`` gives."""
    place, slashes, name = key.partition("//")
    prefix, slash, scope = place.partition("/")
    return KeyParts(prefix, scope, name) if slashes and slash and prefix and scope else None


def prefix_in(key: str) -> str:
    """The kind that a key begins with: the band of a record."""
    return key.partition("/")[0]


def name_in(key: str) -> str:
    """The name in a key: the id of a record. A key without a scope is a name itself."""
    parts = key_parts(key)
    return key if parts is None else parts.name


def scope_in(key: str) -> str:
    """The scope in a key; ``shared`` for a key without one."""
    parts = key_parts(key)
    return SHARED if parts is None else parts.scope


def prefix_of(kind: str, scope: str = ALL_SCOPES) -> str:
    """The prefix of all keys of a kind, in a scope and below it or everywhere."""
    return f"{kind}/" if scope == ALL_SCOPES else f"{kind}/{scope}/"


def is_within(scope: str, outer: str) -> bool:
    """Whether a scope is another one, or below it. Segments are compared whole."""
    return outer in (scope, ALL_SCOPES) or scope.startswith(f"{outer}/")


def checked_scope(scope: object, *, what: str = "scope") -> str:
    """The scope, if it is one; ``InvalidValue`` otherwise."""
    if isinstance(scope, str) and _is_scope(scope):
        return scope
    parts = [one.strip() for one in scope.split("/")] if isinstance(scope, str) else []
    if _is_scope(meant := "/".join(filter(None, parts))):
        problem = f"it must be a path such as 'user/ada'; did you mean {meant!r:.80}, not {scope!r:.80}?"
        raise InvalidValue(what=what, problem=problem)
    problem = (
        f"it must be a path such as 'user/ada', of 1 to {MAX_SCOPE_SEGMENTS} segments and at most"
        f" {MAX_SCOPE_BYTES} bytes; a segment has printable characters in NFC and is not '.', '..' or '*';"
        f" not {scope!r:.80}"
    )
    raise InvalidValue(what=what, problem=problem)


@lru_cache(maxsize=1 << 12)
def _is_scope(scope: str) -> bool:
    segments = scope.split("/")
    return (
        all(segment and segment not in (".", "..", "*") for segment in segments)
        and len(segments) <= MAX_SCOPE_SEGMENTS
        and scope.isprintable()
        and len(scope.encode()) <= MAX_SCOPE_BYTES
        and (scope.isascii() or normal_string(scope) == scope)
    )


def listed_scope(scope: object) -> str:
    """The scope of a listing: one that ``checked_scope`` accepts, or ``*`` for all."""
    return ALL_SCOPES if scope == ALL_SCOPES else checked_scope(scope)


def recalled_scopes(scope: object, scopes: object, *, default: str = SHARED) -> tuple[str, ...]:
    """The scopes that a recall names by ``scope=`` or ``scopes=``, each once and sorted."""
    if scope is not None and scopes is not None:
        raise InvalidValue(what="scopes", problem="give either scope= or scopes=, not both")
    if isinstance(scope, list | tuple | set):
        raise InvalidValue(what="scope", problem=f"it is one scope; for several, give scopes={scope!r:.80}")
    if scope == ALL_SCOPES or scopes == [ALL_SCOPES]:
        problem = (
            "a recall reads scopes that it names, each with all below it, such as 'user'; '*' is for listings"
        )
        raise InvalidValue(what="scope", problem=problem)
    if scopes is None:
        return (checked_scope(default if scope is None else scope),)
    if isinstance(scopes, str) or not isinstance(scopes, Iterable):
        raise InvalidValue(what="scopes", problem='give a list of scopes, for example ["user/ada", "shared"]')
    named = sorted({checked_scope(one, what="scopes") for one in scopes})
    if not 0 < len(named) <= MAX_SCOPES:
        raise InvalidValue(what="scopes", problem=f"give 1 to {MAX_SCOPES} scopes, not {len(named)}")
    return tuple(named)


def outer_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Those of these scopes that are not below another of them."""
    return tuple(one for one in scopes if not any(one != other and is_within(one, other) for other in scopes))
