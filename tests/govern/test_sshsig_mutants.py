"""No changed signature is taken, and hostile input gets a typed error."""

import base64
import random
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import ApprovalError, UnusableKey
from standfast.govern.approvals import sshsig
from standfast.govern.approvals.sshsig import PublicKey, SshSignature, load_private_key, sign, verify
from standfast.limits import MAX_ARMOR_CHARS, MAX_KEY_FILE_BYTES
from tests.figures import Figures
from tests.govern import openssh
from tests.govern.mutation import armor, blob_of, mutated
from tests.raising import raises_code

NAMESPACE = "standfast-seal"
MESSAGE = b'{"decision":"approve"}'
KEY = openssh.private_key("alice")
ARMORED = sign(KEY, MESSAGE, NAMESPACE)
SEEDS_FAST, SEEDS_SLOW = 8, 100
MUTANTS_A_SEED = 1_000


def _accepted(armored: str, message: bytes = MESSAGE) -> bool:
    try:
        verify(armored, message, NAMESPACE)
    except ApprovalError:
        return False
    return True


def test_every_single_bit_of_a_signature_counts(figures: Figures) -> None:
    blob = blob_of(ARMORED)
    flipped = [
        blob[:place] + bytes([blob[place] ^ 1 << bit]) + blob[place + 1 :]
        for place in range(len(blob))
        for bit in range(8)
    ]

    assert [mutant for mutant in flipped if _accepted(armor(mutant))] == []
    figures("ssh signatures", bits_flipped=len(flipped), accepted=0)


def test_every_single_bit_of_the_message_counts() -> None:
    for bit in range(len(MESSAGE) * 8):
        changed = (int.from_bytes(MESSAGE) ^ 1 << bit).to_bytes(len(MESSAGE))
        assert not _accepted(ARMORED, changed)


@pytest.mark.parametrize("seed", range(SEEDS_FAST))
def test_no_mutated_signature_is_accepted(seed: int, figures: Figures) -> None:
    _refuse_mutants(seed, figures)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS_FAST, SEEDS_FAST + SEEDS_SLOW))
def test_none_of_many_mutated_signatures_is_accepted(seed: int, figures: Figures) -> None:
    _refuse_mutants(seed, figures)


def _refuse_mutants(seed: int, figures: Figures) -> None:
    dice = random.Random(seed)
    blob, tried = blob_of(ARMORED), 0
    while tried < MUTANTS_A_SEED:
        if dice.random() < 0.8:
            mutant = armor(mutated(dice, blob))
        else:
            mutant = mutated(dice, ARMORED.encode()).decode("latin-1")
        tried += mutant != ARMORED
        # The same signature, wrapped in another way, is no mutant.
        assert not _accepted(mutant) or SshSignature.read(mutant).armored == ARMORED, (seed, mutant)
    figures("ssh signatures", mutants=tried)


@given(st.one_of(st.text(), st.binary().map(armor), st.none(), st.integers(), st.binary()))
def test_nothing_but_a_signature_is_taken(armored: Any) -> None:
    assert not _accepted(armored)


@given(st.binary(max_size=200), st.binary(max_size=20))
def test_a_hostile_blob_behind_the_magic_bytes_is_refused(fields: bytes, more: bytes) -> None:
    blob = b"SSHSIG\0\0\0\1" + sshsig._string(fields) + more

    assert not _accepted(armor(blob))


@given(
    st.one_of(
        st.text(), st.binary(max_size=80).map(lambda blob: f"ssh-ed25519 {base64.b64encode(blob).decode()}")
    )
)
def test_a_hostile_public_key_is_refused(text: str) -> None:
    with pytest.raises(UnusableKey):
        PublicKey.read(text)


@given(st.data())
def test_a_hostile_private_key_is_refused(data: st.DataObject) -> None:
    body = data.draw(st.binary(max_size=300).map(lambda tail: b"openssh-key-v1\0" + tail))
    pem = b"-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n-----END OPENSSH PRIVATE KEY-----\n"
    with pytest.raises(ApprovalError):
        load_private_key(data.draw(st.sampled_from([body, pem % base64.b64encode(body)])), lambda: "x")


def test_a_damaged_private_key_is_refused(tmp_path: Path) -> None:
    lines = openssh.key_file(tmp_path, KEY).read_bytes().splitlines()
    body = base64.b64decode(b"".join(lines[1:-1]))
    dice = random.Random(1)
    for _ in range(500):
        damaged = b"\n".join([lines[0], base64.b64encode(mutated(dice, body)), lines[-1]])
        try:
            opened = load_private_key(damaged, lambda: "x")
        except ApprovalError:
            continue
        assert isinstance(opened, Ed25519PrivateKey), "a change of its comment leaves a key"


def test_what_is_too_long_is_refused_before_it_is_read() -> None:
    assert not _accepted(armor(blob_of(ARMORED) + bytes(MAX_ARMOR_CHARS)))
    with raises_code("signing_failed"):
        load_private_key(bytes(MAX_KEY_FILE_BYTES + 1))


def test_a_key_file_may_be_as_long_as_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key_file = openssh.key_file(tmp_path, KEY).read_bytes()
    monkeypatch.setattr("standfast.govern.approvals.sshsig.MAX_KEY_FILE_BYTES", len(key_file))

    assert load_private_key(key_file) is not None


def test_the_namespace_that_is_asked_for_must_be_the_one_that_was_signed() -> None:
    with raises_code("wrong_namespace") as refusal:
        verify(ARMORED, MESSAGE, "file")

    assert refusal.value.facts == {"found": NAMESPACE, "needed": "file"}
