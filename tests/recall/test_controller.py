"""Controllers behind one protocol: registered by version, asked for by name, and held to their version."""

from dataclasses import dataclass

import pytest

from standfast.errors import EmptyQuery, InvalidValue
from standfast.memory import Memory
from standfast.recall import (
    ContextPackage,
    ControllerRegistry,
    Explanation,
    RecallAnswer,
    RecallRequest,
    RecordView,
    TokenCounter,
)
from standfast.recall.package import PackageBudget, PackageQuery, SelectedItem, Selection
from standfast.recall.tokens import BpeCounter
from standfast.records.vocabulary import Band

SOURCE = {"kind": "doc", "id": "handbook#4"}


@dataclass(frozen=True)
class Longest:
    """Selects the longest text, and scores it by its tokens."""

    version: str = "longest-v1"
    claims: str = "longest-v1"

    def answer(self, request: RecallRequest, view: RecordView, counter: TokenCounter) -> RecallAnswer:
        """The longest record of the view."""
        path, record = max(view.records(), key=lambda pair: (len(pair[1].text), pair[1].memory_id))
        item = SelectedItem(
            memory_id=record.memory_id,
            record_hash=record.record_hash,
            store_path=path,
            score=float(counter.count(record.text)),
            excerpt=record.text,
            excerpt_tokens=0,
        )
        budget = PackageBudget(
            max_excerpt_tokens=request.tokens,
            used_excerpt_tokens=0,
            remaining_excerpt_tokens=request.tokens,
            per_item_max_excerpt_tokens=request.tokens,
            max_items=request.max_items,
        )
        query = PackageQuery(raw=request.query, query_hash="0" * 64)
        selection = Selection(selected=(item,), dropped={})
        package = ContextPackage(
            query=query, budget=budget, selection=selection, controller_version=self.claims
        ).with_hash()
        return RecallAnswer(package, Explanation((), (), (), {}))


def _memory(*controllers: Longest) -> Memory:
    memory = Memory.open(
        ":memory:", controllers=ControllerRegistry([*ControllerRegistry.shipped(), *controllers])
    )
    with memory.run(workflow="w", mode="buffered_write") as run:
        run.remember("EU refunds take 14 days.", subject="policy/eu-refunds", source=SOURCE)
        run.remember("VAT is 19 %.", subject="policy/vat", source=SOURCE)
    return memory


def test_a_controller_that_is_registered_answers_everywhere() -> None:
    memory = _memory(Longest())
    package = memory.recall("VAT", tokens=50, controller="longest-v1")
    with memory.run(workflow="w") as run:
        in_run = run.recall("VAT", tokens=50, controller="longest-v1")

    assert [item.memory_id for item in package.items] == ["policy/eu-refunds"]
    assert package.controller_version == "longest-v1"
    assert in_run == package == memory.at(1).recall("VAT", tokens=50, controller="longest-v1")
    assert ContextPackage.from_json(package.as_json()) == package
    assert run.trace is not None
    assert run.trace.retrievals[0].policy_version == "longest-v1"
    assert memory.recall("VAT", tokens=50).items[0].memory_id == "policy/vat"


def test_a_controller_is_given_the_callers_token_counter() -> None:
    memory = _memory(Longest())
    text = "EU refunds take 14 days."
    counters = {None: -(-len(text) // 4), BpeCounter(): BpeCounter().count(text)}

    for counter, tokens in counters.items():
        package = memory.recall("VAT", tokens=50, controller="longest-v1", token_counter=counter)
        assert package.items[0].score == tokens
    assert len(set(counters.values())) == 2


def test_an_unknown_controller_is_refused_with_the_names_of_those_that_are_known() -> None:
    memory = _memory(Longest())

    with pytest.raises(
        InvalidValue, match=r"'lexical-v9'; known: hybrid-v1, lexical-v1, longest-v1, phase6-v1"
    ):
        memory.recall("VAT", tokens=50, controller="lexical-v9")
    with pytest.raises(InvalidValue, match="known: none"):
        ControllerRegistry().get("phase6-v1")


def test_a_version_stands_for_one_controller() -> None:
    registry = ControllerRegistry.shipped()

    with pytest.raises(InvalidValue, match="already a controller 'phase6-v1'"):
        registry.register(Longest(version="phase6-v1"))
    with pytest.raises(InvalidValue, match="not empty"):
        registry.register(Longest(version=" "))
    assert [controller.version for controller in registry] == ["hybrid-v1", "lexical-v1", "phase6-v1"]
    assert [controller.version for controller in ControllerRegistry.shipped()] == [
        "hybrid-v1",
        "lexical-v1",
        "phase6-v1",
    ]


def test_a_package_of_another_version_is_refused() -> None:
    memory = _memory(Longest(claims="phase6-v1"))

    with pytest.raises(InvalidValue, match="made a package of version 'phase6-v1'"):
        memory.recall("VAT", tokens=50, controller="longest-v1")


def test_a_request_is_checked_before_anything_is_read() -> None:
    assert RecallRequest(query="q", tokens=1, bands=["LEDGER", "LEDGER"]).bands == (Band.LEDGER,)  # type: ignore[arg-type]  # As a caller without types may write it.
    for bands in ("LEDGER", (), ["ledger"], None, [Band.LEDGER, 5]):
        with pytest.raises(InvalidValue, match="bands"):
            RecallRequest(query="q", tokens=1, bands=bands)  # type: ignore[arg-type]  # It is wrong.
    with pytest.raises(EmptyQuery):
        RecallRequest(query=" \n", tokens=1)
    with pytest.raises(InvalidValue):
        RecallRequest(query="q", tokens=0)
    with pytest.raises(InvalidValue):
        RecallRequest(query="q", tokens=1, max_items=0)


def test_a_time_makes_recency_count() -> None:
    memory = _memory()
    old, new = (
        memory.recall("VAT", tokens=50, now_utc=now, controller="phase6-v1")
        for now in (None, "2020-01-01T00:00:00Z")
    )

    assert [item.score for item in old.items] == [1.0, 0.0]
    assert [item.score for item in new.items] == [2.0, 1.0]
