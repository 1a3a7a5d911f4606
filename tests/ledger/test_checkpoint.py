"""Checkpoints are C2SP's: they say size and root in one way only, and are believed of their own log only."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import InvalidValue
from standfast.ledger.chain import Branch
from standfast.ledger.checkpoint import Checkpoint
from standfast.ledger.note import SigningKey, sign
from standfast.ledger.tree import EMPTY_ROOT, Tree
from standfast.limits import MAX_TREE_SIZE
from tests.ledger.builders import LOG_KEY, ORIGIN, OTHER_KEY, TEXT, leaves
from tests.raising import raises_code

ROOT = "0ac5186a91863e8e1d90c808014aa89bf5da8e3ee1d9f07630f0378f68f1ab62"
EXAMPLE = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
SOFA = Checkpoint(origin="example.com/behind-the-sofa", size=20852163, root_hash=ROOT)
OURS = Checkpoint(origin=ORIGIN, size=5, root_hash=Tree(leaves(5)).root())


def test_the_example_of_the_specification_is_read_and_written() -> None:
    assert Checkpoint.parse(EXAMPLE) == SOFA
    assert SOFA.text == EXAMPLE


def test_extension_lines_are_kept() -> None:
    extended = Checkpoint.parse(EXAMPLE + "Timestamp: 1679349379012118479\n")

    assert extended.extensions == ("Timestamp: 1679349379012118479",)
    assert extended.text == EXAMPLE + "Timestamp: 1679349379012118479\n"


@given(
    st.integers(0, MAX_TREE_SIZE),
    st.binary(min_size=32, max_size=32),
    st.lists(
        st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=9), max_size=3
    ),
)
def test_every_checkpoint_comes_back(size: int, root: bytes, extensions: list[str]) -> None:
    root_hash = root.hex() if size else EMPTY_ROOT
    checkpoint = Checkpoint(origin=ORIGIN, size=size, root_hash=root_hash, extensions=tuple(extensions))

    assert Checkpoint.parse(checkpoint.text) == checkpoint
    assert Checkpoint.from_json(checkpoint.as_json()) == checkpoint


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "\n",
        EXAMPLE[:-1],
        EXAMPLE + "\n",
        "\n" + EXAMPLE,
        EXAMPLE.replace("example.com/behind-the-sofa", ""),
        EXAMPLE.replace("20852163", "020852163"),
        EXAMPLE.replace("20852163", "+20852163"),
        EXAMPLE.replace("20852163", "-20852163"),
        EXAMPLE.replace("20852163", "20_852_163"),
        EXAMPLE.replace("20852163", " 20852163"),
        EXAMPLE.replace("20852163", "２０８５２１６３"),
        EXAMPLE.replace("20852163", "2e7"),
        EXAMPLE.replace("20852163", ""),
        EXAMPLE.replace("20852163", "00"),
        EXAMPLE.replace("20852163", "0"),
        EXAMPLE.replace("20852163", str(MAX_TREE_SIZE + 1)),
        EXAMPLE.replace("20852163", "9" * 5000),
        EXAMPLE.replace("q2I=", "q2J="),
        EXAMPLE.replace("q2I=", "q2I"),
        EXAMPLE.replace("q2I=", "q2IA"),
        EXAMPLE.replace("q2I=", "q2I= "),
        EXAMPLE.replace("CsUY", ""),
        EXAMPLE.replace("\n", "\r\n"),
        "\n".join(EXAMPLE.split("\n")[:2]) + "\n",
        None,
        3,
        EXAMPLE.encode(),
    ],
)
def test_what_is_no_checkpoint_is_refused(malformed: Any) -> None:
    with raises_code("malformed_checkpoint"):
        Checkpoint.parse(malformed)


@pytest.mark.parametrize(
    "wrong",
    [
        {"origin": ""},
        {"origin": "two\nlines"},
        {"origin": "\ud800"},
        {"size": -1},
        {"size": True},
        {"size": 1.0},
        {"size": 10**5000},
        {"size": 0},
        {"root_hash": "00"},
        {"root_hash": ROOT.upper()},
        {"extensions": ("",)},
        {"extensions": ("two\nlines",)},
    ],
)
def test_a_checkpoint_that_its_text_would_belie_can_t_be_built(wrong: dict[str, Any]) -> None:
    good: dict[str, Any] = {"origin": ORIGIN, "size": 1, "root_hash": ROOT}
    with pytest.raises(InvalidValue):
        Checkpoint(**good | wrong)


def test_a_signed_checkpoint_is_verified_with_the_public_key_alone() -> None:
    note = OURS.sign([LOG_KEY])

    assert Checkpoint.verify(note, [LOG_KEY.verifying_key]) == OURS
    assert Checkpoint.verify(OURS.sign([OTHER_KEY, LOG_KEY]), [LOG_KEY.verifying_key]) == OURS


def test_a_key_vouches_for_its_own_log_only() -> None:
    foreign = sign(OURS.text, [OTHER_KEY])
    for keys in ([OTHER_KEY.verifying_key], [OTHER_KEY.verifying_key, LOG_KEY.verifying_key]):
        with raises_code("foreign_log", match=ORIGIN):
            Checkpoint.verify(foreign, keys)
    with raises_code("foreign_log"):
        OURS.sign([OTHER_KEY])


def test_a_log_may_change_its_key() -> None:
    successor = SigningKey(name=ORIGIN, seed=bytes(32))
    known = [LOG_KEY.verifying_key, successor.verifying_key]

    assert Checkpoint.verify(OURS.sign([LOG_KEY]), known) == OURS
    assert Checkpoint.verify(OURS.sign([successor]), known) == OURS


def test_each_way_of_not_being_a_signed_checkpoint_has_its_error() -> None:
    note, known = OURS.sign([LOG_KEY]), [LOG_KEY.verifying_key]
    for refused, code in (
        (note[:-1], "malformed_note"),
        (note.replace("\n5\n", "\n6\n"), "forged_note"),
        (sign(OURS.text, [OTHER_KEY]), "unsigned_note"),
        (sign(TEXT, [LOG_KEY]), "malformed_checkpoint"),
    ):
        with raises_code(code):
            Checkpoint.verify(refused, known)


def test_a_later_checkpoint_is_shown_to_extend_an_earlier_one() -> None:
    tree = Tree(leaves(9))
    older, newer = (Checkpoint(origin=ORIGIN, size=size, root_hash=tree.root(size)) for size in (6, 9))
    forked = Checkpoint(origin=ORIGIN, size=9, root_hash=Tree([*leaves(5), *leaves(4)]).root())
    proof = tree.consistency_proof(6, 9)
    newer.verify_extends(older, proof)

    with raises_code("bad_consistency"):
        forked.verify_extends(older, proof)
    with raises_code("bad_consistency"):
        older.verify_extends(newer, proof)
    with raises_code("foreign_log"):
        newer.verify_extends(SOFA, proof)


def test_a_checkpoint_is_left_if_it_covers_what_a_later_restore_left_behind() -> None:
    branches = [
        Branch(0, "store"),
        Branch(1, "first", ledger_seq=6, shared_seq=5, left_seq=9),
        Branch(2, "second", ledger_seq=21, shared_seq=20, left_seq=25),
    ]

    def left_sizes(branch: Branch) -> list[int]:
        made = [
            Checkpoint.of_branch(branch, origin=ORIGIN, size=size, root_hash="0" * 64)
            for size in (5, 6, 9, 10, 20, 21, 25, 26)
        ]
        return [checkpoint.size for checkpoint in made if checkpoint.is_left(branches)]

    assert left_sizes(branches[0]) == [6, 9, 21, 25]
    assert left_sizes(branches[1]) == [21, 25]
    assert left_sizes(branches[2]) == []
    assert left_sizes(Branch(1, "itself left")) == [21, 25]
