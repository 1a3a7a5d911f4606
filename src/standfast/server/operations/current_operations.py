"""Operations on what is current: profiles of scopes, what disagrees in them, and how that is settled."""

from typing import Annotated, Any

from msgspec import Meta

from standfast.errors import InvalidValue
from standfast.govern.authority import Role
from standfast.limits import DEFAULT_RECALL_TOKENS, MAX_RECALL_TOKENS
from standfast.memory.current import Conflict, Profile, Settlement
from standfast.recall.tokens import TokenCounter
from standfast.records.origins import Origin
from standfast.records.requests import Name, Scope
from standfast.records.vocabulary import Value
from standfast.server.access.permissions import Caller, KeyRole, Permission
from standfast.server.access.scope_limits import listed_scopes, own_scope
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.memory_operations import existing_snapshot
from standfast.server.operations.schemas import ListedScope, SnapshotId


class ProfileQuery(Value, frozen=True, kw_only=True):
    """Whose profile to return.

    Args:
        scope: The scope of the person, such as user/ada. Without one: the scope of the key, or shared.
        tokens: The token budget of the text.
    """

    scope: Scope | None = None
    tokens: Annotated[int, Meta(ge=1, le=MAX_RECALL_TOKENS)] = DEFAULT_RECALL_TOKENS
    at: SnapshotId | None = None


class ProfileResponse(Value, frozen=True, kw_only=True):
    """A profile: ``text`` for a prompt, and the profile itself with its hash and what was left out."""

    text: str
    profile: Profile


class ConflictsQuery(Value, frozen=True, kw_only=True):
    """Where to look for what disagrees."""

    scope: ListedScope | None = None
    at: SnapshotId | None = None


class ConflictsResponse(Value, frozen=True, kw_only=True):
    """What disagrees, each with all sides, the one that recall shows first at the top."""

    conflicts: list[Conflict]


class SettleBody(Value, frozen=True, kw_only=True):
    """How to settle a conflict, or all of a scope by what was said last.

    Args:
        reason: Why; recorded in the ledger.
        conflict_id: The conflict, as the list names it. Without one, ``all`` must be set.
        keep: The id of the record that holds, ``both`` or ``neither``.
        all: Settle every conflict of the scope: what was said last holds.
        scope: Where, with all below it; * for all that the key is for. Without one: shared, or the scope that
            the key is limited to.
        rehearse: Change nothing, and say what would be done.
        propose: End nothing yet: a person accepts or rejects it.
    """

    reason: Name
    conflict_id: Name | None = None
    keep: Name | None = None
    all: bool = False
    scope: ListedScope | None = None
    rehearse: bool = False
    propose: bool = False

    def __post_init__(self) -> None:
        is_one = self.conflict_id is not None and self.keep is not None
        is_all = self.all and self.conflict_id is None and self.keep is None
        self._require(is_all or (is_one and not self.all), "give conflict_id with keep, or all")


class SettleResponse(Value, frozen=True, kw_only=True):
    """What was settled. What could not be has its ``problem``."""

    settled: list[Settlement]


def profile(
    gateway: Gateway,
    caller: Caller,
    namespace: str,
    query: ProfileQuery,
    *,
    token_counter: TokenCounter | None = None,
) -> ProfileResponse:
    """Return what memory knows about the owner of a scope, for the start of a prompt."""
    memory = gateway.authorize(caller, Permission.RECALL, namespace)
    scope = own_scope(caller, Permission.RECALL, query.scope)
    at = existing_snapshot(memory, query.at)
    found = memory.profile(scope, tokens=query.tokens, at=at, token_counter=token_counter)
    return ProfileResponse(text=found.text, profile=found)


def conflicts(gateway: Gateway, caller: Caller, namespace: str, query: ConflictsQuery) -> ConflictsResponse:
    """Return what disagrees in a scope and all below it (``*`` for all)."""
    memory = gateway.authorize(caller, Permission.LIST_RECORDS, namespace)
    at = existing_snapshot(memory, query.at)
    scopes = listed_scopes(caller, Permission.LIST_RECORDS, query.scope)
    return ConflictsResponse(
        conflicts=[one for scope in scopes for one in memory.conflicts(scope=scope, at=at)]
    )


def settle(gateway: Gateway, caller: Caller, namespace: str, body: SettleBody) -> SettleResponse:
    """Settle a conflict, or all of a scope. Only an operator can end what a trusted user said."""
    memory = gateway.authorize(caller, Permission.REMEMBER, namespace)
    is_person = caller.role is KeyRole.OPERATOR and caller.origin is Origin.TRUSTED
    options: dict[str, Any] = {
        "reason": body.reason,
        "by": caller.name,
        "role": Role.HUMAN if is_person else Role.AGENT,
        "rehearse": body.rehearse,
        "propose": body.propose,
        "max_origin": caller.origin,
    }
    done: list[Settlement] = []
    for scope in listed_scopes(caller, Permission.REMEMBER, body.scope):
        if body.conflict_id is None or body.keep is None:
            done += memory.settle_all(**options, scope=scope)
        elif any(one.conflict_id == body.conflict_id for one in memory.conflicts(scope=scope)):
            done.append(memory.settle(body.conflict_id, body.keep, **options, scope=scope))
    if body.conflict_id is not None and not done:
        problem = f"there is no conflict {body.conflict_id!r:.40} there now; list them again"
        raise InvalidValue(what="conflict_id", problem=problem)
    receipts = [one.remembered.receipt for one in done if one.remembered and one.remembered.receipt]
    gateway.metrics.wrote(namespace, receipts=receipts)
    return SettleResponse(settled=done)
