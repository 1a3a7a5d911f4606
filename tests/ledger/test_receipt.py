"""A receipt is believed with the public key alone, and each way in which it can be wrong has an error of its
own.
"""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import InvalidValue, NotProven, StandfastError
from standfast.ledger.chain import leaf_hash
from standfast.ledger.checkpoint import Checkpoint, InclusionReceipt, verify_receipt
from standfast.ledger.note import SigningKey, VerifyingKey, sign
from standfast.ledger.tree import Tree
from standfast.records.canon import canonical_bytes, parse
from tests.json_values import hostile_values
from tests.ledger.builders import LOG_KEY, ORIGIN, OTHER_KEY, TEXT, entries, receipt, signed, tree_of
from tests.raising import raises_code

KEY = LOG_KEY.verifying_key
GOOD = receipt(5, 8)


def _changed(**changes: Any) -> InclusionReceipt:
    return InclusionReceipt.from_json(GOOD.as_json() | changes)


def _vouched(content: bytes, *, index: int = 0) -> InclusionReceipt:
    """What a log gives that vouches for anything it is handed."""
    others = [leaf_hash(b"other %d" % number) for number in range(index)]
    tree = Tree([*others, leaf_hash(content)])
    note = Checkpoint(origin=ORIGIN, size=len(tree), root_hash=tree.root()).sign([LOG_KEY])
    return InclusionReceipt(
        entry=content.decode(),
        leaf_index=index,
        tree_size=len(tree),
        inclusion_proof=tree.inclusion_proof(index, len(tree)),
        checkpoint=note,
    )


def test_a_receipt_tells_what_was_entered() -> None:
    for size in (1, 2, 7, 8, 9, 33):
        for number in range(1, size + 1):
            assert verify_receipt(receipt(number, size), KEY) == entries(size)[number - 1].read()


def test_a_receipt_may_be_for_an_older_checkpoint_than_the_tree() -> None:
    older = InclusionReceipt.of(entries(9)[4], tree_of(9), signed(6, 9))

    assert older.tree_size == 6
    assert verify_receipt(older, KEY)["seq"] == 5


def test_an_entry_newer_than_the_checkpoint_has_no_receipt_yet() -> None:
    with pytest.raises(InvalidValue):
        InclusionReceipt.of(entries(9)[6], tree_of(9), signed(6, 9))


def test_a_receipt_travels_as_json() -> None:
    sent = canonical_bytes(GOOD.as_json())

    assert InclusionReceipt.from_json(parse(sent)) == GOOD
    assert InclusionReceipt.from_json(json.loads(json.dumps(GOOD.as_json()))) == GOOD


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"checkpoint": GOOD.checkpoint[:-1]}, "malformed_note"),
        ({"checkpoint": GOOD.checkpoint.replace("\n8\n", "\n9\n")}, "forged_note"),
        ({"checkpoint": sign(TEXT, [LOG_KEY])}, "malformed_checkpoint"),
        ({"checkpoint": sign(Checkpoint.verify(GOOD.checkpoint, [KEY]).text, [OTHER_KEY])}, "unsigned_note"),
        (
            {
                "checkpoint": sign(
                    GOOD.checkpoint.partition("\n\n")[0].replace("com", "org") + "\n", [LOG_KEY]
                )
            },
            "foreign_log",
        ),
        ({"checkpoint": signed(9)}, "size_mismatch"),
        ({"tree_size": 7}, "size_mismatch"),
        ({"tree_size": 9}, "size_mismatch"),
        ({"leaf_index": 3}, "bad_inclusion"),
        ({"leaf_index": 0}, "bad_inclusion"),
        ({"inclusion_proof": GOOD.inclusion_proof[:-1]}, "bad_inclusion"),
        ({"inclusion_proof": GOOD.inclusion_proof[::-1]}, "bad_inclusion"),
        ({"inclusion_proof": [*GOOD.inclusion_proof, "0" * 64]}, "bad_inclusion"),
        ({"inclusion_proof": []}, "bad_inclusion"),
        ({"entry": GOOD.entry.replace("sealed", "Sealed")}, "bad_inclusion"),
        ({"entry": GOOD.entry + " "}, "bad_inclusion"),
        ({"entry": entries(8)[5].content.decode()}, "bad_inclusion"),
    ],
)
def test_each_mismatch_has_its_error(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(NotProven) as refusal:
        verify_receipt(_changed(**changes), KEY)

    assert refusal.value.code == code
    assert str(refusal.value)


@pytest.mark.parametrize(
    ("content", "index", "code"),
    [
        (b"no JSON", 0, "malformed_entry"),
        (b"[]", 0, "malformed_entry"),
        (b"3", 0, "malformed_entry"),
        (b'{"seq":1,"at":""}', 0, "malformed_entry"),
        (b'{"at": "", "seq": 1}', 0, "malformed_entry"),
        (b'{"at":""}', 0, "malformed_entry"),
        (b'{"seq":true}', 0, "malformed_entry"),
        (b'{"seq":"1"}', 0, "malformed_entry"),
        (b'{"seq":2}', 0, "misplaced_entry"),
        (b'{"seq":1}', 1, "misplaced_entry"),
    ],
)
def test_what_no_honest_ledger_holds_is_refused_even_if_the_log_vouches_for_it(
    content: bytes, index: int, code: str
) -> None:
    with raises_code(code):
        verify_receipt(_vouched(content, index=index), KEY)


def test_another_key_of_the_same_name_does_not_do() -> None:
    with raises_code("unsigned_note"):
        verify_receipt(GOOD, SigningKey(name=ORIGIN, seed=bytes(32)).verifying_key)


@pytest.mark.parametrize(
    "wrong",
    [
        {"entry": "\ud800"},
        {"entry": "e\u0301"},
        {"entry": "x" * (1 << 20) + "x"},
        {"entry": None},
        {"checkpoint": "e\u0301"},
        {"entry": "\u00e9" * (1 << 19) + "x"},
        {"checkpoint": "x" * 1_000_001},
        {"checkpoint": "\u00e9" * 500_001},
        {"checkpoint": 3},
        {"leaf_index": -1},
        {"leaf_index": 8},
        {"leaf_index": True},
        {"leaf_index": 4.0},
        {"leaf_index": 10**5000, "tree_size": 10**5000 + 1},
        {"tree_size": 0},
        {"tree_size": 1 << 53},
        {"inclusion_proof": ("0" * 64,) * 65},
        {"inclusion_proof": ("",)},
        {"inclusion_proof": (None,)},
        {"inclusion_proof": "0" * 64},
        {"inclusion_proof": ("A" * 64,)},
    ],
)
def test_what_is_no_receipt_can_t_be_built(wrong: dict[str, Any]) -> None:
    fields = msgspec.structs.asdict(GOOD) | wrong
    with pytest.raises(InvalidValue):
        InclusionReceipt(**fields)
    with pytest.raises(InvalidValue):
        InclusionReceipt.from_json(fields)


@given(hostile_values)
def test_a_hostile_receipt_is_a_typed_error(hostile: Any) -> None:
    with pytest.raises(InvalidValue):
        InclusionReceipt.from_json(hostile)


@given(st.sampled_from(["entry", "leaf_index", "tree_size", "inclusion_proof", "checkpoint"]), hostile_values)
def test_a_receipt_with_a_hostile_field_is_a_typed_error(field: str, hostile: Any) -> None:
    try:
        told = verify_receipt(_changed(**{field: hostile}), KEY)
    except StandfastError:
        return

    assert told == entries(8)[4].read(), "only the same value may be taken"


def test_verifying_needs_nothing_but_the_receipt_and_the_key() -> None:
    sent, key_text = canonical_bytes(GOOD.as_json()), KEY.text

    assert verify_receipt(InclusionReceipt.from_json(parse(sent)), VerifyingKey.parse(key_text))["seq"] == 5
