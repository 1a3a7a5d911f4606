"""The agent's loop over the real memory, and prompt changes in the real ledger."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from standfast.clock import CountedIds, ManualClock
from standfast.errors import StandfastError
from standfast.memory import Memory
from standfast.optimize.loops.agent import ToRemember
from standfast.optimize.loops.apply import LedgerSealer, PromptChange, apply_modifications
from standfast.optimize.loops.main import MainLoop, MainLoopRequest
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.template import PromptTemplate, Section, memory_section
from standfast.optimize.providers.adapter import ScriptedProvider
from standfast.records.vocabulary import Band
from tests.optimize.loops.harness import id_of
from tests.store.builders import memory_store

TEMPLATE = PromptTemplate(
    ns="agent",
    key="support",
    sections=(memory_section(tokens=100), Section(key="task", title="Task", body="Q: ${question}")),
)
HANDBOOK = {"kind": "doc", "id": "handbook#4"}
CHANGE = PromptChange(
    kind="apply",
    ns="agent",
    prompt_key="support",
    tag="stable",
    from_version=0,
    from_digest="0" * 64,
    to_digest="1" * 64,
    sections=("task",),
)


class _Support(MainLoop[dict[str, str]]):
    def to_remember(self, request: dict[str, str], output: str) -> Sequence[ToRemember]:  # noqa: ARG002  # As told.
        return (ToRemember(text=f"A customer asked {request['question']}", tags=("asked",)),)


def test_it_recalls_answers_and_remembers_in_one_run() -> None:
    memory = Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())
    with memory.run(workflow="seed", mode="buffered_write") as run:
        run.remember("EU refunds take 14 days.", subject="policy/eu-refunds", source=HANDBOOK)
    seen: list[str] = []

    def script(request: object) -> str:
        seen.append(str(request))
        return "14 days"

    loop = _Support(adapter=ScriptedProvider(script), template=TEMPLATE, memory=memory, workflow="support")
    result = loop.execute(
        MainLoopRequest(request_id=id_of("r1"), request={"question": "how long EU refunds take."})
    )

    assert result.output == "14 days"
    assert "EU refunds take 14 days." in seen[0]
    assert result.package_hash == memory.at(1).recall("how long EU refunds take.", tokens=100).package_hash
    assert result.remembered == 1
    assert len(list(memory.records(band=Band.LEDGER))) == 2
    assert list(memory.verify()) == []


def test_a_model_that_fails_leaves_memory_as_it_was() -> None:
    memory = Memory.open(":memory:", clock=ManualClock(), ids=CountedIds())

    def script(_: object) -> str:
        raise ValueError("the model is gone")

    loop = _Support(adapter=ScriptedProvider(script), template=TEMPLATE, memory=memory, workflow="support")
    with pytest.raises((StandfastError, ValueError)):
        loop.execute(MainLoopRequest(request_id=id_of("r1"), request={"question": "anything?"}))

    assert memory.store.head() == 0


def test_a_change_of_a_prompt_is_in_the_ledger_before_and_after(tmp_path: Path) -> None:
    store = memory_store()
    overrides = LocalPromptOverridesStore(str(tmp_path))
    changed = apply_modifications(overrides, TEMPLATE, [], sealer=LedgerSealer(store))
    told = [entry.read() for entry in store.entries()]

    assert [entry["kind"] for entry in told] == ["prompt_change", "prompt_settled"]
    assert told[1]["body"]["told"] == {"applied": True, "seal_id": changed.seal_id}
    assert changed.seal_id is not None
    assert changed.seal_id.startswith("1-")
    assert list(store.verify()) == []


def test_a_crash_between_proposing_and_settling_shows() -> None:
    store = memory_store()
    seal_id = LedgerSealer(store).propose(CHANGE)
    settled = [entry for entry in store.entries() if entry.read()["kind"] == "prompt_settled"]

    assert seal_id.partition("-")[0] == "1"
    assert settled == []
