"""Evaluate prompts without changing them: one prompt, two compared, or every prompt with every model."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from standfast.memory.memory import Memory
from standfast.optimize.evals.evaluators import Evaluator, Metric
from standfast.optimize.evals.results import EvalReport, EvalRequest, EvalResult, ResultCache
from standfast.optimize.evals.samples import Dataset, DatasetLike
from standfast.optimize.loops.gate import GateSettings, MoreRuns, Ruling, decide
from standfast.optimize.loops.main import EvalLoop, MainLoop
from standfast.optimize.loops.report import SampleComparison
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.prompts.overrides import STABLE, PromptOverridesStore
from standfast.optimize.prompts.prompt import Experiment
from standfast.optimize.prompts.template import PromptTemplate, Section
from standfast.optimize.providers.adapter import ProviderAdapter
from standfast.records.vocabulary import Value


def evaluate(
    prompt: PromptTemplate | str,
    dataset: DatasetLike,
    provider: ProviderAdapter,
    *,
    evaluator: Evaluator | Metric | None = None,
    experiment: Experiment | None = None,
    overrides_store: PromptOverridesStore | None = None,
    memory: Memory | None = None,
    system: str = "",
    cache: ResultCache | None = None,
    workers: int = 4,
) -> EvalReport:
    """Run a prompt once on every sample and grade the answers.

    All of them read one snapshot of memory, which the report names.

    Args:
        experiment: Says which overrides and which snapshot of memory are used; by default the tag ``stable``,
            which is the source as long as nothing is applied, and the newest snapshot.

    Raises:
        EvalError: The evaluator is none.
        ProviderError: The provider is none.
    """
    template = template_from(prompt)
    named = experiment or Experiment("evaluate", "evaluate", STABLE)
    if memory is not None and named.memory_snapshot is None:
        named = msgspec.structs.replace(named, memory_snapshot=memory.store.head())
    main: MainLoop[Any] = MainLoop(
        adapter=provider, template=template, overrides_store=overrides_store, memory=memory, system=system
    )
    worker: EvalLoop[Any, Any] = EvalLoop(
        loop=main, requests=InMemoryMailbox(name="unused"), evaluator=evaluator, cache=cache
    )

    def result(sample: Any) -> EvalResult:
        request: EvalRequest[Any, Any] = EvalRequest(sample=sample, experiment=named)
        try:
            return worker.handle(request)
        except Exception as error:  # noqa: BLE001  # As in the loop: an error says nothing about the prompt.
            return worker.failed(request, error)

    with ThreadPoolExecutor(workers) as threads:
        results = tuple(threads.map(result, Dataset.of(dataset)))
    return EvalReport(results=results, memory_snapshot=None if memory is None else named.memory_snapshot)


def template_from(prompt: PromptTemplate | str) -> PromptTemplate:
    """Return a template; a text with placeholders becomes one with a single section."""
    if isinstance(prompt, PromptTemplate):
        return prompt
    return PromptTemplate(ns="default", key="prompt", sections=(Section(key="prompt", body=prompt),))


class ExperimentComparison(Value, frozen=True, kw_only=True):
    """Two evaluations of the same samples. ``ruling`` is the gate's of the second, from one run each."""

    ruling: Ruling
    samples: tuple[SampleComparison, ...]
    """The samples whose outcome changed, lost ones first."""

    def __str__(self) -> str:
        ruling = self.ruling
        verdict = "no worse" if ruling.passed else (ruling.reason.value if ruling.reason else "")
        rates = f"pass rate {ruling.baseline_pass_rate:.1%} → {ruling.candidate_pass_rate:.1%}"
        lines = [f"{rates}, {len(ruling.lost)} lost, {len(ruling.gained)} gained: {verdict}"]
        lines += [
            f"  {'-' if one.baseline_passed else '+'} {one.sample_id}: {one.change}" for one in self.samples
        ]
        return "\n".join(lines)


def compare_experiments(
    before: EvalReport, after: EvalReport, dataset: DatasetLike, *, gate: GateSettings | None = None
) -> ExperimentComparison:
    """Compare two evaluations, sample by sample.

    Samples with an error on either side are left out, and the same sample counts once.
    """
    settings, samples = gate or GateSettings(), Dataset.of(dataset).distinct()
    graded = [{one.sample_id: one for one in report.graded} for report in (before, after)]
    both = [sample for sample in samples if all(sample.id in side for side in graded)]
    runs = [{sample.id: (side[sample.id].passed,) for sample in both} for side in graded]
    ruling = decide(
        *runs,
        samples=[sample.id for sample in both],
        settings=settings,
        looks=settings.confirming(1, varies=False),
        must_pass=samples.must_pass,
    )
    assert not isinstance(ruling, MoreRuns), "every sample has its one run"
    by_id = {sample.id: sample for sample in both}
    changed = tuple(
        SampleComparison.of(by_id[name], graded[0][name], graded[1][name])
        for name in (*ruling.lost, *ruling.gained)
    )
    return ExperimentComparison(ruling=ruling, samples=changed)


class EvalMatrix(Value, frozen=True, kw_only=True):
    """Every prompt with every model. ``str(matrix)`` is a table of pass rates."""

    cells: dict[str, dict[str, EvalReport]]
    """By the prompt's name, then by the model's."""

    def __str__(self) -> str:
        models = list(next(iter(self.cells.values()), {}))
        width = max([6, *(len(name) for name in self.cells)])
        lines = [" " * width + "".join(f"  {name:>12}" for name in models)]
        for name, row in self.cells.items():
            shown = "".join(f"  {row[model].pass_rate:>{max(12, len(model))}.1%}" for model in models)
            lines.append(f"{name:<{width}}{shown}")
        return "\n".join(lines)


def provider_matrix(
    prompts: Mapping[str, PromptTemplate | str],
    dataset: DatasetLike,
    providers: Mapping[str, ProviderAdapter],
    *,
    evaluator: Evaluator | Metric | None = None,
    cache: ResultCache | None = None,
    workers: int = 4,
) -> EvalMatrix:
    """Evaluate every prompt with every model on the same samples."""
    samples = Dataset.of(dataset)
    cells = {
        name: {
            model: evaluate(prompt, samples, provider, evaluator=evaluator, cache=cache, workers=workers)
            for model, provider in providers.items()
        }
        for name, prompt in prompts.items()
    }
    return EvalMatrix(cells=cells)
