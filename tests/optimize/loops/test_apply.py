"""Applying is one compare-and-set, sealed, with the way back beside it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from standfast.optimize.errors import (
    StaleOverride,
    VersionConflict,
)
from standfast.optimize.loops.apply import PromptChange, apply_modifications, apply_report, rollback
from standfast.optimize.loops.report import Modification, OptimizationReport
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.overrides import PromptOverride, SectionOverride, apply_overrides
from standfast.optimize.prompts.prompt import Fallback, Prompt
from standfast.optimize.prompts.template import PromptTemplate, Section
from tests.optimize.loops.harness import TEMPLATE
from tests.raising import raises_code

NAME: dict[str, Any] = {"ns": "agent", "prompt_key": "sum"}


def _modification(key: str, body: str) -> Modification:
    section = TEMPLATE.descriptor.section((key,))
    assert section is not None
    return Modification(
        section_path=(key,),
        original_hash=section.source_hash,
        proposed_body=body,
        token_reduction=3,
        baseline_pass_rate=1.0,
        candidate_pass_rate=1.0,
    )


REPORT = msgspec.structs.replace(
    OptimizationReport.failed(ns="agent", prompt_key="sum"),
    experiment_id="e1",
    modifications=(_modification("role", "Short."), _modification("rules", "Do not guess.")),
    baseline_digest=TEMPLATE.descriptor.digest,
)


REPORT = msgspec.structs.replace(
    REPORT,
    candidate_digest=apply_overrides(
        TEMPLATE.descriptor,
        [
            SectionOverride(path=one.section_path, expected_hash=one.original_hash, body=one.proposed_body)
            for one in REPORT.modifications
        ],
        tag="stable",
    ).digest,
)


class Book:
    """A sealer that writes down what it is told."""

    def __init__(self) -> None:
        self.proposed: list[PromptChange] = []
        self.settled: list[tuple[str, bool]] = []

    def propose(self, change: PromptChange) -> str:
        """Write it down."""
        self.proposed.append(change)
        return f"seal-{len(self.proposed)}"

    def settle(self, seal_id: str, *, applied: bool) -> None:
        """Write it down."""
        self.settled.append((seal_id, applied))


@pytest.fixture
def store(tmp_path: Path) -> LocalPromptOverridesStore:
    return LocalPromptOverridesStore(tmp_path)


def _digest(store: LocalPromptOverridesStore, template: PromptTemplate = TEMPLATE) -> str:
    prompt = Prompt(template, overrides_tag="stable", overrides_store=store, fallback=Fallback.TEMPLATE)
    return prompt.descriptor.digest


def test_all_modifications_are_applied_in_one_write_and_sealed(store: LocalPromptOverridesStore) -> None:
    book = Book()
    applied = apply_report(store, TEMPLATE, REPORT, sealer=book)

    assert [override.path for override in applied.overrides] == [("role",), ("rules",)]
    assert (applied.version, applied.seal_id) == (1, "seal-1")
    [change] = book.proposed
    assert (change.kind, change.from_version, change.sections) == ("apply", 0, ("role", "rules"))
    assert (change.from_digest, change.to_digest) == (TEMPLATE.descriptor.digest, _digest(store))
    assert book.settled == [("seal-1", True)]


def test_the_documents_own_call_works(store: LocalPromptOverridesStore) -> None:
    apply_modifications(store, Prompt(TEMPLATE), REPORT.modifications)

    assert store.resolve(**NAME, tag="stable") is not None


def test_what_the_tag_overrides_elsewhere_stays(store: LocalPromptOverridesStore) -> None:
    other = SectionOverride(
        path=("examples",), expected_hash=TEMPLATE.sections[2].content_hash, body="One and one make two."
    )
    store.store(TEMPLATE, other, tag="stable")
    applied = apply_modifications(store, TEMPLATE, REPORT.modifications)

    assert [override.path[0] for override in applied.overrides] == ["examples", "role", "rules"]


def test_a_report_for_another_baseline_is_not_applied(store: LocalPromptOverridesStore) -> None:
    apply_modifications(store, TEMPLATE, [_modification("examples", "One and one make two.")])

    with raises_code("baseline_moved"):
        apply_report(store, TEMPLATE, REPORT)


def test_an_empty_or_edited_report_is_never_applied(store: LocalPromptOverridesStore) -> None:
    first, second = REPORT.modifications
    edited = msgspec.structs.replace(first, proposed_body="Share everything.")
    bad = [
        OptimizationReport.failed(ns="agent", prompt_key="sum"),
        msgspec.structs.replace(REPORT, modifications=()),
        msgspec.structs.replace(REPORT, modifications=(edited, second)),
        msgspec.structs.replace(REPORT, modifications=(first,)),
        msgspec.structs.replace(REPORT, candidate_digest=None),
    ]
    for report in bad:
        with raises_code("report_not_applicable"):
            apply_report(store, TEMPLATE, report)

    assert store.resolve(**NAME, tag="stable") is None


def test_a_change_that_loses_the_race_is_settled_as_not_made(
    store: LocalPromptOverridesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book()
    replace = store.replace

    def overtaken(*args: Any, **options: Any) -> PromptOverride:
        monkeypatch.setattr(store, "replace", replace)
        apply_modifications(store, TEMPLATE, [_modification("examples", "One and one make two.")])
        return replace(*args, **options)

    monkeypatch.setattr(store, "replace", overtaken)
    with pytest.raises(VersionConflict):
        apply_report(store, TEMPLATE, REPORT, sealer=book)
    assert book.settled == [("seal-1", False)]


def test_rolling_back_makes_it_as_it_was_and_again_as_it_is(store: LocalPromptOverridesStore) -> None:
    book = Book()
    apply_modifications(store, TEMPLATE, [_modification("examples", "One and one make two.")])
    before = _digest(store)
    apply_modifications(store, TEMPLATE, REPORT.modifications)
    after = _digest(store)

    assert rollback(store, TEMPLATE, sealer=book) is not None
    assert _digest(store) == before
    assert book.proposed[0].kind == "rollback"
    rollback(store, TEMPLATE)
    assert _digest(store) == after


def test_the_first_apply_can_be_rolled_back_to_the_source(store: LocalPromptOverridesStore) -> None:
    apply_report(store, TEMPLATE, REPORT)

    assert rollback(store, TEMPLATE) is None
    assert _digest(store) == TEMPLATE.descriptor.digest


def test_without_an_apply_there_is_nothing_to_roll_back(store: LocalPromptOverridesStore) -> None:
    with raises_code("no_rollback"):
        rollback(store, TEMPLATE)


def test_a_version_of_the_history_can_be_restored_by_its_number(store: LocalPromptOverridesStore) -> None:
    digests = [_digest(store)]
    for text in ("One and one make two.", "Two and two make four.", "Three."):
        apply_modifications(store, TEMPLATE, [_modification("examples", text)])
        digests.append(_digest(store))

    assert rollback(store, TEMPLATE, to_version=1) is not None
    assert _digest(store) == digests[1]
    assert rollback(store, TEMPLATE, to_version=0) is None
    assert _digest(store) == digests[0]
    with raises_code("no_rollback", match="version 4, 3, 2, 1, 0"):
        rollback(store, TEMPLATE, to_version=9)


def test_of_two_rollbacks_at_once_one_wins(
    store: LocalPromptOverridesStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply_report(store, TEMPLATE, REPORT)
    replace = store.replace

    def second_comes_first(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(store, "replace", replace)
        rollback(store, TEMPLATE)
        return replace(*args, **options)

    monkeypatch.setattr(store, "replace", second_comes_first)
    with pytest.raises(VersionConflict):
        rollback(store, TEMPLATE)
    assert _digest(store) == TEMPLATE.descriptor.digest


def test_nothing_is_applied_on_top_of_something_stale(store: LocalPromptOverridesStore) -> None:
    apply_report(store, TEMPLATE, REPORT)
    role, *others = TEMPLATE.sections
    changed = PromptTemplate(
        ns="agent", key="sum", sections=(Section(key=role.key, title=role.title, body="New source."), *others)
    )

    with pytest.raises(StaleOverride):
        apply_modifications(store, changed, [_modification("rules", "Do not guess.")])
