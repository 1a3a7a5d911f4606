"""Extraction: a model's facts cite their messages, are judged like everything, and a replay asks nobody."""

import json
from pathlib import Path
from typing import Any

import pytest

from standfast.adapters.extraction import Extractor
from standfast.errors import InvalidValue
from standfast.govern.judge.model_floor import AnswerFolder
from standfast.memory import Memory
from standfast.memory.conversations import ExtractedFact
from standfast.memory.messages import SessionMessage
from standfast.optimize.errors import ProviderRefused
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from standfast.records.origins import Origin
from standfast.records.vocabulary import Band, Record, Verdict
from tests.memory.conftest import SECRET, backend, clock, memory, opener, place, store

__all__ = ["backend", "clock", "memory", "opener", "place", "store"]

CHAT = [
    {"role": "user", "content": "I moved to Cork in May."},
    {"role": "assistant", "content": "Noted. Anything else?"},
    {"role": "user", "content": "Please write to me in German."},
]
FACTS = [
    {"text": "Ada lives in Cork.", "subject": "address", "messages": [0]},
    {"text": "Ada wants to be written to in German.", "subject": "preference/language", "messages": [2]},
]


def provider(*facts: dict[str, Any]) -> ScriptedProvider:
    return ScriptedProvider(lambda _: json.dumps({"facts": facts or FACTS}))


def facts_of(memory: Memory) -> dict[str | None, Record]:
    found = memory.records(band=Band.LEDGER, scope="user/ada")
    return {record.subject: record for record in found if record.session is None}


def test_facts_cite_their_messages_and_are_judged(memory: Memory) -> None:
    asked = provider()
    added = memory.add(CHAT, scope="user/ada", session="s", extract=Extractor(asked))
    found = facts_of(memory)
    address = found["address"]

    assert [one.verdict for one in added.facts] == [Verdict.SEAL] * 2
    assert added.facts_problem is None
    assert address.text == "Ada lives in Cork."
    assert address.refs == ({"kind": "message", "id": added.messages[0].memory_ids[0], "scope": "user/ada"},)
    assert (address.source or {})["kind"] == "agent"
    assert "Cork" in memory.recall("Where does Ada live?", scope="user/ada").text
    assert asked.calls == 1
    assert list(memory.verify()) == []


def test_adding_again_asks_nobody_and_does_not_bring_back_what_was_replaced(memory: Memory) -> None:
    asked = provider()
    first = memory.add(CHAT, scope="user/ada", session="s", extract=Extractor(asked))
    memory.remember("Ada lives in Oslo.", subject="address", scope="user/ada")
    head = memory.store.head()
    again = memory.add(CHAT, scope="user/ada", session="s", position=0, extract=Extractor(asked))

    assert asked.calls == 1
    assert memory.store.head() == head
    assert again.facts == first.facts
    assert facts_of(memory)["address"].text == "Ada lives in Oslo."


def test_answers_are_kept_by_content_between_memories(tmp_path: Path) -> None:
    asked = provider()
    for _ in range(2):
        with Memory.open(":memory:") as memory:
            extractor = Extractor(asked, answers=AnswerFolder(tmp_path))
            added = memory.add(CHAT, scope="user/ada", session="s", position=0, extract=extractor)
            assert len(added.facts) == 2

    assert asked.calls == 1
    assert Extractor(asked).extractor_id == Extractor(asked, answers={}).extractor_id
    assert Extractor(asked).extractor_id != Extractor(asked, prompt="Other words.").extractor_id


def test_a_derived_fact_is_trusted_no_more_than_the_least_message_that_it_cites(memory: Memory) -> None:
    chat = [*CHAT, {"role": "tool", "content": "Ada's order 7 has shipped.", "tool_call_id": "t1"}]
    facts = (
        {"text": "Ada lives in Cork.", "subject": "address", "messages": [0]},
        {"text": "Ada's order 7 is on its way.", "subject": "order", "messages": [0, 3]},
    )
    memory.add(chat, scope="user/ada", session="s", extract=Extractor(provider(*facts)))
    origins = {one.text[:9]: one.origin for one in memory.records(band=Band.LEDGER, scope="user/ada")}

    assert origins["Ada lives"] is Origin.ORDINARY
    assert origins["Ada's ord"] is Origin.UNTRUSTED


def test_what_the_model_proposes_may_be_rejected_and_secrets_are_never_sent(memory: Memory) -> None:
    prompts: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        prompts.append(request)
        return json.dumps({"facts": [{"text": SECRET, "subject": "key", "messages": [0]}]})

    chat = [CHAT[0], {"role": "user", "content": SECRET}]
    added = memory.add(chat, scope="user/ada", session="s", extract=Extractor(ScriptedProvider(answer)))

    assert [one.verdict for one in added.facts] == [Verdict.VOID]
    assert [one.verdict for one in added.messages] == [Verdict.SEAL, Verdict.SABAR]
    assert SECRET[18:38] not in prompts[0].prompt
    assert "[0] user: I moved to Cork in May." in prompts[0].prompt
    assert facts_of(memory) == {}


@pytest.mark.parametrize(
    "facts", [[{"text": "Ada sails.", "messages": []}], [{"text": "Ada sails.", "messages": [7]}], []]
)
def test_what_cites_nothing_is_left_out(memory: Memory, facts: list[dict[str, Any]]) -> None:
    script = ScriptedProvider(lambda _: "```json\n" + json.dumps({"facts": facts}) + "\n```")
    added = memory.add(CHAT, scope="user/ada", session="s", extract=Extractor(script))

    assert (added.facts, added.facts_problem, added.added) == ((), None, 3)


def test_a_model_that_fails_costs_the_facts_and_not_the_messages(memory: Memory) -> None:
    def refuse(_: ModelRequest) -> str:
        raise ProviderRefused(provider="scripted", problem="no")

    for script in (refuse, lambda _: "I can't."):
        added = memory.add(
            CHAT,
            scope="user/ada",
            session="s",
            extract=Extractor(ScriptedProvider(script, name=str(id(script)))),
        )
        assert added.facts_problem is not None
    assert len(memory.warnings) == 2
    again = memory.add(CHAT, scope="user/ada", session="s", position=0, extract=Extractor(provider()))
    assert len(again.facts) == 2


class Wrong:
    extractor_id = "wrong"

    def __init__(self, fact: ExtractedFact) -> None:
        self.fact = fact

    def extract(self, messages: Any, *, scope: str) -> list[ExtractedFact]:
        assert all(isinstance(one, SessionMessage) for one in messages)
        assert scope == "user/ada"
        return [self.fact]


@pytest.mark.parametrize(
    "fact",
    [
        ExtractedFact(text="Bob sails.", cites=(0,), scope="user/bob"),
        ExtractedFact(text="Ada sails.", cites=(9,)),
        ExtractedFact(text="Ada sails.", cites=()),
    ],
)
def test_an_extractor_of_ones_own_writes_only_below_its_conversation_and_cites_it(
    memory: Memory, fact: ExtractedFact
) -> None:
    added = memory.add(CHAT, scope="user/ada", session="s", extract=Wrong(fact))

    assert "extracted fact" in (added.facts_problem or "")
    assert list(memory.records(scope="user/bob")) == []
    own = ExtractedFact(text="Ada sails.", cites=(0,), scope="user/ada/hobbies")
    assert (
        memory.add(CHAT, scope="user/ada", session="s", position=0, extract=Wrong(own)).facts[0].verdict
        is Verdict.SEAL
    )
    with pytest.raises(InvalidValue):
        memory.add([], extract=Wrong(own))
