"""Random histories of a store, what recall is asked of them, and what the records alone answer."""

from typing import Any

import pytest
from hypothesis import strategies as st

from standfast import EstimatedCounter, Memory, RecallPackage, RecallRequest
from standfast.recall import RecordView
from standfast.recall.analysis import analyzer_of
from standfast.recall.index import segment, store_index, upkeep
from standfast.recall.index.lexical_index import record_of_version
from standfast.recall.index.store_index import path_of
from standfast.recall.index.view import ListedView
from standfast.recall.lexical import LexicalController
from standfast.records.filters import Filter
from standfast.records.scopes import is_within, scoped_key
from standfast.records.vocabulary import ActionType, Band
from standfast.store.commit import Commit, Write
from standfast.store.store import Store

ENGLISH = analyzer_of("english")
WORDS = ["refunds", "VAT", "support", "group", "the", "Berlin", "2023", "Ada"]
SCOPES = ["shared", "user/ada", "user/ada/team", "user/adam"]
BANDS = ["LEDGER", "LEDGER", "LEDGER", "VAULT", "ACTIVE"]


def shrink_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let histories of a few commits have many segments and merges."""
    monkeypatch.setattr(upkeep, "MAX_TAIL_SNAPSHOTS", 3)
    monkeypatch.setattr(store_index, "MAX_TAIL_SNAPSHOTS", 3)
    monkeypatch.setattr(upkeep, "MERGED_SEGMENTS", 2)
    monkeypatch.setattr(upkeep, "MAX_SEGMENT_ROWS", 8)
    monkeypatch.setattr(upkeep, "_LEVELS", (4, 8))
    monkeypatch.setattr(segment, "_BLOCK_BYTES", 40)


writes = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b", "c", "policy/eu", "b~0123456789ab"]),
        "scope": st.sampled_from(SCOPES),
        "band": st.sampled_from(BANDS),
        "words": st.lists(st.sampled_from(WORDS), max_size=6),
        "position": st.integers(0, 3) | st.none(),
        "tag": st.sampled_from(["eu", "us"]),
        "plan": st.sampled_from([1, True, 1.5, "gold", None]),
        "act": st.sampled_from(["write", "write", "write", "write", "expire", "forget", "not a record"]),
    }
)
histories = st.lists(st.lists(writes, min_size=1, max_size=3), min_size=1, max_size=16)
questions = st.fixed_dictionaries(
    {
        "query": st.sampled_from(["refunds in Berlin", "the support group of Ada", "VAT 2023 policy", "eu"]),
        "scopes": st.lists(st.sampled_from(SCOPES), min_size=1, max_size=2),
        "bands": st.sampled_from(
            [("LEDGER",), ("VAULT", "LEDGER"), ("ACTIVE", "LEDGER"), ("VAULT", "ACTIVE")]
        ),
        "where": st.sampled_from(
            [
                {},
                {"tag": "eu"},
                {"metadata": {"plan": 1}},
                {"metadata": {"plan": True}},
                {"subject_prefix": "policy/e"},
                {"subject_prefix": "pol", "tag": "us"},
                {"source_kind": " DOC", "after": "2026-01-02T00:00:00Z"},
                {"before": "2026-01-03T12:00:00Z"},
                {"session": "s"},
                {"speaker": "ADA", "least_origin": "ordinary"},
            ]
        ),
    }
)


def apply_writes(
    store: Store,
    number: int,
    writes: list[dict[str, Any]],
    *,
    namespace: str = "default",
    run_id: str | None = None,
) -> None:
    """Apply what can be applied of a list of writes, in one commit."""
    keys: dict[str, Write] = {}
    for one in writes:
        memory_id = one["name"].partition("~")[0]
        key = scoped_key(one["band"], one["scope"], one["name"])
        is_live = bool(store.read(namespace, [key]))
        has_history = bool(store.history(namespace, key))
        value = {
            "memory_id": memory_id,
            "text": " ".join(one["words"]),
            "band": one["band"],
            "scope": one["scope"],
            "ts_utc": f"2026-01-0{1 + number % 5}T12:00:00Z",
            "tags": [one["tag"]],
            "subject": memory_id if "/" in memory_id else None,
            "source": {"kind": "doc" if number % 2 else "web", "id": "x"},
            "metadata": {"plan": one["plan"]},
            "session": None if one["position"] is None else "s",
            "position": one["position"],
            "speaker": ("Ada", None, "Bob")[number % 3],
            "origin": ("ordinary", "untrusted", "trusted")[number % 3],
            "verdict": "PARTIAL" if number % 5 == 4 else "SEAL",
        }
        if one["act"] == "forget" and has_history:
            keys[key] = Write.of(namespace, key, ActionType.EXPIRE, erases="asked for")
        elif one["act"] == "expire" and is_live:
            keys[key] = Write.of(namespace, key, ActionType.EXPIRE)
        elif one["act"] == "not a record":
            action = ActionType.MERGE if is_live else ActionType.WRITE
            keys[key] = Write.of(namespace, key, action, {"refunds": number})
        elif one["act"] == "write":
            action = ActionType.MERGE if is_live else ActionType.WRITE
            keys[key] = Write.of(namespace, key, action, value)
    if keys:
        store.commit(
            Commit.of(
                run_id=run_id or f"r{store.ids.new_id()}",
                memory_snapshot_id=store.head(),
                policy_set_id="p",
                writes=keys.values(),
            )
        )


def plain_answer(
    store: Store, at: int, question: dict[str, Any], namespace: str = "default"
) -> RecallPackage:
    """What the records give: all that a snapshot shows, listed."""
    request = request_of(question)
    listed = []
    for band in request.bands:
        for version in store.scan(namespace, prefix=f"{band}/", at=at):
            record = record_of_version(version)
            if record is not None and any(is_within(record.scope, scope) for scope in request.places):
                listed.append((version, record))
    law = {(one.scope, one.memory_id) for _, one in listed if one.band == Band.VAULT}
    shown = [
        (path_of(namespace, Band(one.band), one.scope), one, version)
        for version, one in listed
        if one.band == Band.VAULT or Band.VAULT not in request.bands or (one.scope, one.memory_id) not in law
    ]
    view = ListedView(
        [(path, one) for path, one, _ in shown],
        ENGLISH,
        keys=[version.key for *_, version in shown],
        firsts=[version.memory_snapshot_id for *_, version in shown],
    )
    instant = store.commit_of(at).committed_at if at else None
    records = RecordView((), lambda: view, instant)
    package = LexicalController().answer(request, records, EstimatedCounter()).package
    assert isinstance(package, RecallPackage)
    return package


def request_of(question: dict[str, Any], controller: str = "lexical-v1") -> RecallRequest:
    return RecallRequest(
        query=question["query"],
        tokens=200,
        max_items=5,
        bands=question["bands"],
        scopes=tuple(question["scopes"]),
        where=Filter.of(question["where"]),
        controller=controller,
        # Without an instant, age is measured when the snapshot was committed, by the clock of its backend.
        now_utc="2026-02-01T00:00:00Z",
    )


def indexed_answer(
    memory: Memory, at: int, question: dict[str, Any], controller: str = "lexical-v1"
) -> RecallPackage:
    package = memory.at(at).answer(request_of(question, controller)).package
    assert isinstance(package, RecallPackage)
    return package


def check(store: Store, memories: list[Memory], question: dict[str, Any]) -> None:
    head = store.head()
    for at in sorted({head, head // 2, head // 3}):
        expected = plain_answer(store, at, question)
        for memory in memories:
            found = indexed_answer(memory, at, question)
            assert (found.items, found.matched) == (expected.items, expected.matched)
