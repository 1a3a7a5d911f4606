"""SSH signatures: OpenSSH takes ours, we take OpenSSH's, and nobody takes a changed one."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from standfast.errors import ApprovalError, UnusableKey
from standfast.govern.approvals import sshsig
from standfast.govern.approvals.sshsig import (
    PublicKey,
    SshSignature,
    load_private_key,
    sign,
    sign_with_ssh_keygen,
    verify,
)
from tests.govern import openssh
from tests.govern.mutation import armor, blob_of
from tests.raising import raises_code

NAMESPACE = "standfast-seal"
MESSAGE = b'{"decision":"approve"}'
KEY = openssh.private_key("alice")
ARMORED = sign(KEY, MESSAGE, NAMESPACE)
ALLOWED = f'alice namespaces="{NAMESPACE}" {openssh.public_key("alice").text}\n'
VECTORS = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "vectors" / "sshsig.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


# Golden vectors.


@pytest.mark.parametrize("vector", [v for v in VECTORS if "error" not in v], ids=lambda v: v["name"])
def test_a_golden_signature_is_taken_and_is_made_again_to_the_byte(
    vector: dict[str, Any], tmp_path: Path
) -> None:
    message = vector["message"].encode()
    public_key = verify(vector["armored"], message, vector["namespace"])

    assert (public_key.text, public_key.fingerprint) == (vector["public_key"], vector["fingerprint"])
    assert SshSignature.read(vector["armored"]).armored == vector["armored"]
    assert openssh.keygen_finds_well_formed(tmp_path, vector["armored"], message, vector["namespace"])
    if "seed_hex" in vector:
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(vector["seed_hex"]))
        options = {"hash_algorithm": vector["hash_algorithm"]}
        assert sign(key, message, vector["namespace"], **options) == vector["armored"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if "error" in v], ids=lambda v: v["name"])
def test_a_golden_refusal_is_refused_for_its_reason(vector: dict[str, Any]) -> None:
    with pytest.raises(ApprovalError) as refusal:
        verify(vector["armored"], vector["message"].encode(), vector["namespace"])

    assert refusal.value.code == vector["error"]


# OpenSSH and we understand each other.


@pytest.mark.parametrize("hash_algorithm", ["sha256", "sha512"])
@pytest.mark.parametrize("message", [b"", MESSAGE, bytes(range(256)) * 300], ids=["empty", "short", "long"])
def test_ssh_keygen_accepts_what_we_sign(hash_algorithm: str, message: bytes, tmp_path: Path) -> None:
    armored = sign(KEY, message, NAMESPACE, hash_algorithm=hash_algorithm)

    assert openssh.keygen_finds_well_formed(tmp_path, armored, message)
    assert openssh.keygen_accepts(tmp_path, armored, message, principal="alice", allowed=ALLOWED)
    assert not openssh.keygen_accepts(tmp_path, armored, message + b"x", principal="alice", allowed=ALLOWED)


@pytest.mark.parametrize("options", [[], ["-O", "hashalg=sha256"], ["-O", "hashalg=sha512"]], ids=str)
def test_we_accept_what_ssh_keygen_signs(options: list[str], tmp_path: Path) -> None:
    path = openssh.key_file(tmp_path, KEY)
    signed = openssh.run("ssh-keygen", "-Y", "sign", "-f", path, "-n", NAMESPACE, *options, message=MESSAGE)
    armored = signed.stdout.decode()

    assert verify(armored, MESSAGE, NAMESPACE) == openssh.public_key("alice")
    assert SshSignature.read(armored).armored == armored


def test_ed25519_leaves_no_choice_so_both_make_the_same_bytes(tmp_path: Path) -> None:
    assert sign_with_ssh_keygen(openssh.key_file(tmp_path, KEY), MESSAGE, NAMESPACE) == ARMORED


def test_a_key_that_only_ssh_agent_has_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = openssh.key_file(tmp_path, KEY)
    with openssh.agent() as socket:
        monkeypatch.setenv("SSH_AUTH_SOCK", socket)
        assert openssh.run("ssh-add", path).returncode == 0
        path.unlink()
        armored = sign_with_ssh_keygen(path.with_suffix(".pub"), MESSAGE, NAMESPACE)

    assert verify(armored, MESSAGE, NAMESPACE) == openssh.public_key("alice")


def test_the_key_is_read_and_shown_as_ssh_keygen_does(tmp_path: Path) -> None:
    path = openssh.key_file(tmp_path, KEY)
    shown = openssh.run("ssh-keygen", "-l", "-f", path).stdout.decode().split()[1]
    line = openssh.run("ssh-keygen", "-y", "-f", path).stdout.decode()

    assert PublicKey.read(line + " a comment").fingerprint == shown
    assert PublicKey.read(line).text == line.strip()


@pytest.mark.parametrize("columns", [1, 64, 70, 76])
def test_tools_that_wrap_at_other_columns_are_understood(columns: int) -> None:
    wrapped = armor(blob_of(ARMORED), columns)

    assert verify(wrapped, MESSAGE, NAMESPACE) == openssh.public_key("alice")
    assert SshSignature.read(wrapped).armored == SshSignature.read(wrapped.rstrip()).armored == ARMORED


# Keys.


def test_a_private_key_file_opens(tmp_path: Path) -> None:
    def never() -> str:
        pytest.fail("a key that is not encrypted has no passphrase to ask for")

    opened = load_private_key(openssh.key_file(tmp_path, KEY).read_bytes(), never)

    assert PublicKey.of(opened) == openssh.public_key("alice")


def test_an_encrypted_key_opens_with_its_passphrase_and_no_other(tmp_path: Path) -> None:
    path = _encrypted(tmp_path)

    with raises_code("signing_failed", match="give its passphrase"):
        load_private_key(path.read_bytes())
    opened = load_private_key(path.read_bytes(), lambda: "open sesame")
    assert PublicKey.of(opened) == openssh.public_key("alice")
    for wrong in ("", "close sesame", "\ud800"):
        with raises_code("signing_failed", match="passphrase is wrong"):
            load_private_key(path.read_bytes(), wrong.__str__)


def _encrypted(folder: Path) -> Path:
    path = openssh.key_file(folder, KEY)
    assert openssh.run("ssh-keygen", "-q", "-p", "-P", "", "-N", "open sesame", "-f", path).returncode == 0
    return path


@pytest.mark.parametrize("kind", ["ecdsa", "rsa -b 1024"])
def test_keys_of_other_kinds_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert openssh.run("ssh-keygen", "-q", "-t", *kind.split(), "-N", "", "-f", path).returncode == 0

    with pytest.raises(UnusableKey):
        load_private_key(path.read_bytes())
    with pytest.raises(UnusableKey):
        PublicKey.read(path.with_suffix(".pub").read_text(encoding="ascii"))
    with pytest.raises(UnusableKey):
        sign_with_ssh_keygen(path, MESSAGE, NAMESPACE)


@pytest.mark.parametrize(
    "text",
    ["", "ssh-ed25519", "ssh-ed25519 !", "sk-ssh-ed25519@openssh.com KEY", "ssh-ed25519 KEY=", "x" * 9_999],
)
def test_a_public_key_that_is_miswritten_is_refused(text: str) -> None:
    with pytest.raises(UnusableKey):
        PublicKey.read(text.replace("KEY", openssh.public_key("alice").text.split()[1]))


def test_the_weak_keys_are_all_the_points_of_small_order() -> None:
    """Counted with curve arithmetic of the test's own: y belongs to a point that is nothing when taken eight
    times.
    """
    prime = 2**255 - 19
    d = -121665 * pow(121666, -1, prime) % prime

    def root(square: int) -> int | None:
        candidate = pow(square, (prime + 3) // 8, prime)
        for times in (1, pow(2, (prime - 1) // 4, prime)):
            if pow(candidate * times, 2, prime) == square % prime:
                return candidate * times % prime
        return None

    def doubled(x: int, y: int) -> tuple[int, int]:
        k = d * x * x * y * y
        return (
            2 * x * y * pow(1 + k, -1, prime) % prime,
            (y * y + x * x) * pow(1 - k, -1, prime) % prime,
        )

    weak = {int.from_bytes(point, "little") for point in sshsig._SMALL_ORDER}
    for y in weak:
        x = root((y * y - 1) * pow(d * y * y + 1, -1, prime))
        assert x is not None
        assert doubled(*doubled(*doubled(x, y % prime))) == (0, 1)

    assert len({y % prime for y in weak}) == 5, "eight points, of which six share their y in pairs"
    assert weak == {y + over for y in {y % prime for y in weak} for over in (0, prime) if y + over < 2**255}


def test_a_weak_key_signs_anything_so_it_is_no_key() -> None:
    point = b"\x01" + bytes(31)
    Ed25519PublicKey.from_public_bytes(point).verify(point + bytes(32), b"whatever one likes")

    for sign_bit in (0x00, 0x80):
        weak = point[:31] + bytes([point[31] | sign_bit])
        with pytest.raises(UnusableKey, match="weak"):
            PublicKey(blob=sshsig._string(b"ssh-ed25519") + sshsig._string(weak))


# Signing can fail, with a way out.


def test_signing_is_refused_for_what_is_no_namespace_or_hash() -> None:
    for namespace in ("", "*", "a,b", "a b", "x" * 200):
        with raises_code("bad_signature"):
            sign(KEY, MESSAGE, namespace)
    with raises_code("signing_failed"):
        sign(KEY, MESSAGE, NAMESPACE, hash_algorithm="sha1")


def test_a_machine_without_ssh_keygen_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with raises_code("signing_failed", match="install OpenSSH"):
        sign_with_ssh_keygen(tmp_path / "key", MESSAGE, NAMESPACE)


@pytest.mark.parametrize("name", ["missing", "nul\0", "-"])
def test_a_key_that_is_not_there_is_a_typed_error(name: str, tmp_path: Path) -> None:
    with raises_code("signing_failed"):
        sign_with_ssh_keygen(tmp_path / name, MESSAGE, NAMESPACE)


def test_a_locked_key_fails_at_once_where_nobody_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "never")

    with raises_code("signing_failed", match="passphrase"):
        sign_with_ssh_keygen(_encrypted(tmp_path), MESSAGE, NAMESPACE)


def test_ssh_keygen_may_ask_for_the_passphrase_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _encrypted(tmp_path)
    _program(tmp_path / "ask", "echo open sesame")
    monkeypatch.setenv("SSH_ASKPASS", str(tmp_path / "ask"))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")

    assert sign_with_ssh_keygen(path, MESSAGE, NAMESPACE, interactive=True) == ARMORED


@pytest.mark.parametrize(
    ("does", "code"),
    [("exec sleep 60", "signing_failed"), ("exit 3", "signing_failed"), ("echo nonsense", "bad_signature")],
)
def test_an_ssh_keygen_that_misbehaves_is_bounded(
    does: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(tmp_path / "ssh-keygen", f"PATH={Path(shutil.which('sleep') or '').parent}\n{does}")
    monkeypatch.setenv("PATH", str(tmp_path))

    with raises_code(code):
        sign_with_ssh_keygen(tmp_path / "key", MESSAGE, NAMESPACE, limit_seconds=0.3)


def test_a_signature_for_something_else_is_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.sig"
    other.write_text(sign(KEY, b"something else", NAMESPACE), encoding="ascii")
    _program(tmp_path / "ssh-keygen", f"while read line; do echo $line; done < {other}")
    monkeypatch.setenv("PATH", str(tmp_path))

    with raises_code("bad_signature"):
        sign_with_ssh_keygen(tmp_path / "key", MESSAGE, NAMESPACE)


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
    path.chmod(0o700)


def test_loading_these_modules_does_not_load_cryptography() -> None:
    loaded = "import sys, standfast.govern.approvals.approvals; print('cryptography' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "False"
