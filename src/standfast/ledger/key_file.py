"""The log's key in a file: made at its first use, read by its owner alone, its public half beside it (``.pub``)."""

import os
import re
from pathlib import Path
from typing import Final

from standfast.durable import write_new
from standfast.errors import LogKeyFailed
from standfast.ledger.note import SigningKey, VerifyingKey
from standfast.limits import MAX_LOG_NAME_CHARS

_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


def log_name(path: Path) -> str:
    """The name of the log of a store's file: what a note's signature line can hold of the file's name."""
    return f"standfast/{_NOT_IN_A_NAME.sub('-', path.stem)[:MAX_LOG_NAME_CHARS]}"


class KeyFile:
    """A signing key in a file. Its name is given when it is made, and told by the file from then on."""

    def __init__(self, path: Path, *, name: str) -> None:
        self.path = path
        self.public_path = path.with_suffix(".pub")
        self._name = name
        self._loaded: SigningKey | None = None

    def load(self) -> SigningKey:
        """The key. Of two processes that make it at once, both get the one that was there first."""
        if self._loaded is None:
            try:
                if not self.path.exists():
                    self._make()
                self._loaded = SigningKey.parse(self.path.read_text(encoding="ascii").strip())
                self._publish(self._loaded.verifying_key)
            except (OSError, UnicodeDecodeError) as error:
                raise self._failed(error) from error
        return self._loaded

    def public(self) -> VerifyingKey | None:
        """The public half, for whoever only verifies: nothing is made, and the secret is not needed. None if there is none."""
        try:
            if self.path.exists() and os.access(self.path, os.R_OK):
                return SigningKey.parse(self.path.read_text(encoding="ascii").strip()).verifying_key
            if self.public_path.exists():
                return VerifyingKey.parse(self.public_path.read_text(encoding="ascii").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise self._failed(error) from error
        return None

    def is_at_hand(self, *, signed_before: bool) -> bool:
        """Whether whoever asks could sign: the secret is theirs to read, or nobody has one yet and they could make it."""
        if self.path.exists():
            return os.access(self.path, os.R_OK)
        is_another_s = signed_before or self.public_path.exists()
        return not is_another_s and os.access(self.path.parent, os.W_OK)

    def _make(self) -> None:
        key = SigningKey.generate(self._name)
        draft = self.path.with_name(f"{self.path.name}.{key.verifying_key.key_id}")
        write_new(draft, f"{key.secret_text}\n".encode("ascii"), mode=0o600)
        try:
            # A link fails where a rename would replace another's key.
            os.link(draft, self.path)
        except FileExistsError:
            return
        finally:
            draft.unlink()

    def _publish(self, key: VerifyingKey) -> None:
        """Put the public half beside it, where a crash or another's hand left none. Not all who sign may write there."""
        if not self.public_path.exists() and os.access(self.path.parent, os.W_OK):
            draft = self.public_path.with_name(f"{self.public_path.name}.{os.getpid()}")
            draft.unlink(missing_ok=True)
            write_new(draft, f"{key.text}\n".encode("ascii"), mode=0o644)
            draft.replace(self.public_path)

    def _failed(self, error: Exception) -> LogKeyFailed:
        problem = (isinstance(error, OSError) and error.strerror) or "it is no text"
        return LogKeyFailed(file=str(self.path), problem=problem)
