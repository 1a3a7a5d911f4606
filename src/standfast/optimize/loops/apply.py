"""From a report to production and back: one compare-and-set, sealed like any other change, with the way back beside it."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from standfast.errors import BaselineMoved, NoRollback, StandfastError, VersionConflict
from standfast.optimize.loops.report import Modification, OptimizationReport
from standfast.optimize.prompts.overrides import (
    STABLE,
    PromptOverride,
    PromptOverridesStore,
    RollbackRecord,
    SectionOverride,
    apply_overrides,
    template_of,
)
from standfast.optimize.prompts.prompt import Fallback, FellBack, Prompt, ResolvedPrompt
from standfast.optimize.prompts.template import PromptTemplate
from standfast.store.commit import Fact
from standfast.store.store import Store
from standfast.vocabulary import Value


class PromptChange(Value, frozen=True, kw_only=True):
    """What a change is, for whoever seals it."""

    kind: str
    ns: str
    prompt_key: str
    tag: str
    from_version: int
    from_digest: str
    to_digest: str
    sections: tuple[str, ...]
    experiment_id: str | None = None


class Sealer(Protocol):
    """Who answers for changes: the ledger, or nobody in a test.

    A change is proposed before it is made and settled after. A proposal that is never settled tells of a crash between the
    two; the override carries the proposal's id, so the truth can be looked up.
    """

    def propose(self, change: PromptChange) -> str:
        """Enter what is about to be done; gives the entry's id. Refuses with an error of its own."""
        ...

    def settle(self, seal_id: str, *, applied: bool) -> None:
        """Enter whether it was done."""
        ...


def apply_modifications(
    store: PromptOverridesStore,
    prompt: Any,
    modifications: Sequence[Modification],
    *,
    tag: str = STABLE,
    expected_digest: str | None = None,
    experiment_id: str | None = None,
    sealer: Sealer | None = None,
) -> PromptOverride:
    """Apply validated modifications to what the tag holds, all or none, keeping the way back in the same write.

    With ``expected_digest`` only if the tag still is the baseline that they were proved against.
    """
    before = _resolved(store, prompt, tag)
    if expected_digest is not None and before.descriptor.digest != expected_digest:
        raise BaselineMoved(
            ns=before.descriptor.ns,
            prompt_key=before.descriptor.key,
            tag=tag,
            expected_digest=expected_digest,
            digest=before.descriptor.digest,
        )
    held = store.resolve(ns=before.descriptor.ns, prompt_key=before.descriptor.key, tag=tag)
    overrides = {} if held is None else {override.path: override for override in held.overrides}
    for one in modifications:
        overrides[one.section_path] = SectionOverride(
            path=one.section_path,
            expected_hash=one.original_hash,
            body=one.proposed_body,
            recall_tokens=one.recall_tokens,
        )
    wanted = [override for _, override in sorted(overrides.items())]
    change = _change(prompt, wanted, before, tag=tag, kind="apply", experiment_id=experiment_id)
    return _sealed_change(store, prompt, wanted, change, sealer)


def apply_report(
    store: PromptOverridesStore,
    prompt: Any,
    report: OptimizationReport,
    *,
    tag: str = STABLE,
    sealer: Sealer | None = None,
) -> PromptOverride:
    """Apply a report's modifications, if the tag still holds what the report was made for."""
    return apply_modifications(
        store,
        prompt,
        report.modifications,
        tag=tag,
        expected_digest=report.baseline_digest,
        experiment_id=report.experiment_id,
        sealer=sealer,
    )


def set_overrides(
    store: PromptOverridesStore,
    prompt: Any,
    overrides: Sequence[SectionOverride],
    *,
    tag: str = STABLE,
    if_version: int,
    sealer: Sealer | None = None,
) -> PromptOverride:
    """Set all that the tag holds, if that still is its version (0: nothing is there), keeping the way back."""
    template = template_of(prompt)
    _require_version(store, template, tag, if_version)
    # What a tag holds for another source can't be built on, but it can be replaced.
    before = Prompt(template, overrides_tag=tag, overrides_store=store, fallback=Fallback.TEMPLATE).resolve()
    wanted = sorted(overrides, key=lambda override: override.path)
    change = _change(prompt, wanted, before, tag=tag, kind="set", from_version=if_version)
    return _sealed_change(store, prompt, wanted, change, sealer)


def rollback(
    store: PromptOverridesStore, prompt: Any, *, tag: str = STABLE, sealer: Sealer | None = None
) -> PromptOverride | None:
    """Make the tag what it was before the last apply; None if it then held nothing. Rolling back again undoes it."""
    record, changed = _rolled_back(store, prompt, tag, None, sealer)
    return changed if record.overrides is not None else None


def restore(
    store: PromptOverridesStore,
    prompt: Any,
    *,
    tag: str = STABLE,
    if_version: int,
    sealer: Sealer | None = None,
) -> PromptOverride:
    """Roll back if that still is the tag's version, so that who asks twice does not undo it; gives what it holds now."""
    return _rolled_back(store, prompt, tag, if_version, sealer)[1]


def _rolled_back(
    store: PromptOverridesStore, prompt: Any, tag: str, if_version: int | None, sealer: Sealer | None
) -> tuple[RollbackRecord, PromptOverride]:
    template = template_of(prompt)
    held = _require_version(store, template, tag, if_version)
    if held is None or held.rollback is None:
        raise NoRollback(ns=template.ns, prompt_key=template.key, tag=tag)
    before = _resolved(store, prompt, tag)
    # To hold nothing and to override nothing render the same; the latter keeps a way forward again.
    wanted = list(held.rollback.overrides or ())
    change = _change(prompt, wanted, before, tag=tag, kind="rollback", from_version=held.version)
    return held.rollback, _sealed_change(store, prompt, wanted, change, sealer)


def _require_version(
    store: PromptOverridesStore, template: PromptTemplate, tag: str, if_version: int | None
) -> PromptOverride | None:
    """What the tag holds. A change that is bound to fail should not be proposed to the ledger first."""
    held = store.resolve(ns=template.ns, prompt_key=template.key, tag=tag)
    version = 0 if held is None else held.version
    if if_version is not None and if_version != version:
        raise VersionConflict(
            ns=template.ns,
            prompt_key=template.key,
            tag=tag,
            version=version,
            expected_version=str(if_version),
        )
    return held


def _sealed_change(
    store: PromptOverridesStore,
    prompt: Any,
    wanted: list[SectionOverride],
    change: PromptChange,
    sealer: Sealer | None,
) -> PromptOverride:
    seal_id = None if sealer is None else sealer.propose(change)
    try:
        changed = store.replace(
            prompt,
            wanted,
            tag=change.tag,
            if_version=change.from_version,
            keep_rollback=True,
            seal_id=seal_id,
        )
    except StandfastError:
        if sealer is not None and seal_id is not None:
            sealer.settle(seal_id, applied=False)
        raise
    if sealer is not None and seal_id is not None:
        sealer.settle(seal_id, applied=True)
    return changed


def _change(
    prompt: Any,
    wanted: list[SectionOverride],
    before: ResolvedPrompt,
    *,
    tag: str,
    kind: str,
    experiment_id: str | None = None,
    from_version: int | None = None,
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
    )


def _resolved(store: PromptOverridesStore, prompt: Any, tag: str) -> ResolvedPrompt:
    """What the tag holds; the source if it holds nothing. On something stale nothing can be built, and that is said."""
    template = template_of(prompt)
    found = Prompt(template, overrides_tag=tag, overrides_store=store, fallback=Fallback.TEMPLATE).resolve()
    if found.fell_back is FellBack.STALE:
        return Prompt(template, overrides_tag=tag, overrides_store=store).resolve()
    return found


PROPOSED: Final = "prompt_change"
SETTLED: Final = "prompt_settled"


class LedgerSealer:
    """Tells a store's ledger of prompt changes. A proposal that no entry settles tells of a crash in between."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def propose(self, change: PromptChange) -> str:
        """Enter what is about to be done; gives the entry's number and hash, which the override then carries."""
        entry = self._store.append_fact(Fact.of(PROPOSED, change.as_json()))
        return f"{entry.seq}-{entry.hash[:32]}"

    def settle(self, seal_id: str, *, applied: bool) -> None:
        """Enter whether it was done."""
        self._store.append_fact(Fact.of(SETTLED, {"applied": applied, "seal_id": seal_id}))
