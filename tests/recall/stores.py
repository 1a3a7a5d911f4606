"""Hypothesis strategies for stores and requests: good lines, bad ones, and requests that reach every rule."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

# Each example writes files and reads them twice; the long profile makes up for the few.
FEW = settings(max_examples=max(25, settings().max_examples // 8))

WORDS = [
    "refund",
    "EU",
    "rules",
    "Zoll",
    "ZOLL",
    "über",
    "fund",
    "İstanbul",
    "ΟΔΟΣ",
    "ß",
    "日本",
    "a",
    "re",
    ":)",
    'say "no"',
]
SPACES = [" ", "  ", "\n", "\t", "\u00a0", " \u2003 "]
STAMPS = [
    "2026-01-15T10:30:00Z",
    "2026-01-15T10:30:00.000000Z",
    "2026-01-15T10:30:00.5Z",
    "2026-01-15 12:30:00+02:00",
    "2026-01-14",
    "2025-06-01T00:00Z",
    "2030-01-01T00:00:00Z",
    "0001-01-01T00:00:00+01:00",
    "yesterday",
    "",
]
TAGS = ["eu", "EU", "refund", "Rules", "zoll", "ü", "\u0075\u0308", "text", "tags", 'quo"te', "日本"]
REFS: list[Any] = [
    {},
    {"kind": "doc", "id": 'h"4'},
    {"page": 12, "score": 0.5, "sealed": True, "note": None},
    {"ü": 1},
    {"deep": {"er": [1, {"x": []}]}},
    {"big": 2**53},
    {"\u00fc": 1, "\u0075\u0308": 2},
]
EXTRAS: list[dict[str, Any]] = [
    {},
    {},
    {"importance": 3},
    {"snowflake": 2**63},
    {"meta": {"text": "x", "k": [[]]}},
    {"band": "LEDGER", "subject": "policy/eu"},
]

texts = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SPACES)), max_size=5).map(
    lambda pairs: "".join(word + space for word, space in pairs)
) | st.text(max_size=20)
ids = st.sampled_from(["m1", "m2", "m3", "", "ü", 'i"d', "text"])


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    """A record, right in most of its fields."""
    record: dict[str, Any] = {"memory_id": draw(ids), "text": draw(texts)}
    if draw(st.booleans()):
        record["ts_utc"] = draw(st.sampled_from([*STAMPS, None]))
    if draw(st.booleans()):
        record["tags"] = draw(st.lists(st.sampled_from(TAGS), max_size=3) | st.none())
    if draw(st.booleans()):
        record["refs"] = draw(st.lists(st.sampled_from(REFS), max_size=2) | st.none())
    extra: dict[str, Any] = draw(st.sampled_from(EXTRAS))
    return record | extra


Writer = Callable[[Any], str]
WRITERS: list[Writer] = [
    json.dumps,
    lambda value: json.dumps(value, ensure_ascii=False),
    lambda value: json.dumps(value, separators=(",", ":")),
    lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True),
    lambda value: " " + json.dumps(value, separators=(" , ", " : ")) + "\t",
]
BAD_LINES = [
    b"",
    b"  ",
    b"{",
    b"null",
    b"[]",
    b"\xef\xbb\xbf{}",
    b'{"memory_id":"m1"}',
    b'{"memory_id":1,"text":"x"}',
    b'{"memory_id":"m1","text":null}',
    b'{"memory_id":"m1","text":"x","ts_utc":5}',
    b'{"memory_id":"m1","text":"x","tags":"eu"}',
    b'{"memory_id":"m1","text":"x","tags":[1]}',
    b'{"memory_id":"m1","text":"x","refs":{}}',
    b'{"memory_id":"m1","text":"x","refs":[1]}',
    b'{"memory_id":"m1","text":"x","text":"refund"}',
    b'{"memory_id":"m1","memory_id":"m1","text":"x"}',
    b'{"memory_id":"m1","text":"refund","te\\u0078t":"x"}',
    b'{"memory_id":"m1","text":"x","text":"\\u0022\\u0022\\u0022\\u0022"}',
    '{"memory_id":"m1","text":"x","refs":[{"\u00fc":1,"\u0075\u0308":2}]}'.encode(),
    '{"memory_id":"m1","text":"x","refs":[{"\u00fc":1}],"tags":["\u00fc"]}'.encode(),
    b'{"memory_id":"m1","text":"x","refs":[{"a":1,"a":1}]}',
    b'{"memory_id":"m1","text":"x","refs":[{"a" :1,"a":1}]}',
    b'{"memory_id":"m1","text":"x","refs":[{"a"\t:1,"a":1}]}',
    b'{"memory_id":"m1","text":"x","refs":[{"a":[{"b":1,"b":1}]}]}',
    b'{"memory_id":"m1","text":"x","tags":["eu"],"tags":["eu"]}',
    b'{"memory_id":"m1","text":"x","meta":{"a":1,"a":2}}',
    b'{"memory_id":"m1","text":"refund","score":NaN}',
    b'{"memory_id":"m1","text":"refund","refs":[{"n":1e400}]}',
    b'{"memory_id":"m1","text":"refund","n":1e400}',
    b'{"memory_id":"m1","text":"\\ud800"}',
    b'{"memory_id":"m1","text":"x","other":"\\ud800"}',
    b'{"memory_id":"m1","text":"\xff"}',
    b'{"memory_id":"m1","text":"x","other":"\xff"}',
    b'{"memory_id":"m1","text":"x","other":"\xed\xa0\x80"}',
    b'{"memory_id":"m1","text":"x"} {"memory_id":"m2","text":"y"}',
    b'{"memory_id":"m1","text":"x"}]',
    b'{"memory_id":"m1","text":"tab\there"}',
    b'{"memory_id":"m1","text":"x","z":' + b"[" * 127 + b"]" * 127 + b"}",
    b'{"memory_id":"m1","text":"x","z":' + b"[" * 128 + b"]" * 128 + b"}",
    b'{"memory_id":"m1","text":"x","z":' + b"[" * 5000 + b"]" * 5000 + b"}",
    b'{"memory_id":"m1","text":"x","z":' + b"9" * 5000 + b"}",
    b'{"memory_id":"m1","text":"' + b"[" * 200 + b'"}',
    b'{"memory_id":"m1","text":"x","refs":[' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"]}",
]


@st.composite
def mangled(draw: st.DrawFn, lines: st.SearchStrategy[bytes]) -> bytes:
    """A line with one thing wrong: a byte changed, a piece cut out or doubled."""
    line = draw(lines)
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, min(len(line), start + 20)))
    piece = draw(st.sampled_from([b"", line[start:end] * 2, b'"', b"\\", b"{", b"\n", b"\r", b"\xff", b"0"]))
    return line[:start] + piece + line[end:]


good_lines = st.tuples(records(), st.sampled_from(WRITERS)).map(lambda pair: pair[1](pair[0]).encode())
lines = st.one_of(good_lines, good_lines, good_lines, st.sampled_from(BAD_LINES), mangled(good_lines))
contents = st.tuples(
    st.sampled_from([b"", b"", b"\xef\xbb\xbf"]),
    st.lists(lines, max_size=12),
    st.sampled_from([b"\n", b"\n", b"\r\n"]),
    st.booleans(),
).map(lambda parts: parts[0] + parts[2].join(parts[1]) + (parts[2] if parts[3] else b""))
queries = texts.filter(lambda text: bool(text.strip()))
scorings = st.fixed_dictionaries(
    {},
    optional={
        "enable_recency_weight": st.booleans(),
        "recency_half_life_days": st.integers(1, 100),
        "enable_tag_overlap": st.booleans(),
        "query_terms": st.lists(texts, max_size=4),
    },
)
budgets = st.fixed_dictionaries(
    {"max_excerpt_tokens": st.integers(1, 30)},
    optional={"per_item_max_excerpt_tokens": st.integers(1, 40), "max_items": st.integers(1, 6)},
)
marks = st.fixed_dictionaries(
    {"classification": st.sampled_from(["malicious", "suspicious", "spam"]), "memory_id": ids}
)


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request without its paths."""
    request: dict[str, Any] = {
        "query": draw(queries),
        "budget": draw(budgets),
        "scoring": draw(scorings),
        "dropped": draw(st.sampled_from(["full", "counts"])),
    }
    if draw(st.booleans()):
        request["now_utc"] = draw(st.sampled_from(["2026-02-01T00:00:00Z", "2026-01-15T10:30:00.25Z"]))
    return request


@contextmanager
def written(*stores: bytes) -> Iterator[list[str]]:
    """Files with these contents, for as long as the block lasts."""
    with TemporaryDirectory() as folder:
        paths = []
        for number, content in enumerate(stores):
            path = Path(folder) / f"store-{number}.jsonl"
            path.write_bytes(content)
            paths.append(str(path))
        yield paths
