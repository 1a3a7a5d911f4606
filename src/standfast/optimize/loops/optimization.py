"""One optimization, from a baseline to a report.

0. Nothing is run if the samples could not prove anything.
1. The baseline is copied under a temporary tag. It must pass at least one sample. A few samples run twice, to
   see whether the model varies. If the baseline passes too few samples, only additions are tried.
2. Strategies propose edits. Edits that lose protected text are rejected without running them; so are those
   that are not shorter, unless they only add.
3. Each edit is compared with the baseline on the choosing samples, in runs that stop when it is decided. An
   ablation that fails is tried again without the units that fail. Reworded sentences must be tested.
4. Edits that pass alone must pass together. If they do not, delta debugging finds a subset that does.
5. The result is compared once on the held-out samples, and only then reported.

Every comparison is with the baseline and with the version that a human last approved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from standfast.limits import MAX_REPORTED_SAMPLES, SHOWN_SAMPLES
from standfast.optimize.errors import OptimizationError, SpendingLimitReached
from standfast.optimize.loops.gate import RejectReason, Ruling, pass_rate, passing
from standfast.optimize.loops.meaning import (
    addition_objection,
    dropped_sentences,
    prompt_tokens,
    reworded_sentences,
    section_cost,
    static_objection,
    without_sentence,
)
from standfast.optimize.loops.proposals import (
    CompressStrategy,
    SectionEdit,
    StrategySession,
    apply_edits,
    removal_edit,
)
from standfast.optimize.loops.report import (
    Modification,
    OptimizationReport,
    ParetoPoint,
    RejectedModification,
    RewordedText,
    SampleComparison,
    UnchangedSection,
    UntestedText,
    pareto_front,
)
from standfast.optimize.loops.statistics import PowerStatement, power_statement
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
    reworded: dict[tuple[Path, str, str], bool] = field(default_factory=dict)
    """Sentences with other words, before and after, and whether a sample tests them."""


Part = TypeVar("Part")


def largest_passing(
    parts: Sequence[Part], passes: Callable[[list[Part]], bool], failed: Callable[[Part], None]
) -> list[Part]:
    """Return parts that pass together: all of them, or what remains when failing halves are split.

    ``failed`` is called with each part that is left out.
    """

    def grow(accepted: list[Part], chunk: list[Part]) -> list[Part]:
        if not chunk or passes(accepted + chunk):
            return accepted + chunk
        if len(chunk) == 1:
            failed(chunk[0])
            return accepted
        half = len(chunk) // 2
        return grow(grow(accepted, chunk[:half]), chunk[half:])

    return grow([], list(parts))


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
        self._too_weak: str | None = None
        """Why no shorter prompt could be proved with what the baseline passes."""

    def report(self) -> OptimizationReport:
        """Run the optimization and return its report."""
        baseline = self._arm(self._base, "baseline")
        if self._subject.approved is not None:
            self._trial.approved = self._arm(self._subject.approved, "approved version")
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
            raise OptimizationError(
                "no_baseline_pass", ns=self._base.ns, prompt_key=self._base.key, samples=len(self._choose)
            )
        self._trial.probe_variation(baseline, self._choose)
        self._too_weak = self._passes_too_little(baseline)
        for _ in range(self._gate.max_rounds):
            if not self._round(baseline, progress):
                break
        confirmed = self._confirm_result(baseline, progress)
        rate = pass_rate(self._trial.baseline_runs(baseline, self._choose), repeats=1)
        progress.points.insert(0, self._point("baseline", self._base, rate))
        stopped = None if progress.strategies or progress.points[1:] else self._too_weak
        return self._report(progress, rate, confirmed, stopped=stopped)

    def _too_few_samples(self) -> str | None:
        """Return why no prompt could pass, computed before the first call; None if one could."""
        return self._gate.too_few(choosing=len(self._choose), held_out=len(self._confirm), use=self._use)

    def _passes_too_little(self, baseline: Arm) -> str | None:
        """Return why no shorter prompt could pass, now that it is known what the baseline passes.

        The held-out samples are only run for this if the choosing samples say that there may be too few.
        """
        choosing = passing(self._trial.baseline_runs(baseline, self._choose), repeats=1)
        expected = choosing * len(self._confirm) // max(len(self._choose), 1)

        def problem(held_out: int) -> str | None:
            return self._gate.too_few(
                choosing=choosing, held_out=held_out, use=self._use, varies=self._trial.varies
            )

        if problem(expected) is None:
            return None
        held_out = passing(self._trial.baseline_runs(baseline, self._confirm), repeats=1)
        return problem(held_out)

    def _round(self, baseline: Arm, progress: _Progress) -> bool:
        """Run one round on top of the accepted edits; return whether an edit was accepted."""
        edits = self._new_edits(baseline, progress)
        if not edits:
            return False
        looks = self._gate.choosing(varies=self._trial.varies)
        arms = [self._arm(apply_edits(progress.current, [edit]), _label(edit)) for edit in edits]
        rulings = self._trial.compare(baseline, arms, self._choose, looks=looks)
        if not self._trial.varies and self._trial.probe_changes(baseline, arms, rulings, self._choose):
            looks = self._gate.choosing(varies=True)
            rulings = self._trial.compare(baseline, arms, self._choose, looks=looks)
        if progress.power is None:
            samples = passing(self._trial.baseline_runs(baseline, self._choose), repeats=1)
            progress.power = power_statement(samples=samples, margin=self._gate.margin, level=looks.easiest)
        passed: list[tuple[SectionEdit, float]] = []
        for edit, ruling in zip(edits, rulings, strict=True):
            candidate = apply_edits(progress.current, [edit])
            if ruling.reason is not RejectReason.UNPROVEN:
                progress.points.append(self._point(_label(edit), candidate, ruling.candidate_pass_rate))
            if not ruling.passed:
                progress.rejected.append(self._rejected(progress, edit, ruling, against=baseline))
                passed += self._without_failing_units(baseline, edit, progress)
            elif (refused := self._untested_words(baseline, edit, progress)) is not None:
                progress.rejected.append(self._rejected(progress, edit, refused))
            else:
                passed.append((edit, ruling.candidate_pass_rate))
        accepted = self._passing_together(baseline, self._best_of_each(passed, progress), progress)
        for edit in accepted:
            progress.strategies.setdefault(edit.path, []).append(edit.strategy)
        progress.current = apply_edits(progress.current, accepted)
        return bool(accepted)

    def _without_failing_units(
        self, baseline: Arm, edit: SectionEdit, progress: _Progress
    ) -> list[tuple[SectionEdit, float]]:
        """Return a failed ablation less the units that fail, with its pass rate; nothing if none is left."""
        section = progress.current.section(edit.path)
        if len(edit.removed) < 2 or section is None:
            return []
        rates: dict[tuple[int, ...], float] = {tuple(sorted(edit.removed)): -1.0}

        def passes(units: list[int]) -> bool:
            known = tuple(sorted(units))
            if known not in rates:
                part = removal_edit(section, known, edit, counter=self._counter)
                arm = self._arm(apply_edits(progress.current, [part]), _label(part))
                looks = self._gate.choosing(varies=self._trial.varies)
                [ruling] = self._trial.compare(baseline, [arm], self._choose, looks=looks)
                rates[known] = ruling.candidate_pass_rate if ruling.passed else -1.0
            return rates[known] >= 0

        left = tuple(sorted(largest_passing(edit.removed, passes, lambda _: None)))
        return [(removal_edit(section, left, edit, counter=self._counter), rates[left])] if left else []

    def _untested_words(self, baseline: Arm, edit: SectionEdit, progress: _Progress) -> Ruling | None:
        """Reject an edit with other words than the source, unless samples test them or the settings allow it.

        A sentence is tested if the prompt does worse without it. The edit has passed the same samples.
        """
        if edit.adds:
            return None
        untested = []
        for before, after in reworded_sentences(progress.current, apply_edits(progress.current, [edit])):
            key = (edit.path, before, after)
            if key not in progress.reworded:
                gone = without_sentence(progress.current, edit.path, before)
                [survives] = self._trial.screen(baseline, [self._arm(gone)], self._choose)
                progress.reworded[key] = not survives
            if not progress.reworded[key]:
                untested.append((before, after))
        if not untested or self._gate.accept_reworded:
            return None
        before, after = untested[0]
        detail = (
            f"{before!r:.120} became {after!r:.120}, and no sample tests it; set accept_reworded to accept it"
        )
        return Ruling(reason=RejectReason.REWORDED, detail=detail)

    def _arm(self, candidate: PromptDescriptor, label: str = "") -> Arm:
        """Return the arm of a candidate, which must be better than the baseline if it is not shorter."""
        tokens = prompt_tokens(candidate, self._counter)
        longer = tokens >= prompt_tokens(self._base, self._counter)
        return self._trial.arm(candidate, label=label, tokens=tokens, must_improve=longer)

    def _new_edits(self, baseline: Arm, progress: _Progress) -> list[SectionEdit]:
        """Return new edits that pass the static checks."""

        def survives(prompts: Sequence[PromptDescriptor]) -> list[bool]:
            if self._too_weak is not None:
                return [False] * len(prompts)
            return self._trial.screen(baseline, [self._arm(prompt) for prompt in prompts], self._choose)

        session = StrategySession(
            counter=self._counter,
            survives=survives,
            spent=self._trial.add_spending,
            outcomes=lambda prompt: self._trial.outcomes(self._arm(prompt), self._choose),
            may_ask=self._trial.may_propose,
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
                continue
            progress.rejected.append(rejection)
            if (part := self._allowed_units(edit, progress)) is not None:
                edits.append(part)
        return edits

    def _allowed_units(self, edit: SectionEdit, progress: _Progress) -> SectionEdit | None:
        """Return a rejected ablation without the units that must stay; None if nothing is left."""
        section = progress.current.section(edit.path)
        if len(edit.removed) < 2 or section is None or not self._gate.remove_untested:
            return None

        def passes(units: list[int]) -> bool:
            part = removal_edit(section, tuple(sorted(units)), edit, counter=self._counter)
            return self._static_rejection(part, progress) is None

        left = tuple(sorted(largest_passing(edit.removed, passes, lambda _: None)))
        return removal_edit(section, left, edit, counter=self._counter) if left else None

    def _static_rejection(self, edit: SectionEdit, progress: _Progress) -> RejectedModification | None:
        section = progress.current.section(edit.path)
        if section is None or section.source_hash != edit.original_hash:
            ruling = Ruling(reason=RejectReason.STALE, detail="the edit was made for another source")
            return self._rejected(
                progress, edit, ruling, reduction=edit.original_tokens - edit.proposed_tokens
            )
        if self._too_weak is not None and not edit.adds:
            ruling = Ruling(reason=RejectReason.NOT_ENOUGH_SAMPLES, detail=self._too_weak)
            return self._rejected(progress, edit, ruling)
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

    def _reworded(self, progress: _Progress, final: PromptDescriptor) -> tuple[RewordedText, ...]:
        changed = {after for _, after in reworded_sentences(self._base, final)}
        return tuple(
            RewordedText(
                section_path=path, before=before, after=after, tested=tested, accepted=after in changed
            )
            for (path, before, after), tested in progress.reworded.items()
        )

    def _compared_samples(self, progress: _Progress, tested: Ruling | None) -> tuple[SampleComparison, ...]:
        """Return the held-out samples with both answers: lost ones, then gained ones, then the others."""
        if tested is None:
            return ()
        first = [*tested.lost, *tested.gained]
        ids = [*first, *(sample.id for sample in self._confirm if sample.id not in set(first))]
        arms = self._arm(self._base), self._arm(progress.current)
        return self._trial.answers(*arms, ids)[:MAX_REPORTED_SAMPLES]

    def _best_of_each(
        self, passed: Sequence[tuple[SectionEdit, float]], progress: _Progress
    ) -> list[SectionEdit]:
        """Return one edit for each section: the addition with the best pass rate, or the most saving edit.

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
        last = Ruling()

        def passes(some: list[SectionEdit]) -> bool:
            nonlocal last
            label = f"{len(some)} edits together" if len(some) > 1 else ""
            arm = self._arm(apply_edits(progress.current, some), label)
            looks = self._gate.choosing(varies=self._trial.varies)
            [last] = self._trial.compare(baseline, [arm], self._choose, looks=looks)
            if last.passed and len(some) > 1:
                candidate = apply_edits(progress.current, some)
                progress.points.append(self._point(label, candidate, last.candidate_pass_rate))
            return last.passed

        def failed(edit: SectionEdit) -> None:
            ruling = Ruling(reason=RejectReason.FAILS_TOGETHER, detail=last.detail)
            progress.rejected.append(self._rejected(progress, edit, ruling))

        return largest_passing(edits, passes, failed)

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
            answers = self._trial.answers(self._arm(self._base), self._arm(progress.current), confirmed.lost)
            rejected += [self._unconfirmed(one, confirmed, answers[:SHOWN_SAMPLES]) for one in modifications]
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
            reworded=self._reworded(progress, final),
            samples=self._compared_samples(progress, tested),
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
                level=self._gate.confirming(self._use, varies=self._trial.varies).easiest,
            ),
            confirming_p_value=None if tested is None else tested.p_value,
            worst_loss=None if tested is None else tested.worst_loss,
            tried_pass_rate=None if tested is None else tested.candidate_pass_rate,
            approved_digest=None if subject.approved is None else subject.approved.digest,
            model_varies=self._trial.varies,
            truncated_answers=self._trial.truncated_answers,
            baseline_truncated=self._trial.truncated_by(self._arm(self._base)),
            candidate_truncated=self._trial.truncated_by(self._arm(progress.current)),
            repeated_samples=subject.repeated_samples,
            memory_snapshot=subject.memory_snapshot,
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

    def _unconfirmed(
        self, one: Modification, ruling: Ruling, lost: tuple[SampleComparison, ...]
    ) -> RejectedModification:
        # These reasons say more than that the held-out samples disagree.
        plain = (RejectReason.NOT_ENOUGH_SAMPLES, RejectReason.REGRESSED)
        reason = ruling.reason if ruling.reason in plain else RejectReason.NOT_CONFIRMED
        named = "" if ruling.reason is None or ruling.reason is reason else f"{ruling.reason.value}: "
        return RejectedModification(
            section_path=one.section_path,
            token_reduction=one.token_reduction,
            regression_count=ruling.regression_count,
            reason=reason,
            detail=f"on held-out samples: {named}{ruling.detail}",
            original_body=one.original_body,
            proposed_body=one.proposed_body,
            strategy=one.strategy,
            lost=lost,
        )

    def _rejected(
        self,
        progress: _Progress,
        edit: SectionEdit,
        ruling: Ruling,
        *,
        reduction: int | None = None,
        against: Arm | None = None,
    ) -> RejectedModification:
        assert ruling.reason is not None
        section = progress.current.section(edit.path)
        lost: tuple[SampleComparison, ...] = ()
        if against is not None:
            arm = self._arm(apply_edits(progress.current, [edit]))
            lost = self._trial.answers(against, arm, ruling.lost)[:SHOWN_SAMPLES]
        return RejectedModification(
            section_path=edit.path,
            token_reduction=self._reduction(progress.current, edit) if reduction is None else reduction,
            regression_count=ruling.regression_count,
            reason=ruling.reason,
            detail=ruling.detail,
            original_body="" if section is None else section.body,
            proposed_body=edit.proposed_body,
            strategy=edit.strategy,
            lost=lost,
        )

    def _reduction(self, before: PromptDescriptor, edit: SectionEdit) -> int:
        after = apply_edits(before, [edit])
        return prompt_tokens(before, self._counter) - prompt_tokens(after, self._counter)

    def _point(self, label: str, prompt: PromptDescriptor, rate: float) -> ParetoPoint:
        return ParetoPoint(label=label, tokens=prompt_tokens(prompt, self._counter), pass_rate=rate)


def _label(edit: SectionEdit) -> str:
    return f"{path_text(edit.path)}: {edit.strategy}"
