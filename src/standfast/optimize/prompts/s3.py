"""Overrides in S3, or in any store with the same API and conditional writes. Needs the extra ``s3``."""

from datetime import datetime
from typing import Any, Final

from standfast.clock import Clock, IdSource
from standfast.errors import MissingExtra, OverridesUnavailable
from standfast.optimize.prompts.overrides import Name, PromptOverridesStore, StoredBytes, encode_name

try:
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    raise MissingExtra(feature="The S3 overrides store", extra="s3") from None

_ABSENT: Final = {"NoSuchKey", "404", "NotFound"}
_CONFLICT: Final = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", *_ABSENT}


class S3PromptOverridesStore(PromptOverridesStore):
    """A store in a bucket: one object per tag, written only if it has not changed since it was read (``If-Match``)."""

    def __init__(
        self,
        *,
        client: Any,
        bucket: str,
        prefix: str = "standfast/overrides/",
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        super().__init__(_BucketBackend(client, bucket, prefix), clock=clock, ids=ids)


class _BucketBackend:
    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix

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
        except (ClientError, BotoCoreError) as error:
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
        except (ClientError, BotoCoreError) as error:
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
        except (ClientError, BotoCoreError) as error:
            raise OverridesUnavailable(problem=str(error)) from None
        if ns is None and prompt_key is not None:
            keys = [key for key in keys if key.split("/")[-2] == encode_name(prompt_key)]
        found = [self._get(key) for key in sorted(keys)]
        return [stored.content for stored in found if stored is not None]

    def _get(self, key: str) -> StoredBytes | None:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            return StoredBytes(answer["Body"].read(), answer["ETag"])
        except (ClientError, BotoCoreError) as error:
            if _code(error) in _ABSENT:
                return None
            raise OverridesUnavailable(problem=str(error)) from None

    def _key(self, name: Name) -> str:
        return self._prefix + "/".join(map(encode_name, name)) + ".json"


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
