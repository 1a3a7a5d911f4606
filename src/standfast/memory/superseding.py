"""What a record supersedes: it must be there, be memory and not law, and not be trusted more than what replaces it."""

from collections.abc import Collection, Sequence

from standfast.errors import InvalidValue, NotAuthorised
from standfast.govern.authority import Role
from standfast.origins import Origin
from standfast.scopes import SHARED, scoped_key
from standfast.store.records import record_of
from standfast.store.store import Store
from standfast.vocabulary import Band


def require_superseded(
    store: Store,
    namespace: str,
    memory_ids: Sequence[str],
    *,
    scope: str,
    origin: Origin,
    at: int,
    buffered: Collection[str] = (),
) -> None:
    """Raise an error unless a record of this origin may supersede all of these records of its scope.

    Args:
        buffered: The ids of records that the same commit writes.

    Raises:
        InvalidValue: One of them is not there, or an untrusted record would end one that is not.
        NotAuthorised: One of them is law, which only a human's signature ends.
    """
    for memory_id in memory_ids:
        if memory_id in buffered:
            problem = f"{memory_id!r:.80} is in this run's own buffer; commit first, or leave out what is out of date"
            raise InvalidValue(what="supersedes", problem=problem)
        law = scoped_key(Band.VAULT, scope, memory_id)
        keys = [scoped_key(band, scope, memory_id) for band in (Band.LEDGER, Band.ACTIVE)]
        found = store.read(namespace, [law, *keys], at=at)
        if law in found:
            raise NotAuthorised(role=Role.AGENT.value, act="supersede what is sealed", who=Role.HUMAN.value)
        if not found:
            place = "" if scope == SHARED else f" in scope {scope}"
            problem = f"there is no record {memory_id!r:.80}{place} now; leave it out, or name the id that remember returned"
            raise InvalidValue(what="supersedes", problem=problem)
        is_untrusted = origin is Origin.UNTRUSTED
        if is_untrusted and any(record_of(row).origin is not Origin.UNTRUSTED for row in found.values()):
            problem = f"the text is untrusted, and {memory_id!r:.80} is not; only a source that is trusted as far can replace it"
            raise InvalidValue(what="supersedes", problem=problem)
