"""The fast reader against the plain one: the same bytes, whatever is in the stores and whatever is asked."""

import json
import random
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.recall.candidates import Candidate, Fault, read_block, read_line
from standfast.recall.jsonl import JsonlSource
from standfast.recall.phase6 import read
from standfast.recall.request import MemoryControllerInput
from standfast.records.canon import canonical_bytes
from tests.recall import plain_reader
from tests.recall.stores import BAD_LINES, FEW, contents, lines, marks, requests, written


def _read(request: dict[str, Any], **options: Any) -> dict[str, Any]:
    return read(MemoryControllerInput.from_json(request), partial(JsonlSource, **options)).as_json()


@FEW
@given(st.lists(contents, min_size=1, max_size=3), requests())
def test_two_implementations_agree_to_the_byte(stores: list[bytes], request: dict[str, Any]) -> None:
    with written(*stores) as paths:
        request["store_paths"] = paths

        assert _read(request) == plain_reader.read_plainly(request)


@FEW
@given(contents, requests(), st.lists(marks, max_size=3), st.booleans())
def test_two_implementations_filter_alike(
    store: bytes, request: dict[str, Any], denials: list[dict[str, str]], by_hash: bool
) -> None:
    if by_hash:
        hashes = [
            record.record_hash
            for record in map(read_line, store.split(b"\n"))
            if isinstance(record, Candidate)
        ]
        denials += [{"classification": "malicious", "record_hash": digest} for digest in hashes[:1]]
    snapshot = "\n".join(map(json.dumps, denials)).encode()
    with written(store, snapshot) as (path, trust):
        request |= {"store_paths": [path], "trust_filter": {"trust_snapshot_path": trust}}

        assert _read(request) == plain_reader.read_plainly(request)


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


TEACHING = b'{"memory_id":"m2","ts_utc":"2026-01-15","text":"refund","tags":["eu"],"refs":[],"n":1}'
ESCAPED = b'{"memory_id":"m2","ts_utc":"2026-01-15","text":"a \\"refund\\"","tags":["eu"],"refs":[],"n":1}'
TRICKS = {
    "tags over two lines": (b'"eu"', b'"eu",\n"us"'),
    "refs over two lines": (b'"refs":[]', b'"refs":[\n]'),
    "a text over two lines": (b"refund", b"ref\nund"),
    "an id over two lines": (b'"m2"', b'"m\n2"'),
    "a timestamp over two lines": (b"2026-01", b"2026\n01"),
    "a control character in a text": (b"refund", b"re\x01\x01fund"),
    "a control character in an id": (b"m2", b"m\x02\x02"),
    "a control character in a tag": (b'"eu"', b'"e\x01\x01u"'),
    "something before a line": (b"{", b"x{"),
    "something after a line": (b"}", b"}x"),
    "a number that is none": (b'"n":1', b'"n":01'),
    "a word that is none": (b'"n":1', b'"n":nil'),
    "a number out of range": (b'"n":1', b'"n":1e999'),
    "another string": (b'"n":1', b'"n":"x"'),
    "a string with a control character": (b'"n":1', b'"n":"\x02\x02"'),
    "one of two keys": (b',"n":1', b""),
    "a key more": (b'"n":1', b'"n":1,"o":2'),
    "a key twice": (b'"n":1', b'"n":1,"text":"x"'),
    "a null": (b'"2026-01-15"', b"null"),
    "no tags": (b'["eu"]', b"null"),
    "spaces": (b'","', b'", "'),
    "a bracket in a tag": (b'"eu"', b'"e]u"'),
    "a bad tag": (b'"eu"', b"5"),
    "bad refs": (b'"refs":[]', b'"refs":[5]'),
    "a key twice in refs, with a space": (b'"refs":[]', b'"refs":[{"a" :"1","a":"1"}]'),
    "a key twice in refs": (b'"refs":[]', b'"refs":[{"a":"1","a":"1"}]'),
    "a colon in refs": (b'"refs":[]', b'"refs":[{"a":":b"}]'),
    "nested refs": (b'"refs":[]', b'"refs":[{"a":{"b":[1]}}]'),
    "a great number in refs": (b'"refs":[]', b'"refs":[{"a":9007199254740993}]'),
    "bytes that are no UTF-8": (b"refund", b"\xff"),
    "letters": (b"refund", "Rückgabe".encode()),
    "a lone surrogate": (b"refund", b"\\ud800"),
    "an escape that is none": (b"refund", b"\\x"),
    "a backslash at the end": (b"refund", b"refund\\\\"),
    "a line that is too long": (b"refund", b"refund" * 200_000),
    "a line that grows in normal form": (b'"refs":[]', b'"refs":[' + b'{"a":[' + b"9e15," * 70_000 + b"1]}]"),
}


@pytest.mark.parametrize("neighbour", [TEACHING, ESCAPED], ids=["plain", "escaped"])
@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_gets_past_the_decoder(trick: str, neighbour: bytes) -> None:
    """A block in which one line, or a pair of lines, is not what it seems."""
    for tricked in (TEACHING, neighbour):
        block = [neighbour, tricked.replace(*TRICKS[trick], 1), neighbour]

        _check(b"\n".join(block).split(b"\n"))


def test_records_that_share_lines_are_no_records() -> None:
    """A record over two lines and two records on one line: as many records as lines, and all of them bad."""
    lines = [
        b'{"memory_id":"a",',
        b'"text":"b"}',
        b'{"memory_id":"c","text":"d"}{"memory_id":"e","text":"f"}',
    ]

    _check(lines)
    assert set(read_block(b"\n".join(lines) + b"\n")) == {Fault.NOT_JSON}


def test_a_repeated_key_does_not_hide_behind_a_number_that_is_written_shorter() -> None:
    """``1e5`` is five bytes shorter than 100000.0, which is what a repeated key of another object takes."""
    plain = b'{"memory_id":"m","text":"t","refs":[{"a":100000.0}]}'
    hiding = b'{"memory_id":"m","text":"t","refs":[{"a":1e5,"a":1e5}]}'
    for spaces in range(8):
        _check([plain, hiding.replace(b"[", b"[" + b" " * spaces)])


def _check(lines: list[bytes]) -> None:
    """A block gives what its lines give alone, and candidates are the same in all that is ever looked at."""
    found = read_block(b"".join(line + b"\n" for line in lines))
    alone = [read_line(line) if line.strip() else None for line in lines]

    assert [_facts(one) for one in found] == [_facts(one) for one in alone]


def _facts(found: Candidate | Fault | None) -> Any:
    if not isinstance(found, Candidate):
        return found
    return found.memory_id, found.text, found.ts_utc, found.time, found.tags, found.refs, found.record_hash


_GOOD = b'{"memory_id":"a","text":"eu","refs":[{"id":"1"}]}'
_TWICE = rb'"memory_id":"b","memory_id":"b","text":"","text":"","ts_utc":null,"ts_utc":null,"tags":[],"tags":[],"refs":[],"refs":[]'  # noqa: E501  # Data.


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            [_GOOD, '{"memory_id":"b","text":"","refs":[{"é":1,"e\u0301":2}]}'.encode()], id="equal keys"
        ),
        pytest.param(
            [_GOOD, b'{"memory_id":"b","text":"1","text":""}'], id="a field twice behind a plain line"
        ),
        pytest.param([rb'{"\u00e9":1,' + _TWICE + b"}"], id="every field twice, beside a key with an escape"),
        pytest.param(
            [
                rb'{"\u00e9":1,"memory_id":"a","text":"","ts_utc":null,"tags":[]}',
                b'{"memory_id":"b","text":"","ts_utc":null,"tags":[],"refs":[],"refs":[],"refs":[]}',
            ],
            id="three times what another line lacks",
        ),
        pytest.param(
            [b'{"memory_id": "a", "text": "", "x": 1}'] * 4
            + [b'{"memory_id": "b", "text": "", "text": "", "x": 1}'],
            id="as many bytes too many as there are ends of lines",
        ),
        pytest.param(
            [
                b'{"memory_id":"a","text":"","x":1}',
                b'{"memory_id":"b","text":"","x":1,"refs":[{"k":1,"k":2}]}',
            ],
            id="a key twice in refs, beside another field",
        ),
        pytest.param(
            [b'{"memory_id":"a","text":"","x":1}', b'{"memory_id":"b","text":"","x":"\xff"}'],
            id="another field that is not UTF-8",
        ),
    ],
)
def test_a_bad_line_is_found_among_good_ones(block: list[bytes]) -> None:
    _check(block)
    assert isinstance(read_line(block[-1]), Fault)
