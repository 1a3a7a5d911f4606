"""What every overrides store promises. Backends stand beside this file; one contract suite holds each of them to it."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from standfast.canon import normal_string
from standfast.errors import BrokenPlaceholders, InvalidTag, StaleOverride, UnknownSection
from standfast.optimize.prompts.section import HexDigest, Path, path_text, placeholders
from standfast.optimize.prompts.template import PromptDescriptor, PromptTemplate, SectionDescriptor
from standfast.vocabulary import Value

STABLE: Final = "stable"
TEMPORARY_PREFIX: Final = "opt-"
"""Tags of experiments begin like this. Only they expire, and they always do."""


class SectionOverride(Value, frozen=True, kw_only=True):
    """A new text for one section, good for one version of its source."""

    path: Path
    expected_hash: HexDigest
    body: str
    recall_tokens: int | None = None

    def __post_init__(self) -> None:
        self._require(len(self.path) > 0, "path must name a section")
        self._require_digest("expected_hash", self.expected_hash)
        self._require(isinstance(self.body, str), "body must be a string")
        msgspec.structs.force_setattr(self, "body", normal_string(self.body))
        if self.recall_tokens is not None:
            self._require_whole("recall_tokens", self.recall_tokens, least=1)


class RollbackRecord(Value, frozen=True, kw_only=True):
    """What a tag held before it was changed, kept in the same write as the change; None if it held nothing."""

    version: int
    overrides: tuple[SectionOverride, ...] | None


class PromptOverride(Value, frozen=True, kw_only=True):
    """All that a tag overrides in one prompt. ``version`` grows with every change of the tag, deletions included."""

    ns: str
    prompt_key: str
    tag: str
    version: int
    overrides: tuple[SectionOverride, ...]
    expires_at: str | None = None
    write_id: str
    deleted: bool = False
    rollback: RollbackRecord | None = None
    seal_id: str | None = None

    def __post_init__(self) -> None:
        for field in ("ns", "prompt_key", "tag"):
            self._require_name(field, getattr(self, field))
        self._require_whole("version", self.version, least=1)
        paths = [override.path for override in self.overrides]
        self._require(paths == sorted(set(paths)), "overrides must be sorted by path, each path once")


class PromptOverridesStore(Protocol):
    """Overrides by namespace, prompt and tag, shared by all who render and all who optimise."""

    def store(self, prompt: Any, override: SectionOverride, *, tag: str) -> PromptOverride:
        """Override one section more, or anew, under a tag that may hold others."""
        ...

    def replace(
        self,
        prompt: Any,
        overrides: Sequence[SectionOverride],
        *,
        tag: str,
        if_version: int | None = None,
        lifetime_seconds: float | None = None,
        keep_rollback: bool = False,
        seal_id: str | None = None,
    ) -> PromptOverride:
        """Set everything that a tag holds, in one step.

        With ``if_version`` only if that is still its version (0: nothing is there), else ``VersionConflict``. With
        ``keep_rollback`` what it held before is kept beside it, in the same write.
        """
        ...

    def resolve(self, *, ns: str, prompt_key: str, tag: str) -> PromptOverride | None:
        """What a tag holds now; None if there is nothing, or its time is over."""
        ...

    def delete(self, *, ns: str, prompt_key: str, tag: str, if_version: int | None = None) -> bool:
        """Remove a tag; says whether there was one. With ``if_version`` only if that is still its version."""
        ...

    def list(self, *, ns: str | None = None, prompt_key: str | None = None) -> list[PromptOverride]:
        """Everything that is stored and not over, by namespace, prompt and tag."""
        ...

    def sweep(self) -> tuple[str, ...]:
        """Remove what is left of temporary tags whose time is over, and name them."""
        ...


def is_temporary(tag: str) -> bool:
    """Whether a tag is an experiment's."""
    return tag.startswith(TEMPORARY_PREFIX)


def check_lifetime(tag: str, lifetime_seconds: float | None) -> None:
    """Temporary tags end, others don't."""
    if lifetime_seconds is not None and not is_temporary(tag):
        problem = f"only tags that begin with {TEMPORARY_PREFIX} expire; leave lifetime_seconds out"
        raise InvalidTag(tag=tag, problem=problem)
    if lifetime_seconds is not None and not lifetime_seconds > 0:
        raise InvalidTag(tag=tag, problem=f"lifetime_seconds must be above 0, not {lifetime_seconds!r:.40}")


def template_of(prompt: Any) -> PromptTemplate:
    """The source behind a template or a ``Prompt``."""
    template = prompt if isinstance(prompt, PromptTemplate) else prompt.template
    assert isinstance(template, PromptTemplate)
    return template


def applied(source: PromptDescriptor, overrides: Sequence[SectionOverride], *, tag: str) -> PromptDescriptor:
    """The prompt as overrides make it, if every one of them fits its source."""
    by_path = {override.path: override for override in overrides}
    for path in by_path:
        if source.section(path) is None:
            raise UnknownSection(ns=source.ns, prompt_key=source.key, section=path_text(path))
    sections = tuple(
        _overridden(source, section, by_path[section.path], tag) if section.path in by_path else section
        for section in source.sections
    )
    return msgspec.structs.replace(source, sections=sections)


def _overridden(
    source: PromptDescriptor, section: SectionDescriptor, override: SectionOverride, tag: str
) -> SectionDescriptor:
    if override.expected_hash != section.source_hash:
        raise StaleOverride(
            ns=source.ns,
            prompt_key=source.key,
            tag=tag,
            section=path_text(section.path),
            problem=f"it was made for source {override.expected_hash[:12]}, which is {section.source_hash[:12]} now",
        )
    if (override.recall_tokens is None) != (section.recall_tokens is None):
        problem = "only a memory section has recall_tokens, and it must have them"
        raise StaleOverride(
            ns=source.ns, prompt_key=source.key, tag=tag, section=path_text(section.path), problem=problem
        )
    check_placeholders(section, override.body)
    return msgspec.structs.replace(section, body=override.body, recall_tokens=override.recall_tokens)


def check_placeholders(section: SectionDescriptor, body: str) -> None:
    """A new text must hold exactly the placeholders of its source."""
    if placeholders(body) != section.placeholders:
        raise BrokenPlaceholders(
            section=path_text(section.path),
            needed=", ".join(section.placeholders) or "none",
            found=", ".join(placeholders(body)) or "none",
        )


def overrides_in_full(source: PromptDescriptor, wanted: PromptDescriptor) -> tuple[SectionOverride, ...]:
    """Overrides that say the whole of a prompt, section by section, so that nothing is left to what else is stored."""
    assert [section.path for section in source.sections] == [section.path for section in wanted.sections]
    return tuple(
        SectionOverride(
            path=section.path,
            expected_hash=section.source_hash,
            body=section.body,
            recall_tokens=section.recall_tokens,
        )
        for section in sorted(wanted.sections, key=lambda section: section.path)
    )
