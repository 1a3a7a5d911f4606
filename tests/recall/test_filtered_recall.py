"""A filter chooses in the index what it chooses among the records themselves, in every controller."""

from typing import Any

import pytest

from standfast.memory import Memory
from standfast.records.filters import Filter
from standfast.records.origins import Origin
from tests.store.builders import memory_store

WHERES: list[dict[str, Any]] = [
    {},
    {"tag": "billing"},
    {"tag": "billing", "source_kind": "web"},
    {"source_kind": " DOC "},
    {"subject_prefix": "policy/"},
    {"subject_prefix": "policy/eu"},
    {"subject_prefix": "policy/e"},
    {"subject_prefix": "policy/eu's"},
    {"subject_prefix": "pölicy"},
    {"subject_prefix": "nothing"},
    {"after": "2026-03-01T00:00:00Z"},
    {"after": "2026-03-01T00:00:00.000001Z"},
    {"before": "2026-03-01T00:00:00Z"},
    {"before": "2026-03-01T00:00:00.000001Z"},
    {"after": "2026-02-01", "before": "2026-04-01"},
    {"metadata": {"plan": "gold"}},
    {"metadata": {"plan": "gold", "seats": 2}},
    {"session": "s"},
    {"speaker": "ADA"},
    {"least_origin": "trusted"},
    {"least_origin": "ordinary"},
    {"least_origin": "untrusted"},
]


@pytest.fixture(scope="module")
def memory() -> Memory:
    memory = Memory(memory_store())
    given: list[dict[str, Any]] = [
        {"subject": "policy/eu", "tags": ["billing"], "source": {"kind": "doc", "id": "a"}},
        {"subject": "policy/eu's rule", "tags": ["billing"], "source": {"kind": "Doc", "id": "b"}},
        {
            "subject": "pölicy",
            "source": {"kind": "user", "id": "ada"},
            "speaker": "Ada",
            "session": "s",
            "position": 1,
        },
        {"subject": "law/uk", "tags": ["billing"], "metadata": {"plan": "gold", "seats": 2}},
        {
            "subject": "other",
            "metadata": {"plan": "gold", "seats": 3},
            "speaker": "Bob",
            "session": "t",
            "position": 1,
        },
        {"subject": "policy", "metadata": {"plan": "free"}},
    ]
    for month, fields in enumerate(given, 1):
        memory.remember(f"Harbour fact {month}.", time=f"2026-0{month}-01T00:00:00Z", **fields)
    memory.remember("Harbour rumour.", subject="rumour", source={"kind": "web", "id": "x"}, tags=["billing"])
    return memory


@pytest.mark.parametrize("controller", ["hybrid-v1", "lexical-v1", "phase6-v1"])
@pytest.mark.parametrize("where", WHERES, ids=str)
def test_what_a_recall_finds_is_what_the_filter_takes(
    memory: Memory, where: dict[str, Any], controller: str
) -> None:
    taken = Filter.of(where)
    package = memory.recall("harbour", tokens=2_000, where=taken, controller=controller)
    records = [one for one in memory.records() if taken.matches(one)]
    trusted = [one for one in records if one.origin is not Origin.UNTRUSTED]
    # Beside others, what is untrusted is left out, unless it is asked for.
    shows_all = controller == "phase6-v1" or taken.least_origin is Origin.UNTRUSTED or not trusted
    wanted = {one.memory_id for one in (records if shows_all else trusted)}

    assert {item.memory_id for item in package.items} == wanted
