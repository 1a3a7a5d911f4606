"""What a caller limited to scopes may see of commits and proposals, whose rows name their scope in different ways."""

from collections.abc import Iterable, Sequence

from standfast.canon import parse
from standfast.scopes import prefix_in, scope_in
from standfast.server.access.permissions import Caller
from standfast.server.access.scope_limits import sees_key
from standfast.store.protocol import Version
from standfast.store.records import is_band_row
from standfast.store.store import Store
from standfast.vocabulary import Band


def sees_row(caller: Caller, store: Store, version: Version) -> bool:
    """Whether a caller may know of a row in one of its namespaces: a record of its scopes, or a proposal of such."""
    if not caller.scopes or prefix_in(version.key) != Band.PHOENIX:
        return sees_key(caller, version.key)
    content = version.content
    if content is None:
        # A decided proposal left its row, but an earlier snapshot shows what it was about, unless it was erased.
        at = version.memory_snapshot_id - 1
        before = store.read(version.namespace, [version.key], at=at).get(version.key)
        content = None if before is None else before.content
    return content is not None and caller.covers_scope(scope_in(parse(content)["proposal"]["key"]))


def sees_any(caller: Caller, store: Store, versions: Iterable[Version]) -> bool:
    """Whether a caller may see at least one of these rows."""
    return any(sees_row(caller, store, version) for version in versions)


def sees_whole_commit(caller: Caller, store: Store, versions: Sequence[Version]) -> bool:
    """Whether a commit changed something that the caller may see, and no record or proposal of another scope."""
    told = [one for one in versions if is_band_row(one.key) or prefix_in(one.key) == Band.PHOENIX]
    return bool(told) and all(sees_row(caller, store, version) for version in told)
