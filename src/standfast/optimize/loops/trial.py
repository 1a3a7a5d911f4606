"""Trial: prompts under temporary tags, evaluated through a mailbox and compared with the baseline.

A request's id is a hash of its content. A trial that was killed and restarted sends the same requests, and a
result that arrives twice counts once. A result made with another prompt than the arm's does not count.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from standfast.clock import UUID, Clock
from standfast.limits import (
    EVAL_ATTEMPTS,
    EVAL_PATIENCE_SECONDS,
    MAX_REPORTED_CHARS,
    PROBED_SAMPLES,
    TWICE_RUN_SAMPLES,
)
from standfast.optimize.errors import OptimizationError, StaleReceipt
from standfast.optimize.evals.results import EvalRequest, EvalResult, Outcome
from standfast.optimize.evals.samples import Dataset, Sample
from standfast.optimize.loops.gate import (
    GateSettings,
    Looks,
    MoreRuns,
    RejectReason,
    Ruling,
    Runs,
    decide,
    survives,
)
from standfast.optimize.loops.proposals import SampleOutcome
from standfast.optimize.loops.report import SampleComparison
from standfast.optimize.loops.spending import (
    RUNNING,
    CandidateProgress,
    ModelSpending,
    OptimizationProgress,
    Progress,
    SpendingLimits,
)
from standfast.optimize.mailboxes.mailbox import Mailbox
from standfast.optimize.prompts.overrides import TEMPORARY_PREFIX, PromptOverridesStore, full_overrides
from standfast.optimize.prompts.prompt import Experiment, ResolvedPrompt
from standfast.optimize.prompts.template import PromptDescriptor, PromptTemplate
from standfast.optimize.providers.adapter import TokenUsage
from standfast.records.canon import fingerprint

Answer = TypeVar("Answer")

EvalKey = tuple[str, str, int]
"""An arm's digest, a sample's id, a repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A prompt under trial. Its tag overrides every section."""

    digest: str
    experiment: Experiment
    tokens: int = 0
    must_improve: bool = False
    """Whether it has to be better than the baseline, because it is not shorter."""


def _drifted(ruling: Ruling, against_approved: Ruling) -> Ruling:
    detail = f"against the approved version: {against_approved.detail}"
    return msgspec.structs.replace(
        against_approved,
        reason=RejectReason.DRIFTED,
        detail=detail,
        baseline_pass_rate=ruling.baseline_pass_rate,
    )


@dataclass(slots=True)
class _Pending:
    key: EvalKey
    request: EvalRequest[Any, Any]
    attempts: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is optimized: a prompt, the baseline of its tag, and the samples; with the rules of its trial."""

    experiment_id: str
    template: PromptTemplate
    baseline: ResolvedPrompt
    baseline_tag: str
    dataset: Dataset[Any, Any]
    flags: dict[str, bool]
    created_at: datetime
    gate: GateSettings
    limits: SpendingLimits
    approved: PromptDescriptor | None = None
    """The version that a human last approved, if it is not the baseline."""
    memory_snapshot: int | None = None
    """The snapshot of memory that every evaluation reads."""
    repeated_samples: int = 0
    """How many samples were left out because they are the same as another one."""
    proposer_limits: SpendingLimits | None = None
    """What the proposer may spend; by default its calls count against ``limits``."""
    patience_seconds: float = EVAL_PATIENCE_SECONDS


class Trial:
    """All arms of one optimization. Close it to remove its tags and its reply mailbox."""

    def __init__(
        self,
        subject: Subject,
        *,
        store: PromptOverridesStore,
        eval_requests: Mailbox[EvalRequest[Any, Any], EvalResult],
        clock: Clock,
        beat: Callable[[], None],
        progress: Progress | None = None,
    ) -> None:
        self._subject, self._store, self._eval_requests = subject, store, eval_requests
        self._clock, self._beat, self._progress = clock, beat, progress
        self._replies: Mailbox[Any, None] = eval_requests.reply_mailbox(f"opt-eval-{subject.experiment_id}")
        self._arms: dict[str, Arm] = {}
        self._results: dict[EvalKey, EvalResult] = {}
        self._labels: dict[str, str] = {}
        self._rows: dict[tuple[str, bool], CandidateProgress] = {}
        self._held_out = False
        self.approved: Arm | None = None
        """The version that a human last approved, if it is not the baseline."""
        self.varies = True
        """Whether the model's answers to one prompt differ, as far as is known."""
        self.spending = ModelSpending()
        """Of the evaluations and, without limits of its own, of the proposer."""
        self.proposing = ModelSpending()
        """Of the proposer, if it has limits of its own."""

    @property
    def evaluations(self) -> int:
        """How many evaluations are graded."""
        return sum(result.success for result in self._results.values())

    @property
    def usage(self) -> TokenUsage:
        """The tokens of all evaluations, as the provider reports them."""
        return sum((result.usage for result in self._results.values()), TokenUsage())

    def arm(
        self, descriptor: PromptDescriptor, *, label: str = "", tokens: int = 0, must_improve: bool = False
    ) -> Arm:
        """Return the arm of a prompt; the first call stores its tag. Progress shows label and tokens."""
        digest = descriptor.digest
        self._labels[digest] = label or self._labels.get(digest, "screened")
        if digest not in self._arms:
            subject = self._subject
            tag = f"{self._tag_prefix}{digest[:16]}"
            full = full_overrides(subject.template.descriptor, descriptor)
            self._store.replace(subject.template, full, tag=tag)
            experiment = Experiment(
                id=f"{subject.experiment_id}-{digest[:16]}",
                name=f"candidate-{digest[:16]}",
                overrides_tag=tag,
                parent_tag=subject.baseline_tag,
                flags=subject.flags,
                created_at=subject.created_at,
                memory_snapshot=subject.memory_snapshot,
            )
            self._arms[digest] = Arm(
                digest=digest, experiment=experiment, tokens=tokens, must_improve=must_improve
            )
        return self._arms[digest]

    def passes_something(self, baseline: Arm, samples: Dataset[Any, Any]) -> bool:
        """Return whether the baseline passes any sample.

        It asks for a few samples at a time, so that most of the baseline runs interleaved with candidates.
        """
        for first in range(0, len(samples), PROBED_SAMPLES):
            some = samples.samples[first : first + PROBED_SAMPLES]
            self._evaluate((baseline, sample, 0) for sample in some)
            if any(self._results[baseline.digest, sample.id, 0].passed for sample in some):
                return True
        self._graded(baseline, samples)
        return False

    def probe_variation(self, baseline: Arm, samples: Dataset[Any, Any]) -> None:
        """Run a few samples twice to see whether the model varies.

        A model that varies is still tested honestly with one run per sample, only with less power; so a few
        samples are enough.
        """
        self.varies = self._differs([(baseline, sample) for sample in samples.samples[:TWICE_RUN_SAMPLES]])

    def probe_changes(
        self,
        baseline: Arm,
        candidates: Sequence[Arm],
        rulings: Sequence[Ruling],
        samples: Dataset[Any, Any],
    ) -> bool:
        """Run a few samples again whose outcome changed; return whether that was the model's variation."""
        by_id = {sample.id: sample for sample in samples}
        changed = [
            (arm, by_id[name])
            for candidate, ruling in zip(candidates, rulings, strict=True)
            for name in (*ruling.lost, *ruling.gained)[:TWICE_RUN_SAMPLES]
            for arm in (baseline, candidate)
        ]
        self.varies = self.varies or self._differs(changed)
        return self.varies

    def _differs(self, wanted: Sequence[tuple[Arm, Sample[Any, Any]]]) -> bool:
        """Run samples twice and return whether any answer differs; an error says nothing."""
        self._evaluate((arm, sample, repeat) for repeat in (0, 1) for arm, sample in wanted)
        answers = [
            [self._results[arm.digest, sample.id, repeat] for repeat in (0, 1)] for arm, sample in wanted
        ]
        return any(
            first.success and second.success and first.output != second.output for first, second in answers
        )

    def baseline_runs(self, baseline: Arm, samples: Dataset[Any, Any]) -> Runs:
        """Return the baseline's runs on all samples; ``OptimizationError`` if one has no grade."""
        self._evaluate((baseline, sample, 0) for sample in samples)
        return self._graded(baseline, samples)

    def outcomes(self, arm: Arm, samples: Dataset[Any, Any]) -> list[SampleOutcome]:
        """Return how an arm does on samples, one run each. Runs that ended with an error are left out."""
        self._evaluate((arm, sample, 0) for sample in samples)
        results = [(sample, self._results[arm.digest, sample.id, 0]) for sample in samples]
        return [
            SampleOutcome(
                sample=sample,
                output=one.output,
                passed=one.passed,
                reason=one.score.reason if one.score else "",
                truncated=one.truncated,
            )
            for sample, one in results
            if one.success
        ]

    @property
    def truncated_answers(self) -> int:
        """How many answers ended at the limit of output tokens."""
        return sum(result.truncated for result in self._results.values())

    def truncated_by(self, arm: Arm) -> int:
        """Return how many answers of one prompt ended at the limit of output tokens."""
        return sum(result.truncated for key, result in self._results.items() if key[0] == arm.digest)

    def answers(self, reference: Arm, arm: Arm, ids: Sequence[str]) -> tuple[SampleComparison, ...]:
        """Return the first answers of two prompts to some samples, as far as both were run."""
        by_id = {sample.id: sample for sample in self._subject.dataset}
        pairs = (
            (
                by_id[name],
                self._results.get((reference.digest, name, 0)),
                self._results.get((arm.digest, name, 0)),
            )
            for name in ids
        )
        return tuple(
            SampleComparison.of(sample, was, now, most_chars=MAX_REPORTED_CHARS)
            for sample, was, now in pairs
            if was is not None and now is not None
        )

    def compare(
        self, baseline: Arm, candidates: Sequence[Arm], samples: Dataset[Any, Any], *, looks: Looks
    ) -> list[Ruling]:
        """Return a ruling on each candidate.

        Baseline and candidates run interleaved, until each is decided. Those that pass are also compared with
        the version that a human last approved, so that small losses do not add up.
        """
        rulings = self._against(baseline, candidates, samples, looks)
        passed = [arm for arm, ruling in zip(candidates, rulings, strict=True) if ruling.passed]
        if self.approved is None or not passed:
            return rulings
        drifts = {
            arm.digest: ruling
            for arm, ruling in zip(passed, self._against(self.approved, passed, samples, looks), strict=True)
            if not ruling.passed
        }
        return [
            _drifted(ruling, drifts[arm.digest]) if arm.digest in drifts else ruling
            for arm, ruling in zip(candidates, rulings, strict=True)
        ]

    def _against(
        self, reference: Arm, candidates: Sequence[Arm], samples: Dataset[Any, Any], looks: Looks
    ) -> list[Ruling]:
        """Return a ruling on each candidate against one other prompt."""
        gate, must_pass = self._subject.gate, samples.must_pass

        def decided(arm: Arm, base: Runs, own: Runs, ids: Sequence[str]) -> Ruling | MoreRuns:
            better = arm.must_improve and reference is not self.approved
            return decide(
                base, own, samples=ids, settings=gate, looks=looks, better=better, must_pass=must_pass
            )

        return self._until_decided(
            reference,
            candidates,
            samples,
            decided,
            lambda detail: Ruling(reason=RejectReason.UNPROVEN, detail=detail),
        )

    def held_out_number(self, baseline: Arm, samples: Dataset[Any, Any]) -> int:
        """Return which use of these held-out samples a test would be, at the least."""
        uses = self._store.held_out_uses(self._subject.template)
        return uses.lowest_number(baseline.digest, [sample.digest for sample in samples])

    def confirm(self, baseline: Arm, candidate: Arm, samples: Dataset[Any, Any]) -> tuple[Ruling, int]:
        """Compare on held-out samples and record the test; return the ruling and which use it was.

        A use in which the samples could prove nothing is not begun: its ruling has no repeats.
        """
        template, gate = self._subject.template, self._subject.gate
        digests = [sample.digest for sample in samples]
        number = self._store.held_out_uses(template).number_of(baseline.digest, candidate.digest, digests)
        if (refused := self._too_few(candidate, samples, number)) is not None:
            return refused, number
        self._held_out = True
        self._rows[baseline.digest, True] = self._row(baseline.digest)
        [ruling] = self.compare(
            baseline, [candidate], samples, looks=gate.confirming(number, varies=self.varies)
        )
        runs = [sorted(self._runs(arm, samples).items()) for arm in (baseline, candidate)]
        recorded = self._store.record_held_out_use(
            template,
            baseline_digest=baseline.digest,
            candidate_digest=candidate.digest,
            outcome=fingerprint(["held-out-runs/v1", runs]),
            samples=digests,
        )
        if recorded != number:
            # Other runs than those of the known test, or another optimization came first: a later, stricter
            # test.
            refused = self._too_few(candidate, samples, recorded)
            [ruling] = (
                [refused]
                if refused is not None
                else self.compare(
                    baseline, [candidate], samples, looks=gate.confirming(recorded, varies=self.varies)
                )
            )
        self._held_out = False
        return ruling, recorded

    def _too_few(self, candidate: Arm, samples: Dataset[Any, Any], use: int) -> Ruling | None:
        """Return the ruling on a candidate that held-out samples can't confirm, whatever the runs say."""
        problem = self._subject.gate.too_few(held_out=len(samples), use=use, varies=self.varies)
        if problem is None or candidate.must_improve:
            return None
        return Ruling(reason=RejectReason.NOT_ENOUGH_SAMPLES, detail=problem)

    def screen(self, baseline: Arm, candidates: Sequence[Arm], samples: Dataset[Any, Any]) -> list[bool]:
        """Return for each candidate whether it may be worth a comparison, from one run per sample."""
        gate = self._subject.gate

        def decided(_: Arm, base: Runs, own: Runs, ids: Sequence[str]) -> bool | MoreRuns:
            return survives(base, own, samples=ids, settings=gate)

        return self._until_decided(baseline, candidates, samples, decided, lambda _: False)

    def _until_decided(
        self,
        baseline: Arm,
        candidates: Sequence[Arm],
        samples: Dataset[Any, Any],
        decided: "Callable[[Arm, Runs, Runs, Sequence[str]], Answer | MoreRuns]",
        unproven: "Callable[[str], Answer]",
    ) -> "list[Answer]":
        """Run what each candidate needs next, all needs together, until each has an answer."""
        by_id = {sample.id: sample for sample in samples}
        answers: dict[str, Answer] = {}
        open_arms = {arm.digest: arm for arm in candidates}
        while open_arms:
            wanted: dict[tuple[int, str], list[Arm]] = {}
            for digest, arm in list(open_arms.items()):
                problem = self._problem(arm, samples)
                base = self._graded(baseline, samples)
                answer = (
                    unproven(problem)
                    if problem is not None
                    else decided(arm, base, self._runs(arm, samples), list(by_id))
                )
                self._set_state(arm, answer)
                if not isinstance(answer, MoreRuns):
                    answers[digest] = answer
                    del open_arms[digest]
                    continue
                for repeat in range(answer.repeats):
                    for sample in answer.samples:
                        wanted.setdefault((repeat, sample), [baseline]).append(arm)
            places = {sample: place for place, sample in enumerate(by_id)}
            self._evaluate(
                (arm, by_id[sample], repeat)
                for repeat, sample in sorted(wanted, key=lambda key: (key[0], places[key[1]]))
                for arm in wanted[repeat, sample]
            )
        return [answers[arm.digest] for arm in candidates]

    def close(self) -> None:
        """Remove the temporary tags, also those of an earlier life, and the mailbox of the replies."""
        template = self._subject.template
        for override in self._store.list(ns=template.ns, prompt_key=template.key):
            if override.tag.startswith(self._tag_prefix):
                self._store.delete(ns=template.ns, prompt_key=template.key, tag=override.tag)
        self._replies.close()

    @property
    def _tag_prefix(self) -> str:
        return f"{TEMPORARY_PREFIX}{self._subject.experiment_id}-"

    def _graded(self, baseline: Arm, samples: Dataset[Any, Any]) -> Runs:
        problem = self._problem(baseline, samples)
        if problem is not None:
            own = [self._results[key] for key in self._keys(baseline, samples)]
            missing = sum(not result.success for result in own)
            raise OptimizationError(
                "evals_unanswered", unanswered=missing, requested=len(own), problem=problem
            )
        return self._runs(baseline, samples)

    def _problem(self, arm: Arm, samples: Dataset[Any, Any]) -> str | None:
        """Return the first error among an arm's runs, in the order of the samples."""
        for digest, sample, repeat in self._keys(arm, samples):
            result = self._results[digest, sample, repeat]
            if not result.success:
                return f"sample {sample}: {result.error}"
        return None

    def _keys(self, arm: Arm, samples: Dataset[Any, Any]) -> list[EvalKey]:
        """Return the keys of an arm's runs so far, without gaps, in the order of the samples."""
        keys: list[EvalKey] = []
        for sample in samples:
            repeat = 0
            while (arm.digest, sample.id, repeat) in self._results:
                keys.append((arm.digest, sample.id, repeat))
                repeat += 1
        return keys

    def _runs(self, arm: Arm, samples: Dataset[Any, Any]) -> Runs:
        runs: dict[str, tuple[bool, ...]] = dict.fromkeys((sample.id for sample in samples), ())
        for key in self._keys(arm, samples):
            runs[key[1]] += (self._results[key].passed,)
        return runs

    def _evaluate(self, wanted: Iterable[tuple[Arm, Sample[Any, Any], int]]) -> None:
        """Evaluate these runs, except those that have a result, and wait for the results."""
        queue: dict[UUID, _Pending] = {}
        for arm, sample, repeat in wanted:
            key = (arm.digest, sample.id, repeat)
            if key not in self._results:
                request = self._request(arm, sample, repeat)
                queue[request.request_id] = _Pending(key, request)
        left = list(queue.values())
        while left:
            allowed = self._subject.limits.affordable(len(left), self.spending)
            self._await({one.request.request_id: one for one in left[:allowed]})
            left = left[allowed:]

    def add_spending(self, usage: TokenUsage) -> None:
        """Count one call of a model that a strategy made."""
        if self._subject.proposer_limits is None:
            self.spending += ModelSpending(calls=1, usage=usage)
        else:
            self.proposing += ModelSpending(calls=1, usage=usage)

    def may_propose(self) -> bool:
        """Return whether the limits of the proposer allow another call."""
        limits = self._subject.proposer_limits
        return limits is None or limits.allow_another(self.proposing)

    def _await(self, pending: dict[UUID, _Pending]) -> None:
        """Send requests and wait for their results."""
        self._send(list(pending.values()))
        quiet_since = self._clock.monotonic()
        while pending:
            self._beat()
            self._tell_progress(len(pending))
            if self._collect(pending):
                quiet_since = self._clock.monotonic()
            elif self._clock.monotonic() - quiet_since > self._subject.patience_seconds:
                self._retry(pending, list(pending.values()), "no result in time")
                quiet_since = self._clock.monotonic()
        self._tell_progress(0)

    def _tell_progress(self, pending: int) -> None:
        if self._progress is not None:
            self._progress(
                OptimizationProgress(
                    evaluations=len(self._results),
                    pending=pending,
                    spending=self.spending,
                    candidates=tuple(self._rows.values()),
                )
            )

    def _row(self, digest: str) -> CandidateProgress:
        label = self._labels[digest] + (", held-out" if self._held_out else "")
        row = self._rows.get((digest, self._held_out))
        if row is None:
            return CandidateProgress(label=label, tokens=self._arms[digest].tokens)
        return msgspec.structs.replace(row, label=label)

    def _count_run(self, digest: str, *, passed: bool) -> None:
        row = self._row(digest)
        self._rows[digest, self._held_out] = msgspec.structs.replace(
            row, runs=row.runs + 1, passed=row.passed + passed
        )

    def _set_state(self, arm: Arm, answer: object) -> None:
        match answer:
            case MoreRuns():
                state = RUNNING
            case Ruling(reason=RejectReason() as reason):
                state = reason.value
            case False:
                state = "given up"
            case _:
                state = "passes"
        self._rows[arm.digest, self._held_out] = msgspec.structs.replace(self._row(arm.digest), state=state)
        self._tell_progress(0)

    def _collect(self, pending: dict[UUID, _Pending]) -> bool:
        """Take arrived results; return whether there were any of ours."""
        messages = self._replies.receive(max_messages=200, visibility_timeout=60, wait_time_seconds=1)
        failed: dict[str, list[_Pending]] = {}
        received = False
        for message in messages:
            result = message.body
            waiting = pending.get(result.request_id) if isinstance(result, EvalResult) else None
            if waiting is None:
                continue
            received = True
            problem = self._invalid_because(waiting, result)
            if problem is None:
                self._results[waiting.key] = result
                self._count_run(waiting.key[0], passed=result.passed)
                spent = result.usage if result.calls else TokenUsage()
                self.spending += ModelSpending(calls=result.calls, cached=int(not result.calls), usage=spent)
                del pending[result.request_id]
            else:
                failed.setdefault(problem, []).append(waiting)
        for problem, again in failed.items():
            self._retry(pending, again, problem)
        with suppress(StaleReceipt):
            self._replies.acknowledge(*messages)
        return received

    def _invalid_because(self, waiting: _Pending, result: EvalResult) -> str | None:
        """Return why a result does not count: an error, or another prompt than the arm's."""
        if not result.success:
            return result.error or "an error without a message"
        digest = waiting.key[0]
        if result.prompt_digest != digest:
            return f"the worker used prompt {result.prompt_digest!r:.20}, not {digest!r:.20}"
        return None

    def _retry(self, pending: dict[UUID, _Pending], again: list[_Pending], problem: str) -> None:
        """Send requests again; after several attempts record an error, neither a pass nor a regression."""
        for failed in [one for one in again if one.attempts >= EVAL_ATTEMPTS]:
            request = failed.request
            self._results[failed.key] = EvalResult(
                request_id=request.request_id,
                sample_id=request.sample.id,
                repeat=request.repeat,
                outcome=Outcome.ERROR,
                error=problem,
            )
            del pending[request.request_id]
        repeated = [one for one in again if one.attempts < EVAL_ATTEMPTS]
        for one in repeated:
            one.attempts += 1
        self._send(repeated)

    def _send(self, requests: list[_Pending]) -> None:
        if requests:
            self._eval_requests.send_many([one.request for one in requests], reply_to=self._replies.name)

    def _request(self, arm: Arm, sample: Sample[Any, Any], repeat: int) -> EvalRequest[Any, Any]:
        named = ["opt-eval/v1", self._subject.experiment_id, arm.digest, sample.id, repeat]
        return EvalRequest(
            sample=sample,
            experiment=arm.experiment,
            repeat=repeat,
            request_id=UUID(fingerprint(named)[:32]),
            created_at=self._subject.created_at,
        )
