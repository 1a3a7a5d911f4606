"""Signed notes, as C2SP specifies them (c2sp.org/signed-note): text, an empty line, and a line for each signature.

    If you think cryptography is the answer to your problem,
    then you don't know what your problem is.

    — PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=

Signatures are Ed25519. Keys have the text form of Go's ``golang.org/x/mod/sumdb/note``, so that its tools read ours.
"""

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Self

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from standfast.durable import write_new
from standfast.errors import ForgedNote, InvalidValue, LogKeyFailed, MalformedNote, UnsignedNote
from standfast.limits import MAX_LISTED_KEYS, MAX_LOG_NAME_CHARS, MAX_NOTE_BYTES, MAX_SIGNATURES
from standfast.vocabulary import Value

_ED25519: Final = b"\x01"
_KEY_BYTES: Final = 32
_KEY_ID_BYTES: Final = 4
_SIGNATURE_LINE: Final = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_VERIFYING_KEY: Final = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})")
_CONTROL: Final = re.compile("[\x00-\x09\x0b-\x1f]")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")


class VerifyingKey(Value, frozen=True, kw_only=True):
    """A public key under a name. ``text`` is what to publish: ``name+key id+base64``."""

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
        """Eight hexadecimal digits that tell keys of one name apart. Not secret, and not proof of anything."""
        hashed = hashlib.sha256(self.name.encode() + b"\n" + _ED25519 + self.public_bytes)
        return hashed.digest()[:_KEY_ID_BYTES].hex()

    @property
    def text(self) -> str:
        """The key as one word of text."""
        return f"{self.name}+{self.key_id}+{base64.b64encode(_ED25519 + self.public_bytes).decode()}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key that ``text`` gave; anything else is an ``InvalidValue``."""
        name, key_id, public_bytes = _key_parts(text, what=cls.__name__)
        key = cls(name=name, public_bytes=public_bytes)
        key._require(key.key_id == key_id, "its id does not fit its name and bytes")
        return key

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Whether the signature was made by this key over this message."""
        try:
            _loaded(self.public_bytes).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A private key under a name. It prints without its secret; only ``secret_text`` tells it."""

    name: str
    seed: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if type(self.seed) is not bytes or len(self.seed) != _KEY_BYTES:
            raise InvalidValue(what="SigningKey", problem=f"seed must be {_KEY_BYTES} bytes")
        # The public half checks the name, which both have.
        _ = self.verifying_key

    @classmethod
    def generate(cls, name: str) -> Self:
        """A new key. Its secret comes from the system's randomness and nowhere else, on purpose."""
        return cls(name=name, seed=Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key that ``secret_text`` gave; anything else is an ``InvalidValue`` that does not repeat the text."""
        prefix = "PRIVATE+KEY+"
        if not isinstance(text, str) or not text.startswith(prefix):
            raise InvalidValue(what=cls.__name__, problem=f"it must start with {prefix}")
        name, key_id, seed = _key_parts(text.removeprefix(prefix), what=cls.__name__)
        key = cls(name=name, seed=seed)
        if key.verifying_key.key_id != key_id:
            raise InvalidValue(what=cls.__name__, problem="its id does not fit its name and bytes")
        return key

    @property
    def secret_text(self) -> str:
        """The key as one word of text, secret included: for a file that only its owner reads."""
        encoded = base64.b64encode(_ED25519 + self.seed).decode()
        return f"PRIVATE+KEY+{self.name}+{self.verifying_key.key_id}+{encoded}"

    @property
    def verifying_key(self) -> VerifyingKey:
        """The public half."""
        public = Ed25519PrivateKey.from_private_bytes(self.seed).public_key()
        return VerifyingKey(name=self.name, public_bytes=public.public_bytes_raw())

    def signature_line(self, message: bytes) -> str:
        """The line that signs ``message``."""
        signature = Ed25519PrivateKey.from_private_bytes(self.seed).sign(message)
        marked = bytes.fromhex(self.verifying_key.key_id) + signature
        return f"— {self.name} {base64.b64encode(marked).decode()}\n"


class OpenedNote(NamedTuple):
    """A verified note: its text, and which of the known keys have signed it."""

    text: str
    signers: tuple[VerifyingKey, ...]


class _Signature(NamedTuple):
    name: str
    key_id: str
    signature: bytes


def sign(text: str, keys: Iterable[SigningKey]) -> str:
    """The note of this text, signed by each key in the order given. Text that no note can hold is a ``MalformedNote``."""
    try:
        message = text.encode()
    except (AttributeError, UnicodeEncodeError):
        raise MalformedNote(problem="its text can't be written in UTF-8") from None
    note = text + "\n" + "".join(key.signature_line(message) for key in dict.fromkeys(keys))
    # Checked here as strictly as there, so that whatever can be signed can also be verified.
    if _split(note)[0] != text:
        raise MalformedNote(problem="its text does not end in a newline")
    return note


def verify(note: str, keys: Iterable[VerifyingKey]) -> str:
    """The note's text, if a known key has signed it and no known key's signature is wrong; see ``open_note``."""
    return open_note(note, keys).text


def open_note(note: str, keys: Iterable[VerifyingKey]) -> OpenedNote:
    """The note's text and its signers among the known keys.

    Signatures of unknown keys are passed over. A known key's signature that does not fit is a ``ForgedNote``, even if
    another one fits; without any that fits the note is an ``UnsignedNote``, and anything else a ``MalformedNote``.
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
            raise ForgedNote(name=name, key_id=key_id)
        signers[signer] = None
    if not signers:
        raise UnsignedNote(
            known=_listed(known) or "there are none",
            signers=_listed((name, key_id) for name, key_id, _ in signatures),
        )
    return OpenedNote(text, tuple(signers))


def unverified_text(note: str) -> str:
    """The text of a well-formed note, whoever has signed it: to look it over, never to believe it."""
    return _split(note)[0]


def decoded_base64(text: str) -> bytes | None:
    """The bytes that this standard base64 stands for, or None. One form only: no spaces, no stray bits at the end."""
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return decoded if base64.b64encode(decoded).decode() == text else None


def _split(note: str) -> tuple[str, list[_Signature]]:
    """Text and signatures of a note, none of them verified yet."""
    if not isinstance(note, str) or len(note) > MAX_NOTE_BYTES:
        raise MalformedNote(problem=f"it is no text of at most {MAX_NOTE_BYTES} bytes")
    try:
        size_bytes = len(note.encode())
    except UnicodeEncodeError:
        raise MalformedNote(problem="it can't be written in UTF-8") from None
    if size_bytes > MAX_NOTE_BYTES:
        raise MalformedNote(problem=f"it takes {size_bytes} bytes, more than {MAX_NOTE_BYTES}")
    if control := _CONTROL.search(note):
        raise MalformedNote(problem=f"it holds a control character at {control.start()}")
    # The last empty line counts, because the text may hold others.
    text, blank, signed = note.rpartition("\n\n")
    lines = signed.split("\n")
    if not blank or lines.pop() or not lines:
        raise MalformedNote(problem="it does not end in an empty line and then signature lines")
    if len(lines) > MAX_SIGNATURES:
        raise MalformedNote(problem=f"it has {len(lines)} signatures, more than {MAX_SIGNATURES}")
    return text + "\n", [_signature(line) for line in lines]


def _signature(line: str) -> _Signature:
    matched = _SIGNATURE_LINE.fullmatch(line)
    marked = decoded_base64(matched[2]) if matched else None
    if matched is None or marked is None or len(marked) <= _KEY_ID_BYTES:
        raise MalformedNote(problem=f"{line!r:.80} is no signature line")
    return _Signature(matched[1], marked[:_KEY_ID_BYTES].hex(), marked[_KEY_ID_BYTES:])


def _listed(keys: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name:.80}+{key_id}" for name, key_id in islice(keys, MAX_LISTED_KEYS))


def _key_parts(text: str, *, what: str) -> tuple[str, str, bytes]:
    matched = _VERIFYING_KEY.fullmatch(text) if isinstance(text, str) else None
    encoded = decoded_base64(matched[3]) if matched else None
    if matched is None or encoded is None or encoded[:1] != _ED25519:
        raise InvalidValue(what=what, problem="it must be name+8 hexadecimal digits+base64 of an Ed25519 key")
    return matched[1], matched[2], encoded[1:]


@lru_cache(maxsize=64)
def _loaded(public_bytes: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public_bytes)


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
