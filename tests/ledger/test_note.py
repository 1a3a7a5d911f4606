"""Notes are C2SP's, byte for byte as Go writes them; what is not a note, or not signed, is never read as
one.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import InvalidValue
from standfast.ledger.note import (
    SigningKey,
    VerifyingKey,
    open_note,
    sign,
    unverified_text,
    verify,
)
from standfast.limits import MAX_NOTE_BYTES
from tests.ledger.builders import (
    ENOCH_LINE,
    ENOCH_PUBLIC,
    LOG_KEY,
    OTHER_KEY,
    PETER_LINE,
    PETER_PRIVATE,
    PETER_PUBLIC,
    TEXT,
)
from tests.raising import raises_code

PETER = VerifyingKey.parse(PETER_PUBLIC)
ENOCH = VerifyingKey.parse(ENOCH_PUBLIC)
NOTE = TEXT + "\n" + PETER_LINE


def test_go_s_note_is_verified() -> None:
    assert verify(NOTE, [PETER]) == TEXT


def test_go_s_key_makes_go_s_note() -> None:
    assert sign(TEXT, [SigningKey.parse(PETER_PRIVATE)]) == NOTE


def test_the_note_of_the_specification_is_well_formed_though_its_text_has_an_empty_line() -> None:
    text = "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned è subito sera.\n"
    line = (
        "— quasimodo.example/salvatore"
        " NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n"
    )

    assert unverified_text(text + "\n" + line) == text


def test_keys_survive_their_text_form() -> None:
    peter = SigningKey.parse(PETER_PRIVATE)

    assert (peter.secret_text, peter.verifying_key.text) == (PETER_PRIVATE, PETER_PUBLIC)
    assert (PETER.text, PETER.key_id) == (PETER_PUBLIC, "c74f20a3")
    assert VerifyingKey.from_json(PETER.as_json()) == PETER


def test_a_generated_key_signs_and_no_two_are_the_same() -> None:
    one, other = SigningKey.generate("example.com/new"), SigningKey.generate("example.com/new")

    assert verify(sign(TEXT, [one]), [one.verifying_key]) == TEXT
    assert one.seed != other.seed
    assert SigningKey.parse(one.secret_text) == one


def test_a_private_key_does_not_print_its_secret() -> None:
    key = SigningKey.generate("example.com/new")
    secret = key.secret_text.split("+", 4)[4]  # Base64 may hold a plus sign of its own.
    with pytest.raises(InvalidValue) as refusal:
        SigningKey.parse(key.secret_text.replace("+example.com", "+example.org"))

    assert secret not in repr(key)
    assert repr(key.seed) not in repr(key)
    assert secret not in repr(refusal.value)


@pytest.mark.parametrize("kind", [VerifyingKey, SigningKey])
def test_a_mangled_key_is_refused(kind: type[VerifyingKey | SigningKey]) -> None:
    """Every part of it, and every change of one character, as Go's own test does; and what Go calls unknown
    keys.
    """
    whole = PETER_PUBLIC if kind is VerifyingKey else PETER_PRIVATE
    length = len(whole)
    parts = [whole[start:end] for start in range(length) for end in range(start + 1, length + 1)]
    changed = [whole[:at] + chr(ord(whole[at]) + 1) + whole[at + 1 :] for at in range(length)]
    other = [
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        whole + "\n",
        whole.upper(),
        "",
    ]
    for mangled in [*(part for part in parts if part != whole), *changed, *other, None, 3, b"x"]:
        with pytest.raises(InvalidValue):
            kind.parse(mangled)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u3000b", "\ud800", "x" * 257, None, 3])
def test_a_name_that_no_signature_line_can_hold_is_no_key_s(name: Any) -> None:
    with pytest.raises(InvalidValue):
        SigningKey(name=name, seed=bytes(32))
    with pytest.raises(InvalidValue):
        VerifyingKey(name=name, public_bytes=bytes(32))


def test_a_key_of_another_length_is_refused() -> None:
    for short in (b"", bytes(31), bytes(33), "x" * 32):
        with pytest.raises(InvalidValue):
            SigningKey(name="a", seed=short)  # type: ignore[arg-type]
        with pytest.raises(InvalidValue):
            VerifyingKey(name="a", public_bytes=short)  # type: ignore[arg-type]


def test_signatures_of_unknown_keys_are_passed_over() -> None:
    both = TEXT + "\n" + PETER_LINE + ENOCH_LINE

    assert open_note(both, [PETER]).signers == (PETER,)
    assert open_note(both, [ENOCH, PETER]).signers == (PETER, ENOCH)
    assert open_note(TEXT + "\n" + ENOCH_LINE + PETER_LINE * 2, [PETER]) == (TEXT, (PETER,))


def test_a_note_without_a_known_signature_is_unsigned() -> None:
    namesake = SigningKey(name="PeterNeumann", seed=bytes(32)).verifying_key
    for keys in ([], [ENOCH], [namesake]):
        with raises_code("unsigned_note", match=r"PeterNeumann\+c74f20a3"):
            verify(NOTE, keys)


def test_one_wrong_signature_of_a_known_key_spoils_the_note() -> None:
    good = sign(TEXT, [LOG_KEY, OTHER_KEY])
    bad = sign(TEXT.replace("your", "my"), [LOG_KEY]).splitlines(keepends=True)[-1]
    known = [LOG_KEY.verifying_key, OTHER_KEY.verifying_key]

    assert verify(good, known) == TEXT
    for spoilt in (good + bad, TEXT + "\n" + bad + good.partition("\n\n")[2]):
        with raises_code("forged_note", match=LOG_KEY.verifying_key.key_id):
            verify(spoilt, known)


def test_a_signature_of_another_length_is_forged() -> None:
    with raises_code("forged_note"):
        verify(TEXT + "\n" + PETER_LINE[:60] + "ABCD" + PETER_LINE[60:], [PETER])


def test_two_different_keys_of_one_name_and_id_can_t_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VerifyingKey, "key_id", "c74f20a3")
    namesake = VerifyingKey(name="PeterNeumann", public_bytes=bytes(32))
    with pytest.raises(InvalidValue, match="two of them"):
        verify(NOTE, [PETER, namesake])


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "\n",
        TEXT,
        TEXT + "\n",
        NOTE[:-1],
        NOTE + "\n",
        NOTE + "Unexpected line.\n",
        "\x01" + NOTE,
        "\x00" + NOTE,
        "\t" + NOTE,
        NOTE.replace("\n", "\r\n"),
        "\ud800" + NOTE,
        NOTE.replace("\n\n", "\n"),
        NOTE.replace("—", "-"),
        NOTE.replace("— P", "—P"),
        NOTE.replace("— P", "—  P"),
        NOTE.replace("Neumann ", "Neumann  "),
        NOTE.replace("PeterNeumann x", "Peter Neumann x"),
        NOTE.replace("PeterNeumann x", "Peter+Neumann x"),
        NOTE.replace("PeterNeumann x", "Peter\u2003Neumann x"),
        NOTE.replace("PeterNeumann x", " x"),
        NOTE.replace("nAM=", "nAM"),
        NOTE.replace("nAM=", "nAN="),
        NOTE.replace("nAM=", "nAM=="),
        NOTE.replace("nAM=", "nAM= "),
        NOTE.replace("x08go/", "x08go_"),
        TEXT + "\n" + PETER_LINE * 101,
        TEXT + "\n— PeterNeumann x08gow==\n",
        TEXT + "\n— PeterNeumann \n",
        "x" * MAX_NOTE_BYTES + "\n\n" + PETER_LINE,
        "ü" * (MAX_NOTE_BYTES // 2) + "\n\n" + PETER_LINE,
        None,
        3,
        NOTE.encode(),
    ],
)
def test_what_is_no_note_is_refused_whatever_keys_are_known(malformed: Any) -> None:
    for keys in ([PETER], []):
        with raises_code("malformed_note"):
            verify(malformed, keys)


def test_a_hundred_signatures_are_not_too_many() -> None:
    assert verify(TEXT + "\n" + PETER_LINE * 100, [PETER]) == TEXT


@pytest.mark.parametrize(
    "text", ["", "abc", "a\n\nb", "a\tb\n", "\ud800\n", "a\r\n", None, 3, b"a\n", "x" * 10**6 + "\n"]
)
def test_a_text_that_no_note_can_hold_is_not_signed(text: Any) -> None:
    with raises_code("malformed_note"):
        sign(text, [LOG_KEY])


def test_a_text_that_ends_like_a_note_is_not_signed_as_another_text() -> None:
    with raises_code("malformed_note"):
        sign(NOTE[:-1], [LOG_KEY])

    assert verify(sign(NOTE, [LOG_KEY]), [LOG_KEY.verifying_key]) == NOTE


def test_nobody_signs_nothing() -> None:
    with raises_code("malformed_note"):
        sign(TEXT, [])


@given(st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs"]) | st.just("\n"), max_size=80))
def test_every_text_without_control_characters_comes_back(text: str) -> None:
    note = sign(text + "\n", [LOG_KEY, OTHER_KEY, LOG_KEY])

    assert verify(note, [OTHER_KEY.verifying_key]) == text + "\n"
    assert open_note(note, [LOG_KEY.verifying_key]).signers == (LOG_KEY.verifying_key,)
