"""Apply a report to the overrides store and roll back: one compare-and-set, recorded in the ledger."""

from collections.abc import Sequence
from typing import Final, Protocol

from standfast.errors import StandfastError
from standfast.optimize.errors import OptimizationError
from standfast.optimize.loops.report import Modification, OptimizationReport
from standfast.optimize.prompts.overrides import (
    STABLE,
    PromptOverride,
    PromptOverridesStore,
    PromptSource,
    RollbackRecord,
    SectionOverride,
    apply_overrides,
    template_of,
    version_conflict,
)
from standfast.optimize.prompts.prompt import Fallback, FellBack, Prompt, ResolvedPrompt
from standfast.optimize.prompts.template import PromptTemplate
from standfast.records.vocabulary import Value
from standfast.store.commit import Fact
from standfast.store.store import Store


class PromptChange(Value, frozen=True, kw_only=True):
    """A change of a prompt, as the ledger records it."""

    kind: str
    ns: str
    prompt_key: str
    tag: str
    from_version: int
    from_digest: str
    to_digest: str
    sections: tuple[str, ...]
    experiment_id: str | None = None
    approved_by: str | None = None


class Sealer(Protocol):
    """Records changes of prompts.

    A change is proposed before it is made and settled afterwards. A proposal that is never settled means a
    crash in between; the override carries the proposal's id, which shows whether the change was made.
    """

    def propose(self, change: PromptChange) -> str:
        """Record a change that is about to be made and return the entry's id; raise to refuse it."""
        ...

    def settle(self, seal_id: str, *, applied: bool) -> None:
        """Record whether the change was made."""
        ...


def apply_modifications(
    store: PromptOverridesStore,
    prompt: PromptSource,
    modifications: Sequence[Modification],
    *,
    tag: str = STABLE,
    expected_digest: str | None = None,
    experiment_id: str | None = None,
    sealer: Sealer | None = None,
    approved_by: str | None = None,
) -> PromptOverride:
    """Apply modifications on top of what the tag holds, all or none, with what it held in the same write.

    Args:
        expected_digest: The baseline that the modifications were validated against. If the tag no longer
            resolves to it, ``OptimizationError`` (``baseline_moved``) is raised.
        sealer: Records the change before and after it is made.
        approved_by: Who has read the new prompt and approves it. Later optimizations keep their margin
            against the version that was approved last; without an approval, against the one before.
    """
    before = _resolved(store, prompt, tag)
    if expected_digest is not None and before.descriptor.digest != expected_digest:
        raise OptimizationError(
            "baseline_moved",
            ns=before.descriptor.ns,
            prompt_key=before.descriptor.key,
            tag=tag,
            expected_digest=expected_digest,
            digest=before.descriptor.digest,
        )
    current = store.resolve(ns=before.descriptor.ns, prompt_key=before.descriptor.key, tag=tag)
    overrides = {} if current is None else {override.path: override for override in current.overrides}
    for one in modifications:
        overrides[one.section_path] = SectionOverride(
            path=one.section_path,
            expected_hash=one.original_hash,
            body=one.proposed_body,
            recall_tokens=one.recall_tokens,
        )
    wanted = [override for _, override in sorted(overrides.items())]
    change = _change(
        prompt, wanted, before, tag=tag, kind="apply", experiment_id=experiment_id, approved_by=approved_by
    )
    approved = None if approved_by is not None else _approved_version(current)
    return _replace_sealed(store, prompt, wanted, change, sealer, approved_version=approved)


def apply_report(
    store: PromptOverridesStore,
    prompt: PromptSource,
    report: OptimizationReport,
    *,
    tag: str = STABLE,
    sealer: Sealer | None = None,
    approved_by: str | None = None,
) -> PromptOverride:
    """Apply a report's modifications, if the tag still resolves to the report's baseline.

    Args:
        approved_by: Who approves the new prompt; see ``apply_modifications``.

    Raises:
        OptimizationError: The report has no modifications, they do not make the prompt that was proved, or
            the tag holds something else by now (``baseline_moved``).
    """
    if not report.modifications or report.baseline_digest is None or report.candidate_digest is None:
        raise OptimizationError(
            "report_not_applicable", experiment_id=report.experiment_id, problem="it has no modifications"
        )
    _require_proved(store, prompt, report, tag)
    return apply_modifications(
        store,
        prompt,
        report.modifications,
        tag=tag,
        expected_digest=report.baseline_digest,
        experiment_id=report.experiment_id,
        sealer=sealer,
        approved_by=approved_by,
    )


def _require_proved(
    store: PromptOverridesStore, prompt: PromptSource, report: OptimizationReport, tag: str
) -> None:
    """Raise unless the modifications turn the report's baseline into the prompt that passed the gate."""
    before = _resolved(store, prompt, tag).descriptor
    if before.digest != report.baseline_digest:
        return  # Applying says so.
    bodies = {one.section_path: (one.proposed_body, one.recall_tokens) for one in report.modifications}
    if before.with_bodies(bodies).digest != report.candidate_digest:
        problem = "its modifications do not make the prompt that was proved; it was edited"
        raise OptimizationError("report_not_applicable", experiment_id=report.experiment_id, problem=problem)


def set_overrides(
    store: PromptOverridesStore,
    prompt: PromptSource,
    overrides: Sequence[SectionOverride],
    *,
    tag: str = STABLE,
    if_version: int,
    sealer: Sealer | None = None,
) -> PromptOverride:
    """Replace what the tag holds, if ``if_version`` is still its version (0: nothing). History keeps it."""
    template = template_of(prompt)
    _require_version(store, template, tag, if_version)
    # A stale override can be replaced, though nothing can be built on it.
    before = Prompt(template, overrides_tag=tag, overrides_store=store, fallback=Fallback.TEMPLATE).resolve()
    wanted = sorted(overrides, key=lambda override: override.path)
    change = _change(prompt, wanted, before, tag=tag, kind="set", from_version=if_version)
    return _replace_sealed(store, prompt, wanted, change, sealer)


def rollback(
    store: PromptOverridesStore,
    prompt: PromptSource,
    *,
    tag: str = STABLE,
    to_version: int | None = None,
    sealer: Sealer | None = None,
) -> PromptOverride | None:
    """Restore an earlier version of the tag as its newest one; return None if that version held nothing.

    Of two callers at once, one wins and the other gets ``VersionConflict``.

    Args:
        to_version: One of the versions in ``PromptOverride.history``; without it, the one before the last
            change, so that a second rollback undoes the first.

    Raises:
        OptimizationError: The tag has no such version in its history.
    """
    record, changed = _roll_back(store, prompt, tag, to_version=to_version, sealer=sealer)
    return changed if record.overrides is not None else None


def restore(
    store: PromptOverridesStore,
    prompt: PromptSource,
    *,
    tag: str = STABLE,
    if_version: int,
    to_version: int | None = None,
    sealer: Sealer | None = None,
) -> PromptOverride:
    """Roll back if ``if_version`` is still the tag's version, so that a repeated call does not undo it."""
    return _roll_back(store, prompt, tag, if_version=if_version, to_version=to_version, sealer=sealer)[1]


def _roll_back(
    store: PromptOverridesStore,
    prompt: PromptSource,
    tag: str,
    *,
    if_version: int | None = None,
    to_version: int | None,
    sealer: Sealer | None,
) -> tuple[RollbackRecord, PromptOverride]:
    template = template_of(prompt)
    current = _require_version(store, template, tag, if_version)
    history = () if current is None else current.history
    record = next((one for one in history if to_version in (None, one.version)), None)
    if current is None or record is None:
        problem = (
            "Nothing was applied to it."
            if not history
            else f"It can be rolled back to version {', '.join(str(one.version) for one in history)}."
        )
        raise OptimizationError(
            "no_rollback", ns=template.ns, prompt_key=template.key, tag=tag, problem=problem
        )
    before = _resolved(store, prompt, tag)
    # A tag with no overrides renders like a missing tag, and it can carry a rollback record.
    wanted = list(record.overrides or ())
    change = _change(prompt, wanted, before, tag=tag, kind="rollback", from_version=current.version)
    # What was approved when that version was in use is what counts again.
    approved = record.version if record.approved_version is None else record.approved_version
    return record, _replace_sealed(store, prompt, wanted, change, sealer, approved_version=approved)


def _approved_version(current: PromptOverride | None) -> int:
    """Return the version that a human last approved."""
    if current is None:
        return 0
    return current.version if current.approved_version is None else current.approved_version


def _require_version(
    store: PromptOverridesStore, template: PromptTemplate, tag: str, if_version: int | None
) -> PromptOverride | None:
    """Return what the tag holds, after checking its version, before a doomed change is recorded."""
    current = store.resolve(ns=template.ns, prompt_key=template.key, tag=tag)
    version = 0 if current is None else current.version
    if if_version is not None and if_version != version:
        raise version_conflict((template.ns, template.key, tag), current, expected=str(if_version))
    return current


def _replace_sealed(
    store: PromptOverridesStore,
    prompt: PromptSource,
    wanted: list[SectionOverride],
    change: PromptChange,
    sealer: Sealer | None,
    *,
    approved_version: int | None = None,
) -> PromptOverride:
    seal_id = None if sealer is None else sealer.propose(change)
    try:
        changed = store.replace(
            prompt,
            wanted,
            tag=change.tag,
            if_version=change.from_version,
            seal_id=seal_id,
            approved_version=approved_version,
        )
    except StandfastError:
        if sealer is not None and seal_id is not None:
            sealer.settle(seal_id, applied=False)
        raise
    if sealer is not None and seal_id is not None:
        sealer.settle(seal_id, applied=True)
    return changed


def _change(
    prompt: PromptSource,
    wanted: list[SectionOverride],
    before: ResolvedPrompt,
    *,
    tag: str,
    kind: str,
    experiment_id: str | None = None,
    from_version: int | None = None,
    approved_by: str | None = None,
) -> PromptChange:
    after = apply_overrides(template_of(prompt).descriptor, wanted, tag=tag)
    changed = [
        "/".join(old.path)
        for old, new in zip(before.descriptor.sections, after.sections, strict=True)
        if old != new
    ]
    return PromptChange(
        kind=kind,
        ns=after.ns,
        prompt_key=after.key,
        tag=tag,
        from_version=(before.version or 0) if from_version is None else from_version,
        from_digest=before.descriptor.digest,
        to_digest=after.digest,
        sections=tuple(changed),
        experiment_id=experiment_id,
        approved_by=approved_by,
    )


def _resolved(store: PromptOverridesStore, prompt: PromptSource, tag: str) -> ResolvedPrompt:
    """Resolve the tag, or the source if the tag holds nothing; raise if its override is stale."""
    template = template_of(prompt)
    found = Prompt(template, overrides_tag=tag, overrides_store=store, fallback=Fallback.TEMPLATE).resolve()
    if found.fell_back is FellBack.STALE:
        return Prompt(template, overrides_tag=tag, overrides_store=store).resolve()
    return found


PROPOSED: Final = "prompt_change"
SETTLED: Final = "prompt_settled"


class LedgerSealer:
    """Records prompt changes in a store's ledger."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def propose(self, change: PromptChange) -> str:
        """Record a change and return the entry's number and hash."""
        entry = self._store.append_fact(Fact.of(PROPOSED, change.as_json()))
        return f"{entry.seq}-{entry.hash[:32]}"

    def settle(self, seal_id: str, *, applied: bool) -> None:
        """Record whether the change was made."""
        self._store.append_fact(Fact.of(SETTLED, {"applied": applied, "seal_id": seal_id}))
