"""Overrides in Redis, for many machines that want them quickly. Its extra is ``redis``."""

import hashlib
from datetime import datetime
from typing import Any, Final

from standfast.clock import Clock, IdSource
from standfast.errors import InvalidValue, MissingExtra, OverridesUnavailable
from standfast.optimize.prompts.overrides import Kept, Name, VersionedOverrides, part_name

try:
    import redis
except ImportError:
    raise MissingExtra(feature="The Redis overrides store", extra="redis") from None

PREFIX: Final = "standfast:overrides:"

# The mark is the hash of the content, so that the server need not read JSON.
_WRITE: Final = """
local mark = redis.call('HGET', KEYS[1], 'mark') or ''
if mark ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'mark', ARGV[2], 'content', ARGV[3])
if ARGV[4] ~= '' then redis.call('PEXPIREAT', KEYS[1], ARGV[4]) else redis.call('PERSIST', KEYS[1]) end
return 1
"""


class RedisPromptOverridesStore(VersionedOverrides):
    """A store on a server. Temporary tags end there by themselves."""

    def __init__(
        self, *, client: "redis.Redis", clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        if client.connection_pool.connection_kwargs.get("decode_responses"):
            problem = "give a client without decode_responses=True"
            raise InvalidValue(what="RedisPromptOverridesStore", problem=problem)
        super().__init__(_Server(client), clock=clock, ids=ids)


class _Server:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._script = client.register_script(_WRITE)

    def read(self, name: Name) -> Kept | None:
        mark, content = self._ask(lambda: self._client.hmget(_key(name), "mark", "content"))
        return None if content is None else Kept(content, mark.decode())

    def write(self, name: Name, content: bytes, *, mark: str | None, expires_at: datetime | None) -> bool:
        new_mark = hashlib.sha256(content).hexdigest()
        end = "" if expires_at is None else int(expires_at.timestamp() * 1000)
        arguments = [mark or "", new_mark, content, end]
        return bool(self._ask(lambda: self._script(keys=[_key(name)], args=arguments)))

    def remove(self, name: Name) -> bool:
        return bool(self._ask(lambda: self._client.delete(_key(name))))

    def contents(self, ns: str | None, prompt_key: str | None) -> list[bytes]:
        parts = [_glob(part) for part in (ns, prompt_key)]
        pattern = PREFIX + ":".join((*parts, "*"))
        keys = self._ask(lambda: sorted(set(self._client.scan_iter(match=pattern, count=1_000))))
        found = self._ask(lambda: [self._client.hget(key, "content") for key in keys])
        return [content for content in found if content is not None]

    def _ask(self, call: Any) -> Any:
        try:
            return call()
        except redis.RedisError as error:
            raise OverridesUnavailable(problem=str(error)) from None


def _key(name: Name) -> str:
    return PREFIX + ":".join(map(part_name, name))


def _glob(part: str | None) -> str:
    """A quoted part holds nothing that Redis would read as a pattern."""
    return "*" if part is None else part_name(part)
