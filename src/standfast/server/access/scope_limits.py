"""Keys that are limited to scopes: what their holders may name, what they are given if they name none, and
what they see.

A key without scopes is for all of its namespaces. One with scopes reads, writes and sees only there.
"""

from collections.abc import Iterable, Sequence

from standfast.errors import Forbidden
from standfast.records.canon import parse
from standfast.records.rows import SHOWN_KINDS, RowKind
from standfast.records.scopes import (
    ALL_SCOPES,
    SHARED,
    checked_scope,
    is_within,
    listed_scope,
    outer_scopes,
    prefix_in,
    prefix_of,
    recalled_scopes,
    scope_in,
)
from standfast.server.access.permissions import Caller, Permission
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.store.stored_records import is_band_row


def own_scope(caller: Caller, permission: Permission, scope: str | None) -> str:
    """The scope that a call works in.

    Without one: ``shared`` or, if the key is not for it, the scope that the key is for.

    Raises:
        Forbidden: The key is for other scopes, or for several of which one must be named.
    """
    if scope is None:
        scope = caller.scopes[0] if len(caller.scopes) == 1 else SHARED
    if not caller.covers_scope(checked_scope(scope)):
        raise _forbidden(caller, permission, scope)
    return scope


def own_scopes(caller: Caller, permission: Permission, scopes: Sequence[str] | None) -> tuple[str, ...]:
    """The scopes that a recall reads, each with all below it. Without one: as ``own_scope``."""
    if scopes is None:
        return (own_scope(caller, permission, None),)
    named = recalled_scopes(None, scopes)
    for one in named:
        own_scope(caller, permission, one)
    return named


def listed_scopes(caller: Caller, permission: Permission, scope: str | None) -> tuple[str, ...]:
    """The scopes of a listing, none below another, in the order of their keys. ``*``: all of the key's."""
    if scope != ALL_SCOPES:
        return (own_scope(caller, permission, None if scope is None else listed_scope(scope)),)
    return tuple(sorted(outer_scopes(caller.scopes), key=lambda one: prefix_of("", one))) or (ALL_SCOPES,)


def narrowed_scopes(caller: Caller, permission: Permission, scopes: Sequence[str]) -> tuple[str, ...]:
    """What these scopes and those of the key have in common. ``Forbidden`` if that is nothing."""
    common = {scope for scope in scopes if caller.covers_scope(scope)}
    common |= {own for own in caller.scopes if any(is_within(own, scope) for scope in scopes)}
    if not common:
        raise _forbidden(caller, permission, scopes[0])
    return outer_scopes(sorted(common))


def sees_key(caller: Caller, key: str) -> bool:
    """Whether a caller may see the record with a key. One limited to scopes sees no rows but records."""
    return not caller.scopes or (is_band_row(key) and caller.covers_scope(scope_in(key)))


def _forbidden(caller: Caller, permission: Permission, scope: str) -> Forbidden:
    own = ", ".join(caller.scopes)
    return Forbidden(
        role=caller.role.value,
        act=permission.value,
        where=f"scope {scope!r:.80}",
        problem=f"the key is for {own}; name one of these scopes, or one below them",
    )


def sees_row(caller: Caller, store: Store, version: Version) -> bool:
    """Whether a caller may know of a row in its namespaces: a record or a proposal of its scopes."""
    if not caller.scopes or prefix_in(version.key) != RowKind.PHOENIX:
        return sees_key(caller, version.key)
    content = version.content
    if content is None:
        # A decided proposal left its row, but an earlier snapshot shows what it was about, unless it was
        # erased.
        at = version.memory_snapshot_id - 1
        before = store.read(version.namespace, [version.key], at=at).get(version.key)
        content = None if before is None else before.content
    return content is not None and caller.covers_scope(scope_in(parse(content)["proposal"]["key"]))


def sees_any(caller: Caller, store: Store, versions: Iterable[Version]) -> bool:
    """Whether a caller may see at least one of these rows."""
    return any(sees_row(caller, store, version) for version in versions)


def sees_whole_commit(caller: Caller, store: Store, versions: Sequence[Version]) -> bool:
    """Whether a commit changed something that the caller may see, and nothing of another scope."""
    shown = [one for one in versions if prefix_in(one.key) in SHOWN_KINDS]
    return bool(shown) and all(sees_row(caller, store, version) for version in shown)
