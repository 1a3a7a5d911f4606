"""Overrides in a folder, for the processes of one machine: a file a tag, written anew and swapped in whole."""

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
from standfast.optimize.prompts.overrides import Kept, Name, VersionedOverrides, part_name

_ENDING: Final = ".json"
_UNFINISHED: Final = ".unfinished-"


class LocalPromptOverridesStore(VersionedOverrides):
    """A store in a folder. A process that is killed leaves either the old file or the new one, never a part."""

    def __init__(
        self, root: str | os.PathLike[str], *, clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        ids = ids or RandomIds()
        super().__init__(_Folder(Path(root), ids), clock=clock, ids=ids)


class _Folder:
    def __init__(self, root: Path, ids: IdSource) -> None:
        self._root, self._ids = root, ids

    def read(self, name: Name) -> Kept | None:
        try:
            content = self._file(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise OverridesUnavailable(problem=str(error)) from None
        return Kept(content, hashlib.sha256(content).hexdigest())

    def write(self, name: Name, content: bytes, *, mark: str | None, expires_at: datetime | None) -> bool:  # noqa: ARG002  # A folder forgets nothing by itself.
        with self._locked():
            before = self.read(name)
            if (None if before is None else before.mark) != mark:
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
            # Under the lock nobody is in the middle of a write: what is unfinished here was left by the dead.
            for unfinished in file.parent.glob(_UNFINISHED + "*"):
                unfinished.unlink(missing_ok=True)
            try:
                file.unlink()
            except FileNotFoundError:
                return False
            sync_folder(file.parent)
            return True

    def contents(self, ns: str | None, prompt_key: str | None) -> list[bytes]:
        folders = "*" if ns is None else part_name(ns), "*" if prompt_key is None else part_name(prompt_key)
        found = []
        for file in sorted(self._root.glob("/".join((*folders, "*" + _ENDING)))):
            try:
                found.append(file.read_bytes())
            except FileNotFoundError:
                continue
            except OSError as error:
                raise OverridesUnavailable(problem=str(error)) from None
        return found

    def _file(self, name: Name) -> Path:
        ns, prompt_key, tag = map(part_name, name)
        return self._root / ns / prompt_key / (tag + _ENDING)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, over all threads and processes; the system releases the lock of who is killed."""
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            with (self._root / ".lock").open("wb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield
        except OSError as error:
            raise OverridesUnavailable(problem=str(error)) from None
