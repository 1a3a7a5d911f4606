"""Signing costs what was added: the tree's right edge is kept, and only the newest checkpoint is read."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from standfast.errors import BrokenChain, InvalidValue
from standfast.ledger.chain import Entry
from standfast.ledger.checkpoint import CheckpointFile
from standfast.ledger.notary import Notary
from standfast.ledger.tree import Tree, TreeEdge
from tests.ledger.builders import LOG_KEY, entries

LEDGER = entries(70)


class _CountedLedger:
    """A ledger that counts how many entries were read from it."""

    def __init__(self, ledger: list[Entry]) -> None:
        self.ledger = ledger
        self.read = 0

    def after(self, seq: int) -> Iterable[Entry]:
        for entry in self.ledger[seq:]:
            self.read += 1
            yield entry


def _notary(folder: Path, ledger: _CountedLedger) -> Notary:
    return Notary(LOG_KEY, CheckpointFile(folder / "checkpoints"), ledger.after)


def test_an_edge_has_the_root_of_the_tree_at_every_size() -> None:
    tree, edge = Tree(), TreeEdge()
    for entry in LEDGER:
        assert edge.root() == tree.root()
        assert TreeEdge(edge.size, edge.hashes).root() == tree.root()
        tree.append(entry.hash)
        edge.append(entry.hash)

    assert (edge.size, edge.root()) == (len(tree), tree.root())


@pytest.mark.parametrize(("size", "hashes"), [(1, ()), (2, ("00" * 32, "11" * 32)), (1, ("00" * 31,))])
def test_hashes_that_are_no_edge_are_refused(size: int, hashes: tuple[str, ...]) -> None:
    with pytest.raises(InvalidValue):
        TreeEdge(size, hashes)


def test_a_new_process_reads_only_the_entries_since_the_last_checkpoint(tmp_path: Path) -> None:
    ledger = _CountedLedger(list(LEDGER[:60]))
    _notary(tmp_path, ledger).checkpoint()
    ledger.ledger.append(LEDGER[60])
    ledger.read = 0
    note = _notary(tmp_path, ledger).checkpoint()

    assert "\n61\n" in note
    assert ledger.read <= 6


def test_only_the_end_of_the_checkpoints_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = _CountedLedger([])
    for entry in LEDGER:
        ledger.ledger.append(entry)
        _notary(tmp_path, ledger).checkpoint()
    file = tmp_path / "checkpoints"
    file.write_bytes(b"\n" * (1 << 20) + file.read_bytes())
    read_bytes = [0]
    pread = os.pread

    def counted(descriptor: int, length: int, place: int) -> bytes:
        read_bytes[0] += length
        return pread(descriptor, length, place)

    monkeypatch.setattr(os, "pread", counted)
    _notary(tmp_path, ledger).checkpoint()

    assert 0 < read_bytes[0] < 1 << 17


@pytest.mark.parametrize("damage", ["missing", "torn", "another size", "another hash", "another tip"])
def test_an_edge_that_does_not_fit_is_made_anew(tmp_path: Path, damage: str) -> None:
    ledger = _CountedLedger(list(LEDGER[:20]))
    _notary(tmp_path, ledger).checkpoint()
    file = tmp_path / "checkpoints.edge"
    kept = json.loads(file.read_text())
    if damage == "missing":
        file.unlink()
    elif damage == "torn":
        file.write_text(file.read_text()[:30])
    else:
        name, value = {
            "another size": ("size", 19),
            "another hash": ("hashes", ["00" * 32, kept["hashes"][1]]),
            "another tip": ("tip", "00" * 32),
        }[damage]
        file.write_text(json.dumps(kept | {name: value}))
    ledger.ledger.append(LEDGER[20])
    signer = _notary(tmp_path, ledger)

    assert "\n21\n" in signer.checkpoint()
    assert signer.receipt(3).leaf_index == 2


def test_a_cut_ledger_is_not_signed_though_the_edge_is_there(tmp_path: Path) -> None:
    ledger = _CountedLedger(list(LEDGER[:20]))
    _notary(tmp_path, ledger).checkpoint()
    del ledger.ledger[12:]

    with pytest.raises(BrokenChain, match="20 entries"):
        _notary(tmp_path, ledger).checkpoint()
