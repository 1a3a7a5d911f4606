"""OpenSSH's own tools, really run, and test keys that are the same in every run."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from standfast.govern.approvals.sshsig import PublicKey


def private_key(name: str) -> Ed25519PrivateKey:
    """A key that its name determines."""
    return Ed25519PrivateKey.from_private_bytes(sha256(f"standfast test key of {name}".encode()).digest())


def public_key(name: str) -> PublicKey:
    """The public half of that key."""
    return PublicKey.of(private_key(name))


def key_file(folder: Path, key: Ed25519PrivateKey) -> Path:
    """That key as a private key file that ssh-keygen takes, its public half beside it."""
    path = folder / "key"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    path.chmod(0o600)
    path.with_suffix(".pub").write_text(PublicKey.of(key).text + "\n", encoding="ascii")
    return path


def tool(name: str) -> str:
    """The path of one of OpenSSH's programs; a machine without it can't prove what these tests prove."""
    path = shutil.which(name)
    if path is None:
        pytest.fail(
            f"{name} is not installed; these tests need OpenSSH (Debian and Ubuntu: openssh-client)",
            pytrace=False,
        )
    return path


def run(
    *command: str | os.PathLike[str], message: bytes = b"", **environment: str
) -> "subprocess.CompletedProcess[bytes]":
    """One of OpenSSH's programs, with the message on its standard input."""
    name, *arguments = command
    return subprocess.run(
        [tool(str(name)), *arguments],
        input=message,
        capture_output=True,
        timeout=60,
        check=False,
        start_new_session=True,
        env={**os.environ, **environment},
    )


def keygen_accepts(
    folder: Path,
    armored: str,
    message: bytes,
    *,
    principal: str,
    allowed: str,
    revoked: str | None = None,
    at: str = "20260601Z",
    namespace: str = "standfast-seal",
) -> bool:
    """Whether ``ssh-keygen -Y verify`` takes the signature, at that time, by these lists."""
    (folder / "message.sig").write_text(armored, encoding="utf-8")
    (folder / "allowed_signers").write_text(allowed, encoding="utf-8")
    options: list[str | os.PathLike[str]] = ["-O", f"verify-time={at}"]
    if revoked is not None:
        (folder / "revoked").write_text(revoked, encoding="utf-8")
        options += ["-r", folder / "revoked"]
    verify = ("ssh-keygen", "-Y", "verify", "-f", folder / "allowed_signers", "-I", principal)
    return (
        run(
            *verify, "-n", namespace, "-s", folder / "message.sig", *options, message=message, TZ="UTC"
        ).returncode
        == 0
    )


def keygen_finds_well_formed(
    folder: Path, armored: str, message: bytes, namespace: str = "standfast-seal"
) -> bool:
    """Whether ``ssh-keygen -Y check-novalidate`` takes it, whoever signed."""
    (folder / "message.sig").write_text(armored, encoding="utf-8")
    check = ("ssh-keygen", "-Y", "check-novalidate", "-n", namespace, "-s", folder / "message.sig")
    return run(*check, message=message).returncode == 0


@contextmanager
def agent() -> Iterator[str]:
    """A real ssh-agent; gives the path of its socket, which must be short."""
    with tempfile.TemporaryDirectory(prefix="hf") as folder:
        socket = Path(folder) / "agent"
        process = subprocess.Popen(
            [tool("ssh-agent"), "-D", "-a", socket], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()  # It tells its socket when it listens there.
            yield str(socket)
        finally:
            process.terminate()
            process.communicate(timeout=30)
