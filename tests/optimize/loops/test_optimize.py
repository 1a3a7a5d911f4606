"""Whole optimisations: planted edits are judged each for its own reason, and what is reported was proved."""

from pathlib import Path
from typing import Any

import pytest

from standfast.limits import TWICE_RUN_SAMPLES
from standfast.optimize.errors import (
    ProviderUnavailable,
)
from standfast.optimize.evals.results import EvalRequest, EvalResult
from standfast.optimize.evals.samples import Dataset
from standfast.optimize.loops.apply import apply_report
from standfast.optimize.loops.gate import GateSettings, RejectReason
from standfast.optimize.loops.main import EvalLoop
from standfast.optimize.loops.optimize import OptimizeRequest
from standfast.optimize.loops.proposals import Strategies, rewriting_strategies
from standfast.optimize.loops.report import OptimizationReport, html_report, summary_lines
from standfast.optimize.loops.strategies import Ablation, DuplicateRemoval
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.prompts.overrides import SectionOverride
from standfast.optimize.providers.adapter import ModelRequest
from standfast.recall.tokens import EstimatedCounter
from standfast.records.canon import canonical_bytes, fingerprint
from tests.figures import Figures
from tests.optimize.loops.harness import TEMPLATE, Harness, Planted, agent, dataset, id_of, temporary_tags
from tests.raising import raises_code

ROLE, RULES, EXAMPLES, TASK = (section.body for section in TEMPLATE.sections)
SAMPLES = 100
NOISE = 0.02
MARGIN = 0.2
SHORT_ROLE = "You are a calculator."


def _reasons(report: OptimizationReport) -> dict[str, RejectReason]:
    return {one.proposed_body: one.reason for one in report.rejected}


def _needs_words(*words: str) -> Any:
    return lambda _number, prompt, _repeat: all(word in prompt for word in words)


# What each harmful edit does, what the agent needs, and the reason that must be given.
HARMFUL = {
    "a dropped placeholder": (("task", "Add ${a}."), _needs_words(), RejectReason.PLACEHOLDER_DROPPED),
    "a removed negation": (
        ("rules", "Guess.\n\nAnswer with the sum."),
        _needs_words(),
        RejectReason.NEGATION_REMOVED,
    ),
    "a removed example that is needed": (
        ("examples", "The sea is wide."),
        _needs_words("One and one"),
        RejectReason.INFERIOR,
    ),
    "an example that only some samples need": (
        ("examples", "One and one make two."),
        lambda number, prompt, _repeat: number % 9 != 0 or "Ten and ten" in prompt,
        RejectReason.INFERIOR,
    ),
    "an edit that makes samples flaky": (
        ("role", SHORT_ROLE),
        lambda number, prompt, repeat: (
            number % 3 != 0 or "sea" in prompt.split("## Rules")[0] or (number // 3 + repeat) % 2 == 0
        ),
        RejectReason.INFERIOR,
    ),
    "an edit that is longer": (("role", ROLE + " Indeed."), _needs_words(), RejectReason.NOT_SHORTER),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_edit_is_rejected_for_its_own_reason(tmp_path: Path, name: str) -> None:
    edit, needs, reason = HARMFUL[name]
    harness = Harness(tmp_path, agent(needs, noise=NOISE, seed=1), Planted(edit))
    report = harness.optimize(dataset(SAMPLES))

    assert not report.has_modifications
    assert _reasons(report) == {edit[1]: reason}
    assert report.rejected[0].detail
    assert report.candidate_digest == report.baseline_digest == TEMPLATE.descriptor.digest


@pytest.mark.parametrize(
    "edits",
    [
        [("role", SHORT_ROLE)],
        [("examples", "One and one make two.\n\nTen and ten make twenty.")],
        [
            ("role", SHORT_ROLE),
            ("examples", "Ten and ten make twenty."),
            ("rules", "Do not guess.\n\nAnswer the sum alone."),
        ],
    ],
    ids=len,
)
def test_harmless_edits_are_accepted(tmp_path: Path, edits: list[tuple[str, str]]) -> None:
    needs = lambda _number, prompt, _repeat: "Do not guess" in prompt  # noqa: E731
    harness = Harness(tmp_path, agent(needs, noise=NOISE, seed=2), Planted(*edits))
    report = harness.optimize(dataset(SAMPLES))

    assert {one.section_path[0]: one.proposed_body for one in report.modifications} == dict(edits)
    assert report.rejected == ()
    assert report.total_token_reduction == report.baseline_token_count - report.candidate_token_count > 0
    assert report.confirming_p_value is not None
    assert report.confirming_p_value <= 0.05


def test_edits_that_pass_alone_and_fail_together_are_told_apart(tmp_path: Path) -> None:
    """The agent needs to hear of the sea at least once; which section says it does not matter."""
    role, examples = (
        ("role", SHORT_ROLE),
        ("examples", "One and one make two.\n\nTen and ten make twenty."),
    )
    rules = ("rules", "Do not guess.\n\nAnswer the sum alone.")
    harness = Harness(tmp_path, agent(_needs_words("sea"), noise=NOISE), Planted(role, examples, rules))
    report = harness.optimize(dataset(SAMPLES))

    assert {one.section_path[0] for one in report.modifications} == {"role", "rules"}
    assert _reasons(report) == {examples[1]: RejectReason.FAILS_TOGETHER}


def test_what_chance_let_through_is_stopped_by_the_held_out_samples(tmp_path: Path) -> None:
    """The harm shows only on samples that had no part in choosing."""
    _, confirm = dataset(SAMPLES).split(GateSettings().held_out_share)
    hurt = {int(sample.id[1:]) for sample in confirm}
    needs = lambda number, prompt, _repeat: number not in hurt or "proud" in prompt  # noqa: E731
    harness = Harness(tmp_path, agent(needs), Planted(("role", SHORT_ROLE)))
    report = harness.optimize(dataset(SAMPLES))

    assert not report.has_modifications
    assert _reasons(report) == {SHORT_ROLE: RejectReason.NOT_CONFIRMED}


def test_too_few_samples_are_noticed_before_the_first_call(tmp_path: Path) -> None:
    provider = agent()
    harness = Harness(tmp_path, provider, Planted(("role", SHORT_ROLE)))
    report = harness.optimize(dataset(20))

    assert (provider.calls, report.evaluations, report.has_modifications) == (0, 0, False)
    assert report.stopped is not None
    assert "34 held-out samples, and there are 12" in report.stopped
    assert report.stopped in summary_lines(report)


def test_held_out_samples_that_have_decided_prove_less_each_time(tmp_path: Path) -> None:
    """The second change is confirmed at a smaller level, and soon fresh samples are needed."""
    bodies = ["You are a calculator that people like.", SHORT_ROLE, "Calculator."]
    uses = []
    for body in bodies:
        harness = Harness(tmp_path, agent(), Planted(("role", body)))
        report = harness.optimize(dataset(85))
        again = Harness(tmp_path, agent(), Planted(("role", body)), cache=harness.cache).optimize(dataset(85))
        assert canonical_bytes(again.as_json()) == canonical_bytes(report.as_json())
        uses.append((report.held_out_use, report.has_modifications))
        if report.has_modifications:
            apply_report(harness.store, TEMPLATE, report)

    assert uses == [(1, True), (2, True), (3, False)]
    assert report.stopped is not None
    assert "use 3 of these held-out samples" in report.stopped
    fresh = Dataset(samples=tuple(dataset(400))[85:])
    assert harness.optimize(fresh).held_out_use == 1


def test_a_use_that_could_prove_nothing_is_not_run(tmp_path: Path) -> None:
    """70 samples are enough for one test.

    Another candidate on the same held-out samples would be the second.
    """
    first = Harness(tmp_path, agent(), Planted(("role", SHORT_ROLE)))
    assert first.optimize(dataset(70)).has_modifications
    provider = agent()
    report = Harness(tmp_path, provider, Planted(("role", "Calculator."))).optimize(dataset(70))

    [rejected] = report.rejected
    assert rejected.reason is RejectReason.NOT_ENOUGH_SAMPLES
    assert "use 2 of these held-out samples) needs 47 held-out samples, and there are 42" in rejected.detail
    assert provider.calls == report.evaluations == 2 * report.choosing_samples + TWICE_RUN_SAMPLES
    assert (report.baseline_pass_rate, report.worst_loss) == (1.0, None)
    assert "47 could" in summary_lines(report)[-1]


def test_the_same_comparison_with_other_runs_is_another_use(tmp_path: Path) -> None:
    """Trying again until chance agrees is accounted for."""
    edit = ("role", SHORT_ROLE)
    uses = [
        Harness(tmp_path, agent(noise=NOISE, seed=seed), Planted(edit))
        .optimize(dataset(SAMPLES))
        .held_out_use
        for seed in range(3)
    ]

    assert uses == [1, 2, 3]


def test_a_loss_that_is_spread_thin_is_rejected(tmp_path: Path) -> None:
    """Without its second line, every sample fails one run in ten; by majorities nothing was lost."""
    accepted = 0
    for seed in range(10):

        def needs(number: int, prompt: str, repeat: int, seed: int = seed) -> bool:
            unlucky = int(fingerprint(["thin", seed, number, repeat])[:8], 16) % 10 == 0
            return "proud" in prompt or not unlucky

        harness = Harness(tmp_path / str(seed), agent(needs), Planted(("role", SHORT_ROLE)))
        accepted += harness.optimize(dataset(SAMPLES)).has_modifications

    assert accepted <= 1


def test_rivals_for_one_section_leave_the_shortest_that_passes(tmp_path: Path) -> None:
    rivals = [("role", "Calc."), ("role", SHORT_ROLE), ("role", "You are a calculator that people like.")]
    harness = Harness(tmp_path, agent(_needs_words("calculator")), Planted(*rivals))
    report = harness.optimize(dataset(SAMPLES))

    assert [one.proposed_body for one in report.modifications] == [SHORT_ROLE]
    assert _reasons(report) == {
        "Calc.": RejectReason.INFERIOR,
        "You are a calculator that people like.": RejectReason.SUPERSEDED,
    }


def test_all_strategies_together_shorten_what_can_be_shortened(tmp_path: Path) -> None:
    strategy = Strategies(*rewriting_strategies(), DuplicateRemoval(), Ablation())
    harness = Harness(tmp_path, agent(_needs_words("Ten and ten"), noise=NOISE), strategy)
    report = harness.optimize(dataset(SAMPLES))

    texts = {one.section_path[0]: one.proposed_body for one in report.modifications}
    assert texts == {"role": "", "rules": "Do not guess.", "examples": "Ten and ten make twenty."}
    assert report.pareto[0].tokens == report.candidate_token_count


def test_what_no_sample_tests_is_listed_and_only_removed_if_that_is_allowed(tmp_path: Path) -> None:
    strategy = Strategies(*rewriting_strategies(), Ablation())
    needs = _needs_words("Ten and ten")
    strict = Harness(tmp_path / "strict", agent(needs), strategy, gate=GateSettings())
    report = strict.optimize(dataset(SAMPLES))

    listed = {one.text for one in report.untested}
    assert {"The sea is wide.", "Answer with the sum alone.", "One and one make two."} <= listed
    assert "Ten and ten make twenty." not in listed
    assert not any(one.removed for one in report.untested)
    assert "The sea is wide." not in " ".join(one.proposed_body for one in report.modifications)
    assert RejectReason.UNTESTED in _reasons(report).values()
    assert any("kept, but no sample tests it" in line for line in summary_lines(report))

    allowed = Harness(tmp_path / "allowed", agent(needs), strategy).optimize(dataset(SAMPLES))
    assert all(one.removed for one in allowed.untested)
    assert {one.text for one in allowed.untested} >= {"The sea is wide.", "One and one make two."}
    assert "Sentences that no sample tests" in html_report(allowed)


def test_the_report_says_why_each_section_stayed(tmp_path: Path) -> None:
    edits = [("role", SHORT_ROLE), ("rules", "Guess.")]
    report = Harness(tmp_path, agent(), Planted(*edits)).optimize(dataset(SAMPLES))

    assert {one.section_path[0]: one.why for one in report.unchanged} == {
        "rules": "all proposals were rejected: 1 negation_removed",
        "examples": "no strategy proposed anything",
        "task": "no strategy proposed anything",
    }


def test_a_baseline_override_is_the_ground_that_edits_stand_on(tmp_path: Path) -> None:
    """A candidate's tag holds the baseline and the edit in full, never the edit on the source."""
    harness = Harness(tmp_path, agent(_needs_words("Be exact")), Planted(("role", SHORT_ROLE)))
    override = SectionOverride(
        path=("rules",), expected_hash=TEMPLATE.sections[1].content_hash, body="Do not guess.\n\nBe exact."
    )
    stored = harness.store.store(TEMPLATE, override, tag="stable")
    report = harness.optimize(dataset(SAMPLES))

    assert [one.proposed_body for one in report.modifications] == [SHORT_ROLE]
    assert report.baseline_version == stored.version
    assert report.baseline_digest != TEMPLATE.descriptor.digest


class WrongPrompt(EvalLoop[Any, Any]):
    """A worker that still has an old prompt for everything but the baseline."""

    def handle(self, request: EvalRequest[Any, Any]) -> EvalResult:
        """Its answers are fine, but not those of the prompt that was asked for."""
        result = super().handle(request)
        if result.prompt_digest == TEMPLATE.descriptor.digest:
            return result
        plain = result.as_json() | {"prompt_digest": TEMPLATE.descriptor.digest}
        return EvalResult.from_json(plain)


def test_results_of_another_prompt_prove_nothing(tmp_path: Path) -> None:
    harness = Harness(tmp_path, agent(), Planted(("role", SHORT_ROLE)), worker_type=WrongPrompt)
    report = harness.optimize(dataset(SAMPLES))

    assert _reasons(report) == {SHORT_ROLE: RejectReason.UNPROVEN}
    assert "used prompt" in report.rejected[0].detail


def _failing_for(words: str) -> Any:
    def needs(_number: int, prompt: str, _repeat: int) -> bool:
        if words in prompt:
            raise ProviderUnavailable(provider="scripted", problem="it is down")
        return True

    return needs


def test_errors_are_neither_passes_nor_regressions(tmp_path: Path) -> None:
    harness = Harness(tmp_path, agent(_failing_for(SHORT_ROLE + "\n")), Planted(("role", SHORT_ROLE)))
    report = harness.optimize(dataset(SAMPLES))

    assert _reasons(report) == {SHORT_ROLE: RejectReason.UNPROVEN}
    assert "it is down" in report.rejected[0].detail
    assert report.rejected[0].regression_count == 0


def test_an_error_that_passes_is_asked_again(tmp_path: Path) -> None:
    asked: dict[str, int] = {}

    def script(request: ModelRequest) -> bool:
        asked[request.prompt] = asked.get(request.prompt, 0) + 1
        return asked[request.prompt] == 1

    def needs(_number: int, prompt: str, repeat: int) -> bool:
        if script(ModelRequest.of(f"{prompt}{repeat}")):
            raise ProviderUnavailable(provider="scripted", problem="it hiccups")
        return True

    report = Harness(tmp_path, agent(needs), Planted(("role", SHORT_ROLE))).optimize(dataset(SAMPLES))

    assert report.has_modifications


def test_a_baseline_that_can_not_be_evaluated_is_an_error(tmp_path: Path) -> None:
    with raises_code("evals_unanswered", match="it is down"):
        Harness(tmp_path, agent(_failing_for("Add")), Planted()).optimize(dataset(SAMPLES))


def test_bad_requests_are_errors_with_names(tmp_path: Path) -> None:
    harness = Harness(tmp_path, agent(lambda *_: False), Planted(("role", SHORT_ROLE)))

    with raises_code("no_baseline_pass"):
        harness.optimize(dataset(SAMPLES))
    with raises_code("invalid_dataset"):
        harness.optimize(Dataset(samples=()))
    loop = harness.optimize_loop(InMemoryMailbox(name="e"), InMemoryMailbox(name="o"))
    with raises_code("unknown_prompt"):
        loop.handle(OptimizeRequest(prompt_ns="x", prompt_key="y", dataset=dataset(3)))
    assert temporary_tags(harness) == []


def test_nothing_temporary_is_left_and_the_report_is_the_same_again(tmp_path: Path) -> None:
    """Also after a crash between: what an earlier life left under the same experiment's name is removed."""
    harness = Harness(tmp_path, agent(noise=NOISE), Planted(("role", SHORT_ROLE)))
    experiment = fingerprint(["optimize/v1", str(id_of("r1"))])[:16]
    harness.store.replace(TEMPLATE, [], tag=f"opt-{experiment}-left")
    first = harness.optimize(dataset(SAMPLES))

    assert temporary_tags(harness) == []
    assert canonical_bytes(harness.optimize(dataset(SAMPLES)).as_json()) == canonical_bytes(first.as_json())
    assert OptimizationReport.from_json(first.as_json()) == first


def test_held_out_samples_run_alternately(tmp_path: Path) -> None:
    """What drifts meanwhile meets both sides.

    The baseline's first look at the choosing samples comes first, because it shows whether anything can be
    proved.
    """
    asked: list[tuple[str, int, str]] = []

    class Watched(EvalLoop[Any, Any]):
        def handle(self, request: EvalRequest[Any, Any]) -> EvalResult:
            assert request.experiment is not None
            asked.append((request.sample.id, request.repeat, request.experiment.overrides_tag))
            return super().handle(request)

    Harness(tmp_path, agent(), Planted(("role", SHORT_ROLE)), worker_type=Watched).optimize(dataset(SAMPLES))
    _, confirm = dataset(SAMPLES).split(GateSettings().held_out_share)
    held_out = {sample.id for sample in confirm}
    alternating = [run for run in asked if run[0] in held_out]

    assert len({tag for _, _, tag in asked}) == 2
    assert len(asked) == len(set(asked)) == SAMPLES * 2 + TWICE_RUN_SAMPLES
    assert len(alternating) == 2 * len(confirm)
    for (sample, repeat, tag), (other_sample, other_repeat, other_tag) in zip(
        alternating[::2], alternating[1::2], strict=True
    ):
        assert (sample, repeat) == (other_sample, other_repeat)
        assert tag != other_tag


def test_an_estimate_of_tokens_is_called_one(tmp_path: Path) -> None:
    class Estimating(Harness):
        def optimize_loop(self, evals: Any, requests: Any) -> Any:
            made = super().optimize_loop(evals, requests)
            made._counter = EstimatedCounter()
            return made

    report = Estimating(tmp_path, agent(), Planted(("role", SHORT_ROLE))).optimize(dataset(SAMPLES))

    assert (report.tokenizer, report.tokens_are_exact) == ("estimate:bytes/4", False)
    assert "an estimate" in summary_lines(report)[0]
    assert "an estimate" in html_report(report)


def test_a_report_can_be_read_by_people(tmp_path: Path) -> None:
    edits = [("role", SHORT_ROLE + " <b>"), ("task", "Add ${a}.")]
    report = Harness(tmp_path, agent(), Planted(*edits)).optimize(dataset(SAMPLES))
    page = html_report(report)

    assert "<del>" in page
    assert "&lt;<" in page or "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "placeholder_dropped" in page
    assert "Operating curve" in page
    assert "<polyline" in page
    assert "o200k_base" in summary_lines(report)[0]


def _accepted(folder: Path, seeds: range, *, harm: float) -> int:
    """How often an edit is reported that loses such a share of the samples; the seed chooses which."""
    accepted = 0
    for seed in seeds:

        def needs(number: int, prompt: str, _repeat: int, seed: int = seed) -> bool:
            drawn = int(fingerprint(["harm", seed, number])[:8], 16) / 2**32
            return drawn >= harm or "proud" in prompt

        gate = GateSettings(margin=MARGIN, remove_untested=True)
        provider = agent(needs, noise=0.01, seed=seed)
        harness = Harness(folder / f"{harm}-{seed}", provider, Planted(("role", SHORT_ROLE)), gate=gate)
        # Small enough that chance has a chance: a larger dataset would only refuse more surely.
        accepted += harness.optimize(dataset(45)).has_modifications
    return accepted


def _trials(folder: Path, seeds: range, figures: Figures) -> tuple[int, int]:
    harmful, harmless = _accepted(folder, seeds, harm=MARGIN), _accepted(folder, seeds, harm=0.0)
    figures(
        f"optimisations, level {GateSettings().level:g}, margin {MARGIN:g}",
        harmful_edits=len(seeds),
        false_accepts=harmful,
        harmless_edits=len(seeds),
        true_accepts=harmless,
    )
    return harmful, harmless


def test_edits_that_lose_the_margin_are_rarely_accepted(tmp_path: Path, figures: Figures) -> None:
    harmful, harmless = _trials(tmp_path, range(8), figures)

    assert harmful == 0
    assert harmless >= 6


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(10))
def test_edits_that_lose_the_margin_are_rarely_accepted_in_a_thousand_trials(
    tmp_path: Path, chunk: int, figures: Figures
) -> None:
    """Each chunk is held to the declared level; the figures at the end add up over all."""
    first = 1_000 + 100 * chunk
    harmful, harmless = _trials(tmp_path, range(first, first + 100), figures)

    assert harmful <= GateSettings().level * 100
    assert harmless >= 75
