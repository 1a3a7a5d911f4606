"""API keys: random, shown once, kept as a hash, revocable, expiring, scoped to namespaces and a role.

A key reads ``sf_<key id>_<secret>``. The id is public and finds the row; the secret is 256 random bits, of which the
row keeps the SHA-256. A slow hash would add nothing: there is no dictionary of such secrets to try, and it would let
anybody make the server work hard by sending wrong ones.

Keys are rows of plain commits in the namespace ``standfast``, so that the ledger tells who let whom in, and when. They are
read anew for each call: a revoked key is refused from the next call on, by every process.
"""

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from standfast.canon import parse, utc_text
from standfast.clock import fresh_secret
from standfast.errors import InvalidValue, NotFound, Unauthenticated
from standfast.govern.approvals.queue import SYSTEM_NAMESPACE
from standfast.server.access.table import Caller, KeyRole
from standfast.store.commit import Commit, Fact, Write
from standfast.store.protocol import Version
from standfast.store.store import Store
from standfast.vocabulary import ActionType, Receipt, Value

KEY_PREFIX: Final = "sf"
POLICY_SET: Final = "access-v1"
_ID_CHARS: Final = 16
_TOKEN_CHARS: Final = len(KEY_PREFIX) + 1 + _ID_CHARS + 1 + 64
_NOBODY: Final = hashlib.sha256(b"nobody's").hexdigest()


class ApiKey(Value, frozen=True, kw_only=True):
    """All that is known of a key but its secret."""

    key_id: str
    name: str
    role: KeyRole
    namespaces: tuple[str, ...]
    created_at: str
    secret_hash: str
    expires_at: str | None = None
    revoked_at: str | None = None

    def __post_init__(self) -> None:
        self._require_name("key_id", self.key_id)
        self._require_name("name", self.name)
        self._coerce("role", KeyRole)
        self._require(len(self.namespaces) > 0, "it is for at least one namespace, or * for all")
        for namespace in self.namespaces:
            self._require_name("namespaces", namespace)
        self._require(SYSTEM_NAMESPACE not in self.namespaces, f"{SYSTEM_NAMESPACE!r} is Standfast's own")
        self._require_digest("secret_hash", self.secret_hash)

    @property
    def caller(self) -> Caller:
        """Who comes in with it."""
        return Caller(key_id=self.key_id, name=self.name, role=self.role, namespaces=self.namespaces)

    def problem_at(self, now: datetime) -> str | None:
        """Why it is not valid at an instant, or None."""
        if self.revoked_at is not None:
            return "the key was revoked"
        if self.expires_at is not None and self.expires_at <= utc_text(now):
            return "the key has expired"
        return None

    def as_shown(self) -> dict[str, Any]:
        """What may be shown of it, to those who manage keys."""
        return {name: value for name, value in self.as_json().items() if name != "secret_hash"}


class Keyring:
    """The keys of a store. Safe to share between threads and processes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(
        self,
        *,
        name: str,
        role: KeyRole | str,
        namespaces: Sequence[str],
        lifetime: timedelta | None = None,
    ) -> tuple[ApiKey, str]:
        """A new key, and the token that is shown this once."""
        now = self._store.clock.now()
        secret = fresh_secret()
        try:
            expires_at = None if lifetime is None else utc_text(now + lifetime)
        except OverflowError:
            raise InvalidValue(what="ApiKey", problem="its lifetime goes beyond the calendar") from None
        key = ApiKey(
            key_id=self._store.ids.new_id()[:_ID_CHARS],
            name=name,
            role=KeyRole(role),
            namespaces=tuple(sorted(set(namespaces))),
            created_at=utc_text(now),
            expires_at=expires_at,
            secret_hash=_hashed(secret),
        )
        self._write(key, ActionType.WRITE, "created")
        return key, f"{KEY_PREFIX}_{key.key_id}_{secret}"

    def revoke(self, key_id: str) -> ApiKey:
        """End a key, at once and for good; one that is revoked already stays as it is."""
        key = self._find(key_id)
        if key is None:
            raise NotFound(what=f"key {key_id!r:.80}")
        if key.revoked_at is not None:
            return key
        revoked = msgspec.structs.replace(key, revoked_at=utc_text(self._store.clock.now()))
        self._write(revoked, ActionType.MERGE, "revoked")
        return revoked

    def all(self) -> Iterator[ApiKey]:
        """Every key that ever was, by id."""
        for version in self._store.scan(SYSTEM_NAMESPACE, prefix="key/"):
            yield _read(version)

    def valid(self) -> Iterator[ApiKey]:
        """The keys that open a door now."""
        now = self._store.clock.now()
        return (key for key in self.all() if key.problem_at(now) is None)

    def caller_of(self, token: str | None) -> Caller:
        """Who holds this token; ``Unauthenticated`` if it opens nothing, in the same time whatever is wrong with it."""
        if not token:
            raise Unauthenticated(problem="none was sent")
        key_id, secret = _parts(token)
        key = self._find(key_id)
        fits = hmac.compare_digest(_hashed(secret), _NOBODY if key is None else key.secret_hash)
        if key is None or not fits:
            raise Unauthenticated(problem="nobody has this key")
        if problem := key.problem_at(self._store.clock.now()):
            raise Unauthenticated(problem=problem)
        return key.caller

    def caller_with(self, key_id: str) -> Caller:
        """Who has the key of this id, for those who proved before that they hold it; ``Unauthenticated`` if it ended."""
        key = self._find(key_id)
        problem = "nobody has this key" if key is None else key.problem_at(self._store.clock.now())
        if key is None or problem is not None:
            raise Unauthenticated(problem=problem)
        return key.caller

    def _find(self, key_id: str) -> ApiKey | None:
        row = _row(key_id)
        found = self._store.read(SYSTEM_NAMESPACE, [row])
        return _read(found[row]) if row in found else None

    def _write(self, key: ApiKey, action: ActionType, event: str) -> Receipt:
        told = Fact.of("key", {"event": event, **key.as_shown()})
        write = Write.of(SYSTEM_NAMESPACE, _row(key.key_id), action, key.as_json())
        return self._store.commit(
            Commit.of(
                run_id=f"key-{key.key_id}-{event}",
                memory_snapshot_id=self._store.head(),
                policy_set_id=POLICY_SET,
                writes=[write],
                facts=[told],
            )
        )


def _parts(token: str) -> tuple[str, str]:
    """The id and the secret of a token; those of nobody's if it does not look like one."""
    prefix, _, rest = token.partition("_")
    key_id, _, secret = rest.partition("_")
    looks_right = len(token) == _TOKEN_CHARS and token.isascii() and token.isprintable()
    if not looks_right or prefix != KEY_PREFIX or not key_id.isalnum():
        return "nobody", ""
    return key_id, secret


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _row(key_id: str) -> str:
    return f"key/{key_id}"


def _read(version: Version) -> ApiKey:
    return ApiKey.from_json(parse(version.content or b""))
