"""The operator's model: its budget holds for the whole store and survives a restart, and what it could not be
asked about waits in the store.
"""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from standfast.adapters import extraction_settings
from standfast.adapters.extraction_settings import DailyBudget, ExtractionSettings, SetExtractor
from standfast.clock import ManualClock
from standfast.errors import ExtractionBudgetSpent, ExtractionError, InvalidSettings
from standfast.limits import EXTRACTION_LEASE_SECONDS, MAX_EXTRACTION_TRIES, MAX_PENDING_EXTRACTIONS
from standfast.memory import Memory
from standfast.memory.extraction_queue import namespaces_waiting
from standfast.records.rows import RowKind
from standfast.records.vocabulary import Band
from standfast.settings import Settings
from standfast.store.opening import open_store
from standfast.store.store import Store
from standfast.wiring import extractor_of, open_memory
from tests.memory.conftest import backend, clock, opener, place, store
from tests.servers.scripted_model import ScriptedModel, scripted_model

__all__ = ["backend", "clock", "opener", "place", "store"]

DAY = datetime(2026, 5, 4, 9, tzinfo=UTC)
CHAT = [{"role": "user", "content": "I moved to Cork in May."}, {"role": "assistant", "content": "Noted."}]
FACT = json.dumps({"facts": [{"text": "Ada lives in Cork.", "subject": "address", "messages": [0]}]})
NOTHING = json.dumps({"facts": []})


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A model behind HTTP that finds one fact."""
    with scripted_model(lambda _: FACT) as served:
        yield served


def section(model: ScriptedModel, **fields: Any) -> ExtractionSettings:
    """The settings that name it."""
    return ExtractionSettings(provider="openai", model="scripted", base_url=model.base_url, **fields)


def opened(store: Store, chosen: ExtractionSettings, namespace: str = "default") -> Memory:
    """The memory of a namespace with the model of the settings."""
    return Memory(store, namespace=namespace, extractor=SetExtractor(chosen, store))


def add(memory: Memory, session: str = "s", **options: Any) -> Any:
    chat = [*CHAT, {"role": "user", "content": f"This is our talk {session}."}]
    return memory.add(chat, scope="user/ada", session=session, extract=True, **options)


def facts_of(memory: Memory) -> list[str]:
    found = memory.records(band=Band.LEDGER, scope="user/ada")
    return [one.text for one in found if one.session is None]


def test_the_budget_of_calls_holds_for_all_memories_of_a_store_and_what_is_left_waits(
    model: ScriptedModel,
) -> None:
    clock = ManualClock(DAY)
    store = open_store(":memory:", create=True, clock=clock)
    chosen = section(model, calls_per_day=2)
    first, other = opened(store, chosen), opened(store, chosen, "other")
    done = [add(first), add(other)]
    refused = add(first, "later")
    waiting = first.extractions.status()
    clock.advance(timedelta(hours=14, minutes=59).total_seconds())
    early = first.extractions.resume()
    clock.advance(61)
    begun = opened(store, chosen).extractions
    begun_count = begun.resume()
    begun.finish()

    assert [len(one.facts) for one in done] == [1, 1]
    assert (refused.added, refused.facts, refused.facts_pending) == (3, (), True)
    assert refused.facts_code == "extraction_budget_spent"
    assert "2026-05-05T00:00Z" in (refused.facts_problem or "")
    assert (waiting.waiting, waiting.spending and waiting.spending.calls) == (1, 2)
    assert "2026-05-04" in waiting.problem
    assert (early, begun_count) == (0, 1)
    assert first.extractions.status().waiting == 0
    assert len(model.prompts) == 3
    # The second session says the same, and the fact is known already.
    assert facts_of(first) == ["Ada lives in Cork."]


def test_the_budget_survives_a_restart(tmp_path: Path, model: ScriptedModel) -> None:
    url, clock = str(tmp_path / "agent.db"), ManualClock(DAY)
    chosen = section(model, calls_per_day=1)
    store = open_store(url, create=True, clock=clock)
    assert len(add(opened(store, chosen)).facts) == 1
    store.close()
    store = open_store(url, create=False, clock=clock)
    refused = add(opened(store, chosen), "later")
    store.close()
    clock.advance(86_400)
    store = open_store(url, create=False, clock=clock)
    waiting = namespaces_waiting(store)
    again = opened(store, chosen)
    again.extractions.resume()
    again.extractions.finish()

    assert refused.facts_code == "extraction_budget_spent"
    assert waiting == ["default"]
    assert again.extractions.status().waiting == 0
    assert len(model.prompts) == 2
    store.close()


def test_money_is_reserved_before_a_call_and_what_it_did_not_cost_is_given_back(model: ScriptedModel) -> None:
    chosen = section(model, cost_per_day=0.01, input_price=1.0, output_price=10.0, max_output_tokens=400)
    memory = opened(open_store(":memory:", create=True, clock=ManualClock(DAY)), chosen)
    answers = [add(memory, f"s-{number}") for number in range(12)]
    asked = len(model.prompts)
    spent = memory.extractions.status().spending

    # A call costs 600 tokens in and 50 out, .0011; before it, up to .005 may be needed.
    assert spent is not None
    assert spent.cost == pytest.approx(asked * 0.0011)
    assert spent.cost <= 0.01
    assert 4 <= asked < 10
    assert [one.facts_code for one in answers[asked:]] == ["extraction_budget_spent"] * (12 - asked)
    assert all(one.added == 3 for one in answers)


@hypothesis_settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 500), st.floats(0, 1)), max_size=25))
def test_a_budget_is_never_exceeded(calls: list[tuple[int, int, float]]) -> None:
    chosen = ExtractionSettings(calls_per_day=12, cost_per_day=0.01, input_price=1.0, output_price=10.0)
    store = open_store(":memory:", create=True, clock=ManualClock(DAY))
    budget = DailyBudget(store.temporary, store.clock, chosen)
    made, refused = 0, set[float]()
    for input_tokens, output_tokens, share in calls:
        try:
            day = budget.reserve(input_tokens, output_tokens)
        except ExtractionBudgetSpent as error:
            refused.add(error.wait_seconds)
        else:
            made += 1
            budget.give_back(day, int(input_tokens * share), int(output_tokens * share))
        spent = budget.spent()
        assert spent.calls == made <= 12
        assert spent.cost <= 0.01
    assert refused <= {15 * 3600}


def test_threads_do_not_spend_the_same_call_twice() -> None:
    store = open_store(":memory:", create=True, clock=ManualClock(DAY))
    budget = DailyBudget(store.temporary, store.clock, ExtractionSettings(calls_per_day=20))
    refused = []

    def spend() -> None:
        for _ in range(10):
            try:
                budget.reserve(1, 1)
            except ExtractionBudgetSpent:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

    assert budget.spent().calls == len([None] * 40) - len(refused) == 20


def test_a_model_that_can_not_be_reached_is_asked_again_later_and_not_for_ever(model: ScriptedModel) -> None:
    clock = ManualClock(DAY)
    store = open_store(":memory:", create=True, clock=clock)
    memory = opened(store, section(model))
    model.answer = lambda _: 401
    failed = add(memory)
    model.answer = lambda _: FACT
    clock.advance(59)
    early = memory.extractions.resume()
    clock.advance(2)
    assert memory.extractions.resume() == 1
    memory.extractions.finish()
    found = facts_of(memory)
    model.answer = lambda _: 401
    add(memory, "never")
    for _ in range(3 * MAX_EXTRACTION_TRIES):
        clock.advance(7 * 3600)
        memory.extractions.resume()
        memory.extractions.finish()

    assert (failed.facts_code, failed.facts_pending, failed.added) == ("provider_refused", True, 3)
    assert early == 0
    assert found == ["Ada lives in Cork."]
    assert len(model.prompts) == 2 + MAX_EXTRACTION_TRIES
    assert memory.extractions.status().waiting == 0


def test_what_a_process_that_died_had_taken_another_one_takes_after_a_while(
    store: Store, model: ScriptedModel
) -> None:
    hung, asked = threading.Event(), threading.Event()
    memory = opened(store, section(model))

    def hang(_: str) -> str:
        asked.set()
        hung.wait(60)
        return FACT

    model.answer = hang
    pending = add(memory, background=True)
    assert asked.wait(60)
    memory.extractions.stop(0)
    other = opened(store, section(model))
    at_once = other.extractions.resume()
    waiting = other.extractions.status().waiting
    hung.set()
    memory.extractions.finish()

    assert (pending.facts_pending, pending.facts_problem) == (True, None)
    assert (at_once, waiting) == (0, 1)
    # What was under way when it stopped was still done.
    assert facts_of(other) == ["Ada lives in Cork."]
    assert other.extractions.status().waiting == 0


def test_stopping_waits_for_what_is_under_way_and_begins_nothing_more(model: ScriptedModel) -> None:
    memory = opened(open_store(":memory:", create=True), section(model))
    release, asked = threading.Event(), threading.Event()

    def slow(_: str) -> str:
        asked.set()
        release.wait(60)
        return FACT

    model.answer = slow
    add(memory, background=True)
    add(memory, "later", background=True)
    assert asked.wait(60)
    threading.Timer(0.1, release.set).start()
    memory.extractions.stop()

    assert facts_of(memory) == ["Ada lives in Cork."]
    assert memory.extractions.status().waiting == 1
    assert len(model.prompts) == 1


def test_a_lease_that_ran_out_is_taken_over_and_two_workers_have_one_effect(model: ScriptedModel) -> None:
    clock = ManualClock(DAY)
    store = open_store(":memory:", create=True, clock=clock)
    first, second = (opened(store, section(model)) for _ in range(2))
    release, asked = threading.Event(), threading.Event()

    def slow(_: str) -> str:
        asked.set()
        release.wait(60)
        return FACT

    model.answer = slow
    add(first, background=True)
    assert asked.wait(60)
    clock.advance(EXTRACTION_LEASE_SECONDS + 1)
    taken = second.extractions.resume()
    release.set()
    first.extractions.finish()
    second.extractions.finish()

    assert taken == 1
    assert facts_of(first) == ["Ada lives in Cork."]
    assert second.extractions.status().waiting == 0
    assert list(first.verify()) == []


def test_what_was_forgotten_while_the_model_was_asked_does_not_come_back(model: ScriptedModel) -> None:
    memory = opened(open_store(":memory:", create=True), section(model))

    def forget_and_answer(_: str) -> str:
        memory.forget(scope="user/ada", reason="asked for")
        return FACT

    model.answer = forget_and_answer
    added = add(memory)

    assert added.facts == ()
    assert list(memory.records(scope="*")) == []


def test_messages_without_facts_are_asked_about_once(model: ScriptedModel) -> None:
    memory = opened(open_store(":memory:", create=True), section(model))
    model.answer = lambda _: NOTHING
    for _ in range(2):
        # Another extractor object has no answers in memory.
        extractor = SetExtractor(section(model), memory.store)
        memory.add(CHAT, scope="user/ada", session="s", position=0, extract=extractor)
    rows = list(memory.store.scan("default", prefix=f"{RowKind.EXTRACTION}/user/ada//"))

    assert len(model.prompts) == 1
    assert [json.loads(row.content or b"") for row in rows] == [{"facts": 0, "session": "s"}]
    assert list(memory.verify()) == []


def test_only_the_newest_answers_are_kept_in_memory(
    monkeypatch: pytest.MonkeyPatch, model: ScriptedModel
) -> None:
    monkeypatch.setattr(extraction_settings, "_ANSWERS_KEPT", 1)
    store = open_store(":memory:", create=True, clock=ManualClock(DAY))
    extractor = SetExtractor(section(model), store)
    for session in ("a", "b", "b", "a"):
        # Another store knows nothing yet, so that only the answer can be known.
        add(Memory(open_store(":memory:", create=True, clock=ManualClock(DAY)), extractor=extractor), session)

    assert len(model.prompts) == 3


def test_without_a_model_nothing_is_added_and_the_error_says_what_to_set() -> None:
    memory = Memory.open(":memory:")
    with pytest.raises(ExtractionError, match=r"section \[extraction\]") as caught:
        add(memory)

    assert caught.value.code == "no_extractor"
    assert memory.store.head() == 0
    assert not memory.extractions.status().is_set


def test_only_so_many_conversations_wait(model: ScriptedModel) -> None:
    memory = opened(
        open_store(":memory:", create=True, clock=ManualClock(DAY)), section(model, calls_per_day=1)
    )
    answers = [add(memory, f"s-{number}") for number in range(MAX_PENDING_EXTRACTIONS + 2)]

    assert memory.extractions.status().waiting == MAX_PENDING_EXTRACTIONS
    assert [one.facts_pending for one in answers[-2:]] == [True, False]
    assert all(one.added == 3 for one in answers)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"provider": "other"}, "extraction.provider"),
        ({"provider": "openai"}, "extraction.model"),
        ({"provider": "scripted"}, "extraction.script"),
        ({"always": True}, "extraction.always"),
        ({"calls_per_day": 0}, "extraction.calls_per_day"),
        ({"max_output_tokens": 0}, "extraction.max_output_tokens"),
        ({"cost_per_day": 1.0}, "extraction.cost_per_day"),
        ({"input_price": -1.0}, "extraction.input_price"),
        ({"output_price": float("nan")}, "extraction.output_price"),
        ({"cost_per_day": float("inf"), "input_price": 1.0}, "extraction.cost_per_day"),
    ],
)
def test_wrong_settings_are_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Settings(sections=(ExtractionSettings(**fields),))

    assert caught.value.facts["name"] == name


def test_settings_from_the_environment_name_the_model(tmp_path: Path, model: ScriptedModel) -> None:
    variables = {
        "STANDFAST_STORE": str(tmp_path / "agent.db"),
        "STANDFAST_EXTRACTION_PROVIDER": "openai",
        "STANDFAST_EXTRACTION_MODEL": "scripted",
        "STANDFAST_EXTRACTION_BASE_URL": model.base_url,
        "STANDFAST_EXTRACTION_CALLS_PER_DAY": "5",
        "STANDFAST_EXTRACTION_CACHE": str(tmp_path / "answers"),
    }
    settings = Settings.load(variables)
    with open_memory(settings, create=True) as memory:
        added = add(memory)
        spending = memory.extractions.status().spending

    assert len(added.facts) == 1
    assert spending is not None
    assert (spending.calls, spending.max_calls, spending.max_cost) == (1, 5, None)
    assert any((tmp_path / "answers").iterdir())
    assert extractor_of(Settings(), memory.store) is None
