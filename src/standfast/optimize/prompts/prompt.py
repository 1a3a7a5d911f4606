"""A prompt that is ready for a model: its tag is resolved, its values are bound, its text is rendered.

A missing or stale override never renders silently. It is an error, or, with ``fallback=Fallback.TEMPLATE``,
the source is rendered and the result says so.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, Self

import msgspec

from standfast.clock import SystemClock
from standfast.optimize.errors import PromptError, StaleOverride
from standfast.optimize.prompts.overrides import PromptOverridesStore, apply_overrides
from standfast.optimize.prompts.template import (
    MEMORY,
    HexDigest,
    PromptDescriptor,
    PromptTemplate,
    as_text,
    fill,
    placeholders,
)
from standfast.records.canon import fingerprint
from standfast.records.vocabulary import Value


class Experiment(Value, frozen=True):
    """An isolated trial of a prompt under an overrides tag.

    ``memory_snapshot`` is the snapshot of memory that every request of the experiment reads, so that a write
    in between changes no result.
    """

    id: str
    name: str
    overrides_tag: str
    parent_tag: str | None = None
    flags: dict[str, bool] = msgspec.field(default_factory=dict)
    created_at: datetime = msgspec.field(default_factory=SystemClock().now)
    memory_snapshot: int | None = None

    def __post_init__(self) -> None:
        self._require_aware("created_at", self.created_at)
        if self.memory_snapshot is not None:
            self._require_whole("memory_snapshot", self.memory_snapshot, least=0)
        self._require_name("id", self.id)
        self._require_name("overrides_tag", self.overrides_tag)


class Fallback(StrEnum):
    """What to do when a tag's override is missing or stale."""

    ERROR = "error"
    IF_MISSING = "if_missing"
    """Render the source if nothing is stored under the tag. A stale override is an error."""
    TEMPLATE = "template"


class FellBack(StrEnum):
    """Why the source was rendered instead of an override."""

    MISSING = "missing"
    STALE = "stale"


class ContextText(Protocol):
    """What a memory section shows: a ``ContextPackage``, or anything else with a text and a hash."""

    @property
    def text(self) -> str:
        """The recalled text."""
        ...

    @property
    def package_hash(self) -> str:
        """The hash that identifies the package."""
        ...


class ResolvedPrompt(Value, frozen=True, kw_only=True):
    """A prompt with its overrides applied. ``fell_back``: the source stands in for the tag's override."""

    descriptor: PromptDescriptor
    tag: str | None
    version: int | None
    fell_back: FellBack | None = None


class RenderedPrompt(Value, frozen=True, kw_only=True):
    """The text for the model, with the digests that say what it was made of."""

    text: str
    prompt_digest: HexDigest
    rendered_digest: HexDigest
    ns: str
    prompt_key: str
    tag: str | None
    version: int | None
    fell_back: FellBack | None = None
    package_hash: str | None = None


class Prompt:
    """A template under a tag, with values. Immutable: ``bind`` returns a new prompt.

    Example:
        >>> Prompt(template, overrides_tag="stable", overrides_store=store).bind({"language":
        "German"}).render().text
    """

    def __init__(
        self,
        template: PromptTemplate,
        *,
        overrides_tag: str | None = None,
        overrides_store: PromptOverridesStore | None = None,
        fallback: Fallback = Fallback.ERROR,
        params: Mapping[str, Any] | None = None,
        memory: ContextText | None = None,
    ) -> None:
        self.template = template
        self.overrides_tag = overrides_tag
        self.fallback = fallback
        self._store = overrides_store
        self._values = {name: as_text(value) for name, value in (params or {}).items()}
        self._memory = memory

    def bind(self, params: Mapping[str, Any] | None = None, *, memory: ContextText | None = None) -> Self:
        """Return the prompt with these values; values bound before stay unless they are bound again."""
        return type(self)(
            self.template,
            overrides_tag=self.overrides_tag,
            overrides_store=self._store,
            fallback=self.fallback,
            params={**self._values, **(params or {})},
            memory=memory if memory is not None else self._memory,
        )

    def resolve(self, overrides_store: PromptOverridesStore | None = None) -> ResolvedPrompt:
        """Apply the tag's overrides as they are now. A store passed here wins over the constructor's."""
        source, tag = self.template.descriptor, self.overrides_tag
        if tag is None:
            return ResolvedPrompt(descriptor=source, tag=None, version=None)
        store = overrides_store if overrides_store is not None else self._store
        override = None if store is None else store.resolve(ns=source.ns, prompt_key=source.key, tag=tag)
        if override is None:
            missing = PromptError("missing_override", ns=source.ns, prompt_key=source.key, tag=tag)
            return self._fall_back(missing, FellBack.MISSING)
        try:
            descriptor = apply_overrides(source, override.overrides, tag=tag)
        except StaleOverride as stale:
            return self._fall_back(stale, FellBack.STALE)
        return ResolvedPrompt(descriptor=descriptor, tag=tag, version=override.version)

    def _fall_back(self, error: PromptError, reason: FellBack) -> ResolvedPrompt:
        stale = reason is FellBack.STALE
        if self.fallback is Fallback.ERROR or (self.fallback is Fallback.IF_MISSING and stale):
            raise error
        return ResolvedPrompt(
            descriptor=self.template.descriptor, tag=self.overrides_tag, version=None, fell_back=reason
        )

    @property
    def descriptor(self) -> PromptDescriptor:
        """The sections with the tag's overrides as they are now."""
        return self.resolve().descriptor

    def render(
        self,
        overrides_store: PromptOverridesStore | None = None,
        *,
        resolved: ResolvedPrompt | None = None,
    ) -> RenderedPrompt:
        """Render the text. With ``resolved``, render those sections without reading the store again."""
        resolved = resolved or self.resolve(overrides_store)
        descriptor = resolved.descriptor
        values = dict(self._values)
        if self._memory is not None:
            values[MEMORY] = self._memory.text
        needed = {name for section in descriptor.sections for name in placeholders(section.body)}
        if missing := sorted(needed - values.keys()):
            raise PromptError(
                "missing_parameter", ns=descriptor.ns, prompt_key=descriptor.key, names=", ".join(missing)
            )
        text = _text(descriptor, values)
        return RenderedPrompt(
            text=text,
            prompt_digest=descriptor.digest,
            rendered_digest=fingerprint(["rendered-prompt/v1", text]),
            ns=descriptor.ns,
            prompt_key=descriptor.key,
            tag=resolved.tag,
            version=resolved.version,
            fell_back=resolved.fell_back,
            package_hash=self._memory.package_hash if self._memory is not None and MEMORY in needed else None,
        )


def descriptor_for_prompt(prompt: PromptTemplate | Prompt) -> PromptDescriptor:
    """Return the descriptor of a template, or of a prompt with its tag's overrides as they are now."""
    return prompt.descriptor


def _text(descriptor: PromptDescriptor, values: Mapping[str, str]) -> str:
    """Join headings and bodies. A section that is empty, with all below it, gets no heading."""
    blocks: list[str] = []
    for section in descriptor.sections:
        depth = len(section.path)
        branch = (other for other in descriptor.sections if other.path[:depth] == section.path)
        if section.title and any(other.body.strip() for other in branch):
            blocks.append(f"{'#' * min(depth + 1, 6)} {section.title}")
        if section.body.strip():
            blocks.append(fill(section.body, values).strip("\n"))
    return "\n\n".join(blocks) + "\n"
