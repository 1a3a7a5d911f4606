"""A memory with every kind of record, and what recall gives of it at many budgets.

``python -m tests.recall.story`` writes ``tests/vectors/recall-story.jsonl`` anew. A difference in that file
is a change of what recall gives; if it is meant, the new file says what changed.
"""

import json
from pathlib import Path
from typing import Any

from standfast.clock import ManualClock
from standfast.memory import Memory
from standfast.records.canon import fingerprint
from tests.store.builders import memory_store

FILE = Path(__file__).parents[1] / "vectors" / "recall-story.jsonl"
ADA = "user/ada"
BUDGETS = (12, 25, 40, 57, 76, 110, 160, 230, 340, 600)
HANDBOOK = {"kind": "doc", "id": "handbook#4"}
USER = {"kind": "user", "id": "ada"}
WEB = {"kind": "web", "id": "https://evil.example/a"}
TOOL = {"kind": "tool", "id": "crm"}
ROUTE = "The route goes on along the river. "
FACTS: list[tuple[str, dict[str, Any]]] = [
    ("I live in Munich.", {"source": USER, "time": "2025-01-03T10:00:00Z"}),
    ("EU refunds take 14 days.", {"subject": "policy/eu", "source": HANDBOOK, "tags": ["billing"]}),
    ("EU refunds take 14 days!", {"subject": "rumour", "source": WEB}),
    ("EU refunds take 3 days, says the forum.", {"subject": "forum", "source": TOOL}),
    ("US refunds take 30 days.", {"subject": "policy/us", "metadata": {"region": "us"}}),
    ("Always answer in metres when I ask about lengths.", {"source": USER, "subject": "style"}),
    ("Never book a hotel without asking me.", {"source": USER, "subject": "hotels", "pin": True}),
    ("Hotels may be booked at once.", {"source": HANDBOOK, "supersedes": ["hotels"]}),
    (f"The code of conduct: {'be kind. ' * 40}", {"source": USER, "subject": "conduct", "pin": True}),
    (f"{ROUTE * 30}The ferry leaves Bonn at 7.30. {ROUTE * 20}", {"subject": "route", "source": HANDBOOK}),
    (
        "The pool is open.",
        {"subject": "pool", "valid_from": "2025-05-01T00:00:00Z", "valid_until": "2025-09-01T00:00:00Z"},
    ),
    ("The canteen closes at 3 pm from 1 July 2025 on.", {"subject": "canteen", "source": HANDBOOK}),
    ("Ada adopted a kitten last spring.", {"subject": "pets", "time": "2024-04-02T10:00:00Z"}),
    ("The wedding is on 7 May 2025.", {"subject": "wedding", "time": "2025-02-01T09:00:00+02:00"}),
    ("I moved to Lisbon.", {"source": USER, "time": "2025-06-03T10:00:00Z"}),
    ("My favourite colour is blue.", {"source": USER, "time": "2025-06-04T10:00:00Z"}),
    ("Ada's favourite colour is green.", {"source": TOOL, "time": "2025-06-05T10:00:00Z"}),
    ("My favourite colour is red.", {"source": {"kind": "agent", "id": "bot"}}),
    ("Café Zürich serves 東京 ramen.", {"subject": "ramen"}),
    ("EU refunds are paid by bank transfer.", {"refs": [{"kind": "memory", "id": "policy/eu"}]}),
    ("Bob plays the violin in an orchestra.", {"subject": "bob/hobby", "scope": f"{ADA}/friends"}),
    ("The badge of Bob is yellow.", {"subject": "bob/badge", "scope": "user/bob"}),
]
TALKS = {
    "monday": [
        ("user", "Hi! Which support group did I join in May?", "2025-05-12T10:00:00Z"),
        ("assistant", "The one in Berlin, on 7 May. It was powerful, you said.", "2025-05-12T10:00:05Z"),
        ("user", "Right. I ran a charity race for mental health yesterday.", "2025-05-12T10:01:00Z"),
        ("assistant", "How long was it?", "2025-05-12T10:01:05Z"),
        ("user", "Ten miles. I prefer slow rivers, and trains.", "2025-05-12T10:02:00Z"),
        ("assistant", f"Well done! {'I can suggest many rivers. ' * 20}", "2025-05-12T10:02:05Z"),
    ],
    "friday": [
        ("user", "My sister lives in Rome.", "2025-08-01T08:00:00Z"),
        ("user", "My sister moved to Faro.", "2025-08-01T08:05:00Z"),
        ("assistant", "Thanks!", "2025-08-01T08:05:05Z"),
        ("user", "Thanks!", "2025-08-01T08:06:00Z"),
        ("user", "Last week I bought three tickets for the opera.", "2025-08-01T08:07:00Z"),
    ],
}
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("Where do I live?", {}),
    ("Where did I live in January 2025?", {}),
    ("How long do EU refunds take?", {}),
    ("How long do EU refunds take?", {"least_origin": "untrusted"}),
    ("How long do EU refunds take?", {"max_items": 2}),
    ("refund rules", {"where": {"tag": "billing"}}),
    ("refund rules", {"where": {"metadata": {"region": "us"}}}),
    ("When does the ferry leave Bonn?", {}),
    ("Is the pool open?", {}),
    ("Is the pool open?", {"now_utc": "2025-06-15T00:00:00Z"}),
    ("When does the canteen close?", {"now_utc": "2025-06-15T00:00:00Z"}),
    ("What is my favourite colour?", {}),
    ("What did I do yesterday?", {"now_utc": "2025-05-12T12:00:00Z"}),
    ("What happened in May?", {}),
    ("What happened on 7 May 2025?", {}),
    ("cat", {}),
    ("Which river would you suggest for a train journey?", {}),
    ("Where does my sister live?", {}),
    ("What did the assistant say about Berlin?", {}),
    ("thanks", {}),
    ("Cafe Zurich 東京", {}),
    ("Who plays the violin?", {"scopes": [ADA, "user/bob"]}),
    ("What is Bob's badge?", {"scopes": [ADA, "user/bob"]}),
    ("How many tickets did I buy last week?", {"now_utc": "2025-08-02T00:00:00Z"}),
    ("Which crate does shelf 7 hold?", {}),
    ("Which crate does shelf 7 hold?", {"where": {"subject_prefix": "shelf"}, "max_items": 4}),
    ("what is the", {}),
    ("quantum chromodynamics", {}),
    ("code of conduct for hotels", {}),
    ("How far is it?", {"where": {"session": "monday"}}),
]


def written() -> Memory:
    """The memory of the story."""
    clock = ManualClock()
    memory = Memory(memory_store(clock))
    for text, fields in FACTS:
        clock.advance(3600)
        memory.remember(text, **{"scope": ADA, **fields})
    for session, messages in TALKS.items():
        clock.advance(86_400)
        said = [{"role": role, "content": text, "time": time} for role, text, time in messages]
        memory.add(said, scope=ADA, session=session)
    for number in range(120):
        shelf = f"Shelf {number % 40} holds crate {number * 37 % 101}."
        memory.remember(
            shelf, scope=ADA, subject=f"shelf/{number}", source=(HANDBOOK, USER, TOOL)[number % 3]
        )
    clock.advance(86_400)
    memory.remember("The office is in Cork.", scope=ADA, subject="office", supersedes=["pets"])
    return memory


def lines() -> str:
    """One line for each question and controller: packages by budget, and a digest of what explains one."""
    memory = written()
    told = []
    for query, fields in QUESTIONS:
        for controller in ("hybrid-v1", "lexical-v1"):
            asked = {"scope": ADA, "controller": controller, **fields}
            if "scopes" in asked:
                del asked["scope"]
            packages = {}
            for tokens in BUDGETS:
                package = memory.recall(query, tokens=tokens, **asked)
                ids = " ".join(item.memory_id[-12:] for item in package.items)
                shown = fingerprint([package.package_hash, package.text])[:12]
                packages[tokens] = f"{package.text_tokens} {shown} {ids}".strip()
            explained = fingerprint(memory.explain(query, tokens=160, **asked).explanation.as_json())[:12]
            told.append({"query": query, **asked, "packages": packages, "explained": explained})
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in told)


if __name__ == "__main__":
    FILE.write_text(lines(), encoding="utf-8")
