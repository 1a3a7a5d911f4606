"""The lists of signers: what they say, what is refused, and that ssh-keygen reads them as we do."""

import base64
import hashlib
import json
import random
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import ApprovalError, InvalidValue, StandfastError
from standfast.govern.approvals import signers as signers_module
from standfast.govern.approvals.signers import Signer, Signers
from standfast.govern.approvals.sshsig import sign
from standfast.limits import MAX_LIST_CHARS
from tests.govern import openssh
from tests.raising import raises_code

ALICE = openssh.public_key("alice")
BOB = openssh.public_key("bob")
CAROL = openssh.public_key("carol")
MID_2026 = datetime(2026, 7, 1, tzinfo=UTC)
SEAL = 'namespaces="standfast-seal"'
LISTED = f"""\
# Who may seal.
alice@example.com {SEAL},valid-after="20260101Z",valid-before="202701011200Z" {ALICE.text} Alice's laptop

bob@example.com namespaces="git,file" {BOB.text}
\tcarol@example.com\tvalid-before="20260615123000Z",namespaces="git,standfast-seal"  {CAROL.text} Ünïcode: 記憶
"""  # noqa: E501  # A text as a whole.


def test_the_holder_of_a_listed_key_is_named() -> None:
    listed = Signers.parse(LISTED)

    assert listed.who_signed(ALICE, MID_2026) == "alice@example.com"
    assert listed.who_signed(BOB, MID_2026, "git") == "bob@example.com"


def test_each_refusal_has_its_own_error() -> None:
    listed = Signers.parse(LISTED, f"# Lost in a train.\n{CAROL.text} carol\n")

    with raises_code("unknown_signer") as unknown:
        listed.who_signed(openssh.public_key("mallory"), MID_2026)
    with raises_code("signer_not_yet_valid") as early:
        listed.who_signed(ALICE, datetime(2025, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
    with raises_code("signer_expired") as late:
        listed.who_signed(ALICE, datetime(2027, 1, 1, 12, 0, 1, tzinfo=UTC))
    with raises_code("signer_revoked"):
        listed.who_signed(CAROL, datetime(2026, 1, 1, tzinfo=UTC))
    with raises_code("wrong_namespace") as elsewhere:
        listed.who_signed(BOB, MID_2026)

    assert unknown.value.facts["key_fingerprint"] == openssh.public_key("mallory").fingerprint
    assert early.value.facts["valid_after"] == "2026-01-01T00:00:00.000000Z"
    assert late.value.facts["valid_before"] == "2027-01-01T12:00:00.000000Z"
    assert elsewhere.value.facts == {"found": "file, git", "needed": "standfast-seal"}


def test_a_revoked_key_is_revoked_even_where_it_is_not_listed() -> None:
    with raises_code("signer_revoked"):
        Signers.parse("", ALICE.text).who_signed(ALICE, MID_2026)


def test_both_ends_of_the_time_belong_to_it_in_any_time_zone() -> None:
    listed = Signers.parse(LISTED)
    tokyo = timezone(timedelta(hours=9))

    assert listed.who_signed(ALICE, datetime(2026, 1, 1, 9, tzinfo=tokyo)) == "alice@example.com"
    assert listed.who_signed(ALICE, datetime(2027, 1, 1, 12, 0, 0, 999_999, tzinfo=UTC))
    with raises_code("signer_not_yet_valid"):
        listed.who_signed(ALICE, datetime(2026, 1, 1, 8, 59, 59, tzinfo=tokyo))
    with raises_code("canon_datetime"):
        listed.who_signed(ALICE, datetime(2026, 7, 1))  # noqa: DTZ001


# The list's hash.


def test_the_hash_is_of_what_the_list_means() -> None:
    reordered = "\n".join(reversed(LISTED.splitlines()))
    respelled = LISTED.replace('"20260101Z"', '"202601010000Z"').replace('"git,file"', '"file,git"')
    commented = LISTED.replace("Alice's laptop", "")

    known = Signers.parse(LISTED).fingerprint
    assert {Signers.parse(text).fingerprint for text in (reordered, respelled, commented)} == {known}


def test_the_hash_can_be_made_without_us() -> None:
    """SHA-256 over a JSON array of a tag, the lines in the order of their keys, and the revoked keys."""
    lines = [
        f'alice {SEAL},valid-after="20260101000000Z" {ALICE.text}',
        f'bob namespaces="file,git" {BOB.text}',
    ]
    lines.sort(key=lambda line: base64.b64decode(line.split()[-1]))
    text = json.dumps(["signers/v1", lines, [CAROL.text]], separators=(",", ":"))

    listed = Signers.parse("\n".join(lines), CAROL.text)
    assert listed.fingerprint == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("alice@", "alicia@"),
        ("20260101Z", "20260102Z"),
        (',valid-before="202701011200Z"', ""),
        ("git,file", "git"),
        (CAROL.text, openssh.public_key("dave").text),
    ],
)
def test_every_change_of_the_meaning_changes_the_hash(said: str, instead: str) -> None:
    changed = LISTED.replace(said, instead, 1)

    assert Signers.parse(changed).fingerprint != Signers.parse(LISTED).fingerprint


def test_a_revocation_changes_the_hash() -> None:
    assert Signers.parse(LISTED, BOB.text).fingerprint != Signers.parse(LISTED).fingerprint


def test_a_list_that_is_written_again_is_the_same_list() -> None:
    listed = Signers.parse(LISTED, BOB.text)

    assert Signers.parse(listed.allowed_text, listed.revoked_text) == listed
    assert Signers.from_json(listed.as_json()) == listed


# What is refused.

REFUSED = {
    "no options": f"alice {ALICE.text}",
    "no namespaces": f'alice valid-after="20260101Z" {ALICE.text}',
    "empty namespaces": f'alice namespaces="" {ALICE.text}',
    "a pattern of namespaces": f'alice namespaces="standfast-*" {ALICE.text}',
    "a refused namespace": f'alice namespaces="!git,standfast-seal" {ALICE.text}',
    "namespaces without quotes": f"alice namespaces=standfast-seal {ALICE.text}",
    "a quote that does not end": f'alice namespaces="standfast-seal {ALICE.text}',
    "an escaped quote": f'alice namespaces="standfast-seal\\"" {ALICE.text}',
    "namespaces twice": f"alice {SEAL},{SEAL} {ALICE.text}",
    "a certificate authority": f"alice cert-authority,{SEAL} {ALICE.text}",
    "an unknown option": f'alice {SEAL},permit="all" {ALICE.text}',
    "an option in capitals": f'alice NAMESPACES="standfast-seal" {ALICE.text}',
    "a comma too many": f"alice {SEAL}, {ALICE.text}",
    "a space between options": f'alice {SEAL}, valid-after="20260101Z" {ALICE.text}',
    "two principals": f"alice,bob {SEAL} {ALICE.text}",
    "a pattern of principals": f"*@example.com {SEAL} {ALICE.text}",
    "a refused principal": f"!alice {SEAL} {ALICE.text}",
    "a principal in quotes": f'"alice" {SEAL} {ALICE.text}',
    "a principal of other letters": f"аlice {SEAL} {ALICE.text}",
    "no principal": f"{SEAL} {ALICE.text}",
    "no key": f"alice {SEAL}",
    "half a key": f"alice {SEAL} ssh-ed25519",
    "a damaged key": f"alice {SEAL} {ALICE.text[:-4]}",
    "an RSA key": f"alice {SEAL} ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAAAQE=",
    "a key of another name": f"alice {SEAL} ssh-rsa {ALICE.text.split()[1]}",
    "the same key twice": f"alice {SEAL} {ALICE.text}\nbob {SEAL} {ALICE.text}",
    "a local time": f'alice {SEAL},valid-after="20260101" {ALICE.text}',
    "a date that is none": f'alice {SEAL},valid-after="20260230Z" {ALICE.text}',
    "a minute that is none": f'alice {SEAL},valid-after="202601012360Z" {ALICE.text}',
    "a second that is none": f'alice {SEAL},valid-after="20260101235960Z" {ALICE.text}',
    "the beginning of time": f'alice {SEAL},valid-after="19700101Z" {ALICE.text}',
    "the year nought": f'alice {SEAL},valid-after="00000101Z" {ALICE.text}',
    "digits of another script": f'alice {SEAL},valid-after="２０２６0101Z" {ALICE.text}',
    "an end before the beginning": (
        f'alice {SEAL},valid-after="20260102Z",valid-before="20260101Z" {ALICE.text}'
    ),
    "no time at all": f'alice {SEAL},valid-after="20260102Z",valid-before="20260102Z" {ALICE.text}',
    "a NUL": f"alice {SEAL} {ALICE.text} \0",
    "a carriage return": f"alice {SEAL} {ALICE.text}\r\n",
    "a line separator": f"alice {SEAL} {ALICE.text} \u2028 bob",
    "too long": f"# {'x' * MAX_LIST_CHARS}",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_a_list_that_leaves_anything_open_is_refused_whole(text: str) -> None:
    with raises_code("invalid_signers") as refusal:
        Signers.parse(text)

    assert refusal.value.facts["which"] == "allowed signers"


def test_a_list_may_be_as_long_as_the_limit() -> None:
    listed = LISTED + "#" * (MAX_LIST_CHARS - len(LISTED))

    assert Signers.parse(listed) == Signers.parse(LISTED)
    with raises_code("invalid_signers", match="at most"):
        Signers.parse(listed + "#")


def test_the_refused_line_is_named() -> None:
    with raises_code("invalid_signers", match="Line 6 of the allowed signers is invalid") as refusal:
        Signers.parse(f"{LISTED}mallory {SEAL} {ALICE.text}\n")

    assert refusal.value.facts["line"] == 6


@pytest.mark.parametrize("text", ["ssh-ed25519", f"alice {ALICE.text}", "serial: 1", f"{ALICE.text}\n\x07"])
def test_a_list_of_revoked_keys_that_is_no_such_list_is_refused(text: str) -> None:
    """Passing over a line could mean passing over a revocation."""
    with raises_code("invalid_signers") as refusal:
        Signers.parse(LISTED, text)

    assert refusal.value.facts["which"] == "revoked keys"


def test_too_many_keys_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signers_module, "MAX_LIST_KEYS", 2)

    with raises_code("invalid_signers", match="at most 2"):
        Signers.parse(LISTED)


def test_as_many_keys_as_the_limit_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = Signers.parse(LISTED)
    monkeypatch.setattr(signers_module, "MAX_LIST_KEYS", len(listed.allowed))

    assert Signers.parse(LISTED) == listed
    monkeypatch.setattr(signers_module, "MAX_LIST_KEYS", len(listed.allowed) - 1)
    with pytest.raises(InvalidValue):
        Signers(allowed=listed.allowed)


def test_a_list_that_was_not_parsed_must_be_in_order_too() -> None:
    listed = Signers.parse(LISTED)

    with pytest.raises(InvalidValue):
        Signers(allowed=tuple(reversed(listed.allowed)))
    with pytest.raises(InvalidValue):
        Signers(revoked=(ALICE, ALICE))
    with pytest.raises(InvalidValue):
        Signer(principal="alice", public_key=ALICE, namespaces=("git",), valid_after="2026-01-01")


# ssh-keygen reads the lists as we do.

LINES = {
    "plain": f"alice@example.com {SEAL} {ALICE.text}",
    "with a comment": f'alice@example.com  {SEAL}\t{ALICE.text}  a comment, with "quotes"',
    "for another namespace": f'alice@example.com namespaces="git" {ALICE.text}',
    "for two namespaces": f'alice@example.com namespaces="git,standfast-seal" {ALICE.text}',
    "from a day on": f'alice@example.com {SEAL},valid-after="20260601Z" {ALICE.text}',
    "until a minute": f'alice@example.com valid-before="202606010000Z",{SEAL} {ALICE.text}',
    "between two seconds": (
        f'alice@example.com {SEAL},valid-after="20260531235959Z",valid-before="20260601000001Z" {ALICE.text}'
    ),
    "someone else": f"bob@example.com {SEAL} {ALICE.text}",
    "someone else's key": f"alice@example.com {SEAL} {BOB.text}",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_ssh_keygen_decides_as_we_do(line: str, tmp_path: Path) -> None:
    for offset_seconds in (-2, -1, 0, 1, 2):
        at = datetime(2026, 6, 1, tzinfo=UTC) + timedelta(seconds=offset_seconds)
        _compare(tmp_path, Signers.parse(line), line, "", at)


@pytest.mark.parametrize("revoked", [BOB.text, f"# lost\n{ALICE.text} alice\n"], ids=["bob", "alice"])
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_ssh_keygen_revokes_as_we_do(line: str, revoked: str, tmp_path: Path) -> None:
    listed = Signers.parse(line, revoked)
    for allowed, gone in ((line, revoked), (listed.allowed_text, listed.revoked_text)):
        _compare(tmp_path, listed, allowed, gone, datetime(2026, 6, 1, tzinfo=UTC))


def _compare(folder: Path, listed: Signers, allowed: str, revoked: str, at: datetime) -> None:
    try:
        ours = listed.who_signed(ALICE, at) == "alice@example.com"
    except StandfastError:
        ours = False
    theirs = openssh.keygen_accepts(
        folder,
        sign(openssh.private_key("alice"), b"sealed", "standfast-seal"),
        b"sealed",
        principal="alice@example.com",
        allowed=allowed,
        revoked=revoked,
        at=at.strftime("%Y%m%d%H%M%SZ"),
    )
    assert ours == theirs


def test_whatever_we_take_ssh_keygen_takes(tmp_path: Path) -> None:
    """Lines put together at random from their parts: a line that we accept means the same to ssh-keygen."""
    dice = random.Random(7)
    armored = sign(openssh.private_key("alice"), b"sealed", "standfast-seal")
    parts = [
        ("alice@example.com", "Alice_2", "a/b:c", "alice,bob", "*", "alice "),
        (" ", "  ", "\t", ""),
        (
            SEAL,
            f'{SEAL},valid-after="20200101Z"',
            f'valid-before="20300101Z",{SEAL}',
            'namespaces="x"',
            f"{SEAL},",
            "cert-authority",
        ),
        (" ", "\t ", ""),
        (ALICE.text, ALICE.text.replace(" ", "\t "), ALICE.text[:-1], BOB.text),
        ("", " ", " comment", ' "quoted', " # hash"),
    ]
    taken = 0
    for _ in range(400):
        line = "".join(dice.choice(choices) for choices in parts)
        try:
            principal = Signers.parse(line).who_signed(ALICE, MID_2026)
        except StandfastError:
            continue
        taken += 1
        assert openssh.keygen_accepts(
            tmp_path, armored, b"sealed", principal=principal, allowed=line + "\n", at="20260701Z"
        ), line

    assert taken > 30


# Hostile input gets a typed error.

_PIECES = st.sampled_from(
    [
        "alice",
        " ",
        "\t",
        "\n",
        '"',
        ",",
        "=",
        "#",
        "\\",
        "\0",
        "Ω",
        SEAL,
        ALICE.text,
        "valid-after",
        '"20260101Z"',
    ]
)


@given(st.one_of(st.text(), st.lists(_PIECES, max_size=30).map("".join)), st.text())
def test_a_hostile_list_is_read_or_refused(allowed: str, revoked: str) -> None:
    try:
        listed = Signers.parse(allowed, revoked)
    except ApprovalError as error:
        if error.code != "invalid_signers":
            raise
        return
    assert Signers.parse(listed.allowed_text, listed.revoked_text) == listed
