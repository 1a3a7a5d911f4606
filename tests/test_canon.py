"""json-v1: its laws over all values, and what only Python values can meet."""

import decimal
import enum
import json
import random
import unicodedata
import uuid
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import orjson
import pytest
import rfc8785
import unicodedata2
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import NotCanonical, StandfastError, TooLarge
from standfast.limits import MAX_DEPTH_LEVELS
from standfast.records import canon
from standfast.records.canon import CanonicalPart, canonical_bytes, fingerprint, lowered, parse, utc_text
from tests.json_values import hostile_values, values
from tests.raising import raises_code

# How many code points Unicode 14.0 gives a canonical decomposition or a combining class, and their
# fingerprint.
KNOWN_TO_UNICODE_14 = (2969, "092d5ee0d2b2065c69387702f66735cfb4f340739aa91e716dfce7ba55943b38")


def _reference(value: Any) -> Any:
    """json-v1's normal form, told a second time and as plainly as possible, for the rfc8785 package to
    print.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y").zfill(4) + value.astimezone(UTC).strftime(
            "-%m-%dT%H:%M:%S.%fZ"
        )
    if isinstance(value, str):
        return _nfc_of_unicode_14(value)
    if isinstance(value, float):
        return float(
            decimal.Decimal(value).quantize(decimal.Decimal("0.000001"), context=decimal.Context(prec=60))
        )
    if isinstance(value, list | tuple):
        return [_reference(member) for member in value]
    if isinstance(value, dict):
        return {_reference(key): _reference(member) for key, member in value.items()}
    return value


def _nfc_of_unicode_14(text: str) -> str:
    """NFC, with every code point that Unicode 14 did not know standing apart."""
    pieces = [""]
    for char in text:
        if char in canon._LATER:
            pieces += [char, ""]
        else:
            pieces[-1] += char
    return "".join(p if p in canon._LATER else unicodedata.normalize("NFC", p) for p in pieces)


@given(values)
def test_bytes_are_those_of_the_reference(value: Any) -> None:
    try:
        printed = canonical_bytes(value)
    except NotCanonical as refusal:
        # What the strategy can make.
        expected = {"canon_duplicate_key", "canon_datetime"}
        assert refusal.code in expected  # noqa: PT017  # Printing is the other outcome.
    else:
        assert printed == rfc8785.dumps(_reference(value))


@given(values)
def test_reading_and_writing_again_changes_nothing(value: Any) -> None:
    try:
        printed = canonical_bytes(value)
    except NotCanonical:
        return

    assert canonical_bytes(parse(printed)) == printed


@given(values, st.randoms(use_true_random=False))
def test_input_order_never_shows(value: Any, shuffler: random.Random) -> None:
    def shuffled(node: Any) -> Any:
        if isinstance(node, dict):
            keys = list(node)
            shuffler.shuffle(keys)
            return {key: shuffled(node[key]) for key in keys}
        return [shuffled(member) for member in node] if isinstance(node, list) else node

    try:
        expected = fingerprint(value)
    except NotCanonical:
        return

    assert fingerprint(shuffled(value)) == expected


@given(values)
def test_the_short_way_gives_what_the_long_way_gives(value: Any) -> None:
    direct = canon._printed_directly(value, 128)

    assert direct is None or direct == orjson.dumps(canon._normalised(value, 128))


def _with_parts(value: Any, dice: random.Random) -> Any:
    """The same value, some members of which are printed already."""
    if dice.random() < 0.3:
        return CanonicalPart(canonical_bytes(value))
    if isinstance(value, list | tuple):
        return [_with_parts(member, dice) for member in value]
    if isinstance(value, dict):
        return {key: _with_parts(member, dice) for key, member in value.items()}
    return value


@given(values, st.integers(0, 1 << 16))
def test_a_part_that_is_printed_already_gives_the_same_bytes(value: Any, seed: int) -> None:
    try:
        printed = canonical_bytes(value)
    except NotCanonical:
        return

    assert canonical_bytes(_with_parts(value, random.Random(seed))) == printed


@given(hostile_values)
def test_whatever_is_handed_in_ends_in_bytes_or_a_typed_error(value: Any) -> None:
    try:
        printed = canonical_bytes(value)
    except NotCanonical as refusal:
        assert str(refusal).startswith("At $")  # noqa: PT017  # Either outcome is right; its form is the law.
    else:
        assert canonical_bytes(parse(printed)) == printed


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_a_hundred_thousand_mangled_texts_end_in_a_value_or_a_typed_error(seed: int) -> None:
    """25,000 for each seed: valid texts with bytes changed, cut, doubled and swapped."""
    dice = random.Random(seed)
    bases = [
        b'{"a":[1,2.5,-3e2,null,true],"b":{"c":"\\u00e9\\ud83d\\ude00","d":"x"},"e":"'
        + "ü€😀".encode()
        + b'"}',
        b'[[[[{"k":1e400}]]],"\\ud800",NaN,-0,0.0000001]',
        b'{"k":1,"k":2,"long":' + b"9" * 30 + b"}",
    ]
    alphabet = b'{}[]",:\\u0123456789eE+-.dDnNtTfFaIl \n\xc3\xbc\xff\xed\xa0\x80'
    for _ in range(25_000):
        text = bytearray(dice.choice(bases))
        for _ in range(dice.randrange(1, 6)):
            at = dice.randrange(len(text) + 1)
            match dice.randrange(4):
                case 0:
                    text[at : at + 1] = bytes([dice.choice(alphabet)])
                case 1:
                    text[at:at] = bytes(dice.choices(alphabet, k=dice.randrange(1, 4)))
                case 2:
                    del text[at : at + dice.randrange(1, 4)]
                case _:
                    text[at:at] = text[max(0, at - 10) : at]
        try:
            value = parse(bytes(text))
        except NotCanonical:
            continue
        assert json.loads(bytes(text)) == value
        canonical_bytes(value)


class _Colour(enum.StrEnum):
    RED = "red"


class _Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [
        b"bytes",
        decimal.Decimal("1.5"),
        uuid.UUID(int=1),
        date(2026, 1, 1),
        {1, 2},
        object(),
        _Colour.RED,
        _Text("text"),
        OrderedDict(a=1),
        type("Instant", (datetime,), {})(2026, 1, 1, tzinfo=UTC),
        type("Number", (int,), {})(7),
        type("Ratio", (float,), {})(0.5),
        type("Words", (list,), {})(),
        {1: "a"},
        {None: "a"},
        {_Text("key"): 1},
        1j,
        orjson.Fragment(b"1"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_has_no_word_for_is_refused(value: object) -> None:
    with raises_code("canon_type"):
        canonical_bytes(value)
    with raises_code("canon_type", match=r"\$\.inside\[1\]"):
        canonical_bytes({"inside": [0, value]})


def test_a_value_that_holds_itself_is_too_deep() -> None:
    knot: list[object] = []
    knot.append(knot)

    with raises_code("canon_depth"):
        canonical_bytes(knot)


def test_a_text_of_escaped_quotes_is_refused_in_one_pass() -> None:
    """Looking for the ends of its strings from each quote in turn would take hours."""
    with raises_code("canon_syntax"):
        parse("[]," * 200 + '"' + '\\"' * 500_000)


def test_a_document_of_many_values_may_be_given_a_larger_limit() -> None:
    document = ["x" * 1000] * 2000

    with pytest.raises(TooLarge):
        canonical_bytes(document)
    assert parse(canonical_bytes(document, limit_bytes=3_000_000), limit_bytes=3_000_000) == document


@pytest.mark.parametrize(
    "text", ['{"\u00fc":1,"u\u0308":2}', r'{"\u00fc":1,"u\u0308":2}', r'"\ud800"', r'["\udc00\ud800"]']
)
def test_reading_refuses_keys_that_are_equal_in_nfc_and_lone_surrogates(text: str) -> None:
    with pytest.raises(NotCanonical):
        parse(text)


def test_tuples_are_arrays() -> None:
    assert canonical_bytes({"a": (1, (2, 3))}) == b'{"a":[1,[2,3]]}'


def test_instants_are_the_same_in_every_zone() -> None:
    moment = datetime(2026, 1, 15, 10, 30, tzinfo=UTC)

    assert utc_text(moment) == "2026-01-15T10:30:00.000000Z"
    assert fingerprint([moment]) == fingerprint([moment.astimezone(timezone(timedelta(hours=-9.5)))])


@pytest.mark.parametrize("data", [unicodedata, unicodedata2], ids=["this Python", "the newest Unicode"])
def test_every_later_character_that_normalisation_knows_is_listed(data: Any) -> None:
    """Fails on a Python whose Unicode gave new code points a meaning: add them to the list in canon.py."""
    known = [
        code_point
        for code_point in range(0x110000)
        if chr(code_point) not in canon._LATER
        and not 0xAC00 <= code_point <= 0xD7A3  # Hangul syllables are composed by arithmetic.
        and (data.combining(chr(code_point)) or data.decomposition(chr(code_point))[:1] not in ("", "<"))
    ]

    assert (len(known), fingerprint(known)) == KNOWN_TO_UNICODE_14


def test_errors_name_the_place() -> None:
    with pytest.raises(StandfastError) as refusal:
        canonical_bytes({"runs": [{"scores": [0.5, float("inf")]}]})

    assert refusal.value.facts["path"] == "$.runs[0].scores[1]"
    assert "$.runs[0].scores[1]" in str(refusal.value)


def test_reading_refuses_nesting_beyond_the_limit_by_itself() -> None:
    levels = MAX_DEPTH_LEVELS
    assert parse("[" * levels + "]" * levels) is not None
    with raises_code("canon_depth"):
        parse("[" * (levels + 1) + "]" * (levels + 1))
    assert parse('{"a":' * levels + "1" + "}" * levels) is not None
    with raises_code("canon_depth"):
        parse('{"a":' * (levels + 1) + "1" + "}" * (levels + 1))


@pytest.mark.parametrize(
    ("text", "low"),
    [
        ("STRASSE", "strasse"),
        ("\u00c4\u00d6", "\u00e4\u00f6"),
        ("A\u03a3 A\u03a3A", "a\u03c2 a\u03c3a"),
        # Casing that came after Unicode 14.0 is left alone, and the rest is not.
        ("A\u1c89B", "a\u1c89b"),
        ("\U00016ea0\u00c4\U00016ea0", "\U00016ea0\u00e4\U00016ea0"),
        # Their part in the rule of the final sigma changed, in both directions.
        ("A\u03a3\u0295\u0130B", "a\u03c3\u0295i\u0307b"),
        ("\u0295\u03a3 A", "\u0295\u03c2 a"),
        ("A\u03a3\U0001171eA\u03a3", "a\u03c3\U0001171ea\u03c2"),
    ],
)
def test_lower_case_is_that_of_unicode_14(text: str, low: str) -> None:
    assert lowered(text) == low
