"""Trust filtering, detection only: a record is left out if a trust snapshot explicitly denies it, and for no other reason.

A trust snapshot is a JSONL file. Each line is an object with a ``classification`` and the ``memory_id`` or the
``record_hash`` that it marks, or both; other fields are ignored. One denial denies, whatever other lines say. A line that
can't be read is an error, because skipping it could let a denied record pass.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from standfast.canon import parse
from standfast.errors import (
    InvalidTrustSnapshot,
    MissingStore,
    NotCanonical,
    UnreadableStore,
)
from standfast.limits import READ_CHUNK_BYTES
from standfast.recall.jsonl import LongLine, blocks, open_store_file, read_chunks
from standfast.recall.records import Candidate
from standfast.recall.request import TrustFilter


@dataclass(frozen=True, slots=True)
class Denials:
    """What a trust snapshot explicitly denies."""

    memory_ids: frozenset[str] = frozenset()
    record_hashes: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.memory_ids or self.record_hashes)

    def deny(self, candidate: Candidate) -> bool:
        """Whether a record is denied, by its id or by its hash."""
        if candidate.memory_id in self.memory_ids:
            return True
        return bool(self.record_hashes) and candidate.record_hash in self.record_hashes


def read_denials(trust: TrustFilter) -> Denials:
    """Read the denials of a request's trust filter; none without a snapshot."""
    path = trust.trust_snapshot_path
    if path is None:
        return Denials()
    ids: set[str] = set()
    hashes: set[str] = set()
    for place, mark in _marks(path):
        if mark["classification"] in trust.deny_classifications:
            ids.update(_named(mark, "memory_id", path, place))
            hashes.update(_named(mark, "record_hash", path, place))
    return Denials(frozenset(ids), frozenset(hashes))


def _marks(path: str) -> Iterable[tuple[int, dict[str, Any]]]:
    for place, line in _lines(path):
        try:
            mark = parse(line)
        except NotCanonical as error:
            raise InvalidTrustSnapshot(trust_snapshot_path=path, problem=f"line {place}: {error}") from None
        if not (
            isinstance(mark, dict)
            and isinstance(mark.get("classification"), str)
            and not {"memory_id", "record_hash"}.isdisjoint(mark)
        ):
            problem = (
                f"line {place}: a mark is an object with a classification and a memory_id or record_hash"
            )
            raise InvalidTrustSnapshot(trust_snapshot_path=path, problem=problem)
        yield place, mark


def _named(mark: dict[str, Any], name: str, path: str, place: int) -> list[str]:
    if name not in mark:
        return []
    if not isinstance(mark[name], str):
        raise InvalidTrustSnapshot(trust_snapshot_path=path, problem=f"line {place}: {name} must be a string")
    return [mark[name]]


def _lines(path: str) -> Iterable[tuple[int, bytes]]:
    try:
        descriptor, status = open_store_file(path)
    except MissingStore:
        raise InvalidTrustSnapshot(trust_snapshot_path=path, problem="there is no such file") from None
    except UnreadableStore as error:
        raise InvalidTrustSnapshot(trust_snapshot_path=path, problem=error.facts["problem"]) from None
    with os.fdopen(descriptor, "rb", buffering=0):
        place = 1
        for block in blocks(read_chunks(descriptor, status.st_size, READ_CHUNK_BYTES)):
            if isinstance(block, LongLine):
                raise InvalidTrustSnapshot(trust_snapshot_path=path, problem=f"line {place}: it is too long")
            for line in block.split(b"\n")[:-1]:
                if line and not line.isspace():
                    yield place, line
                place += 1
