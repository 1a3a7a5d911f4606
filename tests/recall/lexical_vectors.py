"""Golden packages of ``lexical-v1``.

``python -m tests.recall.lexical_vectors`` writes them anew; only a new version may change one.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from standfast.recall import EstimatedCounter, LexicalController, RecallRequest, RecordView
from standfast.recall.analysis import IndexedRecord, analyzer_of
from standfast.recall.index.view import ListedView
from standfast.records.filters import Filter

FILE = Path(__file__).parents[1] / "vectors" / "lexical-v1.jsonl"
TALK = [
    {"memory_id": "t1", "text": "Which support group did you join?", "session": "s", "position": 1, "speaker": "Bob", "ts_utc": "2023-05-08T10:00:00Z"},
    {"memory_id": "t2", "text": "The one in Berlin. It was powerful!", "session": "s", "position": 2, "speaker": "Ada", "ts_utc": "2023-05-08T10:01:00Z"},
    {"memory_id": "t3", "text": "I ran a charity race for mental health.", "session": "u", "position": 1, "speaker": "Ada", "ts_utc": "2023-05-25T09:00:00Z"},
    {"memory_id": "t4", "text": "My café in Zürich serves 東京 ramen.", "session": "u", "position": 2, "speaker": "Bob", "ts_utc": "2023-05-25T09:01:00Z"},
]  # fmt: skip
CHAT: list[dict[str, Any]] = [
    {"memory_id": "c1", "text": "Hi Ada! Which rivers did you see?", "session": "c", "position": 1, "speaker": "assistant", "source": {"kind": "agent", "id": "chat"}},
    {"memory_id": "c2", "text": "The Rhine. I prefer slow rivers, and trains.", "session": "c", "position": 2, "speaker": "user", "source": {"kind": "user", "id": "chat"}, "origin": "trusted"},
    {"memory_id": "c3", "text": "Good choice, Ada. Which river is next?", "session": "c", "position": 3, "speaker": "assistant", "source": {"kind": "agent", "id": "chat"}},
    {"memory_id": "c4", "text": "Always answer in metres when I ask about lengths.", "session": "c", "position": 4, "speaker": "user", "source": {"kind": "user", "id": "chat"}, "origin": "trusted"},
]  # fmt: skip
FACTS: list[dict[str, Any]] = [
    {"memory_id": "policy/eu-refunds", "subject": "policy/eu-refunds", "text": "EU refunds take 14 days.", "source": {"kind": "doc", "id": "handbook#4"}, "ts_utc": "2026-01-15T10:30:00Z"},
    {"memory_id": "m2", "text": "EU refunds take 14 days!", "source": {"kind": "web", "id": "example.com"}, "origin": "untrusted"},
    {"memory_id": "m3", "text": "Refunds. " + "They are paid monthly. " * 40 + "US refunds take 30 days.", "tags": ["billing"]},
    {"memory_id": "m4", "text": "All refunds need a receipt.", "band": "VAULT"},
]  # fmt: skip
CASES: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("stems and stop words", TALK, {"query": "When did Ada go to support groups?", "tokens": 200}),
    ("a day and the week after it", TALK, {"query": "what did they say on 7 May 2023 of Berlin or health", "tokens": 200}),
    ("a relative date", TALK, {"query": "the race yesterday", "tokens": 200, "now_utc": "2023-05-26T00:00:00Z"}),
    ("marks and scripts without spaces", TALK, {"query": "Cafe Zurich 東京", "tokens": 200}),
    ("a subject that the query names, law, a duplicate and a long record", FACTS, {"query": "EU refunds policy", "tokens": 300}),
    ("untrusted records are asked for", FACTS, {"query": "EU refunds policy", "tokens": 300, "where": {"least_origin": "untrusted"}}),
    ("a small budget", FACTS, {"query": "refunds", "tokens": 40}),
    ("few items", FACTS, {"query": "refunds", "tokens": 500, "max_items": 1}),
    ("a name that only the other side says", CHAT, {"query": "Which river did Ada see?", "tokens": 200}),
    ("a standing instruction", CHAT, {"query": "How long is the Rhine?", "tokens": 300}),
    ("advice for somebody with a preference", CHAT, {"query": "Which river would you suggest?", "tokens": 200}),
    ("only stop words", FACTS, {"query": "what is the", "tokens": 100}),
]  # fmt: skip


def package_of(records: list[dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    """The package of a case, with its text."""
    listed = ListedView(
        [(f"store/{one.get('band', 'LEDGER')}", msgspec.convert(one, IndexedRecord)) for one in records],
        analyzer_of("english"),
    )
    view = RecordView((), lambda: listed)
    package = (
        LexicalController()
        .answer(
            RecallRequest(**{**request, "where": Filter.of(request.get("where"))}), view, EstimatedCounter()
        )
        .package
    )
    return {"package": package.as_json(), "text": package.text}


if __name__ == "__main__":
    lines = [
        json.dumps(
            {"name": name, "records": records, "request": request, **package_of(records, request)},
            ensure_ascii=False,
        )
        for name, records, request in CASES
    ]
    FILE.write_text("\n".join(lines) + "\n")
