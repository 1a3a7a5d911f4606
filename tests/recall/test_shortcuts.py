"""What a cold read does not do: every shortcut gives what the long way gives, wherever blocks begin and end."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.canon import canonical_bytes
from standfast.casing import lowered
from standfast.recall import rank
from standfast.recall.controller import read
from standfast.recall.moments import MISSING, moment_of, moment_text, normal_stamp, sortable, written_like
from standfast.recall.records import Record, read_line
from standfast.recall.request import MemoryControllerInput
from standfast.recall.sources import finding
from standfast.recall.sources.decoding import Decoder
from standfast.recall.sources.finding import Finder
from standfast.recall.sources.jsonl import JsonlSource
from standfast.recall.sources.proved import ProvedBlock
from tests.recall import plainly
from tests.recall.stores import FEW, STAMPS, WRITERS, lines, records, requests, texts, written
from tests.recall.test_equivalence import ESCAPED, TEACHING, TRICKS

EVEN_STAMPS = ["2026-01-15T10:30:00Z", "2026-02-15T10:30:00Z", "2025-12-31T23:59:59Z", "2026-02-31T00:00:00Z"]
regular_records = st.fixed_dictionaries(
    {
        "memory_id": st.sampled_from(["m1", "m2", "m3"]),
        "ts_utc": st.sampled_from(EVEN_STAMPS),
        "text": st.sampled_from(["refund", "Refund of rules", "nothing", "", "re fund", "EU  rules"]),
        "tags": st.lists(st.sampled_from(["eu", "EU", "refund", "rules", "a b"]), max_size=2),
        "refs": st.lists(
            st.fixed_dictionaries({"kind": st.just("doc"), "id": st.integers(0, 9)}), max_size=2
        ),
    }
)


@st.composite
def regular_stores(draw: st.DrawFn) -> bytes:
    """Lines that one writer wrote, and now and then another line among them."""
    write = draw(st.sampled_from(WRITERS))
    own = [write(record).encode() for record in draw(st.lists(regular_records, min_size=3, max_size=40))]
    for other in draw(st.lists(lines, max_size=2)):
        own.insert(draw(st.integers(0, len(own))), other)
    return b"".join(line + b"\n" for line in own)


def _read(request: dict[str, Any], chunk_bytes: int) -> dict[str, Any]:
    opener = partial(JsonlSource, chunk_bytes=chunk_bytes)
    return read(MemoryControllerInput.from_json(request), opener).as_json()


@FEW
@given(regular_stores(), requests(), st.integers(1, 900), st.sampled_from([0, 300, 2_000, 1 << 20]))
def test_no_shortcut_shows_wherever_blocks_end(
    store: bytes, request: dict[str, Any], chunk_bytes: int, waiting_bytes: int
) -> None:
    with written(store) as paths, pytest.MonkeyPatch.context() as patch:
        patch.setattr(rank, "MAX_WAITING_BYTES", waiting_bytes)
        request["store_paths"] = paths

        assert _read(request, chunk_bytes) == plainly.read_plainly(request)


@FEW
@given(regular_stores(), regular_stores())
def test_what_is_proved_are_records_and_nothing_else(taught: bytes, store: bytes) -> None:
    decoder = Decoder()
    decoder.proved(taught, first_place=1)
    _check_proved(decoder, store)


@pytest.mark.parametrize("neighbour", [TEACHING, ESCAPED], ids=["plain", "escaped"])
@pytest.mark.parametrize("trick", TRICKS)
def test_no_trick_is_proved(trick: str, neighbour: bytes) -> None:
    """A shape is taught, then comes a block in which one line, or a pair of lines, is not what it seems."""
    decoder = Decoder()
    taught = decoder.proved((TEACHING + b"\n") * 3, first_place=1)
    block = b"".join(line + b"\n" for line in (neighbour, TEACHING.replace(*TRICKS[trick], 1), neighbour))

    assert isinstance(taught, ProvedBlock), "the shape was not learnt"
    _check_proved(decoder, block)


def _check_proved(decoder: Decoder, block: bytes) -> None:
    found = decoder.proved(block, first_place=7)
    told = [line for line in block.split(b"\n")[:-1] if line.strip()]
    holds = [isinstance(read_line(line), Record) for line in told]

    assert not isinstance(found, ProvedBlock) or all(holds)
    assert len(found) == sum(holds)
    assert found.next_place == 7 + block.count(b"\n")


@FEW
@given(regular_stores(), st.lists(texts.map(lowered).filter(bool), min_size=1, max_size=3))
def test_a_line_with_points_is_always_looked_at(store: bytes, terms: list[str]) -> None:
    decoder = Decoder()
    decoder.proved(store, first_place=1)
    found = decoder.proved(store, first_place=1)
    words = [max(term.split() or ["-"], key=len) for term in terms]
    looked_at = (
        found.lines_with([word.encode() for word in words]) if isinstance(found, ProvedBlock) else None
    )
    if looked_at is not None:
        told = map(read_line, store.split(b"\n")[:-1])
        with_points = {
            canonical_bytes(record.text)
            for record in told
            if isinstance(record, Record)
            and any(word in lowered(record.text) or word in record.tags for word in words)
        }

        assert with_points <= {canonical_bytes(json.loads(line)["text"]) for line in looked_at}


parts = st.lists(st.binary(max_size=6) | st.sampled_from([b"refund", b"re\0fund", b"fundre"]), max_size=12)


@pytest.mark.parametrize("library", [finding._MEMMEM, None], ids=["memmem", "find"])
@given(parts, st.sampled_from([b"refund", b"fund", b"re", b"\0", b"eref"]), st.integers(1, 2_000))
def test_a_word_is_found_in_every_part_that_holds_it(
    library: Any, pieces: list[bytes], word: bytes, times: int
) -> None:
    """``times`` makes texts long enough for the C library, and short enough not to be."""
    told = [piece.replace(b'"', b"") * times + b'"' for piece in pieces]
    text = b"".join(told)
    ends = [sum(map(len, told[: number + 1])) for number in range(len(told))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finding, "_MEMMEM", library)
        finder = Finder(text)

        assert finder.rows_with(word, ends) == [row for row, piece in enumerate(told) if word in piece]
        assert [finder.find(word, start) for start in (0, 1, len(text))] == [
            text.find(word, start) for start in (0, 1, len(text))
        ]


moments = st.datetimes(timezones=st.just(UTC))


@given(st.lists(moments, min_size=1, max_size=8), st.sampled_from([19, 26]), st.sampled_from(STAMPS[:-1]))
def test_stamps_that_are_written_alike_sort_as_their_moments_do(
    instants: list[datetime], length: int, other: str
) -> None:
    told = [f'"{_text(instant)[:length]}Z"'.encode() for instant in instants]
    found = [moment_of(stamp[1:-1].decode()) for stamp in told]
    bar = max(found)
    since = written_like(bar, told)

    assert sortable([*told, None]) == [*told, b""]
    assert [stamp for _, stamp in sorted(zip(found, told, strict=True))] == sorted(told)
    assert all(stamp >= since for stamp, moment in zip(told, found, strict=True) if moment >= bar)
    assert sortable([*told, other]) is None
    assert written_like(MISSING, told) == b""


@given(
    st.sampled_from(STAMPS) | moments.map(lambda instant: f"{_text(instant)[:19]}Z") | st.text(max_size=20)
)
def test_a_stamp_has_one_normal_form(text: str) -> None:
    moment = moment_of(text)

    assert normal_stamp(text, moment) == (text if moment == MISSING else moment_text(moment))


def _text(instant: datetime) -> str:
    return (instant + timedelta()).strftime("%Y-%m-%dT%H:%M:%S.%f").zfill(26)


@pytest.mark.parametrize("mark", ['"', "\x1e"])
@given(
    st.lists(texts | st.text(st.sampled_from("ΣΑ'.\u0301\u0295\U0001171eİ\u1c89K"), max_size=6), max_size=5)
)
def test_texts_are_put_into_lower_case_together_as_they_are_alone(mark: str, pieces: list[str]) -> None:
    told = [piece.replace(mark, "") for piece in pieces]

    assert lowered(mark.join(told)) == mark.join(map(lowered, told))


@FEW
@given(st.lists(records(), min_size=1, max_size=6), st.sampled_from(WRITERS), st.integers(0, 5))
def test_a_line_that_is_bad_costs_its_neighbours_nothing(
    given_records: list[dict[str, Any]], write: Any, place: int
) -> None:
    good = [write(record).encode() for record in given_records] * 3
    bad = [*good[:place], b"{broken", *good[place:]]
    alone, beside = (
        Decoder().segment(b"".join(line + b"\n" for line in batch), first_place=1) for batch in (good, bad)
    )

    assert [alone.text(row) for row in range(len(alone))] == [beside.text(row) for row in range(len(beside))]
    assert len(beside.bad_lines) == len(alone.bad_lines) + 1
