"""Golden packages: what each rule of the contract gives, for checking any implementation of it.

``python -m tests.recall.golden`` writes ``tests/vectors/memory-read.jsonl`` anew from the cases below. A
difference in that file is a change of ``phase6-v1``, which never changes.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from standfast.errors import StandfastError
from standfast.recall.phase6 import read
from standfast.recall.request import MemoryControllerInput

VECTORS = Path(__file__).parents[1] / "vectors" / "memory-read.jsonl"


def record(memory_id: str, text: str, **fields: Any) -> str:
    """One line of a store."""
    return json.dumps({"memory_id": memory_id, "text": text} | fields, ensure_ascii=False)


RULES = [
    record("r1", "EU refunds take 14 days.", tags=["Refunds", "eu"], ts_utc="2026-01-15T10:30:00Z"),
    record("r2", "Refunds in the US: 30 days.", tags=["refunds", "us"], ts_utc="2026-01-16T10:30:00Z"),
    record("r3", "VAT is 19 % in Germany.", tags=["vat"], ts_utc="2025-12-01"),
    record("r4", "Nothing about money.", refs=[{"kind": "doc", "id": "handbook#4"}]),
    record("r5", "  refunds\n\nrefunds  ", ts_utc="yesterday"),
]
BAD = [
    RULES[0],
    "",
    '{"memory_id":"b1"}',
    '{"memory_id":"b2","text":5}',
    "no json",
    '{"memory_id":"b3","text":"x","text":"y"}',
    '{"memory_id":"b4","text":"x","refs":[1]}',
    '{"memory_id":"b5","text":"x","score":NaN}',
    '{"memory_id":"b6","text":"refunds","tags":null,"refs":null,"ts_utc":null,"importance":9007199254740993}',
]
UNICODE = [
    record("u1", "Rückgabe: 14 Tage für Bücher 📚📚📚"),
    record("u2", "RÜCKGABE NACH İSTANBUL, ΟΔΟΣ ΣΟΦΙΑΣ", tags=["RÜCKGABE"]),
    record("u3", "退款需要十四天"),
    record("u4", "Ru\u0308ckgabe, decomposed"),
]
TIES = [
    record("t2", "same"),
    record("t1", "same"),
    record("t1", "same", tags=["a"]),
    record("t3", "same", ts_utc="2026-01-01T00:00:00Z"),
    record("t4", "same", ts_utc="2026-01-01T01:00:00+01:00"),
    record("t5", "same", ts_utc="2026-01-01T00:00:00.000001Z"),
]
TRUST = [
    '{"memory_id":"r1","classification":"malicious"}',
    '{"memory_id":"r2","classification":"suspicious"}',
    '{"memory_id":"r3","classification":"spam"}',
]


def _case(name: str, lines: list[str], **request: Any) -> dict[str, Any]:
    stores = request.pop("stores", {"store.jsonl": "".join(line + "\n" for line in lines)})
    given = {"query": "refunds eu", "store_paths": sorted(stores), "budget": {"max_excerpt_tokens": 100}}
    return {"name": name, "files": stores, "request": given | request}


def _scoring(**fields: Any) -> dict[str, Any]:
    return {"scoring": fields}


NOW = {"now_utc": "2026-02-14T10:30:00Z"}
CASES = [
    _case("terms count one point each, tags half a point", RULES),
    _case("tags can be left out", RULES, **_scoring(enable_tag_overlap=False)),
    _case("the query is trimmed, collapsed and lowered", RULES, query="  REFUNDS \t\n eu  a "),
    _case(
        "given terms replace the query's words", RULES, **_scoring(query_terms=["  Germany ", "VAT is", ""])
    ),
    _case("no terms at all", RULES, **_scoring(query_terms=[])),
    _case("recency adds up to a point", RULES, **_scoring(enable_recency_weight=True), **NOW),
    _case(
        "recency has a half-life",
        RULES,
        **_scoring(enable_recency_weight=True, recency_half_life_days=1),
        **NOW,
    ),
    _case("recency counts only with a time to measure from", RULES, **_scoring(enable_recency_weight=True)),
    _case("a time alone does not make recency count", RULES, **NOW),
    _case(
        "a timestamp that is to come weighs 1",
        RULES,
        **_scoring(enable_recency_weight=True),
        now_utc="2020-01-01T00:00:00Z",
    ),
    _case("the first that overflows the budget ends selection", RULES, budget={"max_excerpt_tokens": 8}),
    _case(
        "each excerpt can be cut", RULES, budget={"max_excerpt_tokens": 100, "per_item_max_excerpt_tokens": 2}
    ),
    _case(
        "one excerpt never has more than all",
        RULES,
        budget={"max_excerpt_tokens": 3, "per_item_max_excerpt_tokens": 9},
    ),
    _case("after max_items the rest is dropped", RULES, budget={"max_excerpt_tokens": 100, "max_items": 2}),
    _case("an empty text costs nothing", [record("e1", ""), record("e2", " \n "), *RULES]),
    _case("ties go by time, store, id and hash", TIES, query="same"),
    _case(
        "stores are read in the order of their paths",
        [],
        query="same",
        stores={
            "b.jsonl": record("x", "same"),
            "a/z.jsonl": record("x", "same"),
            "a.jsonl": record("w", "same"),
        },
        store_paths=["b.jsonl", "./a/../a/z.jsonl", "a.jsonl", "b.jsonl"],
    ),
    _case("bad lines are dropped first, in read order", BAD),
    _case("dropped as counts", BAD, dropped="counts", budget={"max_excerpt_tokens": 100, "max_items": 1}),
    _case(
        "a cut never splits a code point",
        UNICODE,
        query="rückgabe",
        budget={"max_excerpt_tokens": 100, "per_item_max_excerpt_tokens": 8},
    ),
    _case("lower case is Unicode's", UNICODE, query="İstanbul οδος rückgabe 退款"),
    _case("an empty store", []),
    _case(
        "line ends, a byte-order mark and a last line without an end",
        [],
        stores={"store.jsonl": "\ufeff" + RULES[0] + "\r\n\r\n" + RULES[1] + "\r\n" + RULES[2]},
    ),
    _case(
        "explicit denials are dropped",
        RULES,
        stores={"store.jsonl": "\n".join(RULES), "trust.jsonl": "\n".join(TRUST)},
        store_paths=["store.jsonl"],
        trust_filter={"trust_snapshot_path": "trust.jsonl"},
    ),
    _case(
        "the request says which classifications deny",
        RULES,
        stores={"store.jsonl": "\n".join(RULES), "trust.jsonl": "\n".join(TRUST)},
        store_paths=["store.jsonl"],
        trust_filter={"trust_snapshot_path": "trust.jsonl", "deny_classifications": ["spam", "suspicious"]},
    ),
    _case("an empty query", RULES, query=" \n "),
    _case("no stores", RULES, store_paths=[]),
    _case("a budget of nothing", RULES, budget={"max_excerpt_tokens": 0}),
    _case("a store that is not there", RULES, store_paths=["store.jsonl", "nowhere.jsonl"]),
    _case("a time that is none", RULES, now_utc="soon"),
    _case("a trust snapshot that is not there", RULES, trust_filter={"trust_snapshot_path": "nowhere.jsonl"}),
]


@contextmanager
def files_of(case: dict[str, Any]) -> Iterator[None]:
    """A case's files, in the working folder for as long as the block lasts."""
    before = Path.cwd()
    with TemporaryDirectory() as folder:
        for name, content in case["files"].items():
            path = Path(folder) / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.encode())
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def outcome(case: dict[str, Any]) -> dict[str, Any]:
    """What comes out of a case: package, text and receipt; or an error."""
    with files_of(case):
        try:
            request = MemoryControllerInput.from_json(case["request"])
            package = read(request)
        except StandfastError as error:
            return {"error": error.as_json()}
    receipt = package.receipt(request).as_json()
    return {"package": package.as_json(), "text": package.text, "receipt": receipt}


def vectors() -> str:
    """The whole file."""
    return "".join(json.dumps(case | outcome(case), ensure_ascii=False) + "\n" for case in CASES)


if __name__ == "__main__":
    VECTORS.write_text(vectors(), encoding="utf-8")
