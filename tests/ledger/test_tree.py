"""The tree and its proofs are those of RFC 6962, and nothing else is accepted as one."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import InvalidValue
from standfast.ledger.chain import leaf_hash
from standfast.ledger.tree import EMPTY_ROOT, Tree, verify_consistency, verify_inclusion
from standfast.limits import MAX_TREE_SIZE
from tests.ledger import independent
from tests.ledger.builders import leaves
from tests.raising import raises_code

# The reference vectors of Certificate Transparency. Leaves are numbered from 0 on.
CT_INPUTS = (
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
)
CT_ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)
CT_LEAVES = tuple(leaf_hash(bytes.fromhex(data)) for data in CT_INPUTS)
CT_INCLUSION = {
    (0, 1): (),
    (0, 8): (
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ),
    (5, 8): (
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 3): ("fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",),
    (1, 5): (
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ),
}
CT_CONSISTENCY = {
    (1, 1): (),
    (1, 8): CT_INCLUSION[0, 8],
    (6, 8): (
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ),
    (2, 5): (
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
    ),
}
HOSTILE: tuple[Any, ...] = (
    None,
    "",
    "00",
    b"",
    1.0,
    True,
    -1,
    10**5000,
    "é" * 64,
    "A" * 64,
    " " * 64,
    "0" * 63 + "\n",
    [],
    {},
)


def _raw(hashes: tuple[str, ...]) -> list[bytes]:
    return [bytes.fromhex(digest) for digest in hashes]


def test_the_roots_are_those_of_certificate_transparency() -> None:
    tree = Tree(CT_LEAVES)

    assert [tree.root(size) for size in range(9)] == [EMPTY_ROOT, *CT_ROOTS]
    assert tree.root() == CT_ROOTS[-1]
    assert Tree().root() == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(("index", "size"), CT_INCLUSION)
def test_the_inclusion_proofs_are_those_of_certificate_transparency(index: int, size: int) -> None:
    proof = CT_INCLUSION[index, size]
    verify_inclusion(leaf_hash=CT_LEAVES[index], index=index, size=size, root=CT_ROOTS[size - 1], proof=proof)

    assert Tree(CT_LEAVES).inclusion_proof(index, size) == proof


@pytest.mark.parametrize(("old", "new"), CT_CONSISTENCY)
def test_the_consistency_proofs_are_those_of_certificate_transparency(old: int, new: int) -> None:
    proof = CT_CONSISTENCY[old, new]
    verify_consistency(
        old_size=old, old_root=CT_ROOTS[old - 1], new_size=new, new_root=CT_ROOTS[new - 1], proof=proof
    )

    assert Tree(CT_LEAVES).consistency_proof(old, new) == proof


def test_every_proof_of_every_tree_to_64_leaves_is_the_definition_s() -> None:
    tree, raw = Tree(leaves(64)), _raw(leaves(64))
    for size in range(1, 65):
        root = tree.root(size)
        assert root == independent.tree_hash(raw[:size]).hex()
        for index in range(size):
            proof = tree.inclusion_proof(index, size)
            verify_inclusion(leaf_hash=leaves(64)[index], index=index, size=size, root=root, proof=proof)

            assert _raw(proof) == independent.path(index, raw[:size])
        for old in range(1, size + 1):
            proof = tree.consistency_proof(old, size)
            verify_consistency(
                old_size=old, old_root=tree.root(old), new_size=size, new_root=root, proof=proof
            )

            assert _raw(proof) == independent.subproof(old, raw[:size])


@given(st.integers(1, 1_000), st.data())
def test_a_large_tree_s_proofs_are_the_definition_s(size: int, data: st.DataObject) -> None:
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    tree, raw = Tree(leaves(1_000)), _raw(leaves(1_000)[:size])
    included, consistent = tree.inclusion_proof(index, size), tree.consistency_proof(old, size)
    root = tree.root(size)
    verify_inclusion(leaf_hash=leaves(1_000)[index], index=index, size=size, root=root, proof=included)
    verify_consistency(old_size=old, old_root=tree.root(old), new_size=size, new_root=root, proof=consistent)

    assert root == independent.tree_hash(raw).hex()
    assert _raw(included) == independent.path(index, raw)
    assert _raw(consistent) == independent.subproof(old, raw)


@given(st.lists(st.integers(0, 40), max_size=12))
def test_however_leaves_arrive_the_tree_is_the_same(portions: list[int]) -> None:
    grown, count = Tree(), 0
    for portion in portions:
        arriving = leaves(500)[count : count + portion]
        if portion == 1:
            grown.append(arriving[0])
        else:
            grown.extend(arriving)
        count += portion
    whole = Tree(leaves(500)[:count])

    assert len(grown) == count
    assert grown._levels == whole._levels
    assert [grown.root(size) for size in range(count + 1)] == [whole.root(size) for size in range(count + 1)]


def test_every_tree_extends_the_empty_one_if_that_has_the_empty_root() -> None:
    assert Tree(leaves(5)).consistency_proof(0, 5) == ()

    root = Tree(leaves(5)).root()
    verify_consistency(old_size=0, old_root=EMPTY_ROOT, new_size=5, new_root=root, proof=())
    verify_consistency(old_size=0, old_root=EMPTY_ROOT, new_size=0, new_root=EMPTY_ROOT, proof=())
    for old_root, new_size, new_root, proof in (
        (root, 5, root, ()),
        (root, 0, root, ()),
        (EMPTY_ROOT, 0, root, ()),
        (EMPTY_ROOT, 5, root, (root,)),
    ):
        with raises_code("bad_consistency"):
            verify_consistency(
                old_size=0, old_root=old_root, new_size=new_size, new_root=new_root, proof=proof
            )


@pytest.mark.parametrize("field", ["leaf_hash", "index", "size", "root", "proof"])
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda value: f"{type(value).__name__}")
def test_bad_input_to_an_inclusion_proof_is_a_typed_error(field: str, hostile: Any) -> None:
    tree = Tree(leaves(8))
    good: dict[str, Any] = {"leaf_hash": leaves(8)[3], "index": 3, "size": 8, "root": tree.root()}
    good["proof"] = tree.inclusion_proof(3, 8)
    with raises_code("bad_inclusion") as refusal:
        verify_inclusion(**good | {field: hostile})

    assert str(refusal.value)


@pytest.mark.parametrize("field", ["old_size", "old_root", "new_size", "new_root", "proof"])
@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda value: f"{type(value).__name__}")
def test_bad_input_to_a_consistency_proof_is_a_typed_error(field: str, hostile: Any) -> None:
    tree = Tree(leaves(8))
    good: dict[str, Any] = {"old_size": 3, "old_root": tree.root(3), "new_size": 8, "new_root": tree.root()}
    good["proof"] = tree.consistency_proof(3, 8)
    with raises_code("bad_consistency") as refusal:
        verify_consistency(**good | {field: hostile})

    assert str(refusal.value)


def test_trees_of_one_size_have_one_root() -> None:
    verify_consistency(old_size=3, old_root=CT_ROOTS[2], new_size=3, new_root=CT_ROOTS[2], proof=())

    with raises_code("bad_consistency", match="two roots"):
        verify_consistency(old_size=3, old_root=CT_ROOTS[2], new_size=3, new_root=CT_ROOTS[3], proof=())


def test_a_proof_that_is_too_long_for_its_size_is_refused_though_it_leads_to_the_root() -> None:
    """The last leaf of a complete tree is joined from the left only, wherever it is said to stand."""
    proof = Tree(CT_LEAVES).inclusion_proof(7, 8)
    for index, size in ((0, 1), (1, 2), (3, 4)):
        with raises_code("bad_inclusion", match="too long"):
            verify_inclusion(leaf_hash=CT_LEAVES[7], index=index, size=size, root=CT_ROOTS[7], proof=proof)


def test_a_proof_of_absurd_length_is_refused_before_it_is_hashed() -> None:
    with raises_code("bad_inclusion", match="at most 64"):
        verify_inclusion(
            leaf_hash=leaves(1)[0], index=0, size=MAX_TREE_SIZE, root=leaves(1)[0], proof=leaves(65)
        )
    with raises_code("bad_inclusion", match="the proof is too long"):
        verify_inclusion(
            leaf_hash=leaves(1)[0], index=0, size=MAX_TREE_SIZE, root=leaves(1)[0], proof=leaves(64)
        )


def test_a_tree_gives_no_proof_about_leaves_that_it_has_not() -> None:
    tree = Tree(leaves(8))
    for ask in (
        lambda: tree.root(9),
        lambda: tree.root(-1),
        lambda: tree.inclusion_proof(8, 8),
        lambda: tree.inclusion_proof(-1, 8),
        lambda: tree.inclusion_proof(0, 9),
        lambda: tree.consistency_proof(5, 4),
        lambda: tree.consistency_proof(1, 9),
    ):
        with pytest.raises(InvalidValue):
            ask()


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda value: f"{type(value).__name__}")
def test_a_leaf_that_is_no_hash_is_refused_and_the_tree_is_unchanged(hostile: Any) -> None:
    tree = Tree(leaves(3))
    with pytest.raises(InvalidValue):
        tree.extend([leaves(4)[3], hostile])

    assert (len(tree), tree.root()) == (3, Tree(leaves(3)).root())


@pytest.mark.parametrize("old", [3, 5, 6])
def test_a_proof_that_fits_the_new_root_alone_is_refused(old: int) -> None:
    tree = Tree(leaves(7))
    good: dict[str, Any] = {
        "old_size": old,
        "old_root": tree.root(old),
        "new_size": 7,
        "new_root": tree.root(7),
        "proof": tree.consistency_proof(old, 7),
    }
    verify_consistency(**good)
    with raises_code("bad_consistency", match="another old root"):
        verify_consistency(**good | {"old_root": tree.root(2)})
    with raises_code("bad_consistency", match="another new root"):
        verify_consistency(**good | {"new_root": tree.root(2)})
