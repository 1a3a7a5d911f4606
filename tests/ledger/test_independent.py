"""Two implementations agree: ours, and one written apart from the standards' texts.

What one refuses, both refuse.
"""

import ast
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from standfast.clock import seeded
from standfast.errors import StandfastError
from standfast.ledger.checkpoint import Checkpoint, InclusionReceipt, verify_receipt
from standfast.ledger.note import VerifyingKey, sign, verify
from standfast.ledger.tree import Tree, verify_consistency, verify_inclusion
from standfast.records.canon import canonical_bytes, parse
from tests.figures import Figures
from tests.ledger import independent
from tests.ledger.builders import (
    ENOCH_LINE,
    LOG_KEY,
    OTHER_KEY,
    PETER_LINE,
    PETER_PUBLIC,
    TEXT,
    entries,
    leaves,
    receipt,
    signed,
    tree_of,
)

PROOFS, NOTES = 4_000, 750
PROOF = "Two implementations of notes and proofs agree"
KEY = LOG_KEY.verifying_key
CHARACTERS = "\n — +=/0123456789abcXYZ\t\u2003é"


def _accepts(check: Callable[..., object], *given: object, **named: object) -> bool:
    try:
        check(*given, **named)
    except (StandfastError, independent.RefusedError):
        return False
    return True


def _raw(hashes: tuple[str, ...]) -> list[bytes]:
    return [bytes.fromhex(digest) for digest in hashes]


def test_the_second_verifier_shares_no_code_with_the_first() -> None:
    tree = ast.parse(Path(independent.__file__).read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }

    assert imported - set(sys.stdlib_module_names) == {"cryptography"}


def test_both_open_go_s_note() -> None:
    both_signatures = TEXT + "\n" + PETER_LINE + ENOCH_LINE

    assert independent.open_note(both_signatures, PETER_PUBLIC) == TEXT
    assert verify(both_signatures, [VerifyingKey.parse(PETER_PUBLIC)]) == TEXT


def test_the_second_opens_the_first_s_checkpoints_and_receipts() -> None:
    for size in (1, 2, 7, 8, 33, 100):
        head = independent.open_checkpoint(signed(size), KEY.text)
        sent = canonical_bytes(receipt(size, size).as_json())

        assert head == (KEY.name, size, bytes.fromhex(tree_of(size).root()))
        assert independent.open_receipt(parse(sent), KEY.text) == entries(size)[-1].read()


def test_both_accept_the_same_inclusion_proofs(figures: Figures) -> None:
    """Sizes and places are mixed up on purpose: some other sizes do lead to the same root, and both must say
    so.
    """
    dice, tree = seeded(11), Tree(leaves(70))
    accepted = 0
    for _ in range(PROOFS):
        size = dice.randint(1, 70)
        index = dice.randrange(size)
        leaf, proof = leaves(70)[index], tree.inclusion_proof(index, size)
        claimed_size, claimed_index = (dice.choice([true, dice.randint(-1, 71)]) for true in (size, index))
        root = tree.root(dice.choice([size, max(claimed_size % 71, 1)]))
        ours = _accepts(
            verify_inclusion, leaf_hash=leaf, index=claimed_index, size=claimed_size, root=root, proof=proof
        )
        raw_leaf, raw_root, *raw_proof = _raw((leaf, root, *proof))
        accepted += ours

        assert ours == _accepts(
            independent.check_inclusion, raw_leaf, claimed_index, claimed_size, raw_root, raw_proof
        )
    figures(PROOF, inclusion_proofs=PROOFS, accepted_by_both=accepted)


def test_both_accept_the_same_consistency_proofs(figures: Figures) -> None:
    dice, tree = seeded(12), Tree(leaves(70))
    accepted = 0
    for _ in range(PROOFS):
        new = dice.randint(0, 70)
        old = dice.randint(0, new)
        proof = tree.consistency_proof(old, new)
        claimed_old, claimed_new = (dice.choice([true, true, dice.randint(-1, 71)]) for true in (old, new))
        old_root = tree.root(dice.choice([old, claimed_old % 71]))
        new_root = tree.root(dice.choice([new, claimed_new % 71]))
        ours = _accepts(
            verify_consistency,
            old_size=claimed_old,
            old_root=old_root,
            new_size=claimed_new,
            new_root=new_root,
            proof=proof,
        )
        raw_old, raw_new, *raw_proof = _raw((old_root, new_root, *proof))
        accepted += ours

        assert ours == _accepts(
            independent.check_consistency, claimed_old, raw_old, claimed_new, raw_new, raw_proof
        )
    figures(PROOF, consistency_proofs=PROOFS, accepted_by_both=accepted)


def _mangled(dice: random.Random, note: str) -> str:
    for _ in range(dice.choice([0, 1, 1, 1, 2])):
        at = dice.randrange(len(note) + 1)
        note = dice.choice(
            [
                note[:at] + dice.choice(CHARACTERS) + note[at + 1 :],
                note[:at] + dice.choice(CHARACTERS) + note[at:],
                note[:at] + note[at + 1 :],
                note + note[at:],
                note + note.splitlines(keepends=True)[-1],
                note + ENOCH_LINE,
            ]
        )
    return note


def _checkpoint_text(dice: random.Random) -> str:
    """The text of a checkpoint, or of something like it that a careless log might sign."""
    text = Checkpoint.verify(signed(dice.choice((1, 7, 33))), [KEY]).text
    return dice.choice([text, text + "extension\n", _mangled(dice, text)]).removesuffix("\n") + "\n"


@pytest.mark.parametrize("seed", [13, 14])
def test_both_accept_the_same_notes_and_checkpoints(seed: int, figures: Figures) -> None:
    dice = seeded(seed)
    accepted = 0
    for _ in range(NOTES):
        try:
            note = sign(_checkpoint_text(dice), dice.choice([[LOG_KEY], [OTHER_KEY, LOG_KEY]]))
        except StandfastError:
            continue
        note = _mangled(dice, note)
        ours = _accepts(Checkpoint.verify, note, [KEY])
        accepted += ours

        assert _accepts(verify, note, [KEY]) == _accepts(independent.open_note, note, KEY.text)
        assert ours == _accepts(independent.open_checkpoint, note, KEY.text)
        if ours:
            told = Checkpoint.verify(note, [KEY])
            head = independent.open_checkpoint(note, KEY.text)
            assert (told.origin, told.size, bytes.fromhex(told.root_hash)) == head
    figures(PROOF, notes=NOTES, accepted_by_both=accepted)


def test_both_refuse_a_receipt_of_another_tree() -> None:
    for changes in ({"tree_size": 9}, {"leaf_index": 3}, {"checkpoint": signed(9)}):
        changed = receipt(5, 8).as_json() | changes

        assert not _accepts(independent.open_receipt, changed, KEY.text)
        assert not _accepts(verify_receipt, InclusionReceipt.from_json(changed), KEY)
