"""The witness beside the file, ``<file>-head``: the end of the ledger as last acknowledged."""

import os
import zlib
from typing import Final

from standfast.ledger.chain import Tip

_WITNESS_BYTES: Final = 20 + 1 + 64 + 1 + 8 + 1


def read_witness(file: int) -> Tip:
    """The end of the ledger as it was last acknowledged; an empty one if that can't be read."""
    line = os.pread(file, _WITNESS_BYTES, 0)
    told = line[: _WITNESS_BYTES - 9]
    if len(line) < _WITNESS_BYTES or line[-9:] != b"%08x\n" % zlib.crc32(told):
        return Tip()
    seq, digest = told.split()
    return Tip(seq=int(seq), hash=digest.decode())


def witnessed(path: str) -> Tip:
    """What the witness of a store says, without making one."""
    try:
        file = os.open(path + "-head", os.O_RDONLY)
    except FileNotFoundError:
        return Tip()
    try:
        return read_witness(file)
    finally:
        os.close(file)


def write_witness(file: int, tip: Tip) -> None:
    """Tell where the ledger ends. The commit is durable already, so a full disk here is nobody's failure."""
    told = b"%020d %s " % (tip.seq, tip.hash.encode())
    try:
        os.pwrite(file, told + b"%08x\n" % zlib.crc32(told), 0)
    except OSError:
        return
