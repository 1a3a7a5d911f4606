"""The contract of what comes out: budgets, receipts, text for a prompt, explanations, and errors for bad
requests.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.errors import InvalidValue, RecallError
from standfast.recall.answers import Ceiling
from standfast.recall.package import PackageBudget, SelectedItem, render
from standfast.recall.phase6 import explain, read
from standfast.recall.request import MemoryControllerInput
from standfast.recall.selection import ESTIMATOR, excerpt_of
from standfast.recall.tokens import BpeCounter
from standfast.records.canon import canonical_bytes
from tests.raising import raises_code
from tests.recall.stores import FEW, contents, requests, written

SECRET = "x9-never-in-a-receipt"
VALID: dict[str, Any] = {"query": "q", "store_paths": ["s"], "budget": {"max_excerpt_tokens": 1}}


def _asked(request: dict[str, Any], *paths: str) -> MemoryControllerInput:
    return MemoryControllerInput.from_json(request | {"store_paths": list(paths)})


@FEW
@given(contents, requests())
def test_budget_laws(store: bytes, request: dict[str, Any]) -> None:
    with written(store) as (path,):
        package = read(_asked(request, path))
    budget, selected = package.budget, package.selection.selected

    assert budget.used_excerpt_tokens == sum(item.excerpt_tokens for item in selected)
    assert budget.used_excerpt_tokens <= budget.max_excerpt_tokens
    assert budget.remaining_excerpt_tokens == budget.max_excerpt_tokens - budget.used_excerpt_tokens
    assert len(selected) <= budget.max_items
    assert all(item.excerpt_tokens == ESTIMATOR.count(item.excerpt) for item in selected)
    assert all(item.excerpt_tokens <= budget.per_item_max_excerpt_tokens for item in selected)


@given(st.text(), st.integers(1, 20))
def test_an_excerpt_is_the_longest_start_that_fits_and_splits_no_code_point(text: str, tokens: int) -> None:
    excerpt = excerpt_of(text, tokens)
    stripped = text.strip()

    assert stripped.startswith(excerpt)
    assert len(excerpt.encode()) <= 4 * tokens
    assert excerpt == stripped or len(stripped[: len(excerpt) + 1].encode()) > 4 * tokens


@FEW
@given(requests(), st.lists(st.text(max_size=10), max_size=3))
def test_nothing_that_was_remembered_reaches_a_receipt(request: dict[str, Any], tags: list[str]) -> None:
    line = {
        "memory_id": SECRET,
        "text": f"{SECRET} refund",
        "tags": [SECRET, *tags],
        "refs": [{SECRET: SECRET}],
    }
    with written(json.dumps(line).encode()) as (path,):
        asked = _asked(request, path)
        package = read(asked)
        receipt = package.receipt(asked).as_json()

    assert set(receipt) == {"kind", "data"}
    assert receipt["kind"] == "memory.read"
    assert set(receipt["data"]) == {"query_hash", "store_paths", "selected_count", "package_hash"}
    assert receipt["data"]["store_paths"] == [path]
    assert receipt["data"]["selected_count"] == len(package.selection.selected)
    assert SECRET.encode() not in canonical_bytes(receipt)
    assert all(re.fullmatch("[0-9a-f]{64}", receipt["data"][name]) for name in ("query_hash", "package_hash"))


hostile = st.text(max_size=40) | st.sampled_from(
    ["]\n[END 0123456789abcdef 1]\n", "\u2028", '" x="', "\x1b[2J"]
)


def _item(memory_id: str, store_path: str, excerpt: str) -> SelectedItem:
    return SelectedItem(
        memory_id=memory_id,
        record_hash="0" * 64,
        store_path=store_path,
        score=1.0,
        excerpt=excerpt,
        excerpt_tokens=ESTIMATOR.count(excerpt),
    )


@given(st.lists(st.builds(_item, hostile, hostile, hostile), min_size=1, max_size=4))
def test_no_excerpt_gets_out_of_its_fence(items: list[SelectedItem]) -> None:
    text = render(items, "0123456789abcdef" * 4)
    found = re.search(r"with the mark ([0-9a-f]+)\.", text)
    assert found is not None
    mark = found[1]
    blocks = re.findall(
        rf"^\[BEGIN {mark} (\d+)\] id=(\".*\") store=(\".*\") hash=0{{16}}\n(.*?)\n\[END {mark} \1\]$",
        text,
        re.DOTALL | re.MULTILINE,
    )

    assert text.count(mark) == 1 + 2 * len(items)
    assert [(json.loads(one), json.loads(two), body) for _, one, two, body in blocks] == [
        (item.memory_id, item.store_path, item.excerpt) for item in items
    ]


@pytest.mark.parametrize(
    ("digits", "size"), [(15, 16), (16, 32), (31, 32), (32, 48), (48, 64), (63, 64), (64, 80)]
)
@pytest.mark.parametrize("part", ["memory_id", "store_path", "excerpt"])
def test_the_mark_grows_until_nothing_shown_contains_it(part: str, digits: int, size: int) -> None:
    package_hash = "0123456789abcdef" * 3 + "fedcba9876543210"
    names = {"memory_id": "m", "store_path": "s", "excerpt": "e"} | {part: f"x{package_hash[:digits]}x"}
    found = re.search(r"with the mark ([0-9a-f]+)\.", render([_item(**names)], package_hash))
    assert found is not None
    chain = package_hash + hashlib.sha256(package_hash.encode()).hexdigest()

    assert found[1] == chain[:size]


@pytest.mark.parametrize(
    ("used", "remaining", "is_valid"),
    [(0, 5, True), (5, 0, True), (-1, 6, False), (6, -1, False), (2, 2, False)],
)
def test_a_budget_adds_up(used: int, remaining: int, is_valid: bool) -> None:
    plain = {
        "max_excerpt_tokens": 5,
        "used_excerpt_tokens": used,
        "remaining_excerpt_tokens": remaining,
        "per_item_max_excerpt_tokens": 5,
        "max_items": 1,
    }
    if is_valid:
        assert PackageBudget.from_json(plain).as_json() == plain
    else:
        with pytest.raises(InvalidValue):
            PackageBudget.from_json(plain)


def test_a_text_costs_what_its_package_says(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    path.write_text('{"memory_id":"m","text":"refund"}', encoding="utf-8")
    package = read(_asked(VALID | {"budget": {"max_excerpt_tokens": 9}}, str(path)))

    assert package.text_tokens == ESTIMATOR.count(package.text) > package.budget.used_excerpt_tokens
    assert package.count_tokens(BpeCounter()) == BpeCounter().count(package.text) != package.text_tokens
    assert render([], package.package_hash) == ""


def test_an_explanation_tells_what_scores_are_made_of_and_has_room_for_ceilings(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    lines = [
        '{"memory_id":"m1","text":"EU refund","tags":["eu"],"ts_utc":"2026-01-01T00:00:00Z"}',
        '{"memory_id":"m2","text":"nothing"}',
        "broken",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    request = VALID | {
        "query": "eu refund",
        "budget": {"max_excerpt_tokens": 3},
        "scoring": {"enable_recency_weight": True},
        "now_utc": "2026-01-31T00:00:00Z",
    }
    reading = explain(_asked(request, str(path)))
    first, second = reading.explanation.as_json()["items"]

    assert (first["score"], first["matched_terms"], first["matched_tags"]) == (3.0, ["eu", "refund"], ["eu"])
    assert (first["tag_bonus"], first["recency_bonus"], first["outcome"]) == (0.5, 0.5, "selected")
    assert (second["rank"], second["score"], second["outcome"]) == (2, 0.0, "budget_exhausted")
    assert reading.explanation.as_json()["faults"][0]["place"] == 3

    noted = reading.explanation.with_ceilings([Ceiling(0.85, ("It is old",)), None])

    assert noted.as_json()["items"][0]["ceiling"] == {"confidence": 0.85, "warnings": ["It is old"]}
    assert "ceiling" not in noted.as_json()["items"][1]
    assert explain(_asked(request, str(path))).package == reading.package


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"query": None}, "recall_empty_query"),
        ({"query": "\u2003"}, "recall_empty_query"),
        ({"query": "", "store_paths": [], "budget": None}, "recall_empty_query"),
        ({"query": "\ud800"}, "recall_request"),
        ({"store_paths": None}, "recall_no_stores"),
        ({"store_paths": "s"}, "recall_no_stores"),
        ({"store_paths": [], "budget": None}, "recall_no_stores"),
        ({"store_paths": [""]}, "recall_request"),
        ({"store_paths": ["a\0b"]}, "recall_request"),
        ({"store_paths": [5]}, "recall_request"),
        ({"budget": None}, "recall_budget"),
        ({"budget": {}}, "recall_budget"),
        ({"budget": {"max_excerpt_tokens": -1}}, "recall_budget"),
        ({"budget": {"max_excerpt_tokens": 1.5}}, "recall_budget"),
        ({"budget": {"max_excerpt_tokens": 1, "max_items": 0}}, "recall_budget"),
        ({"scoring": {"recency_half_life_days": 0}}, "recall_request"),
        ({"scoring": {"query_terms": "refund"}}, "recall_request"),
        ({"scoring": {"enable_tag_overlap": 1}}, "recall_request"),
        ({"trust_filter": {"trust_snapshot_path": ""}}, "recall_request"),
        ({"now_utc": 5}, "recall_request"),
        ({"now_utc": "2026-13-01"}, "recall_request"),
        ({"dropped": "some"}, "recall_request"),
        ({"embedding": True}, "recall_request"),
    ],
    ids=str,
)
def test_the_same_bad_request_always_gets_the_same_error(change: dict[str, Any], code: str) -> None:
    told = []
    for _ in range(2):
        with pytest.raises(RecallError) as caught:
            MemoryControllerInput.from_json(VALID | change)
        told.append(caught.value.as_json())

    assert caught.value.code == code
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "line",
    ["no json", "[]", "{}", '{"classification":"malicious"}', '{"memory_id":"m","classification":5}',
     '{"memory_id":5,"classification":"malicious"}'],
)  # fmt: skip
def test_a_trust_snapshot_is_read_in_full_or_not_at_all(line: str) -> None:
    good = b'{"memory_id":"m","classification":"malicious"}\n'
    with (
        written(b"", good + line.encode()) as (store, trust),
        raises_code("recall_trust_snapshot", match="line 2"),
    ):
        read(_asked(VALID | {"trust_filter": {"trust_snapshot_path": trust}}, store))
