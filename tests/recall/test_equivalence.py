"""The fast reader against the plain one: the same bytes, whatever is in the stores and whatever is asked."""

import json
import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.canon import canonical_bytes
from holdfast.recall.controller import read
from holdfast.recall.records import Fault, Record, read_line
from holdfast.recall.request import MemoryControllerInput
from holdfast.recall.sources.decoding import Decoder
from holdfast.recall.sources.jsonl import JsonlSource
from holdfast.recall.sources.segment import Segment
from tests.recall import plainly
from tests.recall.stores import BAD_LINES, FEW, contents, lines, marks, requests, written


def _read(request: dict[str, Any], **options: Any) -> dict[str, Any]:
    return read(MemoryControllerInput.from_json(request), partial(JsonlSource, **options)).as_json()


@FEW
@given(st.lists(contents, min_size=1, max_size=3), requests())
def test_two_implementations_agree_to_the_byte(stores: list[bytes], request: dict[str, Any]) -> None:
    with written(*stores) as paths:
        request["store_paths"] = paths

        assert _read(request) == plainly.read_plainly(request)


@FEW
@given(contents, requests(), st.lists(marks, max_size=3), st.booleans())
def test_two_implementations_filter_alike(
    store: bytes, request: dict[str, Any], denials: list[dict[str, str]], by_hash: bool
) -> None:
    if by_hash:
        hashes = [
            record.record_hash for record in map(read_line, store.split(b"\n")) if isinstance(record, Record)
        ]
        denials += [{"classification": "malicious", "record_hash": digest} for digest in hashes[:1]]
    snapshot = "\n".join(map(json.dumps, denials)).encode()
    with written(store, snapshot) as (path, trust):
        request |= {"store_paths": [path], "trust_filter": {"trust_snapshot_path": trust}}

        assert _read(request) == plainly.read_plainly(request)


@FEW
@given(contents, requests(), st.integers(1, 60))
def test_the_size_of_chunks_never_shows(store: bytes, request: dict[str, Any], chunk_bytes: int) -> None:
    with written(store) as paths:
        request["store_paths"] = paths

        assert _read(request, chunk_bytes=chunk_bytes) == _read(request)


@FEW
@given(st.lists(contents, min_size=2, max_size=3), requests(), st.randoms(use_true_random=False))
def test_neither_the_order_of_paths_nor_a_path_that_stands_twice_shows(
    stores: list[bytes], request: dict[str, Any], dice: random.Random
) -> None:
    with written(*stores) as paths:
        given_paths = [*paths, paths[0].replace("/store-", "/./store-")]
        dice.shuffle(given_paths)

        assert _read(request | {"store_paths": given_paths}) == _read(request | {"store_paths": paths})


@FEW
@given(contents, requests(), st.randoms(use_true_random=False))
def test_the_order_of_lines_shows_in_nothing_but_the_order_of_bad_ones(
    store: bytes, request: dict[str, Any], dice: random.Random
) -> None:
    shuffled = store.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n")
    dice.shuffle(shuffled)
    with written(store.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")) as paths:
        before = _read(request | {"store_paths": paths})["selection"]
        with open(paths[0], "wb") as file:  # noqa: PTH123  # A path in a string.
            file.write(b"\n".join(shuffled))
        after = _read(request | {"store_paths": paths})["selection"]

        assert after["selected"] == before["selected"]
        assert _sorted(after["dropped"]) == _sorted(before["dropped"])


def _sorted(dropped: Any) -> Any:
    return dropped if isinstance(dropped, dict) else sorted(dropped, key=canonical_bytes)


@FEW
@given(st.lists(lines, max_size=8))
def test_the_fast_way_reads_lines_as_the_definition_does(batch: list[bytes]) -> None:
    _check([line for line in batch if b"\n" not in line])


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: line[:60].decode(errors="replace"))
def test_what_may_be_wrong_with_a_line_is_seen_by_the_fast_way_too(line: bytes) -> None:
    sound = b'{"memory_id":"m2","text":"refund","tags":["eu"],"refs":[],"ts_utc":"2026-01-15"}'

    _check([line])
    _check([sound, line, sound])


def _segment(batch: list[bytes]) -> Segment:
    return Decoder().segment(b"".join(line + b"\n" for line in batch), first_place=1)


def _check(batch: list[bytes]) -> None:
    segment = _segment(batch)
    expected = [(place, read_line(line)) for place, line in enumerate(batch, 1) if line.strip()]
    rows = range(len(segment))

    assert [(segment.place(row), segment.record(row)) for row in rows] == [
        (place, record) for place, record in expected if isinstance(record, Record)
    ]
    assert [(line.place, line.fault) for line in segment.bad_lines] == [
        (place, fault) for place, fault in expected if isinstance(fault, Fault)
    ]


@FEW
@given(st.lists(lines, max_size=8))
def test_rows_hold_what_their_records_hold(batch: list[bytes]) -> None:
    segment = _segment([line for line in batch if b"\n" not in line])
    for kept in (segment, segment.kept()):
        rows = range(len(kept))
        read_again = [kept.record(row) for row in rows]

        assert [kept.memory_id(row) for row in rows] == [record.memory_id for record in read_again]
        assert list(kept.moments()) == [record.moment for record in read_again]
        assert [kept.book.sets[kept.tags[row]] for row in rows] == [record.tags for record in read_again]
        assert [kept.text(row) for row in rows] == [record.text.lower() for record in read_again]
