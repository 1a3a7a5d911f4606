"""Extraction: a model's facts cite their messages, are judged like everything, and a replay asks nobody."""

import json
import re
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from standfast.adapters.extraction import Extractor
from standfast.clock import ManualClock
from standfast.errors import InvalidValue, NotAuthorised
from standfast.govern.judge.model_floor import AnswerFolder
from standfast.memory import AddedMessages, Memory
from standfast.memory.extraction import ExtractedFact, KnownFact
from standfast.memory.messages import SessionMessage
from standfast.optimize.errors import ProviderRefused
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from standfast.optimize.providers.vendors import OpenAICompatibleProvider
from standfast.records.origins import Origin
from standfast.records.vocabulary import Band, Record, Verdict
from tests.memory.conftest import (
    HANDBOOK,
    SECRET,
    SIGNERS,
    backend,
    clock,
    decision,
    memory,
    opener,
    place,
    store,
)
from tests.servers.model import MODEL_NAME, ModelServer

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
    assert "[0] (2026-01-01) user: I moved to Cork in May." in prompts[0].prompt
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

    def extract(self, messages: Any, *, scope: str, before: Any, known: Any) -> list[ExtractedFact]:
        assert all(isinstance(one, SessionMessage) for one in (*messages, *before))
        assert all(isinstance(one, KnownFact) for one in known)
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


class Oracle:
    """A model that reads what is known as it should be read: the upper bound of what the machinery can do."""

    def __init__(self, *facts: dict[str, Any]) -> None:
        self.facts, self.prompts = facts, list[str]()
        self.provider = ScriptedProvider(self._answer)

    def _answer(self, request: ModelRequest) -> str:
        self.prompts.append(request.prompt)
        numbers = {
            text: number
            for number, text in re.findall(r"^\[(k\d+)\] (?:\(.*?\) )?(.*)$", request.prompt, re.MULTILINE)
        }
        return json.dumps(
            {
                "facts": [
                    {**one, "action": "replace", "replaces": numbers[one["replaces"]]}
                    if "replaces" in one
                    else one
                    for one in self.facts
                ]
            }
        )


def said(text: str, time: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text, "time": time}]


def current_texts(memory: Memory) -> list[str]:
    found = memory.records(band=Band.LEDGER, scope="user/ada")
    return sorted(record.text for record in found if record.session is None)


def test_what_was_said_before_ends_before_the_new_messages(memory: Memory) -> None:
    seen = []

    class Watching:
        extractor_id = "watching"

        def extract(self, messages: Any, *, scope: str, before: Any, known: Any) -> list[ExtractedFact]:
            del scope, known
            seen.append(([one.text for one in before], [one.text for one in messages]))
            return []

    for turn in (CHAT[:1], CHAT[1:]):
        memory.add(turn, scope="user/ada", session="s", extract=Watching())

    texts = [one["content"] for one in CHAT]
    assert seen == [([], texts[:1]), (texts[:1], texts[1:])]


def test_a_model_is_told_what_is_known_and_what_was_said_before_and_replaces_by_its_number(
    memory: Memory,
) -> None:
    first = Oracle({"text": "Ada lives in Cork.", "subject": "address", "messages": [0]})
    memory.add(
        said("I live in Cork.", "2026-01-05T09:00:00Z"),
        scope="user/ada",
        session="s",
        extract=Extractor(first.provider),
    )
    second = Oracle(
        {"text": "Ada lives in Faro.", "subject": "home", "messages": [1], "replaces": "Ada lives in Cork."}
    )
    added = memory.add(
        said("I moved to Faro yesterday.", "2026-03-02T09:00:00Z"),
        scope="user/ada",
        session="s",
        extract=Extractor(second.provider),
    )
    (fact,) = added.facts

    assert "[k1] (2026-01-05, address) Ada lives in Cork." in second.prompts[0]
    assert "(2026-01-05) user: I live in Cork." in second.prompts[0]
    assert "[1] (2026-03-02) user: I moved to Faro yesterday." in second.prompts[0]
    assert current_texts(memory) == ["Ada lives in Faro."]
    assert "Cork" in str(memory.history("address", scope="user/ada"))
    (record,) = [
        one for one in memory.records(band=Band.LEDGER, scope="user/ada") if one.memory_id == fact.memory_id
    ]
    assert (record.ts_utc, record.supersedes) == ("2026-03-02T09:00:00.000000Z", ("address",))
    assert list(memory.verify()) == []


def test_two_values_of_one_subject_in_one_answer_are_both_kept(memory: Memory) -> None:
    oracle = Oracle(
        {"text": "Ada's hobby is sailing.", "subject": "hobby", "messages": [0], "date": "2026-01-04"},
        {"text": "Ada's hobby is chess.", "subject": "hobby", "messages": [0], "date": "soon"},
        {"text": "Ada likes boats.", "subject": "hobby", "messages": [0], "action": "nothing"},
    )
    added = memory.add(
        said("I sail and play chess.", "2026-01-05T09:00:00Z"),
        scope="user/ada",
        extract=Extractor(oracle.provider),
    )
    records = [one for one in memory.records(band=Band.LEDGER, scope="user/ada") if one.session is None]

    assert [one.verdict for one in added.facts] == [Verdict.SEAL] * 2
    assert current_texts(memory) == ["Ada's hobby is chess.", "Ada's hobby is sailing."]
    assert {one.subject for one in records} == {"hobby"}
    assert sorted(str(one.metadata.get("date")) for one in records) == ["2026-01-04", "None"]
    assert memory.conflicts(scope="user/ada") == []
    assert "DISAGREE" not in memory.recall("hobby", scope="user/ada").text


def test_what_a_trusted_user_said_is_not_ended_by_a_model_but_listed_as_a_conflict(memory: Memory) -> None:
    user = {"kind": "user", "id": "ada"}
    memory.remember("Ada drinks tea only.", scope="user/ada", subject="drink", source=user)
    oracle = Oracle(
        {
            "text": "Ada drinks coffee.",
            "subject": "drink",
            "messages": [0],
            "replaces": "Ada drinks tea only.",
        }
    )
    memory.add(
        said("Coffee, please.", "2026-03-02T09:00:00Z"), scope="user/ada", extract=Extractor(oracle.provider)
    )
    (conflict,) = memory.conflicts(scope="user/ada")
    kept = next(one for one in conflict.entries if one.text == "Ada drinks coffee.")

    assert current_texts(memory) == ["Ada drinks coffee.", "Ada drinks tea only."]
    with pytest.raises(NotAuthorised):
        memory.settle(conflict.conflict_id, kept.memory_id, reason="read", scope="user/ada")
    memory.settle(
        conflict.conflict_id, kept.memory_id, reason="she said so", scope="user/ada", role="human", by="kim"
    )
    assert memory.conflicts(scope="user/ada") == []


def test_law_is_not_ended_by_a_model_and_the_fact_is_kept(memory: Memory) -> None:
    memory.remember(
        "Refunds take 14 days.", scope="user/ada", subject="refunds", source=HANDBOOK, propose=True
    )
    (waiting,) = memory.approvals.waiting()
    memory.approvals.decide(decision(memory, waiting), signers=SIGNERS)
    oracle = Oracle({"text": "Refunds take 30 days.", "messages": [0], "replaces": "Refunds take 14 days."})
    added = memory.add(
        said("Refunds take 30 days now.", "2026-03-02T09:00:00Z"),
        scope="user/ada",
        extract=Extractor(oracle.provider),
    )

    assert added.facts_problem is None
    assert [one.accepted for one in added.facts] == [True]
    assert [one.text for one in memory.records(band=Band.VAULT, scope="user/ada")] == [
        "Refunds take 14 days."
    ]


def test_what_a_tool_said_replaces_nothing(memory: Memory) -> None:
    memory.remember("Ada's order is on its way.", scope="user/ada", subject="order")
    chat = [*CHAT, {"role": "tool", "content": "Order: delivered.", "tool_call_id": "t1"}]
    oracle = Oracle(
        {
            "text": "Ada's order was delivered.",
            "subject": "order",
            "messages": [3],
            "replaces": "Ada's order is on its way.",
        }
    )
    added = memory.add(chat, scope="user/ada", extract=Extractor(oracle.provider))

    assert added.facts_problem is None
    assert [one.accepted for one in added.facts] == [True]
    assert "Ada's order is on its way." in current_texts(memory)


def test_a_repeated_add_with_an_id_has_the_facts_of_the_first_also_after_an_erasure(memory: Memory) -> None:
    asked = provider()
    first = memory.add(CHAT, scope="user/ada", run_id="chat-7", extract=Extractor(asked))
    memory.forget(scope="user/ada", reason="asked for")
    again = memory.add(CHAT, scope="user/ada", run_id="chat-7", extract=Extractor(asked))

    assert again.facts == first.facts
    assert len(first.facts) == 2
    assert asked.calls == 1


def test_other_known_facts_are_another_question_and_the_same_ones_are_not_asked_twice(tmp_path: Path) -> None:
    asked = provider()
    for fact in ("Ada likes boats.", "Ada likes boats.", "Ada likes ships."):
        with Memory.open(":memory:", clock=ManualClock(datetime(2026, 1, 1, tzinfo=UTC))) as memory:
            memory.remember(fact, scope="user/ada")
            memory.add(
                CHAT, scope="user/ada", session="s", extract=Extractor(asked, answers=AnswerFolder(tmp_path))
            )

    assert asked.calls == 2


def test_facts_are_found_in_the_background_and_close_waits_for_them(memory: Memory) -> None:
    release = threading.Event()

    def answer(_: ModelRequest) -> str:
        assert release.wait(60)
        return json.dumps({"facts": FACTS})

    added = memory.add(CHAT, scope="user/ada", extract=Extractor(ScriptedProvider(answer)), background=True)
    before = facts_of(memory)
    release.set()
    memory.extractions.finish()

    assert (added.facts_pending, added.facts, before) == (True, (), {})
    assert set(facts_of(memory)) == {"address", "preference/language"}
    memory.extractions.close()


@pytest.mark.slow
def test_a_real_small_model_is_asked_and_whatever_it_says_is_judged_or_reported(
    memory: Memory, model_server: ModelServer
) -> None:
    small = OpenAICompatibleProvider(
        model=MODEL_NAME, base_url=model_server.base_url, api_key="none", max_output_tokens=200, seed=1
    )
    added = memory.add(CHAT, scope="user/ada", extract=Extractor(small))

    assert added.added == 3
    assert added.facts_problem is not None or all(one.verdict for one in added.facts)
    assert list(memory.verify()) == []


def extracted(memory: Memory, *facts: object) -> AddedMessages:
    asked = ScriptedProvider(lambda _: json.dumps({"facts": facts}))
    return memory.add(CHAT, scope="user/ada", session="s", extract=Extractor(asked))


def test_a_fact_that_cannot_be_read_does_not_lose_the_others(memory: Memory) -> None:
    broken = ["no object", {"text": 7}, {"action": "delete", "text": "x", "messages": [0]}]
    long = {"text": "Ada " * 20_000, "messages": [0]}
    loose = {"text": "Ada lives in Cork.", "subject": "home\naddress", "messages": ["0"], "sure": True}
    added = extracted(memory, *broken, long, loose)

    assert added.facts_problem is None
    assert [one.verdict for one in added.facts] == [Verdict.SEAL]
    assert list(facts_of(memory)) == ["home address"]


def test_an_answer_without_a_readable_fact_is_refused(memory: Memory) -> None:
    assert extracted(memory, "no object", 7).facts_code == "invalid_value"


@pytest.mark.parametrize(
    "day", ["2026-02-30", "0000-01-01", "1405-03-11", "5786-09-16", "2026-5-1", "٢٠٢٦-٠٥-٠١"]
)
def test_what_is_no_day_of_our_calendar_is_no_date(memory: Memory, day: str) -> None:
    extracted(
        memory,
        {**FACTS[0], "date": day},
        {**FACTS[1], "date": "2026-05-01"},
    )
    found = facts_of(memory)

    assert found["address"].metadata == {}
    assert found["preference/language"].metadata == {"date": "2026-05-01"}


def test_two_values_of_a_subject_say_nothing_of_a_trusted_user(memory: Memory) -> None:
    hobbies = [
        {"text": f"Ada plays {game}.", "subject": "hobby", "messages": [0]} for game in ("go", "chess")
    ]

    assert [one.reasons for one in extracted(memory, *hobbies).facts] == [(), ()]


@pytest.mark.parametrize("written", ["k1", "K1", "[k1]"])
def test_a_known_fact_may_be_named_as_it_was_shown(memory: Memory, written: str) -> None:
    memory.remember("Ada lives in Bonn.", scope="user/ada", subject="address")
    extracted(memory, {**FACTS[0], "action": "replace", "replaces": written})

    assert [one.text for one in facts_of(memory).values()] == ["Ada lives in Cork."]
