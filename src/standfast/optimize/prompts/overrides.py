"""What every overrides store promises. Backends stand beside this file; one contract suite holds each of them to it."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec

from standfast.canon import canonical_bytes, fingerprint, normal_string, parse, utc_text
from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import (
    BrokenPlaceholders,
    DamagedOverride,
    InvalidTag,
    StaleOverride,
    StandfastError,
    UnknownSection,
    VersionConflict,
)
from standfast.limits import MAX_ATTEMPTS, TEMPORARY_TAG_SECONDS
from standfast.optimize.prompts.template import (
    HexDigest,
    Path,
    PromptDescriptor,
    PromptTemplate,
    SectionDescriptor,
    path_text,
    placeholders,
)
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


Name = tuple[str, str, str]
"""Namespace, prompt, tag."""

_LONGEST_PART: Final = 200


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes on a shelf, with a mark that changes whenever they do."""

    content: bytes
    mark: str


class OverridesBackend(Protocol):
    """Named bytes. What ``write`` has returned for is kept, whoever is killed next."""

    def read(self, name: Name) -> Kept | None:
        """What lies there."""
        ...

    def write(self, name: Name, content: bytes, *, mark: str | None, expires_at: datetime | None) -> bool:
        """Put bytes there if what lies there still has that mark (None: nothing); says whether it did."""
        ...

    def remove(self, name: Name) -> bool:
        """Take away what lies there; says whether there was something."""
        ...

    def contents(self, ns: str | None, prompt_key: str | None) -> list[bytes]:
        """Everything of a namespace and a prompt, or of all."""
        ...


@dataclass(frozen=True, slots=True)
class _Change:
    """What a tag shall hold, made of what it holds, and under which conditions."""

    merge: Callable[[PromptOverride | None], dict[Path, SectionOverride]]
    if_version: int | None = None
    lifetime_seconds: float | None = None
    keep_rollback: bool = False
    seal_id: str | None = None


class VersionedOverrides:
    """An overrides store over a shelf."""

    def __init__(
        self, shelf: OverridesBackend, *, clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        self._shelf = shelf
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()

    def store(self, prompt: Any, override: SectionOverride, *, tag: str) -> PromptOverride:
        """Override one section more, or anew, under a tag that may hold others."""

        def merged(before: PromptOverride | None) -> dict[Path, SectionOverride]:
            held = {} if before is None else {held.path: held for held in before.overrides}
            return held | {override.path: override}

        return self._change(template_of(prompt), tag, _Change(merged))

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
        """Set everything that a tag holds, in one compare-and-set."""
        wanted = {override.path: override for override in overrides}
        change = _Change(lambda _: wanted, if_version, lifetime_seconds, keep_rollback, seal_id)
        return self._change(template_of(prompt), tag, change)

    def resolve(self, *, ns: str, prompt_key: str, tag: str) -> PromptOverride | None:
        """What a tag holds now; None if there is nothing, or its time is over."""
        known, _ = self._look((ns, prompt_key, tag))
        return None if known is None or self._is_over(known) else known

    def delete(self, *, ns: str, prompt_key: str, tag: str, if_version: int | None = None) -> bool:
        """Remove a tag. A lasting one leaves its version behind, so that versions never begin again."""
        name = (ns, prompt_key, tag)
        if is_temporary(tag):
            return self._shelf.remove(name)
        for _ in range(MAX_ATTEMPTS):
            known, mark = self._look(name)
            if if_version is not None and (known is None or known.deleted or known.version != if_version):
                raise self._conflict(name, known, expected=str(if_version))
            if known is None or known.deleted:
                return False
            gone = msgspec.structs.replace(
                known,
                version=known.version + 1,
                overrides=(),
                deleted=True,
                rollback=None,
                write_id=self._ids.new_id(),
            )
            if self._write(name, gone, mark):
                return True
        raise self._conflict(name, known, expected="unchanged")

    def list(self, *, ns: str | None = None, prompt_key: str | None = None) -> list[PromptOverride]:
        """Everything that is stored and not over, by namespace, prompt and tag."""
        known = [_read("(listed)", content) for content in self._shelf.contents(ns, prompt_key)]
        return sorted(
            (one for one in known if not self._is_over(one)),
            key=lambda one: (one.ns, one.prompt_key, one.tag),
        )

    def sweep(self) -> tuple[str, ...]:
        """Remove what is left of temporary tags whose time is over, and name them."""
        swept = []
        for content in self._shelf.contents(None, None):
            one = _read("(listed)", content)
            if (
                not one.deleted
                and self._is_over(one)
                and self._shelf.remove((one.ns, one.prompt_key, one.tag))
            ):
                swept.append(one.tag)
        return tuple(sorted(swept))

    def _change(self, template: PromptTemplate, tag: str, change: "_Change") -> PromptOverride:
        check_lifetime(tag, change.lifetime_seconds)
        name = (template.ns, template.key, tag)
        known: PromptOverride | None = None
        for _ in range(MAX_ATTEMPTS):
            known, mark = self._look(name)
            live = None if known is None or self._is_over(known) else known
            if change.if_version is not None and change.if_version != (live.version if live else 0):
                raise self._conflict(name, live, expected=str(change.if_version))
            overrides = tuple(held for _, held in sorted(change.merge(live).items()))
            applied(template.descriptor, overrides, tag=tag)
            wanted = PromptOverride(
                ns=template.ns,
                prompt_key=template.key,
                tag=tag,
                version=(known.version if known else 0) + 1,
                overrides=overrides,
                expires_at=self._end(tag, change.lifetime_seconds),
                write_id=self._ids.new_id(),
                rollback=_record(live) if change.keep_rollback else None,
                seal_id=change.seal_id,
            )
            if self._write(name, wanted, mark):
                return wanted
        raise self._conflict(name, known, expected=str(change.if_version or "unchanged"))

    def _write(self, name: Name, wanted: PromptOverride, mark: str | None) -> bool:
        """Compare and set. A lost answer is not a lost write: what lies there tells whose it is."""
        expires_at = None if wanted.expires_at is None else datetime.fromisoformat(wanted.expires_at)
        if self._shelf.write(name, _content(wanted), mark=mark, expires_at=expires_at):
            return True
        known, _ = self._look(name)
        return known is not None and known.write_id == wanted.write_id

    def _look(self, name: Name) -> tuple[PromptOverride | None, str | None]:
        kept = self._shelf.read(name)
        return (None, None) if kept is None else (_read("/".join(name), kept.content), kept.mark)

    def _is_over(self, known: PromptOverride) -> bool:
        return known.deleted or (
            known.expires_at is not None and known.expires_at <= utc_text(self._clock.now())
        )

    def _end(self, tag: str, lifetime_seconds: float | None) -> str | None:
        if not is_temporary(tag):
            return None
        lifetime = TEMPORARY_TAG_SECONDS if lifetime_seconds is None else lifetime_seconds
        return utc_text(self._clock.now() + timedelta(seconds=lifetime))

    def _conflict(self, name: Name, known: PromptOverride | None, *, expected: str) -> VersionConflict:
        ns, prompt_key, tag = name
        version = 0 if known is None else known.version
        return VersionConflict(
            ns=ns, prompt_key=prompt_key, tag=tag, version=version, expected_version=expected
        )


def _record(live: PromptOverride | None) -> RollbackRecord:
    if live is None:
        return RollbackRecord(version=0, overrides=None)
    return RollbackRecord(version=live.version, overrides=live.overrides)


def _content(override: PromptOverride) -> bytes:
    plain = override.as_json()
    return canonical_bytes({"fingerprint": fingerprint(plain), "override": plain}) + b"\n"


@functools.lru_cache(maxsize=64)
def _read(name: str, content: bytes) -> PromptOverride:
    """Checked once for the same bytes: every rendering asks for the same few overrides again."""
    try:
        held = parse(content)
        fits = fingerprint(held["override"]) == held["fingerprint"]
        override = PromptOverride.from_json(held["override"])
    except (StandfastError, KeyError, TypeError) as error:
        raise DamagedOverride(name=name, problem=str(error)) from None
    if not fits:
        raise DamagedOverride(name=name, problem="its fingerprint does not fit")
    return override


@functools.lru_cache(maxsize=1_024)
def part_name(part: str) -> str:
    """A part of a name as a file or an object may be called; names that would be too long are told by their hash."""
    quoted = quote(part, safe="").replace(".", "%2E")
    return quoted if len(quoted) <= _LONGEST_PART else "~" + fingerprint(part)
