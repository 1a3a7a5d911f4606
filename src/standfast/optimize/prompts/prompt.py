"""A prompt that is about to be read by a model: its tag resolved, its values bound, its text rendered and told apart.

A missing or stale override never renders silently. It is an error, or, with ``fallback=Fallback.TEMPLATE``, the source is
rendered and the result says so.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol, Self

from standfast.canon import fingerprint
from standfast.errors import (
    BrokenPlaceholders,
    MissingOverride,
    MissingParameter,
    PromptError,
    StaleOverride,
    UnknownSection,
)
from standfast.optimize.prompts.overrides import PromptOverridesStore, applied
from standfast.optimize.prompts.template import (
    MEMORY,
    HexDigest,
    PromptDescriptor,
    PromptTemplate,
    as_text,
    filled,
    placeholders,
)
from standfast.vocabulary import Value


class Fallback(StrEnum):
    """What to do when a tag's override is missing or stale."""

    ERROR = "error"
    TEMPLATE = "template"


class FellBack(StrEnum):
    """Why the source was rendered instead of an override."""

    MISSING = "missing"
    STALE = "stale"


class ContextText(Protocol):
    """What a memory section shows: a context package, or anything with its text and hash."""

    @property
    def text(self) -> str:
        """What memory handed back."""
        ...

    @property
    def package_hash(self) -> str:
        """The hash that proves it."""
        ...


class ResolvedPrompt(Value, frozen=True, kw_only=True):
    """A prompt whose sections are known, with what a tag had to do with it."""

    descriptor: PromptDescriptor
    tag: str | None
    version: int | None
    fell_back: FellBack | None = None


class RenderedPrompt(Value, frozen=True, kw_only=True):
    """The text that a model reads, and what it was really made of."""

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
    """A template under a tag, with values. ``bind`` gives a new one; this one never changes."""

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
        """The same prompt with values for its placeholders; what was bound before stays unless it is bound anew."""
        return type(self)(
            self.template,
            overrides_tag=self.overrides_tag,
            overrides_store=self._store,
            fallback=self.fallback,
            params={**self._values, **(params or {})},
            memory=memory if memory is not None else self._memory,
        )

    def resolve(self, overrides_store: PromptOverridesStore | None = None) -> ResolvedPrompt:
        """The sections as the tag makes them now. A store given here wins over the one that was given before."""
        source, tag = self.template.descriptor, self.overrides_tag
        if tag is None:
            return ResolvedPrompt(descriptor=source, tag=None, version=None)
        store = overrides_store if overrides_store is not None else self._store
        known = None if store is None else store.resolve(ns=source.ns, prompt_key=source.key, tag=tag)
        if known is None:
            missing = MissingOverride(ns=source.ns, prompt_key=source.key, tag=tag)
            return self._fallen_back(missing, FellBack.MISSING)
        try:
            descriptor = applied(source, known.overrides, tag=tag)
        except (StaleOverride, UnknownSection, BrokenPlaceholders) as stale:
            return self._fallen_back(stale, FellBack.STALE)
        return ResolvedPrompt(descriptor=descriptor, tag=tag, version=known.version)

    def _fallen_back(self, error: PromptError, reason: FellBack) -> ResolvedPrompt:
        """The source, if that was asked for, with the reason; else the error."""
        if self.fallback is Fallback.ERROR:
            raise error
        return ResolvedPrompt(
            descriptor=self.template.descriptor, tag=self.overrides_tag, version=None, fell_back=reason
        )

    @property
    def descriptor(self) -> PromptDescriptor:
        """The sections as the tag makes them now."""
        return self.resolve().descriptor

    def render(
        self,
        overrides_store: PromptOverridesStore | None = None,
        *,
        resolved: ResolvedPrompt | None = None,
    ) -> RenderedPrompt:
        """The text. With ``resolved`` it is made of exactly those sections, and the store is not asked again."""
        resolved = resolved or self.resolve(overrides_store)
        descriptor = resolved.descriptor
        values = dict(self._values)
        if self._memory is not None:
            values[MEMORY] = self._memory.text
        needed = {name for section in descriptor.sections for name in placeholders(section.body)}
        if missing := sorted(needed - values.keys()):
            raise MissingParameter(ns=descriptor.ns, prompt_key=descriptor.key, names=", ".join(missing))
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


def _text(descriptor: PromptDescriptor, values: Mapping[str, str]) -> str:
    """Headings and bodies in order. A section that says nothing, with nothing below it, leaves no heading behind."""
    blocks: list[str] = []
    for section in descriptor.sections:
        depth = len(section.path)
        says_something = any(
            below.body.strip() for below in descriptor.sections if below.path[:depth] == section.path
        )
        if section.title and says_something:
            blocks.append(f"{'#' * min(depth + 1, 6)} {section.title}")
        if section.body.strip():
            blocks.append(filled(section.body, values).strip("\n"))
    return "\n\n".join(blocks) + "\n"
