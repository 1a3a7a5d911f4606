"""SSH signatures as in OpenSSH's PROTOCOL.sshsig, so that ``ssh-keygen -Y verify`` can check a seal.

Parsing is strict. Accepted are version 1, SHA-256 and SHA-512, and Ed25519 keys, plain (``ssh-ed25519``) or
in hardware (``sk-ssh-ed25519@openssh.com``, which must have been touched). Refused, though ssh-keygen accepts
some of it, are RSA, DSA and ECDSA keys, certificates, a reserved field that is not empty, keys of small order
(anyone can sign for those), trailing bytes, and base64 or carriage returns that ssh-keygen would not write.

``cryptography`` is loaded on first use, because loading it takes 50 ms or more.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

from standfast.errors import ApprovalError, UnusableKey
from standfast.ledger.note import decoded_base64
from standfast.limits import MAX_ARMOR_CHARS, MAX_KEY_FILE_BYTES, SIGNING_SECONDS
from standfast.records.vocabulary import Value

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SEAL_NAMESPACE: Final = "standfast-seal"

_MAGIC: Final = b"SSHSIG"
_VERSION_1: Final = (1).to_bytes(4)
_PLAIN: Final = "ssh-ed25519"
_HARDWARE: Final = "sk-ssh-ed25519@openssh.com"
_TOUCHED: Final = 0x01
_HASHES: Final = {"sha256": hashlib.sha256, "sha512": hashlib.sha512}
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,127}")
ARMOR: Final = re.compile(
    r"-----BEGIN SSH SIGNATURE-----\n((?:[A-Za-z0-9+/=]{1,76}\n)+)-----END SSH SIGNATURE-----\n?"
)
"""An armored signature, as ssh-keygen writes it."""
_ARMOR_COLUMNS: Final = 70
# The y coordinates of all points of small order, in both encodings where there are two. With such a key, one
# signature fits every message.
_SMALL_ORDER: Final = frozenset(
    bytes.fromhex(y)
    for y in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "ec" + "ff" * 30 + "7f",
        "ed" + "ff" * 30 + "7f",
        "ee" + "ff" * 30 + "7f",
    )
)


class PublicKey(Value, frozen=True, kw_only=True):
    """An Ed25519 public key in OpenSSH's binary form. A key that may not sign cannot be constructed."""

    blob: bytes

    def __post_init__(self) -> None:
        try:
            (kind, *fields), rest = _split(self.blob, 2)
            if kind == _HARDWARE.encode():
                (application,), rest = _split(rest, 1)
                fields.append(application)
        except (ValueError, TypeError):
            raise UnusableKey(problem="it is cut short") from None
        if kind not in (_PLAIN.encode(), _HARDWARE.encode()):
            raise UnusableKey(problem=f"its type is {kind[:64].decode('ascii', 'replace')!r}")
        point = fields[0]
        if rest or len(point) != 32:
            raise UnusableKey(problem="it is not a type and a point of 32 bytes")
        if point[:31] + bytes([point[31] & 0x7F]) in _SMALL_ORDER:
            raise UnusableKey(problem="it is weak: anyone can sign for it")

    @classmethod
    def read(cls, text: str) -> Self:
        """The key in a line as ``.pub`` files have it: type, base64, and perhaps a comment."""
        words = text.split(None, 2) if isinstance(text, str) and len(text) <= MAX_ARMOR_CHARS else []
        blob = decoded_base64(words[1]) if len(words) >= 2 else None
        if blob is None:
            raise UnusableKey(problem="it is not written as 'ssh-ed25519 AAAA…'")
        key = cls(blob=blob)
        if key.kind != words[0]:
            raise UnusableKey(problem=f"it is written as {words[0]!r:.80} and is a {key.kind}")
        return key

    @classmethod
    def of(cls, private_key: "Ed25519PrivateKey") -> Self:
        """The public half of a private key."""
        return cls(blob=_string(_PLAIN.encode()) + _string(private_key.public_key().public_bytes_raw()))

    @property
    def kind(self) -> str:
        """``ssh-ed25519``, or ``sk-ssh-ed25519@openssh.com`` for a key in hardware."""
        return _split(self.blob, 1)[0][0].decode()

    @property
    def text(self) -> str:
        """The key as a ``.pub`` file has it, without a comment."""
        return f"{self.kind} {base64.b64encode(self.blob).decode()}"

    @property
    def fingerprint(self) -> str:
        """The fingerprint that ``ssh-keygen -l`` shows."""
        return "SHA256:" + base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")


class SshSignature(Value, frozen=True, kw_only=True):
    """The parts of a signature. ``armored`` is its text, in the form that ssh-keygen writes."""

    public_key: PublicKey
    namespace: str
    hash_algorithm: str
    signature: bytes

    @classmethod
    def read(cls, armored: str) -> Self:
        """Parses an armored text, wrapped at any column up to 76; anything else is a ``ApprovalError``
        (``bad_signature``).
        """
        short = isinstance(armored, str) and len(armored) <= MAX_ARMOR_CHARS
        found = ARMOR.fullmatch(armored) if short else None
        blob = decoded_base64(found[1].replace("\n", "")) if found else None
        if blob is None:
            raise ApprovalError("bad_signature", problem="it is not an armored SSH signature")
        if not blob.startswith(_MAGIC + _VERSION_1):
            raise ApprovalError("bad_signature", problem="its format version is not 1")
        try:
            fields, rest = _split(blob.removeprefix(_MAGIC + _VERSION_1), 5)
            key, namespace, reserved, algorithm, signature = fields
            names = namespace.decode("ascii"), algorithm.decode("ascii")
        except ValueError:
            raise ApprovalError("bad_signature", problem="it is cut short or garbled") from None
        if reserved or rest:
            raise ApprovalError("bad_signature", problem="it has extra bytes")
        if names[1] not in _HASHES:
            raise ApprovalError("bad_signature", problem="its hash algorithm is neither sha256 nor sha512")
        return cls(
            public_key=PublicKey(blob=key),
            namespace=_checked_namespace(names[0]),
            hash_algorithm=names[1],
            signature=signature,
        )

    @property
    def armored(self) -> str:
        """The armored text, byte for byte as ssh-keygen would write it."""
        names = self.namespace.encode(), b"", self.hash_algorithm.encode()
        fields = (self.public_key.blob, *names, self.signature)
        body = base64.b64encode(_MAGIC + _VERSION_1 + b"".join(map(_string, fields))).decode()
        lines = [body[start : start + _ARMOR_COLUMNS] for start in range(0, len(body), _ARMOR_COLUMNS)]
        return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])

    def check(self, message: bytes) -> None:
        """Raise ``ApprovalError`` (``bad_signature``) unless the key signed this for this namespace."""
        from cryptography.exceptions import (  # noqa: PLC0415  # As the module's docstring says.
            InvalidSignature,
        )
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415  # As above.
            Ed25519PublicKey,
        )

        signed = _to_be_signed(message, self.namespace, self.hash_algorithm)
        kind = self.public_key.kind
        key_fields, _ = _split(self.public_key.blob, 3 if kind == _HARDWARE else 2)
        try:
            (signature_kind, signature), rest = _split(self.signature, 2)
        except ValueError:
            raise ApprovalError("bad_signature", problem="it is cut short") from None
        if signature_kind != kind.encode() or len(rest) != (5 if kind == _HARDWARE else 0):
            raise ApprovalError("bad_signature", problem="its type is not that of its key")
        if kind == _HARDWARE:
            if not rest[0] & _TOUCHED:
                raise ApprovalError("bad_signature", problem="the hardware key was not touched")
            signed = hashlib.sha256(key_fields[2]).digest() + rest + hashlib.sha256(signed).digest()
        try:
            Ed25519PublicKey.from_public_bytes(key_fields[1]).verify(signature, signed)
        except (InvalidSignature, ValueError):
            raise ApprovalError("bad_signature", problem="it does not match the statement") from None


def verify(armored: str, message: bytes, namespace: str) -> PublicKey:
    """The key that signed this message for this namespace. ``Signers`` tells whose key it is."""
    signature = SshSignature.read(armored)
    if signature.namespace != namespace:
        raise ApprovalError("wrong_namespace", found=signature.namespace, needed=namespace)
    signature.check(message)
    return signature.public_key


def sign(
    private_key: "Ed25519PrivateKey", message: bytes, namespace: str, *, hash_algorithm: str = "sha512"
) -> str:
    """Signs a message. The same key and message give the same armored signature."""
    if hash_algorithm not in _HASHES:
        raise ApprovalError(
            "signing_failed", problem=f"the hash algorithm must be one of {', '.join(sorted(_HASHES))}"
        )
    signed = _to_be_signed(message, _checked_namespace(namespace), hash_algorithm)
    return SshSignature(
        public_key=PublicKey.of(private_key),
        namespace=namespace,
        hash_algorithm=hash_algorithm,
        signature=_string(_PLAIN.encode()) + _string(private_key.sign(signed)),
    ).armored


def load_private_key(key_file: bytes, passphrase: Callable[[], str] | None = None) -> "Ed25519PrivateKey":
    """Loads an OpenSSH private key file. ``passphrase`` is called only if the key is encrypted."""
    from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm  # noqa: PLC0415  # As above.
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415  # As above.
        Ed25519PrivateKey,
    )
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  # As above.
        load_ssh_private_key,
    )

    if len(key_file) > MAX_KEY_FILE_BYTES:
        raise ApprovalError(
            "signing_failed", problem=f"a private key file has at most {MAX_KEY_FILE_BYTES} bytes"
        )
    try:
        try:
            key = load_ssh_private_key(key_file, None)
        except TypeError:  # Raised for an encrypted key.
            if passphrase is None:
                raise ApprovalError(
                    "signing_failed",
                    problem="the private key is encrypted; give its passphrase, or use ssh-agent",
                ) from None
            key = load_ssh_private_key(key_file, passphrase().encode())
    except UnsupportedAlgorithm as error:
        if "bcrypt" in str(error):
            problem = "encrypted keys need bcrypt: pip install 'cryptography[ssh]'; or use ssh-agent"
            raise ApprovalError("signing_failed", problem=problem) from None
        raise UnusableKey(problem=f"{error}") from None
    except (TypeError, ValueError, InvalidTag):
        raise ApprovalError(
            "signing_failed", problem="the private key is damaged, or its passphrase is wrong"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise UnusableKey(problem=f"it is a {type(key).__name__}")
    return key


def sign_with_ssh_keygen(
    key_path: str | os.PathLike[str],
    message: bytes,
    namespace: str,
    *,
    interactive: bool = False,
    limit_seconds: float = SIGNING_SECONDS,
) -> str:
    """Signs by ``ssh-keygen -Y sign``: for keys in ssh-agent (give the ``.pub`` file) and in hardware.

    ``interactive`` lets ssh-keygen ask for a passphrase or a touch on the terminal.
    """
    program = shutil.which("ssh-keygen")
    if program is None:
        raise ApprovalError(
            "signing_failed", problem="ssh-keygen is not installed; install OpenSSH, or sign with a key file"
        )
    command = [program, "-Y", "sign", "-f", os.fspath(key_path), "-n", _checked_namespace(namespace)]
    try:
        done = subprocess.run(  # noqa: S603  # No shell; every argument stands behind its option.
            command,
            input=message,
            stdout=subprocess.PIPE,
            stderr=None if interactive else subprocess.PIPE,
            timeout=limit_seconds,
            check=False,
            # Without a terminal it fails at once where it would wait for one.
            start_new_session=not interactive,
        )
    except subprocess.TimeoutExpired:
        raise ApprovalError(
            "signing_failed", problem=f"ssh-keygen did not answer within {limit_seconds} seconds"
        ) from None
    except (OSError, ValueError) as error:
        raise ApprovalError("signing_failed", problem=f"ssh-keygen cannot be run: {error}") from None
    if done.returncode != 0:
        message_text = (done.stderr or b"").decode("utf-8", "replace").strip()
        raise ApprovalError(
            "signing_failed", problem=f"ssh-keygen failed ({done.returncode}): {message_text[-400:]}"
        )
    armored = done.stdout.decode("ascii", "replace")
    verify(armored, message, namespace)
    return SshSignature.read(armored).armored


def _to_be_signed(message: bytes, namespace: str, hash_algorithm: str) -> bytes:
    digest = _HASHES[hash_algorithm](message).digest()
    return _MAGIC + b"".join(map(_string, (namespace.encode(), b"", hash_algorithm.encode(), digest)))


def is_namespace(name: object) -> bool:
    """Whether a value can be a namespace: one name without patterns or lists."""
    return isinstance(name, str) and _NAMESPACE.fullmatch(name) is not None


def _checked_namespace(namespace: str) -> str:
    if not is_namespace(namespace):
        raise ApprovalError("bad_signature", problem=f"{namespace!r:.80} is not a valid namespace")
    return namespace


def _string(field: bytes) -> bytes:
    return len(field).to_bytes(4) + field


def _split(data: bytes, count: int) -> tuple[list[bytes], bytes]:
    """Splits off ``count`` length-prefixed fields; raises ``ValueError`` if the data ends too soon."""
    fields = []
    for _ in range(count):
        end = 4 + int.from_bytes(data[:4])
        if len(data) < end:
            raise ValueError("cut short")
        fields.append(data[4:end])
        data = data[end:]
    return fields, data
