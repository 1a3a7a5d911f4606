"""Overrides in a folder, for the processes of one machine: one file per tag, replaced atomically."""

import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from standfast.clock import Clock, IdSource, RandomIds
from standfast.durable import sync_folder, write_new
from standfast.errors import OverridesUnavailable
from standfast.optimize.prompts.overrides import Name, PromptOverridesStore, StoredBytes, encode_name

_SUFFIX: Final = ".json"
_UNFINISHED: Final = ".unfinished-"


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
