"""One optimization, from a baseline to a report.

0. Nothing is run if the samples could not prove anything.
1. The baseline is copied under a temporary tag. It must pass at least one sample.
2. Strategies propose edits. Edits that lose protected text are rejected without running them; so are those
that are not shorter,
   unless they only add.
3. Each edit is compared with the baseline on the choosing samples, in interleaved runs that stop when it is
decided. 4. Edits that pass alone must pass together. If they do not, delta debugging finds a subset that
does. 5. The result is compared once with the baseline on the held-out samples, and only then reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from standfast.errors import NoBaselinePass, SpendingLimitReached
from standfast.optimize.loops.gate import (
    PowerStatement,
    RejectReason,
    Ruling,
    pass_rate,
    passing,
    power_statement,
)
from standfast.optimize.loops.meaning import (
    addition_objection,
    dropped_sentences,
    prompt_tokens,
    section_cost,
    static_objection,
)
from standfast.optimize.loops.proposals import CompressStrategy, SectionEdit, StrategySession, apply_edits
from standfast.optimize.loops.report import (
    Modification,
    OptimizationReport,
    ParetoPoint,
    RejectedModification,
    UnchangedSection,
    UntestedText,
    pareto_front,
)
from standfast.optimize.loops.trial import Arm, Subject, Trial
from standfast.optimize.prompts.template import Path, PromptDescriptor, path_text
from standfast.optimize.providers.adapter import ProviderAdapter
from standfast.recall.tokens import TokenCounter


@dataclass(slots=True)
class _Progress:
    """The state between rounds."""

    current: PromptDescriptor
    strategies: dict[Path, list[str]] = field(default_factory=dict)
    rejected: list[RejectedModification] = field(default_factory=list)
    points: list[ParetoPoint] = field(default_factory=list)
    tried: set[tuple[Path, str, int | None]] = field(default_factory=set)
    power: PowerStatement | None = None
    untested: dict[tuple[Path, str], None] = field(default_factory=dict)


class Optimization:
    """Runs once and returns a report."""

    def __init__(
        self,
        subject: Subject,
        *,
        trial: Trial,
        strategy: CompressStrategy,
        adapter: ProviderAdapter | None,
        counter: TokenCounter,
    ) -> None:
        self._subject, self._trial, self._strategy = subject, trial, strategy
        self._adapter, self._counter, self._gate = adapter, counter, subject.gate
        self._base = subject.baseline.descriptor
        choose, confirm = subject.dataset.split(subject.gate.held_out_share)
        self._choose, self._confirm = choose, confirm
        self._use = 1

    def report(self) -> OptimizationReport:
        """Run the optimization and return its report."""
        baseline = self._arm(self._base, "baseline")
        self._use = self._trial.held_out_number(baseline, self._confirm)
        progress = _Progress(self._base)
        if (problem := self._too_few_samples()) is not None:
            return self._report(progress, 0.0, None, stopped=problem)
        try:
            return self._found(baseline, progress)
        except SpendingLimitReached as reached:
            return self._report(_Progress(self._base), 0.0, None, stopped=str(reached))

    def _found(self, baseline: Arm, progress: _Progress) -> OptimizationReport:
        """Choose, confirm and report."""
        if not self._trial.passes_something(baseline, self._choose):
            raise NoBaselinePass(ns=self._base.ns, prompt_key=self._base.key, samples=len(self._choose))
        for _ in range(self._gate.max_rounds):
            if not self._round(baseline, progress):
                break
        confirmed = self._confirm_result(baseline, progress)
        rate = pass_rate(self._trial.baseline_runs(baseline, self._choose), repeats=1)
        progress.points.insert(0, self._point("baseline", self._base, rate))
        return self._report(progress, rate, confirmed)

    def _too_few_samples(self) -> str | None:
        """Return why no prompt could pass, computed before the first call; None if one could."""
        return self._gate.too_few(choosing=len(self._choose), held_out=len(self._confirm), use=self._use)

    def _round(self, baseline: Arm, progress: _Progress) -> bool:
        """Run one round on top of the accepted edits; return whether an edit was accepted."""
        edits = self._new_edits(baseline, progress)
        if not edits:
            return False
        looks = self._gate.choosing
        arms = [self._arm(apply_edits(progress.current, [edit]), _label(edit)) for edit in edits]
        rulings = self._trial.compare(baseline, arms, self._choose, looks=looks)
        if progress.power is None:
            samples = passing(self._trial.baseline_runs(baseline, self._choose), repeats=1)
            progress.power = power_statement(samples=samples, margin=self._gate.margin, level=looks.easiest)
        passed: list[tuple[SectionEdit, float]] = []
        for edit, ruling in zip(edits, rulings, strict=True):
            candidate = apply_edits(progress.current, [edit])
            if ruling.reason is not RejectReason.UNPROVEN:
                progress.points.append(self._point(_label(edit), candidate, ruling.candidate_pass_rate))
            if ruling.passed:
                passed.append((edit, ruling.candidate_pass_rate))
            else:
                progress.rejected.append(self._rejected(progress, edit, ruling))
        accepted = self._passing_together(baseline, self._best_of_each(passed, progress), progress)
        for edit in accepted:
            progress.strategies.setdefault(edit.path, []).append(edit.strategy)
        progress.current = apply_edits(progress.current, accepted)
        return bool(accepted)

    def _arm(self, candidate: PromptDescriptor, label: str = "") -> Arm:
        """Return the arm of a candidate, which must be better than the baseline if it is not shorter."""
        tokens = prompt_tokens(candidate, self._counter)
        longer = tokens >= prompt_tokens(self._base, self._counter)
        return self._trial.arm(candidate, label=label, tokens=tokens, must_improve=longer)

    def _new_edits(self, baseline: Arm, progress: _Progress) -> list[SectionEdit]:
        """Return new edits that pass the static checks."""

        def survives(prompts: Sequence[PromptDescriptor]) -> list[bool]:
            return self._trial.screen(baseline, [self._arm(prompt) for prompt in prompts], self._choose)

        session = StrategySession(
            counter=self._counter,
            survives=survives,
            spent=self._trial.add_spending,
            outcomes=lambda prompt: self._trial.outcomes(self._arm(prompt), self._choose),
        )
        edits = []
        for edit in self._strategy.propose(progress.current, adapter=self._adapter, session=session):
            identity = (edit.path, edit.proposed_body, edit.recall_tokens)
            # Everything is compared with the baseline, so a second addition would pass on the merits of the
            # first.
            if identity in progress.tried or (edit.adds and progress.strategies):
                continue
            progress.tried.add(identity)
            rejection = self._static_rejection(edit, progress) or self._drops_untested(edit, progress)
            if rejection is None:
                edits.append(edit)
            else:
                progress.rejected.append(rejection)
        return edits

    def _static_rejection(self, edit: SectionEdit, progress: _Progress) -> RejectedModification | None:
        section = progress.current.section(edit.path)
        if section is None or section.source_hash != edit.original_hash:
            ruling = Ruling(reason=RejectReason.STALE, detail="the edit was made for another source")
            return self._rejected(
                progress, edit, ruling, reduction=edit.original_tokens - edit.proposed_tokens
            )
        candidate = apply_edits(progress.current, [edit])
        rejection = (addition_objection if edit.adds else static_objection)(
            progress.current, candidate, counter=self._counter
        )
        if rejection is None:
            return None
        reason, detail = rejection
        return self._rejected(progress, edit, Ruling(reason=reason, detail=detail))

    def _drops_untested(self, edit: SectionEdit, progress: _Progress) -> RejectedModification | None:
        """Reject an edit that drops sentences, unless the settings allow it; note what no sample tests."""
        lost = dropped_sentences(progress.current, apply_edits(progress.current, [edit]))
        if edit.screened:
            progress.untested |= {(edit.path, text): None for text in lost}
        if not lost or self._gate.remove_untested:
            return None
        named = ", ".join(f"{text!r:.80}" for text in lost[:5])
        detail = f"it drops {named}; set remove_untested to let the samples decide"
        return self._rejected(progress, edit, Ruling(reason=RejectReason.UNTESTED, detail=detail))

    def _unchanged(self, progress: _Progress, final: PromptDescriptor) -> tuple[UnchangedSection, ...]:
        """Return why each section that is not modified stays as it is."""
        stayed = []
        for old, new in zip(self._base.sections, final.sections, strict=True):
            if old != new:
                continue
            reasons = [one.reason.value for one in progress.rejected if one.section_path == old.path]
            if old.protected:
                why = "it is declared protected"
            elif old.path in progress.strategies:
                why = "its modification was not confirmed on the held-out samples"
            elif reasons:
                counted = ", ".join(f"{reasons.count(one)} {one}" for one in sorted(set(reasons)))
                why = f"all proposals were rejected: {counted}"
            else:
                why = "no strategy proposed anything"
            stayed.append(UnchangedSection(section_path=old.path, why=why))
        return tuple(stayed)

    def _untested(self, progress: _Progress, final: PromptDescriptor) -> tuple[UntestedText, ...]:
        gone = set(dropped_sentences(self._base, final))
        return tuple(
            UntestedText(section_path=path, text=text, removed=text in gone)
            for path, text in progress.untested
        )

    def _best_of_each(
        self, passed: Sequence[tuple[SectionEdit, float]], progress: _Progress
    ) -> list[SectionEdit]:
        """Return one edit for each section: the addition with the best pass rate, or else the edit that saves
        most.

        What an addition costs, the next round may save.
        """
        ranked = sorted(
            passed,
            key=lambda one: (
                not one[0].adds,
                -one[1] if one[0].adds else 0.0,
                -self._reduction(progress.current, one[0]),
                one[0].path,
                one[0].proposed_body,
            ),
        )
        best: dict[Path, SectionEdit] = {}
        for edit, _ in ranked:
            if edit.path in best:
                what = "does better" if best[edit.path].adds else "saves more"
                detail = f"{best[edit.path].strategy} {what} in this section"
                ruling = Ruling(reason=RejectReason.SUPERSEDED, detail=detail)
                progress.rejected.append(self._rejected(progress, edit, ruling))
            else:
                best[edit.path] = edit
        return list(best.values())

    def _passing_together(
        self, baseline: Arm, edits: list[SectionEdit], progress: _Progress
    ) -> list[SectionEdit]:
        """Return edits that pass together: all of them, or what remains when failing halves are split."""
        last: dict[int, Ruling] = {}

        def passes(some: list[SectionEdit]) -> bool:
            label = f"{len(some)} edits together" if len(some) > 1 else ""
            arm = self._arm(apply_edits(progress.current, some), label)
            [ruling] = self._trial.compare(baseline, [arm], self._choose, looks=self._gate.choosing)
            last[0] = ruling
            if ruling.passed and len(some) > 1:
                candidate = apply_edits(progress.current, some)
                progress.points.append(self._point(label, candidate, ruling.candidate_pass_rate))
            return ruling.passed

        def grow(accepted: list[SectionEdit], chunk: list[SectionEdit]) -> list[SectionEdit]:
            if not chunk or passes(accepted + chunk):
                return accepted + chunk
            if len(chunk) == 1:
                ruling = Ruling(reason=RejectReason.FAILS_TOGETHER, detail=last[0].detail)
                progress.rejected.append(self._rejected(progress, chunk[0], ruling))
                return accepted
            half = len(chunk) // 2
            return grow(grow(accepted, chunk[:half]), chunk[half:])

        return grow([], edits)

    def _confirm_result(self, baseline: Arm, progress: _Progress) -> Ruling | None:
        """Compare once on the held-out samples; return None if nothing was accepted."""
        if progress.current.digest == self._base.digest:
            return None
        arm = self._arm(progress.current)
        ruling, self._use = self._trial.confirm(baseline, arm, self._confirm)
        return ruling

    def _report(
        self,
        progress: _Progress,
        baseline_rate: float,
        confirmed: Ruling | None,
        *,
        stopped: str | None = None,
    ) -> OptimizationReport:
        good = confirmed is not None and confirmed.passed
        modifications = self._modifications(progress, confirmed) if confirmed is not None else ()
        rejected = list(progress.rejected)
        if confirmed is not None and not good:
            rejected += [self._unconfirmed(one, confirmed) for one in modifications]
        final = progress.current if good else self._base
        subject, rates = self._subject, (baseline_rate, baseline_rate)
        tested = confirmed if confirmed is not None and confirmed.repeats else None
        if tested is not None:
            # Both rates of the held-out samples, so that they can be compared.
            rates = tested.baseline_pass_rate, tested.candidate_pass_rate
        return OptimizationReport(
            experiment_id=subject.experiment_id,
            prompt_ns=self._base.ns,
            prompt_key=self._base.key,
            baseline_pass_rate=rates[0],
            baseline_token_count=prompt_tokens(self._base, self._counter),
            modifications=modifications if good else (),
            rejected=tuple(rejected),
            unchanged=() if stopped else self._unchanged(progress, final),
            untested=self._untested(progress, final),
            candidate_pass_rate=rates[1] if good else rates[0],
            candidate_token_count=prompt_tokens(final, self._counter),
            tokenizer=self._counter.name,
            tokens_are_exact=self._counter.is_exact,
            baseline_tag=subject.baseline_tag,
            baseline_version=subject.baseline.version,
            baseline_fell_back=subject.baseline.fell_back,
            baseline_digest=self._base.digest,
            candidate_digest=final.digest,
            dataset_digest=subject.dataset.digest,
            choosing_samples=len(self._choose),
            confirming_samples=len(self._confirm),
            settings=self._gate,
            choosing_power=progress.power,
            confirming_power=power_statement(
                samples=tested.samples if tested is not None else len(self._confirm),
                margin=self._gate.margin,
                level=self._gate.confirming(self._use).easiest,
            ),
            confirming_p_value=None if tested is None else tested.p_value,
            worst_loss=None if tested is None else tested.worst_loss,
            held_out_use=self._use,
            stopped=stopped,
            pareto=pareto_front(progress.points),
            evaluations=self._trial.evaluations,
            usage=self._trial.usage,
        )

    def _modifications(self, progress: _Progress, confirmed: Ruling) -> tuple[Modification, ...]:
        changed = []
        for old, new in zip(self._base.sections, progress.current.sections, strict=True):
            if old == new:
                continue
            changed.append(
                Modification(
                    section_path=old.path,
                    original_hash=old.source_hash,
                    proposed_body=new.body,
                    token_reduction=section_cost(old, self._counter) - section_cost(new, self._counter),
                    baseline_pass_rate=confirmed.baseline_pass_rate,
                    candidate_pass_rate=confirmed.candidate_pass_rate,
                    original_body=old.body,
                    recall_tokens=new.recall_tokens,
                    original_recall_tokens=old.recall_tokens,
                    strategy=" + ".join(progress.strategies.get(old.path, ())),
                )
            )
        return tuple(changed)

    def _unconfirmed(self, one: Modification, ruling: Ruling) -> RejectedModification:
        few = ruling.reason is RejectReason.NOT_ENOUGH_SAMPLES
        return RejectedModification(
            section_path=one.section_path,
            token_reduction=one.token_reduction,
            regression_count=ruling.regression_count,
            reason=RejectReason.NOT_ENOUGH_SAMPLES if few else RejectReason.NOT_CONFIRMED,
            detail=f"on held-out samples: {ruling.reason.value if ruling.reason else ''}: {ruling.detail}",
            proposed_body=one.proposed_body,
            strategy=one.strategy,
        )

    def _rejected(
        self, progress: _Progress, edit: SectionEdit, ruling: Ruling, *, reduction: int | None = None
    ) -> RejectedModification:
        assert ruling.reason is not None
        return RejectedModification(
            section_path=edit.path,
            token_reduction=self._reduction(progress.current, edit) if reduction is None else reduction,
            regression_count=ruling.regression_count,
            reason=ruling.reason,
            detail=ruling.detail,
            proposed_body=edit.proposed_body,
            strategy=edit.strategy,
        )

    def _reduction(self, before: PromptDescriptor, edit: SectionEdit) -> int:
        after = apply_edits(before, [edit])
        return prompt_tokens(before, self._counter) - prompt_tokens(after, self._counter)

    def _point(self, label: str, prompt: PromptDescriptor, rate: float) -> ParetoPoint:
        return ParetoPoint(label=label, tokens=prompt_tokens(prompt, self._counter), pass_rate=rate)


def _label(edit: SectionEdit) -> str:
    return f"{path_text(edit.path)}: {edit.strategy}"
