"""API keys: random, shown once, stored as a hash, limited to a role and to places, revocable, expiring.

A key has the form ``sf_<key id>_<secret>``. The id is public and names the stored row. The secret has 256
random bits, and the row holds its SHA-256. A slow password hash would add nothing, because no dictionary of
such secrets exists, and it would let anyone load the server by sending wrong keys.

Keys are rows of ordinary commits in the reserved namespace, so the ledger records who created and revoked
which key. They are read again for each call: a revoked key is refused from the next call on.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from standfast.clock import fresh_secret
from standfast.errors import InvalidValue, NotFound, Unauthenticated
from standfast.govern.judge.secrecy import require_no_secret
from standfast.limits import MAX_CACHED_KEYS, MAX_SCOPES
from standfast.records.canon import parse, utc_text
from standfast.records.origins import Origin, checked_origin
from standfast.records.rows import SYSTEM_NAMESPACE, RowKind
from standfast.records.scopes import checked_scope, outer_scopes, prefix_of, row_key
from standfast.records.vocabulary import ActionType, Receipt, Value
from standfast.server.access.permissions import ORIGIN_OF_ROLE, Caller, KeyRole
from standfast.store.commit import Commit, Fact, Write
from standfast.store.protocol import Version
from standfast.store.store import Store

KEY_PREFIX: Final = "sf"
POLICY_SET: Final = "access-v1"
KEY_ID_CHARS: Final = 16
_TOKEN_CHARS: Final = len(KEY_PREFIX) + 1 + KEY_ID_CHARS + 1 + 64
_NO_KEY_HASH: Final = hashlib.sha256(b"no such key").hexdigest()


class ApiKey(Value, frozen=True, kw_only=True):
    """The stored row of a key. It holds the hash of the secret, not the secret."""

    key_id: str
    name: str
    role: KeyRole
    namespaces: tuple[str, ...]
    created_at: str
    secret_hash: str
    expires_at: str | None = None
    revoked_at: str | None = None
    origin: Origin | None = None
    """The most that what the key's holder remembers is trusted; None for what its role is."""
    scopes: tuple[str, ...] = ()
    """The scopes that the key is limited to, each with all below it; none if it is for all of its namespaces.
    """

    def __post_init__(self) -> None:
        self._require_name("key_id", self.key_id)
        self._require_name("name", self.name)
        self._require(len(self.namespaces) > 0, "it needs at least one namespace, or * for all")
        for namespace in self.namespaces:
            self._require_name("namespaces", namespace)
        self._require(
            SYSTEM_NAMESPACE not in self.namespaces, f"the namespace {SYSTEM_NAMESPACE!r} is reserved"
        )
        self._require(len(self.scopes) <= MAX_SCOPES, f"it can be limited to at most {MAX_SCOPES} scopes")
        for scope in self.scopes:
            checked_scope(scope, what="scopes of a key")
        self._require_digest("secret_hash", self.secret_hash)

    @property
    def caller(self) -> Caller:
        """The caller that uses this key."""
        return Caller(
            key_id=self.key_id,
            name=self.name,
            role=self.role,
            namespaces=self.namespaces,
            scopes=self.scopes,
            origin=ORIGIN_OF_ROLE[self.role] if self.origin is None else self.origin,
        )

    def problem_at(self, now: datetime) -> str | None:
        """Why the key is not valid at an instant, or None if it is."""
        if self.revoked_at is not None:
            return "the key was revoked"
        if self.expires_at is not None and self.expires_at <= utc_text(now):
            return "the key has expired"
        return None

    def as_shown(self) -> dict[str, Any]:
        """The row without the hash, as `standfast keys` prints it and the ledger records it."""
        return {name: value for name, value in self.as_json().items() if name != "secret_hash"}


class Keyring:
    """The API keys of a store. Safe to share between threads and processes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cached: dict[str, tuple[int, ApiKey]] = {}

    def create(
        self,
        *,
        name: str,
        role: KeyRole | str,
        namespaces: Sequence[str],
        lifetime: timedelta | None = None,
        origin: Origin | str | None = None,
        scopes: Sequence[str] = (),
        by: str | None = None,
    ) -> tuple[ApiKey, str]:
        """Create a key and return its row and its token. The token cannot be shown again.

        Args:
            namespaces: The namespaces that the key is for; ``"*"`` means all.
            lifetime: How long the key is valid; without one, until it is revoked.
            origin: The most that what its holder remembers is trusted: by default ``"ordinary"`` for an
                agent, ``"trusted"`` for an operator.
            scopes: The scopes that the key is limited to, such as ``"user/ada"``, each with all below it;
                without any, it is for all.
            by: The id of the key that asked for it, for the ledger; None for the command line.
        """
        if isinstance(namespaces, str) or isinstance(scopes, str):
            raise InvalidValue(
                what="ApiKey", problem="namespaces and scopes must be lists of names, not a single string"
            )
        for one in (name, *namespaces, *scopes):
            require_no_secret(**{"name, namespaces or scopes": one})
        if lifetime is not None and lifetime <= timedelta():
            raise InvalidValue(what="ApiKey", problem="the lifetime must be positive")
        now = self._store.clock.now()
        secret = fresh_secret()
        try:
            expires_at = None if lifetime is None else utc_text(now + lifetime)
        except OverflowError:
            raise InvalidValue(what="ApiKey", problem="the lifetime ends after the year 9999") from None
        try:
            role = KeyRole(role)
        except ValueError:
            problem = f"role must be one of {', '.join(KeyRole)}, not {role!r:.80}"
            raise InvalidValue(what="ApiKey", problem=problem) from None
        key = ApiKey(
            key_id=self._store.ids.new_id()[:KEY_ID_CHARS],
            name=name,
            role=role,
            namespaces=tuple(sorted(set(namespaces))),
            created_at=utc_text(now),
            expires_at=expires_at,
            secret_hash=_hashed(secret),
            origin=None if origin is None else checked_origin(origin, what="origin"),
            scopes=outer_scopes(sorted(set(scopes))),
        )
        self._write(key, ActionType.WRITE, "created", by)
        return key, f"{KEY_PREFIX}_{key.key_id}_{secret}"

    def find(self, key_id: str) -> ApiKey:
        """Return a key, valid or not. ``NotFound`` if there is none with this id."""
        key = self._find(key_id)
        if key is None:
            raise NotFound(what=f"key {key_id!r:.80}")
        return key

    def revoke(self, key_id: str, *, by: str | None = None) -> ApiKey:
        """Revoke a key at once and for good. Revoking it again changes nothing."""
        key = self.find(key_id)
        if key.revoked_at is not None:
            return key
        revoked = msgspec.structs.replace(key, revoked_at=utc_text(self._store.clock.now()))
        self._write(revoked, ActionType.MERGE, "revoked", by)
        return revoked

    def all(self) -> Iterator[ApiKey]:
        """Yield every key ever created, by id."""
        for version in self._store.scan(SYSTEM_NAMESPACE, prefix=prefix_of(RowKind.API_KEY)):
            yield _read(version)

    def valid(self) -> Iterator[ApiKey]:
        """Yield the keys that are valid now."""
        now = self._store.clock.now()
        return (key for key in self.all() if key.problem_at(now) is None)

    def authenticate(self, token: str | None) -> Caller:
        """Return the caller that a token belongs to.

        Raises:
            Unauthenticated: The token is missing, unknown, revoked or expired. An unknown key and a wrong
                secret are refused in the same words.
        """
        if not token:
            raise Unauthenticated(problem="no key was sent")
        key_id, secret = _split(token)
        key = self._find(key_id)
        is_right = hmac.compare_digest(_hashed(secret), _NO_KEY_HASH if key is None else key.secret_hash)
        if key is None or not is_right:
            raise Unauthenticated(problem="the key is unknown")
        if problem := key.problem_at(self._store.clock.now()):
            raise Unauthenticated(problem=problem)
        return key.caller

    def known_caller(self, token: str) -> Caller | None:
        """The caller of a token by what was last read of its key, without reading the store; None if that
        does not suffice. The key may have been revoked since: ``caller_of`` tells.
        """
        key_id, secret = _split(token)
        _, key = self._cached.get(key_id, (0, None))
        if key is None or not hmac.compare_digest(_hashed(secret), key.secret_hash):
            return None
        return key.caller if key.problem_at(self._store.clock.now()) is None else None

    def caller_of(self, key_id: str) -> Caller:
        """Return the caller of a key id who has proved to hold the key. ``Unauthenticated`` if it ended."""
        key = self._find(key_id)
        problem = "the key is unknown" if key is None else key.problem_at(self._store.clock.now())
        if key is None or problem is not None:
            raise Unauthenticated(problem=problem)
        return key.caller

    def _find(self, key_id: str) -> ApiKey | None:
        """The key as of the newest snapshot, looked up once while that is the same."""
        head = self._store.head()
        cached = self._cached.get(key_id)
        if cached is not None and cached[0] == head:
            return cached[1]
        row = _row(key_id)
        found = self._store.read(SYSTEM_NAMESPACE, [row], at=head)
        key = _read(found[row]) if row in found else None
        if key is not None:
            if len(self._cached) >= MAX_CACHED_KEYS:
                self._cached.clear()
            self._cached[key_id] = head, key
        return key

    def _write(self, key: ApiKey, action: ActionType, event: str, by: str | None) -> Receipt:
        fact = Fact.of("key", {"event": event, "by": by, **key.as_shown()})
        write = Write.of(SYSTEM_NAMESPACE, _row(key.key_id), action, key.as_json())
        return self._store.commit(
            Commit.of(
                run_id=f"key-{key.key_id}-{event}",
                memory_snapshot_id=self._store.head(),
                policy_set_id=POLICY_SET,
                writes=[write],
                facts=[fact],
            )
        )


def _split(token: str) -> tuple[str, str]:
    """The id and the secret of a token. A malformed token gives the id of no key."""
    prefix, _, rest = token.partition("_")
    key_id, _, secret = rest.partition("_")
    is_well_formed = len(token) == _TOKEN_CHARS and token.isascii() and token.isprintable()
    if not is_well_formed or prefix != KEY_PREFIX or not key_id.isalnum():
        return "none", ""
    return key_id, secret


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _row(key_id: str) -> str:
    return row_key(RowKind.API_KEY, key_id)


def _read(version: Version) -> ApiKey:
    return ApiKey.from_json(parse(version.content or b""))
