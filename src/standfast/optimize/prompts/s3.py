"""Overrides in S3 or anything that speaks it with conditional writes. Its extra is ``s3``."""

from datetime import datetime
from typing import Any, Final

from standfast.clock import Clock, IdSource
from standfast.errors import MissingExtra, OverridesUnavailable
from standfast.optimize.prompts.overrides import Kept, Name, VersionedOverrides, part_name

try:
    from botocore.exceptions import BotoCoreError, ClientError
except ImportError:
    raise MissingExtra(feature="The S3 overrides store", extra="s3") from None

_ABSENT: Final = {"NoSuchKey", "404", "NotFound"}
_LOST: Final = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", *_ABSENT}


class S3PromptOverridesStore(VersionedOverrides):
    """A store in a bucket: an object a tag, written only if it is still what was read (``If-Match``)."""

    def __init__(
        self,
        *,
        client: Any,
        bucket: str,
        prefix: str = "standfast/overrides/",
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        super().__init__(_Bucket(client, bucket, prefix), clock=clock, ids=ids)


class _Bucket:
    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix

    def read(self, name: Name) -> Kept | None:
        return self._get(self._key(name))

    def write(self, name: Name, content: bytes, *, mark: str | None, expires_at: datetime | None) -> bool:  # noqa: ARG002  # Expiry is swept; a bucket's own rules count days.
        condition = {"IfNoneMatch": "*"} if mark is None else {"IfMatch": mark}
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=self._key(name),
                Body=content,
                ContentType="application/json",
                **condition,
            )
        except (ClientError, BotoCoreError) as error:
            if _code(error) in _LOST:
                return False
            raise OverridesUnavailable(problem=str(error)) from None
        return True

    def remove(self, name: Name) -> bool:
        # S3 does not say whether there was something to delete.
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
            prefix += part_name(ns) + "/" + (part_name(prompt_key) + "/" if prompt_key is not None else "")
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        except (ClientError, BotoCoreError) as error:
            raise OverridesUnavailable(problem=str(error)) from None
        if ns is None and prompt_key is not None:
            keys = [key for key in keys if key.split("/")[-2] == part_name(prompt_key)]
        found = [self._get(key) for key in sorted(keys)]
        return [kept.content for kept in found if kept is not None]

    def _get(self, key: str) -> Kept | None:
        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=key)
            return Kept(answer["Body"].read(), answer["ETag"])
        except (ClientError, BotoCoreError) as error:
            if _code(error) in _ABSENT:
                return None
            raise OverridesUnavailable(problem=str(error)) from None

    def _key(self, name: Name) -> str:
        return self._prefix + "/".join(map(part_name, name)) + ".json"


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""
