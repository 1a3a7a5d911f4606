"""Overrides in Redis, for many machines with low latency. Needs the extra ``redis``."""

import hashlib
from collections.abc import Callable
from datetime import datetime
from importlib.resources import files
from typing import Any, Final

from standfast.clock import Clock, IdSource
from standfast.errors import InvalidValue, MissingExtra, OverridesUnavailable
from standfast.optimize.prompts.overrides import Name, PromptOverridesStore, StoredBytes, encode_name

try:
    import redis
except ImportError:
    raise MissingExtra(feature="The Redis overrides store", extra="redis") from None

PREFIX: Final = "standfast:overrides:"


class RedisPromptOverridesStore(PromptOverridesStore):
    """A store on a Redis server, which removes expired temporary tags by itself."""

    def __init__(
        self, *, client: "redis.Redis", clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        if client.connection_pool.connection_kwargs.get("decode_responses"):
            problem = "pass a client without decode_responses=True"
            raise InvalidValue(what="RedisPromptOverridesStore", problem=problem)
        super().__init__(_RedisBackend(client), clock=clock, ids=ids)


class _RedisBackend:
    def __init__(self, client: Any) -> None:
        self._client = client
        source = files("standfast.optimize.prompts").joinpath("redis_write.lua").read_text("utf-8")
        self._write = client.register_script(source)

    def read(self, name: Name) -> StoredBytes | None:
        etag, content = self._call(lambda: self._client.hmget(_key(name), "mark", "content"))
        return None if content is None else StoredBytes(content, etag.decode())

    def write(self, name: Name, content: bytes, *, etag: str | None, expires_at: datetime | None) -> bool:
        new_etag = hashlib.sha256(content).hexdigest()
        expires_ms = "" if expires_at is None else int(expires_at.timestamp() * 1000)
        arguments = [etag or "", new_etag, content, expires_ms]
        return bool(self._call(lambda: self._write(keys=[_key(name)], args=arguments)))

    def remove(self, name: Name) -> bool:
        return bool(self._call(lambda: self._client.delete(_key(name))))

    def contents(self, ns: str | None, prompt_key: str | None) -> list[bytes]:
        # An encoded name contains nothing that Redis reads as a pattern.
        parts = ["*" if part is None else encode_name(part) for part in (ns, prompt_key)]
        pattern = PREFIX + ":".join((*parts, "*"))
        keys = self._call(lambda: sorted(set(self._client.scan_iter(match=pattern, count=1_000))))
        contents = self._call(lambda: [self._client.hget(key, "content") for key in keys])
        return [content for content in contents if content is not None]

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except redis.RedisError as error:
            raise OverridesUnavailable(problem=str(error)) from None


def _key(name: Name) -> str:
    return PREFIX + ":".join(map(encode_name, name))
