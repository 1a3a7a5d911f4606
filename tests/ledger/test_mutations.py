"""Of 100,000 proofs, notes, signatures and receipts with something changed in them, none is accepted.

A case is made from its number alone, so that a failure names what to run again.
"""

import base64
import json
import random
from collections import Counter
from collections.abc import Callable

import pytest

from standfast.clock import seeded
from standfast.errors import NotProven, StandfastError
from standfast.ledger.checkpoint import Checkpoint, InclusionReceipt, _parse_file, verify_receipt
from standfast.ledger.note import verify
from standfast.ledger.tree import Tree, verify_consistency, verify_inclusion
from standfast.records.canon import canonical_bytes, parse
from tests.figures import Figures
from tests.govern.mutation import mutated
from tests.ledger.builders import LOG_KEY, OTHER_KEY, entries, leaves, receipt, signed, tree_of

FAST_CASES, SLOW_CASES, CHUNKS = 5_600, 112_000, 4
KEY = LOG_KEY.verifying_key
TREE = Tree(leaves(1_000))
SIZES = (1, 2, 3, 7, 8, 9, 33, 64, 100)
CHARACTERS = "\n \t\0—+=/09azAZ\u2003é"
# The order of the curve's group: S and S + L would sign the same, if a verifier took both.
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493


def _other_digest(dice: random.Random, digest: str) -> str:
    """A digest with another bit, or with something that is none."""
    if dice.random() < 0.1:
        at = dice.randrange(64)
        return dice.choice(
            [digest.upper() + " ", digest[:-1], digest + "0", digest[:at] + "g" + digest[at + 1 :], ""]
        )
    return f"{int(digest, 16) ^ (1 << dice.randrange(256)):064x}"


def _other_proof(dice: random.Random, proof: tuple[str, ...]) -> tuple[str, ...]:
    """A proof with one hash changed, dropped, added, repeated or moved."""
    changed = list(proof)
    kind = dice.randrange(5) if len(proof) > 1 else dice.randrange(3) if proof else 2
    at = dice.randrange(len(proof)) if proof else 0
    if kind == 0:
        changed[at] = _other_digest(dice, changed[at])
    elif kind == 1:
        del changed[at]
    elif kind == 2:
        changed.insert(at, dice.choice([*proof, *leaves(5)]))
    elif kind == 3:
        changed.insert(at, changed[at])
    else:
        changed = [*changed[1:], changed[0]]
    return tuple(changed)


def _other_text(dice: random.Random, text: str) -> str:
    """A text with one character changed, dropped, added or moved, or cut, or with a line gone or repeated."""
    at = dice.randrange(len(text))
    lines = text.splitlines(keepends=True)
    line = dice.randrange(len(lines))
    return dice.choice(
        [
            text[:at] + dice.choice(CHARACTERS) + text[at + 1 :],
            text[:at] + dice.choice(CHARACTERS) + text[at:],
            text[:at] + text[at + 1 :],
            text[:at] + text[at : at + 2][::-1] + text[at + 2 :],
            text[:at],
            "".join(lines[:line] + lines[line + 1 :]),
            "".join([*lines[:line], lines[line], *lines[line:]]),
            "".join(lines[line:] + lines[:line]),
        ]
    )


def _inclusion_proof(dice: random.Random) -> None:
    size = dice.randint(1, 1_000)
    index = dice.randrange(size)
    leaf, root, proof = leaves(1_000)[index], TREE.root(size), TREE.inclusion_proof(index, size)
    kind = dice.randrange(6)
    if kind == 0 and size > 1:
        index = dice.choice([other for other in (index - 1, index + 1, index ^ 2, -index) if other != index])
    elif kind == 1:
        leaf = _other_digest(dice, leaf)
    elif kind == 2:
        root = _other_digest(dice, root)
    else:
        proof = _other_proof(dice, proof)
    verify_inclusion(leaf_hash=leaf, index=index, size=size, root=root, proof=proof)


def _consistency_proof(dice: random.Random) -> None:
    new = dice.randint(2, 1_000)
    old = dice.randint(1, new - 1)
    old_root, new_root, proof = TREE.root(old), TREE.root(new), TREE.consistency_proof(old, new)
    kind = dice.randrange(6)
    if kind == 0:
        old_root = _other_digest(dice, old_root)
    elif kind == 1:
        new_root = _other_digest(dice, new_root)
    elif kind == 2:
        old_root, new_root = new_root, old_root
    else:
        proof = _other_proof(dice, proof)
    verify_consistency(old_size=old, old_root=old_root, new_size=new, new_root=new_root, proof=proof)


def _note(dice: random.Random) -> None:
    note = signed(dice.choice(SIZES))
    while (changed := _other_text(dice, note)) == note or _says_the_same(changed, note):
        pass
    verify(changed, [KEY])


def _says_the_same(changed: str, note: str) -> bool:
    """A signature line may stand twice; nothing else may."""
    return changed.count("—") == 2 and changed == note + note.partition("\n\n")[2]


def _signature(dice: random.Random) -> None:
    size = dice.choice(SIZES)
    text, _, line = signed(size).partition("\n\n")
    marked = base64.b64decode(line.split(" ")[2])
    other = dice.choice([other for other in SIZES if other != size])
    scalar = int.from_bytes(marked[36:], "little")
    bit = dice.randrange(8 * len(marked))
    changed = dice.choice(
        [
            (int.from_bytes(marked) ^ 1 << bit).to_bytes(len(marked)),
            marked[:36] + ((scalar + GROUP_ORDER) % 2**256).to_bytes(32, "little"),
            marked[:36] + ((GROUP_ORDER - scalar) % GROUP_ORDER).to_bytes(32, "little"),
            marked[:4] + marked[36:] + marked[4:36],
            marked[:4] + dice.randbytes(64),
            marked[:4] + bytes(64),
            marked[: dice.randrange(5, 68)],
            marked + dice.randbytes(1),
            base64.b64decode(signed(other).rpartition(" ")[2]),
            bytes.fromhex(KEY.key_id)
            + base64.b64decode(OTHER_KEY.signature_line(text.encode()).rpartition(" ")[2])[4:],
        ]
    )
    verify(f"{text}\n\n— {KEY.name} {base64.b64encode(changed).decode()}\n", [KEY])


def _receipt(dice: random.Random) -> None:
    size = dice.choice(SIZES[1:])
    good = receipt(dice.randint(1, size), size).as_json()
    other = receipt(dice.randint(1, 9), 9).as_json()
    field = dice.choice(sorted(good))
    changed: object
    if field == "entry":
        changed = dice.choice([_other_text(dice, good["entry"]), entries(200)[150].content.decode()])
    elif field == "inclusion_proof":
        changed = _other_proof(dice, good["inclusion_proof"])
    elif field == "checkpoint":
        changed = dice.choice([_other_text(dice, good["checkpoint"]), other["checkpoint"]])
    else:
        changed = dice.choice([good[field] + 1, good[field] - 1, good[field] * 2, good[field] ^ 4, -1, 0])
    if changed == good[field] or _says_the_same(str(changed), good["checkpoint"]):
        changed = None
    verify_receipt(InclusionReceipt.from_json(good | {field: changed}), KEY)


def _receipt_as_sent(dice: random.Random) -> None:
    """The receipt as it travels, changed anywhere: in its braces, names, digits or escapes."""
    size = dice.choice(SIZES[1:])
    good = receipt(dice.randint(1, size), size)
    sent = canonical_bytes(good.as_json())
    changed = good
    while changed == good or _says_the_same(changed.checkpoint, good.checkpoint):
        changed = InclusionReceipt.from_json(parse(mutated(dice, sent)))
    verify_receipt(changed, KEY)


def _line_of_the_mirror(dice: random.Random) -> None:
    """A line of the mirror, changed anywhere, as a reader of the file meets it."""
    note = signed(dice.choice(SIZES))
    found: tuple[str, ...] = (note,)
    while any(one == note or _says_the_same(one, note) for one in found):
        found = _parse_file(mutated(dice, json.dumps(note).encode()) + b"\n").notes
    if not found:
        raise NotProven("malformed_note", problem="the line is torn")
    for one in found:
        Checkpoint.verify(one, [KEY])


ATTACKS: tuple[Callable[[random.Random], None], ...] = (
    _inclusion_proof,
    _consistency_proof,
    _note,
    _signature,
    _receipt,
    _receipt_as_sent,
    _line_of_the_mirror,
)


def _none_is_accepted(chunk: int, cases: int, figures: Figures) -> None:
    refused: Counter[str] = Counter()
    for case in range(chunk, cases, CHUNKS):
        attack = ATTACKS[case // CHUNKS % len(ATTACKS)]
        try:
            attack(seeded(case))
        except StandfastError:
            refused[f"{attack.__name__.strip('_')}s refused"] += 1
        else:
            pytest.fail(f"case {case} ({attack.__name__}) was accepted")
    figures("No mutated proof, note, signature or receipt is accepted", refused)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_mutation_is_accepted(chunk: int, figures: Figures) -> None:
    _none_is_accepted(chunk, FAST_CASES, figures)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_mutation_of_many_is_accepted(chunk: int, figures: Figures) -> None:
    _none_is_accepted(chunk, SLOW_CASES, figures)


def test_the_originals_are_accepted() -> None:
    """Otherwise refusing them would prove nothing."""
    for size in SIZES:
        assert Checkpoint.verify(signed(size), [KEY]).root_hash == tree_of(size).root()
        assert verify_receipt(receipt(size, size), KEY)["seq"] == size
    for size in range(2, 1_001, 37):
        leaf, proof = leaves(1_000)[size // 2], TREE.inclusion_proof(size // 2, size)
        verify_inclusion(leaf_hash=leaf, index=size // 2, size=size, root=TREE.root(size), proof=proof)
        roots, proof = (TREE.root(size - 1), TREE.root(size)), TREE.consistency_proof(size - 1, size)
        verify_consistency(
            old_size=size - 1, old_root=roots[0], new_size=size, new_root=roots[1], proof=proof
        )
