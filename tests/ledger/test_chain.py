"""Tampering shows: whatever is done to a ledger of 1,000 entries, the first break is named."""

from collections.abc import Sequence
from itertools import islice

import msgspec
import pytest

from standfast.clock import seeded
from standfast.errors import BrokenChain, StandfastError
from standfast.ledger.chain import Branch, Entry, Tip, check, extend, leaf_hash
from standfast.ledger.checkpoint import Checkpoint
from standfast.ledger.tree import Tree
from standfast.records.canon import canonical_bytes
from tests.figures import Figures
from tests.ledger.builders import LOG_KEY, ORIGIN, entries, signed, tree_of
from tests.raising import raises_code

SIZE = 1_000
LEDGER = entries(SIZE)
TIPS = (Tip(), *(entry.tip for entry in LEDGER))


def _first_break(altered: Sequence[Entry], start: Tip | None = None) -> int | None:
    try:
        check(altered, start=start)
    except BrokenChain as broken:
        return int(broken.facts["seq"])
    return None


def _with_content(entry: Entry, content: bytes) -> Entry:
    return msgspec.structs.replace(entry, content=content)


def _rehashed(entry: Entry, content: bytes) -> Entry:
    """What a forger writes who can compute hashes."""
    return msgspec.structs.replace(entry, content=content, hash=leaf_hash(content))


def _fits_checkpoint(ledger: Sequence[Entry]) -> bool:
    """Whether a ledger can be the one that the log signed when it had all its entries."""
    checkpoint = Checkpoint.verify(signed(SIZE), [LOG_KEY.verifying_key])
    tree = Tree(entry.hash for entry in ledger)
    return len(tree) >= checkpoint.size and tree.root(checkpoint.size) == checkpoint.root_hash


def test_an_untouched_ledger_holds_together() -> None:
    assert check(LEDGER) == TIPS[-1]
    assert check(LEDGER[400:], start=TIPS[400]) == TIPS[-1]
    assert _fits_checkpoint(LEDGER)


def _changed_bytes(figures: Figures, masks: Sequence[int]) -> None:
    """Change each byte of each entry's content.

    The entries before it are untouched, so the walk starts at it.
    """
    changes = 0
    for place, entry in enumerate(LEDGER):
        after = LEDGER[place + 1 : place + 2]
        for at in range(len(entry.content)):
            for mask in masks:
                altered = bytearray(entry.content)
                altered[at] ^= mask
                first = _first_break([_with_content(entry, bytes(altered)), *after], TIPS[place])
                changes += 1
                assert first == entry.seq, f"byte {at} of entry {entry.seq} ^ {mask}"
    figures("A changed byte in a ledger is found and named", changed_bytes=changes)


def test_every_changed_byte_is_found_and_named(figures: Figures) -> None:
    _changed_bytes(figures, (1,))


@pytest.mark.slow
def test_every_changed_bit_is_found_and_named(figures: Figures) -> None:
    _changed_bytes(figures, [1 << bit for bit in range(8)])


def test_a_whole_walk_names_the_same_break() -> None:
    dice = seeded(1)
    for _ in range(40):
        place = dice.randrange(SIZE)
        content = bytearray(LEDGER[place].content)
        content[dice.randrange(len(content))] ^= dice.randrange(1, 256)
        altered = [*LEDGER[:place], _with_content(LEDGER[place], bytes(content)), *LEDGER[place + 1 :]]

        assert _first_break(altered) == place + 1


def test_every_changed_hash_digit_is_found_and_named() -> None:
    for place, entry in enumerate(LEDGER):
        for at, digit in enumerate(entry.hash):
            changed = entry.hash[:at] + ("1" if digit == "0" else "0") + entry.hash[at + 1 :]
            altered = msgspec.structs.replace(entry, hash=changed)

            assert _first_break([altered, *LEDGER[place + 1 : place + 2]], TIPS[place]) == entry.seq


def test_every_changed_number_is_found() -> None:
    """An entry that claims another number leaves its own place empty."""
    for place, entry in enumerate(LEDGER):
        for seq in (0, entry.seq - 1, entry.seq + 1, -entry.seq):
            altered = msgspec.structs.replace(entry, seq=seq)

            assert _first_break([altered], TIPS[place]) == entry.seq


def test_every_deletion_is_found_and_named() -> None:
    for place in range(SIZE - 1):
        assert _first_break(LEDGER[place + 1 : place + 3], TIPS[place]) == place + 1
    assert _first_break([*LEDGER[:500], *LEDGER[501:]]) == 501


def test_every_swap_of_neighbours_and_many_others_are_found_and_named() -> None:
    for place in range(SIZE - 1):
        assert _first_break([LEDGER[place + 1], LEDGER[place]], TIPS[place]) == place + 1
    dice = seeded(2)
    for _ in range(40):
        first, second = sorted(dice.sample(range(SIZE), 2))
        altered = list(LEDGER)
        altered[first], altered[second] = altered[second], altered[first]

        assert _first_break(altered) == first + 1


def test_every_insertion_is_found_and_named() -> None:
    """A repeated entry, and one that a forger made to follow the entry before it."""
    for place in range(1, SIZE):
        forged = extend(TIPS[place], kind="sealed", at="2026-01-01T00:00:00.000000Z", body={"forged": True})

        assert _first_break([LEDGER[place - 1], *LEDGER[place : place + 1]], TIPS[place]) == place + 1
        assert _first_break([forged, *LEDGER[place : place + 2]], TIPS[place]) == place + 2


def test_numbers_exchanged_along_with_the_entries_are_found() -> None:
    for place in range(SIZE - 1):
        one, other = LEDGER[place], LEDGER[place + 1]
        renumbered = [
            msgspec.structs.replace(other, seq=one.seq),
            msgspec.structs.replace(one, seq=other.seq),
        ]

        assert _first_break(renumbered, TIPS[place]) == one.seq


def test_a_forger_who_computes_the_hash_breaks_the_next_link() -> None:
    for place, entry in islice(enumerate(LEDGER), SIZE - 1):
        forged = _rehashed(entry, canonical_bytes(entry.read() | {"kind": "forged"}))

        assert _first_break([forged, LEDGER[place + 1]], TIPS[place]) == entry.seq + 1


def test_an_entry_that_says_another_number_than_its_own_is_named() -> None:
    for place, entry in enumerate(LEDGER):
        forged = _rehashed(entry, canonical_bytes(entry.read() | {"seq": entry.seq + 1}))

        assert _first_break([forged], TIPS[place]) == entry.seq


def test_a_forger_who_writes_anew_all_that_follows_is_found_by_the_checkpoint() -> None:
    for place in (0, 1, 499, 998, 999):
        tip, forged = TIPS[place], list(LEDGER[:place])
        for entry in LEDGER[place:]:
            told = entry.read()
            forged.append(extend(tip, kind="forged", at=told["at"], body=told["body"]))
            tip = forged[-1].tip

        assert _first_break(forged) is None, "the chain alone can't know"
        assert not _fits_checkpoint(forged)


def test_every_truncation_is_found_by_the_checkpoint() -> None:
    for size in range(SIZE):
        assert _first_break(LEDGER[max(size - 2, 0) : size], TIPS[max(size - 2, 0)]) is None
    tree, checkpoint = tree_of(SIZE), Checkpoint.verify(signed(SIZE), [LOG_KEY.verifying_key])
    for size in range(SIZE):
        cut = Checkpoint(origin=ORIGIN, size=size, root_hash=tree.root(size))
        with raises_code("bad_consistency"):
            cut.verify_extends(checkpoint, tree.consistency_proof(size, SIZE))
    assert not _fits_checkpoint(LEDGER[:-1])
    assert not _fits_checkpoint(())


@pytest.mark.parametrize(
    "content", [b"", b"no JSON", b"\xff", b'{"seq":1}', b"{}", b'{"seq":1,"previous":3}']
)
def test_an_entry_that_is_none_is_named_though_its_hash_fits(content: bytes) -> None:
    assert _first_break([_rehashed(LEDGER[0], content)]) == 1


def test_nothing_but_a_typed_error_comes_of_random_content() -> None:
    dice = seeded(3)
    for _ in range(2_000):
        content = bytearray(LEDGER[7].content)
        for at in dice.sample(range(len(content)), dice.randrange(1, 6)):
            content[at] ^= dice.randrange(1, 256)
        with pytest.raises(StandfastError):
            check([_rehashed(LEDGER[7], bytes(content)), LEDGER[8]], start=TIPS[7])


def test_a_break_names_its_cause() -> None:
    """A missing entry, a changed content, and a whole entry that follows another one, each in its own
    words.
    """
    first = extend(Tip(), kind="note", at="2026-01-01T00:00:00.000000Z", body={})
    second = extend(first.tip, kind="note", at="2026-01-01T00:00:00.000000Z", body={})
    foreign = extend(Tip(seq=1, hash="e" * 64), kind="note", at="2026-01-01T00:00:00.000000Z", body={})
    changed = Entry(seq=2, content=second.content, hash="f" * 64)
    causes = {
        "it is missing; entry 2 comes next": [second],
        "its content does not match its hash": [first, changed],
        "it does not follow the entry before it": [first, foreign],
    }

    for cause, broken in causes.items():
        with pytest.raises(BrokenChain, match=cause):
            check(broken)


def test_the_chain_starts_from_a_hash_of_64_zeros() -> None:
    assert (Tip().seq, Tip().hash) == (0, "0" * 64)


def test_the_first_line_left_none_and_shares_nothing() -> None:
    assert Branch(0, "s") == Branch(number=0, branch_id="s", ledger_seq=0, shared_seq=0, left_seq=0)
