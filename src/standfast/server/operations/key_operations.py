"""Operations on API keys and namespaces, for operators.

Nobody can give away more than they have: a key sees, creates and revokes only keys whose namespaces and scopes it covers itself, and no
key creates one that is valid for longer than itself.
"""

from datetime import timedelta

from standfast.canon import utc_text
from standfast.errors import Forbidden, NotFound
from standfast.govern.approvals.queue import SYSTEM_NAMESPACE
from standfast.server.access.keys import ApiKey
from standfast.server.access.permissions import ALL_NAMESPACES, ORIGIN_OF_ROLE, Caller, Permission
from standfast.server.operations import schemas
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.pages import decode_name, paginate


def list_keys(gateway: Gateway, caller: Caller, query: schemas.KeysQuery) -> schemas.KeysPage:
    """List the keys for namespaces and scopes of the caller, by id; without ``all``, only the valid ones."""
    gateway.authorize_store(caller, Permission.LIST_KEYS)
    after = decode_name(query.cursor)
    keys = gateway.keyring.all() if query.all else gateway.keyring.valid()
    page, cursor = paginate(
        (
            key
            for key in keys
            if key.key_id > after and _covers(caller, key.namespaces) and _covers_scopes(caller, key.scopes)
        ),
        limit=query.limit,
        size=lambda _: 0,
        position=lambda key: key.key_id,
    )
    return schemas.KeysPage(keys=[_info(key) for key in page], next=cursor)


def create_key(gateway: Gateway, caller: Caller, body: schemas.CreateKeyBody) -> schemas.CreatedKey:
    """Create a key for namespaces and scopes of the caller. The token is returned this once; only its hash is stored."""
    gateway.authorize_store(caller, Permission.CREATE_KEY)
    if not _covers(caller, body.namespaces):
        raise _forbidden(caller, "the key would be for namespaces that yours does not cover")
    if not _covers_scopes(caller, body.scopes):
        problem = f"your key is limited to {', '.join(caller.scopes)}; limit the new one to these scopes, or to some below them"
        raise _forbidden(caller, problem)
    lifetime = None if body.days is None else timedelta(days=body.days)
    own_end = gateway.keyring.find(caller.key_id).expires_at
    if own_end is not None and (lifetime is None or utc_text(gateway.clock.now() + lifetime) > own_end):
        raise _forbidden(caller, f"your key expires at {own_end}; give the new one fewer days")
    origin = body.origin or ORIGIN_OF_ROLE[body.role]
    if origin.rank > caller.origin.rank:
        raise _forbidden(caller, f"your key is {caller.origin}; give the new one that origin or a lower one")
    key, token = gateway.keyring.create(
        name=body.name,
        role=body.role,
        namespaces=body.namespaces,
        lifetime=lifetime,
        origin=body.origin,
        scopes=body.scopes,
        by=caller.key_id,
    )
    return schemas.CreatedKey(key=_info(key), token=token)


def revoke_key(gateway: Gateway, caller: Caller, key_id: str) -> schemas.KeyInfo:
    """Revoke a key, at once and for good. Repeating the call changes nothing."""
    gateway.authorize_store(caller, Permission.REVOKE_KEY)
    key = gateway.keyring.find(key_id)
    if not (_covers(caller, key.namespaces) and _covers_scopes(caller, key.scopes)):
        raise NotFound(what=f"key {key_id!r:.80}")
    return _info(gateway.keyring.revoke(key_id, by=caller.key_id))


def list_namespaces(gateway: Gateway, caller: Caller) -> schemas.NamespacesResponse:
    """List the namespaces of the key; with a key for all, every namespace that ever held a record."""
    gateway.authorize_store(caller, Permission.LIST_NAMESPACES)
    if not caller.covers_all:
        return schemas.NamespacesResponse(namespaces=sorted(caller.namespaces))
    known = {*gateway.store.namespaces(), gateway.home.namespace} - {SYSTEM_NAMESPACE}
    return schemas.NamespacesResponse(namespaces=sorted(known))


def _covers(caller: Caller, namespaces: tuple[str, ...]) -> bool:
    return caller.covers_all or (
        ALL_NAMESPACES not in namespaces and all(caller.covers(one) for one in namespaces)
    )


def _covers_scopes(caller: Caller, scopes: tuple[str, ...]) -> bool:
    return not caller.scopes or (bool(scopes) and all(caller.covers_scope(one) for one in scopes))


def _info(key: ApiKey) -> schemas.KeyInfo:
    return schemas.KeyInfo.from_json(key.as_shown())


def _forbidden(caller: Caller, problem: str) -> Forbidden:
    return Forbidden(
        role=caller.role.value, act=Permission.CREATE_KEY.value, where="the whole store", problem=problem
    )
