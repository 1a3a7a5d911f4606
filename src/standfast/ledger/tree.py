"""The Merkle tree of RFC 6962 over the hashes of the ledger's entries, and its two kinds of proofs.

``Tree`` needs all entries. ``verify_inclusion`` and ``verify_consistency`` need only what is public (they are
the algorithms of RFC 9162, sections 2.1.3.2 and 2.1.4.2). They raise if anything is wrong, so that a caller
can't forget to look at an answer.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NoReturn

from standfast.errors import InvalidValue, NotProven
from standfast.limits import MAX_PROOF_HASHES, MAX_TREE_SIZE

EMPTY_ROOT: Final = hashlib.sha256(b"").hexdigest()

_NODE_PREFIX: Final = b"\x01"
_HEX_DIGITS: Final = 64
_HEX: Final = re.compile("[0-9a-f]*")
_HEX_DIGEST: Final = re.compile(f"[0-9a-f]{{{_HEX_DIGITS}}}")


class Tree:
    """A tree that grows by leaves and can compute every root it ever had.

    Adding a leaf takes constant time on average; a root or a proof, for this or an earlier size, takes
    logarithmic time. The tree holds two hashes for each leaf.
    """

    def __init__(self, leaf_hashes: Iterable[str] = ()) -> None:
        # Level 0 holds the leaves, level h the roots of the complete subtrees of 2^h leaves, from the left.
        self._levels: list[list[bytes]] = [[]]
        self.extend(leaf_hashes)

    def __len__(self) -> int:
        return len(self._levels[0])

    def append(self, leaf_hash: str) -> None:
        """Add one leaf at the right."""
        self.extend((leaf_hash,))

    def extend(self, leaf_hashes: Iterable[str]) -> None:
        """Add leaves at the right: all, or none if one is not a SHA-256 in lower-case hexadecimal digits."""
        self._levels[0].extend(_leaves(list(leaf_hashes)))
        sha256 = hashlib.sha256
        height = 0
        while len(level := self._levels[height]) >= 2:
            if height + 1 == len(self._levels):
                self._levels.append([])
            above = self._levels[height + 1]
            first = 2 * len(above)
            pairs = zip(level[first::2], level[first + 1 :: 2], strict=False)
            above.extend([sha256(_NODE_PREFIX + left + right).digest() for left, right in pairs])
            if 2 * len(above) == first:
                break
            height += 1

    def root(self, size: int | None = None) -> str:
        """The root of the first ``size`` leaves, or of all."""
        size = len(self) if size is None else self._known(size)
        return self._range_hash(0, size).hex() if size else EMPTY_ROOT

    def inclusion_proof(self, index: int, size: int) -> tuple[str, ...]:
        """Prove that leaf ``index`` (from 0 on) is in the tree of the first ``size`` leaves."""
        if type(index) is not int or not 0 <= index < self._known(size):
            raise InvalidValue(what="index", problem=f"a tree of {size} leaves has no leaf {_shown(index)}")
        start, end = 0, size
        proof = []
        while end - start > 1:
            middle = start + _left_size(end - start)
            if index < middle:
                proof.append(self._range_hash(middle, end))
                end = middle
            else:
                proof.append(self._range_hash(start, middle))
                start = middle
        return tuple(digest.hex() for digest in reversed(proof))

    def consistency_proof(self, old_size: int, new_size: int) -> tuple[str, ...]:
        """Prove that the tree of the first ``new_size`` leaves extends the one of the first ``old_size``.

        The proof is empty if the sizes are equal, or if the old tree is empty: every tree extends that.
        """
        if self._known(old_size) > self._known(new_size):
            raise InvalidValue(what="old_size", problem=f"{old_size} is more than the new size, {new_size}")
        start, end = 0, new_size
        proof = []
        while 0 < old_size != end:
            middle = start + _left_size(end - start)
            if old_size <= middle:
                proof.append(self._range_hash(middle, end))
                end = middle
            else:
                proof.append(self._range_hash(start, middle))
                start = middle
        if start:
            # The rest is not the old tree itself, so the verifier can't know its hash.
            proof.append(self._range_hash(start, end))
        return tuple(digest.hex() for digest in reversed(proof))

    def _known(self, size: int) -> int:
        if type(size) is not int or not 0 <= size <= len(self):
            raise InvalidValue(what="size", problem=f"the tree has {len(self)} leaves, not {_shown(size)}")
        return size

    def _range_hash(self, start: int, end: int) -> bytes:
        """The root over the leaves from ``start`` (where a subtree starts) to ``end``: subtrees, joined."""
        digest = b""
        while start < end:
            height = ((end - start) & -(end - start)).bit_length() - 1
            complete = self._levels[height][(end - 1) >> height]
            digest = _node(complete, digest) if digest else complete
            end -= 1 << height
        return digest


class TreeEdge:
    """The right edge of a growing tree: the roots of its complete subtrees, from the left.

    It holds one hash for each binary digit of the size that is 1, and is all that the next root needs.
    """

    def __init__(self, size: int = 0, hashes: Iterable[str] = ()) -> None:
        self.size = size
        self._hashes = [bytes.fromhex(digest) for digest in hashes]
        if len(self._hashes) != size.bit_count() or any(len(one) != _HEX_DIGITS // 2 for one in self._hashes):
            raise InvalidValue(
                what="TreeEdge", problem=f"these are not the hashes of an edge of {size} leaves"
            )

    @property
    def hashes(self) -> tuple[str, ...]:
        """The roots of the complete subtrees, from the left."""
        return tuple(digest.hex() for digest in self._hashes)

    def append(self, leaf_hash: str) -> None:
        """Add one leaf at the right."""
        digest, size = bytes.fromhex(leaf_hash), self.size
        while size & 1:
            digest, size = _node(self._hashes.pop(), digest), size >> 1
        self._hashes.append(digest)
        self.size += 1

    def root(self) -> str:
        """The root of all leaves."""
        if not self._hashes:
            return EMPTY_ROOT
        digest = self._hashes[-1]
        for left in reversed(self._hashes[:-1]):
            digest = _node(left, digest)
        return digest.hex()


def verify_inclusion(*, leaf_hash: str, index: int, size: int, root: str, proof: Sequence[str]) -> None:
    """Check the proof that the leaf is at ``index`` in the tree of that size and root; ``NotProven``
    (``bad_inclusion``) if not.

    The size guides the computation, but only the root is proven. Take both from one verified checkpoint.
    """

    def refuse(problem: str) -> NoReturn:
        raise NotProven("bad_inclusion", index=_shown(index), size=_shown(size), problem=problem) from None

    if not (_is_size(size) and _is_size(index) and index < size):
        refuse("there is no such leaf")
    try:
        digest, wanted, *path = _digests((leaf_hash, root), proof)
    except ValueError as error:
        refuse(str(error))
    for sibling, is_left in _climb(path, index, size - 1, refuse):
        digest = _node(sibling, digest) if is_left else _node(digest, sibling)
    if digest != wanted:
        refuse("the proof leads to another root")


def verify_consistency(
    *, old_size: int, old_root: str, new_size: int, new_root: str, proof: Sequence[str]
) -> None:
    """Check the proof that the new tree extends the old one; ``NotProven`` (``bad_consistency``) if not.

    Sizes and roots belong together. Take each pair from a verified checkpoint.
    """

    def refuse(problem: str) -> NoReturn:
        raise NotProven(
            "bad_consistency", old_size=_shown(old_size), new_size=_shown(new_size), problem=problem
        ) from None

    if not (_is_size(old_size) and _is_size(new_size) and old_size <= new_size):
        refuse("a tree only grows")
    try:
        wanted_old, wanted_new, *path = _digests((old_root, new_root), proof)
    except ValueError as error:
        refuse(str(error))
    if (old_size == 0 and old_root != EMPTY_ROOT) or (new_size == 0 and new_root != EMPTY_ROOT):
        refuse("the empty tree has another root")
    if old_size in (0, new_size):
        if path:
            refuse("the proof is too long")
        if old_size and wanted_old != wanted_new:
            refuse("trees of one size have two roots")
        return
    if old_size & (old_size - 1) == 0:
        # The old tree is a complete subtree of the new one, so the verifier knows its hash already.
        path.insert(0, wanted_old)
    if not path:
        refuse("the proof is too short")
    node, last = old_size - 1, new_size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = path[0]
    for sibling, is_left in _climb(path[1:], node, last, refuse):
        old, new = (_node(sibling, old), _node(sibling, new)) if is_left else (old, _node(new, sibling))
    if old != wanted_old:
        refuse("the proof leads to another old root")
    if new != wanted_new:
        refuse("the proof leads to another new root")


def _climb(
    path: Sequence[bytes], node: int, last: int, refuse: Callable[[str], NoReturn]
) -> Iterator[tuple[bytes, bool]]:
    """The sibling hashes on the way from a node to the root, each with whether it is on the left."""
    for sibling in path:
        if not last:
            refuse("the proof is too long")
        is_left = bool(node & 1) or node == last
        yield sibling, is_left
        while is_left and not node & 1 and node:
            node, last = node >> 1, last >> 1
        node, last = node >> 1, last >> 1
    if last:
        refuse("the proof is too short")


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(_NODE_PREFIX + left + right).digest()


def _left_size(size: int) -> int:
    """The largest power of two below ``size``: the number of leaves on the left of the root."""
    return 1 << (size - 1).bit_length() - 1


def _leaves(hashes: list[str]) -> list[bytes]:
    """The bytes of leaf hashes, checked all together: one by one takes longer than hashing them."""
    try:
        text = "".join(hashes)
        is_valid = set(map(len, hashes)) <= {_HEX_DIGITS} and _HEX.fullmatch(text) is not None
    except TypeError:
        is_valid = False
    if not is_valid:
        raise InvalidValue(what="leaf_hash", problem="it must be 64 lower-case hexadecimal digits")
    raw = bytes.fromhex(text)
    return [raw[start : start + 32] for start in range(0, len(raw), 32)]


def _is_digest(text: object) -> bool:
    return isinstance(text, str) and _HEX_DIGEST.fullmatch(text) is not None


def _is_size(number: object) -> bool:
    return type(number) is int and 0 <= number <= MAX_TREE_SIZE


def _shown(number: object) -> object:
    """A number for an error message. Python can't print every integer, nor JSON every object."""
    return number if _is_size(number) else "?"


def _digests(roots: tuple[str, str], proof: object) -> list[bytes]:
    """Two hashes and then those of the proof, as bytes; a ``ValueError`` says what is wrong."""
    if not isinstance(proof, list | tuple) or len(proof) > MAX_PROOF_HASHES:
        raise ValueError(f"the proof is not a list of at most {MAX_PROOF_HASHES} hashes")
    hashes = (*roots, *proof)
    if not all(map(_is_digest, hashes)):
        raise ValueError("a hash is not 64 lower-case hexadecimal digits")
    return [bytes.fromhex(digest) for digest in hashes]
