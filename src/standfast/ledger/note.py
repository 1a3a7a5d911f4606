"""Signed notes (c2sp.org/signed-note) and the keys that sign them: text, an empty line, signature lines.

    If you think cryptography is the answer to your problem,
    then you don't know what your problem is.

    — PeterNeumann
    x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=

Signatures are Ed25519. Keys have the text form of Go's ``golang.org/x/mod/sumdb/note``.
"""

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from standfast.durable import write_new
from standfast.errors import InvalidValue, NotProven, StoreError
from standfast.limits import MAX_LISTED_KEYS, MAX_LOG_NAME_CHARS, MAX_NOTE_BYTES, MAX_SIGNATURES
from standfast.records.vocabulary import Value

_ED25519: Final = b"\x01"
_KEY_BYTES: Final = 32
_KEY_ID_BYTES: Final = 4
_SIGNATURE_LINE: Final = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_KEY_TEXT: Final = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})")
_CONTROL: Final = re.compile("[\x00-\x09\x0b-\x1f]")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


class VerifyingKey(Value, frozen=True, kw_only=True):
    """A named public key. ``text`` is its published form: ``name+key id+base64``."""

    name: str
    public_bytes: bytes

    def __post_init__(self) -> None:
        self._require_name("name", self.name)
        self._require(
            re.search(r"[\s+]", self.name) is None,
            "name must hold neither spaces nor '+'; use example.com/log",
        )
        self._require(
            type(self.public_bytes) is bytes and len(self.public_bytes) == _KEY_BYTES,
            f"public_bytes must be {_KEY_BYTES} bytes",
        )

    @property
    def key_id(self) -> str:
        """Eight hexadecimal digits that distinguish keys of one name. Not secret, and not a proof."""
        hashed = hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public_bytes)
        return hashed.digest()[:_KEY_ID_BYTES].hex()

    @property
    def text(self) -> str:
        """The key as one word of text."""
        return f"{self.name}+{self.key_id}+{base64.b64encode(_ED25519 + self.public_bytes).decode()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the key from its ``text``; anything else is an ``InvalidValue``."""
        name, key_id, public_bytes = _parse_key(text, what=cls.__name__)
        key = cls(name=name, public_bytes=public_bytes)
        key._require(key.key_id == key_id, "its id does not match its name and bytes")
        return key

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Whether this key made the signature over this message."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  # As in ``_ed25519``.

        try:
            _public_key(self.public_bytes).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A named private key. Its representation leaves the secret out; ``secret_text`` holds it."""

    name: str
    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if type(self.seed) is not bytes or len(self.seed) != _KEY_BYTES:
            raise InvalidValue(what="SigningKey", problem=f"seed must be {_KEY_BYTES} bytes")
        # Building the public half checks the name.
        _ = self.verifying_key

    @classmethod
    def generate(cls, name: str) -> Self:
        """Create a new key. Its secret comes from the system's randomness; on purpose none can be passed."""
        return cls(name=name, seed=_ed25519().Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the key from its ``secret_text``; else ``InvalidValue``, which does not repeat the text."""
        prefix = "PRIVATE+KEY+"
        if not isinstance(text, str) or not text.startswith(prefix):
            raise InvalidValue(what=cls.__name__, problem=f"it must start with {prefix}")
        name, key_id, seed = _parse_key(text.removeprefix(prefix), what=cls.__name__)
        key = cls(name=name, seed=seed)
        if key.verifying_key.key_id != key_id:
            raise InvalidValue(what=cls.__name__, problem="its id does not match its name and bytes")
        return key

    @property
    def secret_text(self) -> str:
        """The key as one word of text, secret included, for a file that only its owner reads."""
        encoded = base64.b64encode(_ED25519 + self.seed).decode()
        return f"PRIVATE+KEY+{self.name}+{self.verifying_key.key_id}+{encoded}"

    @property
    def verifying_key(self) -> VerifyingKey:
        """The public half."""
        public = _ed25519().Ed25519PrivateKey.from_private_bytes(self.seed).public_key()
        return VerifyingKey(name=self.name, public_bytes=public.public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        """The signature of ``message`` alone."""
        signature: bytes = _ed25519().Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)
        return signature

    def signature_line(self, message: bytes) -> str:
        """The line that signs ``message``."""
        signature = bytes.fromhex(self.verifying_key.key_id) + self.sign(message)
        encoded = base64.b64encode(signature).decode()
        return f"— {self.name} {encoded}\n"


class KeyFile:
    """The log's signing key in a file, created at its first use, with the public half in ``.pub`` next to it.

    Only the owner can read the file. ``name`` is the key's name at first; then the file decides.
    """

    def __init__(self, path: Path, *, name: str) -> None:
        self.path = path
        self.public_path = path.with_suffix(".pub")
        self._name = name
        self._loaded: SigningKey | None = None

    def load(self) -> SigningKey:
        """Read the key, or create it. Two processes that create it at once get the same one."""
        if self._loaded is None:
            try:
                if not self.path.exists():
                    self._create()
                self._loaded = SigningKey.parse(self.path.read_text(encoding="ascii").strip())
                self._publish(self._loaded.verifying_key)
                self._clean()
            except (OSError, UnicodeDecodeError) as error:
                raise self._failed(error) from error
        return self._loaded

    def public(self) -> VerifyingKey | None:
        """Read the public half; None if there is no key. Nothing is created, and the secret is not needed."""
        try:
            if self.path.exists() and os.access(self.path, os.R_OK):
                return SigningKey.parse(self.path.read_text(encoding="ascii").strip()).verifying_key
            if self.public_path.exists():
                return VerifyingKey.parse(self.public_path.read_text(encoding="ascii").strip())
        except (OSError, UnicodeDecodeError) as error:
            raise self._failed(error) from error
        return None

    def can_sign(self, *, signed_before: bool) -> bool:
        """Whether this process could sign: it can read the secret, or it could create the first one."""
        if self.path.exists():
            return os.access(self.path, os.R_OK)
        is_elsewhere = signed_before or self.public_path.exists()
        return not is_elsewhere and os.access(self.path.parent, os.W_OK)

    def _create(self) -> None:
        key = SigningKey.generate(self._name)
        draft = self.path.with_name(f"{self.path.name}.{key.verifying_key.key_id}")
        write_new(draft, f"{key.secret_text}\n".encode("ascii"), mode=0o600)
        try:
            # A link fails if the file exists, where a rename would replace another process's key.
            os.link(draft, self.path)
        except (FileExistsError, FileNotFoundError):
            # Another process was faster, and may have cleaned this draft away.
            if not self.path.exists():
                raise
        finally:
            draft.unlink(missing_ok=True)

    def _clean(self) -> None:
        """Remove the drafts that processes left which were killed while they created the key."""
        drafts = re.compile(
            f"{re.escape(self.path.name)}\\.[0-9a-f]{{8}}|{re.escape(self.public_path.name)}\\.[0-9]+"
        )
        with suppress(OSError):
            for file in self.path.parent.iterdir():
                if drafts.fullmatch(file.name) and file.name not in (self.path.name, self.public_path.name):
                    file.unlink(missing_ok=True)

    def _publish(self, key: VerifyingKey) -> None:
        """Write the public half if it is missing. Not every process that signs may write there."""
        if not self.public_path.exists() and os.access(self.path.parent, os.W_OK):
            draft = self.public_path.with_name(f"{self.public_path.name}.{os.getpid()}")
            draft.unlink(missing_ok=True)
            write_new(draft, f"{key.text}\n".encode("ascii"), mode=0o644)
            draft.replace(self.public_path)

    def _failed(self, error: Exception) -> StoreError:
        problem = (isinstance(error, OSError) and error.strerror) or "it does not hold text"
        return StoreError("log_key_failed", file=str(self.path), problem=problem)


def log_name(path: Path) -> str:
    """The name of the log of a store's file, in characters that a signature line can hold."""
    return f"standfast/{_NOT_IN_A_NAME.sub('-', path.stem)[:MAX_LOG_NAME_CHARS]}"


class OpenedNote(NamedTuple):
    """A verified note: its text, and the known keys that have signed it."""

    text: str
    signers: tuple[VerifyingKey, ...]


class NoteSignature(NamedTuple):
    """A signature line: the name and id of a key, and what it signed with, which is not verified."""

    name: str
    key_id: str
    signature: bytes


def sign(text: str, keys: Iterable[SigningKey]) -> str:
    """Sign a text with each key, in this order. A text that no note can hold raises ``malformed_note``."""
    try:
        message = text.encode()
    except (AttributeError, UnicodeEncodeError):
        raise NotProven("malformed_note", problem="its text can't be encoded in UTF-8") from None
    note = text + "\n" + "".join(key.signature_line(message) for key in dict.fromkeys(keys))
    # As strict as verification, so that whatever can be signed can also be verified.
    if _split(note)[0] != text:
        raise NotProven("malformed_note", problem="its text does not end in a newline")
    return note


def verify(note: str, keys: Iterable[VerifyingKey]) -> str:
    """Return the text of a note that a known key has signed; see ``open_note``."""
    return open_note(note, keys).text


def open_note(note: str, keys: Iterable[VerifyingKey]) -> OpenedNote:
    """Verify a note against the known keys. Signatures of unknown keys are ignored.

    Raises:
        NotProven: A known key's signature is wrong, even if another one is right; or no known key has signed
            it; or it is not a signed note.
    """
    known: dict[tuple[str, str], VerifyingKey] = {}
    for key in keys:
        if known.setdefault((key.name, key.key_id), key) != key:
            raise InvalidValue(what="keys", problem=f"two of them are called {key.name}+{key.key_id}")
    text, signatures = _split(note)
    message = text.encode()
    signers: dict[VerifyingKey, None] = {}
    for name, key_id, signature in signatures:
        if (signer := known.get((name, key_id))) is None:
            continue
        if not signer.has_signed(message, signature):
            raise NotProven("forged_note", name=name, key_id=key_id)
        signers[signer] = None
    if not signers:
        raise NotProven(
            "unsigned_note",
            known=_listed(known) or "there are none",
            signers=_listed((name, key_id) for name, key_id, _ in signatures),
        )
    return OpenedNote(text, tuple(signers))


def unverified_text(note: str) -> str:
    """The text of a well-formed note, whoever has signed it. Never trust it."""
    return _split(note)[0]


def signatures_of(note: str) -> list[NoteSignature]:
    """The signatures of a well-formed note. None of them is verified."""
    return _split(note)[1]


def decoded_base64(text: str) -> bytes | None:
    """Decode standard base64 in its one canonical form; None for anything else."""
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return decoded if base64.b64encode(decoded).decode() == text else None


def _split(note: str) -> tuple[str, list[NoteSignature]]:
    """The text and the signatures of a note, not verified."""
    if not isinstance(note, str) or len(note) > MAX_NOTE_BYTES:
        raise NotProven("malformed_note", problem=f"it is not a text of at most {MAX_NOTE_BYTES} bytes")
    try:
        size_bytes = len(note.encode())
    except UnicodeEncodeError:
        raise NotProven("malformed_note", problem="it can't be encoded in UTF-8") from None
    if size_bytes > MAX_NOTE_BYTES:
        raise NotProven("malformed_note", problem=f"it takes {size_bytes} bytes, more than {MAX_NOTE_BYTES}")
    if control := _CONTROL.search(note):
        raise NotProven("malformed_note", problem=f"it holds a control character at {control.start()}")
    # The last empty line counts, because the text may hold others.
    text, blank, signed = note.rpartition("\n\n")
    lines = signed.split("\n")
    if not blank or lines.pop() or not lines:
        raise NotProven("malformed_note", problem="it does not end in an empty line and then signature lines")
    if len(lines) > MAX_SIGNATURES:
        raise NotProven(
            "malformed_note", problem=f"it has {len(lines)} signatures, more than {MAX_SIGNATURES}"
        )
    return text + "\n", [_parse_signature(line) for line in lines]


def _parse_signature(line: str) -> NoteSignature:
    matched = _SIGNATURE_LINE.fullmatch(line)
    decoded = decoded_base64(matched[2]) if matched else None
    if matched is None or decoded is None or len(decoded) <= _KEY_ID_BYTES:
        raise NotProven("malformed_note", problem=f"{line!r:.80} is not a signature line")
    return NoteSignature(matched[1], decoded[:_KEY_ID_BYTES].hex(), decoded[_KEY_ID_BYTES:])


def _listed(keys: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name:.80}+{key_id}" for name, key_id in islice(keys, MAX_LISTED_KEYS))


def _parse_key(text: str, *, what: str) -> tuple[str, str, bytes]:
    matched = _KEY_TEXT.fullmatch(text) if isinstance(text, str) else None
    encoded = decoded_base64(matched[3]) if matched else None
    if matched is None or encoded is None or encoded[:1] != _ED25519:
        raise InvalidValue(what=what, problem="it must be name+8 hexadecimal digits+base64 of an Ed25519 key")
    return matched[1], matched[2], encoded[1:]


@cache
def _ed25519() -> Any:
    """The module of ``cryptography``. Most users of the store never sign and need not pay for it."""
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: PLC0415  # As above.

    return ed25519


@lru_cache(maxsize=64)
def _public_key(public_bytes: bytes) -> Any:
    return _ed25519().Ed25519PublicKey.from_public_bytes(public_bytes)
