"""Where an overrides store keeps its bytes: a folder, Redis (extra ``redis``) or S3 (extra ``s3``)."""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from standfast.clock import Clock, IdSource, RandomIds
from standfast.durable import sync_folder, write_new
from standfast.errors import InvalidValue, MissingExtra
from standfast.optimize.errors import OverridesUnavailable
from standfast.optimize.prompts.overrides import Name, PromptOverridesStore, StoredBytes, encode_name

if TYPE_CHECKING:
    from redis import Redis

_SUFFIX: Final = ".json"
_UNFINISHED: Final = ".unfinished-"
_REDIS_PREFIX: Final = "standfast:overrides:"
# Writes an override if the stored one still has the etag that was read: the hash of its content, so that the
# server need not parse JSON. ARGV: the etag that was read, the new etag, the new content, when it expires
# (ms, or '').
_REDIS_WRITE: Final = """
local stored = redis.call('HGET', KEYS[1], 'mark') or ''
if stored ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'mark', ARGV[2], 'content', ARGV[3])
if ARGV[4] ~= '' then redis.call('PEXPIREAT', KEYS[1], ARGV[4]) else redis.call('PERSIST', KEYS[1]) end
return 1
"""
_ABSENT: Final = {"NoSuchKey", "404", "NotFound"}
_CONFLICT: Final = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", *_ABSENT}


class LocalPromptOverridesStore(PromptOverridesStore):
    """A store in a folder. A killed process leaves the old file or the new one, never a part."""

    def __init__(
        self, root: str | os.PathLike[str], *, clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        ids = ids or RandomIds()
        super().__init__(_FolderBackend(Path(root), ids), clock=clock, ids=ids)


class _FolderBackend:
    def __init__(self, root: Path, ids: IdSource) -> None:
        self._root, self._ids = root, ids

    def read(self, name: Name) -> StoredBytes | None:
        try:
            content = self._file(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OverridesUnavailable(problem=str(error)) from None
        return StoredBytes(content, hashlib.sha256(content).hexdigest())

    def write(self, name: Name, content: bytes, *, etag: str | None, expires_at: datetime | None) -> bool:  # noqa: ARG002  # Expired files are swept.
        with self._locked():
            stored = self.read(name)
            if (None if stored is None else stored.etag) != etag:
                return False
            file = self._file(name)
            file.parent.mkdir(parents=True, exist_ok=True)
            unfinished = file.with_name(_UNFINISHED + self._ids.new_id())
            write_new(unfinished, content)
            unfinished.replace(file)
            sync_folder(file.parent)
            return True

    def remove(self, name: Name) -> bool:
        with self._locked():
            file = self._file(name)
            # Nobody writes while we hold the lock, so unfinished files belong to killed processes.
            for unfinished in file.parent.glob(_UNFINISHED + "*"):
                unfinished.unlink(missing_ok=True)
            try:
                file.unlink()
            except FileNotFoundError:
                return False
            sync_folder(file.parent)
            return True

    def contents(self, ns: str | None, prompt_key: str | None) -> list[bytes]:
        folders = (
            "*" if ns is None else encode_name(ns),
            "*" if prompt_key is None else encode_name(prompt_key),
        )
        contents = []
        for file in sorted(self._root.glob("/".join((*folders, "*" + _SUFFIX)))):
            try:
                contents.append(file.read_bytes())
            except FileNotFoundError:
                continue
            except OSError as error:
                raise OverridesUnavailable(problem=str(error)) from None
        return contents

    def _file(self, name: Name) -> Path:
        ns, prompt_key, tag = map(encode_name, name)
        return self._root / ns / prompt_key / (tag + _SUFFIX)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of all threads and processes; the system releases it if this process is killed."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with (self._root / ".lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise OverridesUnavailable(problem=str(error)) from None


class RedisPromptOverridesStore(PromptOverridesStore):
    """A store on a Redis server, which removes expired temporary tags by itself."""

    def __init__(self, *, client: "Redis", clock: Clock | None = None, ids: IdSource | None = None) -> None:
        try:
            from redis import RedisError  # noqa: PLC0415  # Part of an extra.
        except ImportError:
            raise MissingExtra(feature="The Redis overrides store", extra="redis") from None
        if client.connection_pool.connection_kwargs.get("decode_responses"):
            problem = "pass a client without decode_responses=True"
            raise InvalidValue(what="RedisPromptOverridesStore", problem=problem)
        super().__init__(_RedisBackend(client, RedisError), clock=clock, ids=ids)


class _RedisBackend:
    def __init__(self, client: Any, driver_error: type[Exception]) -> None:
        self._client, self._driver_error = client, driver_error
        self._write = client.register_script(_REDIS_WRITE)

    def read(self, name: Name) -> StoredBytes | None:
        etag, content = self._call(lambda: self._client.hmget(_redis_key(name), "mark", "content"))
        return None if content is None else StoredBytes(content, etag.decode())

    def write(self, name: Name, content: bytes, *, etag: str | None, expires_at: datetime | None) -> bool:
        new_etag = hashlib.sha256(content).hexdigest()
        expires_ms = "" if expires_at is None else int(expires_at.timestamp() * 1000)
        arguments = [etag or "", new_etag, content, expires_ms]
        return bool(self._call(lambda: self._write(keys=[_redis_key(name)], args=arguments)))

    def remove(self, name: Name) -> bool:
        return bool(self._call(lambda: self._client.delete(_redis_key(name))))

    def contents(self, ns: str | None, prompt_key: str | None) -> list[bytes]:
        # An encoded name contains nothing that Redis reads as a pattern.
        parts = ["*" if part is None else encode_name(part) for part in (ns, prompt_key)]
        pattern = _REDIS_PREFIX + ":".join((*parts, "*"))
        keys = self._call(lambda: sorted(set(self._client.scan_iter(match=pattern, count=1_000))))
        contents = self._call(lambda: [self._client.hget(key, "content") for key in keys])
        return [content for content in contents if content is not None]

    def _call(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except self._driver_error as error:
            raise OverridesUnavailable(problem=str(error)) from None


def _redis_key(name: Name) -> str:
    return _REDIS_PREFIX + ":".join(map(encode_name, name))


class S3PromptOverridesStore(PromptOverridesStore):
    """A store in a bucket: one object per tag, written only if it has not changed (``If-Match``)."""

    def __init__(
        self,
        *,
        client: Any,
        bucket: str,
        prefix: str = "standfast/overrides/",
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        try:
            from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415  # Part of an extra.
        except ImportError:
            raise MissingExtra(feature="The S3 overrides store", extra="s3") from None
        errors = (ClientError, BotoCoreError)
        super().__init__(_BucketBackend(client, bucket, prefix, errors), clock=clock, ids=ids)


class _BucketBackend:
    def __init__(self, client: Any, bucket: str, prefix: str, errors: tuple[type[Exception], ...]) -> None:
        self._client, self._bucket, self._prefix, self._errors = client, bucket, prefix, errors

    def read(self, name: Name) -> StoredBytes | None:
        return self._get(self._key(name))

    def write(self, name: Name, content: bytes, *, etag: str | None, expires_at: datetime | None) -> bool:  # noqa: ARG002  # Expired objects are swept; a bucket's own rules count days.
        condition = {"IfNoneMatch": "*"} if etag is None else {"IfMatch": etag}
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._key(name),
                Body=content,
                ContentType="application/json",
                **condition,
            )
        except self._errors as error:
            if _code(error) in _CONFLICT:
                return False
            raise OverridesUnavailable(problem=str(error)) from None
        return True

    def remove(self, name: Name) -> bool:
        # S3 does not report whether an object existed.
        if self.read(name) is None:
            return False
        try:
            self._client.delete_object(Bucket=self._bucket, Key=self._key(name))
        except self._errors as error:
            raise OverridesUnavailable(problem=str(error)) from None
        return True

    def contents(self, ns: str | None, prompt_key: str | None) -> list[bytes]:
        prefix = self._prefix
        if ns is not None:
            prefix += (
                encode_name(ns) + "/" + (encode_name(prompt_key) + "/" if prompt_key is not None else "")
            )
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        except self._errors as error:
            raise OverridesUnavailable(problem=str(error)) from None
        if ns is None and prompt_key is not None:
            keys = [key for key in keys if key.split("/")[-2] == encode_name(prompt_key)]
        found = [self._get(key) for key in sorted(keys)]
        return [stored.content for stored in found if stored is not None]

    def _get(self, key: str) -> StoredBytes | None:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            return StoredBytes(answer["Body"].read(), answer["ETag"])
        except self._errors as error:
            if _code(error) in _ABSENT:
                return None
            raise OverridesUnavailable(problem=str(error)) from None

    def _key(self, name: Name) -> str:
        return self._prefix + "/".join(map(encode_name, name)) + ".json"


def _code(error: Exception) -> str:
    """Return the code of S3's answer; empty if there was none."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))
