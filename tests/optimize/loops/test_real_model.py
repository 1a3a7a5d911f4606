"""The optimiser with a real model: SmolLM2 at temperature 0, asked for the place that a sentence names.

A harmless shortening is accepted and holds on samples that nobody has used; a harmful one is rejected, and
the report shows the answers that were lost. Finding places in a text is a public task (named entities) that a
model of 135 million parameters can do; of the capitals of the world it knows a third.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from standfast.optimize import (
    Contains,
    Dataset,
    GateSettings,
    LocalPromptOverridesStore,
    LocalResultCache,
    OpenAICompatibleProvider,
    OptimizationReport,
    PromptTemplate,
    Section,
    SectionEdit,
    compare_experiments,
    evaluate,
    optimize_in_process,
)
from standfast.optimize.loops.gate import RejectReason
from standfast.optimize.loops.proposals import StrategySession, edit_of
from standfast.optimize.prompts.template import PromptDescriptor
from tests.figures import Figures
from tests.servers.model import MODEL_NAME, ModelServer

INTRODUCTION = "Please read the text in order to find the name of the city."
TASK = "Text: ${text}\n\nWhich city is named in the text?"
QUESTION = f"{INTRODUCTION}\n\n{TASK}"
HARMLESS = (
    f"Read the text to find the name of the city.\n\n{TASK}",
    f"Find the name of the city.\n\n{TASK}",
    TASK,
)
HARMFUL = "Text: ${text}\n\nWho is named?"
GATE = GateSettings(remove_untested=True)
SAMPLES, FRESH = 72, 20
NAMES = ("Mary", "John", "Anna", "Peter", "Sandra", "Daniel", "Laura", "Tom")
CITIES = (
    *(
        "Paris",
        "London",
        "Berlin",
        "Madrid",
        "Rome",
        "Oslo",
        "Vienna",
        "Dublin",
        "Boston",
        "Chicago",
        "Denver",
    ),
    *(
        "Tokyo",
        "Lisbon",
        "Athens",
        "Prague",
        "Warsaw",
        "Helsinki",
        "Cairo",
        "Lima",
        "Toronto",
        "Sydney",
        "Seoul",
    ),
)
ACTS = ("flew to", "moved to", "visited", "lives in", "works in", "drove to")
ENDINGS = ("last Monday", "in May", "with a friend", "for the weekend", "because of a job", "again")


class _Proposed:
    """A strategy with one proposal."""

    def __init__(self, body: str) -> None:
        self._body = body

    def propose(
        self, prompt: PromptDescriptor, *, adapter: object, session: StrategySession
    ) -> Sequence[SectionEdit]:
        """The proposal, unless it is what the prompt says already."""
        assert adapter is not None
        [section] = prompt.sections
        if section.body == self._body:
            return []
        return [edit_of(section, self._body, session=session, strategy="proposed")]


def _sentences() -> list[dict[str, str]]:
    """Different sentences, the same ones each time."""
    chance, found = Random(20), dict[str, str]()
    while len(found) < SAMPLES + FRESH:
        city = chance.choice(CITIES)
        found[f"{chance.choice(NAMES)} {chance.choice(ACTS)} {city} {chance.choice(ENDINGS)}."] = city
    return [{"text": text, "expected": city} for text, city in found.items()]


@pytest.fixture
def provider(model_server: ModelServer) -> Iterator[OpenAICompatibleProvider]:
    """The model, as greedy as it can be."""
    made = OpenAICompatibleProvider(
        model=MODEL_NAME,
        base_url=model_server.base_url,
        api_key="none",
        max_output_tokens=16,
        temperature=0,
        seed=1,
        timeout_seconds=300,
    )
    yield made
    made.close()


def _optimized(folder: Path, body: str, provider: Any, rows: list[dict[str, str]]) -> OptimizationReport:
    template = PromptTemplate(ns="geo", key="places", sections=(Section(key="task", body=QUESTION),))
    result = optimize_in_process(
        template,
        rows,
        provider=provider,
        strategy=_Proposed(body),
        overrides_store=LocalPromptOverridesStore(folder / hashlib.sha256(body.encode()).hexdigest()[:8]),
        evaluator=Contains(),
        cache=LocalResultCache(folder / "cache"),
        gate=GATE,
        workers=1,
    )
    assert result.error is None
    return result.report


@pytest.mark.slow
def test_a_harmless_shortening_is_accepted_and_holds_on_fresh_samples(
    tmp_path: Path, provider: OpenAICompatibleProvider, figures: Figures
) -> None:
    rows = _sentences()
    fresh = Dataset.of(rows[SAMPLES : SAMPLES + FRESH])
    reports = {body: _optimized(tmp_path, body, provider, rows[:SAMPLES]) for body in HARMLESS}
    accepted = [body for body, report in reports.items() if report.has_modifications]
    figures("a real model", harmless_edits=len(HARMLESS), accepted=len(accepted))
    before = evaluate(QUESTION, fresh, provider, evaluator=Contains(), workers=1)

    assert accepted
    assert not any(report.model_varies for report in reports.values())
    for body in accepted:
        after = evaluate(body, fresh, provider, evaluator=Contains(), workers=1)
        found = compare_experiments(before, after, fresh).ruling
        assert found.candidate_pass_rate >= (1 - GATE.margin) * found.baseline_pass_rate


@pytest.mark.slow
def test_a_harmful_shortening_is_rejected_after_a_few_samples_and_the_report_says_why(
    tmp_path: Path, provider: OpenAICompatibleProvider
) -> None:
    report = _optimized(tmp_path, HARMFUL, provider, _sentences()[:SAMPLES])
    [rejected] = report.rejected

    assert rejected.reason in (RejectReason.INFERIOR, RejectReason.REWORDED)
    assert "given up after" in rejected.detail
    assert rejected.lost
    assert all(one.baseline_passed and not one.candidate_passed for one in rejected.lost)
    assert rejected.lost[0].candidate_output[:20] in str(report)
