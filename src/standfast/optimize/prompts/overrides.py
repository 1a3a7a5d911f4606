"""Overrides of a prompt's sections, by namespace, prompt and tag: versions, compare-and-set, temporary tags.

``PromptOverridesStore`` has the rules. A backend (backends.py) only keeps named bytes and writes them on
the condition that they have not changed since they were read.
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import StandfastError
from standfast.limits import MAX_ATTEMPTS, MAX_PROMPT_HISTORY, TEMPORARY_TAG_SECONDS
from standfast.optimize.errors import (
    InvalidTag,
    PromptError,
    StaleOverride,
    VersionConflict,
)
from standfast.optimize.prompts.template import (
    HexDigest,
    Path,
    PromptDescriptor,
    PromptTemplate,
    SectionDescriptor,
    path_text,
    placeholders,
)
from standfast.records.canon import canonical_bytes, fingerprint, normal_string, parse, utc_text
from standfast.records.vocabulary import Value

_ID_CHARS = 16


class HeldOutTest(Value, frozen=True, kw_only=True):
    """One test on held-out samples: what was compared, a digest of all runs, and its number."""

    baseline_digest: str
    candidate_digest: str
    outcome: str
    number: int


class HeldOutUses(Value, frozen=True, kw_only=True):
    """All tests on held-out samples of one prompt; ``counts`` says how often each sample took part.

    A sample that has decided once about a prompt is no longer unseen: what was applied was chosen because it
    passed there. Each test on the same samples therefore gets a smaller share of the level. The same test
    with the same outcome is the same use.
    """

    counts: dict[str, int] = msgspec.field(default_factory=dict)
    tests: tuple[HeldOutTest, ...] = ()

    def next_number(self, samples: Sequence[str]) -> int:
        """Return the number of the next test on these samples, given by their digests."""
        return 1 + max((self.counts.get(sample[:_ID_CHARS], 0) for sample in samples), default=0)

    def number_of(self, baseline_digest: str, candidate_digest: str, samples: Sequence[str]) -> int:
        """Return the number of this comparison: that of its last test, or the next one."""
        numbers = [
            test.number
            for test in self.tests
            if (test.baseline_digest, test.candidate_digest) == (baseline_digest, candidate_digest)
        ]
        return numbers[-1] if numbers else self.next_number(samples)

    def lowest_number(self, baseline_digest: str, samples: Sequence[str]) -> int:
        """Return the lowest number that a comparison with this baseline can have."""
        numbers = [test.number for test in self.tests if test.baseline_digest == baseline_digest]
        return min([*numbers, self.next_number(samples)])

    def recorded(
        self, baseline_digest: str, candidate_digest: str, outcome: str, samples: Sequence[str]
    ) -> "tuple[HeldOutUses, int]":
        """Return the uses with a test added, and its number. One known with this outcome is not added."""
        for test in self.tests:
            if (test.baseline_digest, test.candidate_digest, test.outcome) == (
                baseline_digest,
                candidate_digest,
                outcome,
            ):
                return self, test.number
        number = self.next_number(samples)
        test = HeldOutTest(
            baseline_digest=baseline_digest,
            candidate_digest=candidate_digest,
            outcome=outcome,
            number=number,
        )
        counts = self.counts | {sample[:_ID_CHARS]: number for sample in samples}
        return HeldOutUses(counts=counts, tests=(*self.tests, test)), number


STABLE: Final = "stable"
TEMPORARY_PREFIX: Final = "opt-"
"""Tags of experiments start with this. They always expire; other tags never do."""

_OVERRIDE: Final = "override"
HELD_OUT: Final = "held-out"
"""The reserved name under which the uses of held-out samples are kept."""

_HELD_OUT_RECORD: Final = re.compile(rb'\{"fingerprint":"[0-9a-f]{64}","held-out":')
_MAX_ENCODED_CHARS: Final = 200

StoredT = TypeVar("StoredT", bound=Value)


class SectionOverride(Value, frozen=True, kw_only=True):
    """A new text for one section, valid for one version of its source.

    Args:
        path: The keys of the section and of those above it.
        expected_hash: The hash of the section's source that the text was made for.
        body: The new text.
        recall_tokens: The new budget of a memory section.
    """

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
    """What a tag held in an earlier version, stored in the same write as the change; None for nothing."""

    version: int
    overrides: tuple[SectionOverride, ...] | None
    seal_id: str | None = None
    approved_version: int | None = None


class PromptOverride(Value, frozen=True, kw_only=True):
    """Everything that a tag overrides in one prompt. ``version`` grows with every change or deletion."""

    ns: str
    prompt_key: str
    tag: str
    version: int
    overrides: tuple[SectionOverride, ...]
    expires_at: str | None = None
    write_id: str
    deleted: bool = False
    history: tuple[RollbackRecord, ...] = ()
    """The earlier versions of a lasting tag, newest first, at most ``MAX_PROMPT_HISTORY``.

    Version 0 held nothing.
    """
    seal_id: str | None = None
    approved_version: int | None = None
    """The version that a human last approved; None if it is this one.

    It is always in ``history``. Version 0 is the source.
    """

    def __post_init__(self) -> None:
        for field in ("ns", "prompt_key", "tag"):
            self._require_name(field, getattr(self, field))
        self._require_whole("version", self.version, least=1)
        paths = [override.path for override in self.overrides]
        self._require(paths == sorted(set(paths)), "overrides must be sorted by path, each path once")


class TemplateHolder(Protocol):
    """Anything made from a template, such as a ``Prompt``."""

    @property
    def template(self) -> PromptTemplate:
        """The source."""
        ...


PromptSource = PromptTemplate | TemplateHolder

Name = tuple[str, str, str]
"""Namespace, prompt key, tag."""


@dataclass(frozen=True, slots=True)
class StoredBytes:
    """Stored bytes with an etag that changes whenever they change."""

    content: bytes
    etag: str


class OverridesBackend(Protocol):
    """Named bytes with conditional writes. A write that has returned survives any crash."""

    def read(self, name: Name) -> StoredBytes | None:
        """Return the bytes under a name, or None."""
        ...

    def write(self, name: Name, content: bytes, *, etag: str | None, expires_at: datetime | None) -> bool:
        """Write if the stored bytes still have this etag (None: if there are none); return whether."""
        ...

    def remove(self, name: Name) -> bool:
        """Remove the bytes; return whether there were any."""
        ...

    def contents(self, ns: str | None, prompt_key: str | None) -> list[bytes]:
        """Return everything stored for a namespace and a prompt; None stands for all."""
        ...


class PromptOverridesStore:
    """Overrides by namespace, prompt and tag, shared by everyone who renders or optimizes prompts.

    Use a subclass: ``LocalPromptOverridesStore``, ``RedisPromptOverridesStore`` or
    ``S3PromptOverridesStore``; or pass a backend of your own.
    """

    def __init__(
        self, backend: OverridesBackend, *, clock: Clock | None = None, ids: IdSource | None = None
    ) -> None:
        self._backend = backend
        self._clock, self._ids = clock or SystemClock(), ids or RandomIds()

    def store(self, prompt: PromptSource, override: SectionOverride, *, tag: str) -> PromptOverride:
        """Override one section under a tag; the tag's other overrides stay."""

        def merge(current: PromptOverride | None) -> dict[Path, SectionOverride]:
            overrides = {} if current is None else {one.path: one for one in current.overrides}
            return overrides | {override.path: override}

        return self._change(template_of(prompt), tag, merge)

    def replace(
        self,
        prompt: PromptSource,
        overrides: Sequence[SectionOverride],
        *,
        tag: str,
        if_version: int | None = None,
        lifetime_seconds: float | None = None,
        seal_id: str | None = None,
        approved_version: int | None = None,
    ) -> PromptOverride:
        """Replace everything that a tag holds, in one compare-and-set.

        Args:
            if_version: Only if this is still the tag's version (0: the tag holds nothing), else
                ``VersionConflict``.
            lifetime_seconds: When a temporary tag expires. Other tags never expire.
            seal_id: The ledger entry that announced this change.
            approved_version: The version that a human last approved. Without it, this one counts as approved.
        """
        wanted = {override.path: override for override in overrides}
        return self._change(
            template_of(prompt),
            tag,
            lambda _: wanted,
            if_version=if_version,
            lifetime_seconds=lifetime_seconds,
            seal_id=seal_id,
            approved_version=approved_version,
        )

    def resolve(self, *, ns: str, prompt_key: str, tag: str) -> PromptOverride | None:
        """Return what a tag holds now; None if it holds nothing or has expired."""
        stored, _ = self._read((ns, prompt_key, tag))
        return None if stored is None or self._is_over(stored) else stored

    def delete(self, *, ns: str, prompt_key: str, tag: str, if_version: int | None = None) -> bool:
        """Remove a tag, if it still has ``if_version``; return whether there was one.

        A lasting tag leaves its version number behind, so that versions never start again.
        """
        name = (ns, prompt_key, tag)
        if is_temporary(tag):
            return self._backend.remove(name)
        for _ in range(MAX_ATTEMPTS):
            stored, etag = self._read(name)
            if if_version is not None and (stored is None or stored.deleted or stored.version != if_version):
                raise version_conflict(name, stored, expected=str(if_version))
            if stored is None or stored.deleted:
                return False
            tombstone = msgspec.structs.replace(
                stored,
                version=stored.version + 1,
                overrides=(),
                deleted=True,
                history=(),
                write_id=self._ids.new_id(),
            )
            if self._write(name, tombstone, etag):
                return True
        raise version_conflict(name, stored, expected="unchanged")

    def list(self, *, ns: str | None = None, prompt_key: str | None = None) -> list[PromptOverride]:
        """Return everything stored and not expired, ordered by namespace, prompt and tag."""
        stored = _decode_listed(self._backend.contents(ns, prompt_key))
        return sorted(
            (one for one in stored if not self._is_over(one)),
            key=lambda one: (one.ns, one.prompt_key, one.tag),
        )

    def sweep(self) -> tuple[str, ...]:
        """Remove expired temporary tags and return their names."""
        swept = []
        for one in _decode_listed(self._backend.contents(None, None)):
            expired = not one.deleted and self._is_over(one)
            if expired and self._backend.remove((one.ns, one.prompt_key, one.tag)):
                swept.append(one.tag)
        return tuple(sorted(swept))

    def held_out_uses(self, prompt: PromptSource) -> HeldOutUses:
        """Return how often held-out samples have confirmed changes of a prompt."""
        return self._read_uses(template_of(prompt))[0]

    def record_held_out_use(
        self,
        prompt: PromptSource,
        *,
        baseline_digest: str,
        candidate_digest: str,
        outcome: str,
        samples: Sequence[str],
    ) -> int:
        """Record a test on held-out samples, given by their digests, and return its number."""
        template = template_of(prompt)
        name = (template.ns, template.key, HELD_OUT)
        for _ in range(MAX_ATTEMPTS):
            uses, etag = self._read_uses(template)
            wanted, number = uses.recorded(baseline_digest, candidate_digest, outcome, samples)
            if wanted is uses or self._backend.write(
                name, _encode(HELD_OUT, wanted), etag=etag, expires_at=None
            ):
                return number
        raise version_conflict(name, None, expected="unchanged")

    def _read_uses(self, template: PromptTemplate) -> tuple[HeldOutUses, str | None]:
        name = (template.ns, template.key, HELD_OUT)
        stored = self._backend.read(name)
        if stored is None:
            return HeldOutUses(), None
        return _decode_as(HeldOutUses, HELD_OUT, "/".join(name), stored.content), stored.etag

    def _change(
        self,
        template: PromptTemplate,
        tag: str,
        merge: Callable[[PromptOverride | None], dict[Path, SectionOverride]],
        *,
        if_version: int | None = None,
        lifetime_seconds: float | None = None,
        seal_id: str | None = None,
        approved_version: int | None = None,
    ) -> PromptOverride:
        """Compute a tag's new overrides from its current ones, and write them under these conditions."""
        if tag == HELD_OUT:
            raise InvalidTag(tag=tag, problem="the name is reserved; choose another")
        _check_lifetime(tag, lifetime_seconds)
        name = (template.ns, template.key, tag)
        stored: PromptOverride | None = None
        for _ in range(MAX_ATTEMPTS):
            stored, etag = self._read(name)
            live = None if stored is None or self._is_over(stored) else stored
            if if_version is not None and if_version != (live.version if live else 0):
                raise version_conflict(name, live, expected=str(if_version))
            overrides = tuple(one for _, one in sorted(merge(live).items()))
            apply_overrides(template.descriptor, overrides, tag=tag)
            wanted = PromptOverride(
                ns=template.ns,
                prompt_key=template.key,
                tag=tag,
                version=(stored.version if stored else 0) + 1,
                overrides=overrides,
                expires_at=self._expiry(tag, lifetime_seconds),
                write_id=self._ids.new_id(),
                history=() if is_temporary(tag) else _history(live, approved_version),
                seal_id=seal_id,
                approved_version=approved_version,
            )
            if self._write(name, wanted, etag):
                return wanted
        raise version_conflict(name, stored, expected=str(if_version or "unchanged"))

    def _write(self, name: Name, wanted: PromptOverride, etag: str | None) -> bool:
        """Compare and set. If the condition fails because our own write was repeated, the write id tells."""
        expires_at = None if wanted.expires_at is None else datetime.fromisoformat(wanted.expires_at)
        if self._backend.write(name, _encode(_OVERRIDE, wanted), etag=etag, expires_at=expires_at):
            return True
        stored, _ = self._read(name)
        return stored is not None and stored.write_id == wanted.write_id

    def _read(self, name: Name) -> tuple[PromptOverride | None, str | None]:
        stored = self._backend.read(name)
        return (None, None) if stored is None else (_decode("/".join(name), stored.content), stored.etag)

    def _is_over(self, stored: PromptOverride) -> bool:
        now = utc_text(self._clock.now())
        return stored.deleted or (stored.expires_at is not None and stored.expires_at <= now)

    def _expiry(self, tag: str, lifetime_seconds: float | None) -> str | None:
        if not is_temporary(tag):
            return None
        lifetime = TEMPORARY_TAG_SECONDS if lifetime_seconds is None else lifetime_seconds
        return utc_text(self._clock.now() + timedelta(seconds=lifetime))


def is_temporary(tag: str) -> bool:
    """Return whether a tag belongs to an experiment and so expires."""
    return tag.startswith(TEMPORARY_PREFIX)


def template_of(prompt: PromptSource) -> PromptTemplate:
    """Return the template itself, or the template behind a ``Prompt``."""
    return prompt if isinstance(prompt, PromptTemplate) else prompt.template


def apply_overrides(
    source: PromptDescriptor, overrides: Sequence[SectionOverride], *, tag: str
) -> PromptDescriptor:
    """Return the prompt with overrides applied; raise if one of them does not fit its source."""
    by_path = {override.path: override for override in overrides}
    for path in by_path:
        if source.section(path) is None:
            raise StaleOverride(
                "unknown_section", ns=source.ns, prompt_key=source.key, section=path_text(path)
            )
    sections = tuple(
        _override_section(source, section, by_path[section.path], tag) if section.path in by_path else section
        for section in source.sections
    )
    return msgspec.structs.replace(source, sections=sections)


def _override_section(
    source: PromptDescriptor, section: SectionDescriptor, override: SectionOverride, tag: str
) -> SectionDescriptor:
    problem = None
    if override.expected_hash != section.source_hash:
        problem = (
            f"it was made for source {override.expected_hash[:12]}, which is {section.source_hash[:12]} now"
        )
    elif (override.recall_tokens is None) != (section.recall_tokens is None):
        problem = "a memory section must have recall_tokens, and no other section may"
    if problem is not None:
        raise StaleOverride(
            ns=source.ns, prompt_key=source.key, tag=tag, section=path_text(section.path), problem=problem
        )
    found = placeholders(override.body)
    if found != section.placeholders:
        raise StaleOverride(
            "broken_placeholders",
            section=path_text(section.path),
            needed=", ".join(section.placeholders) or "none",
            found=", ".join(found) or "none",
        )
    return msgspec.structs.replace(section, body=override.body, recall_tokens=override.recall_tokens)


def full_overrides(source: PromptDescriptor, wanted: PromptDescriptor) -> tuple[SectionOverride, ...]:
    """Return one override for every section, so that the result depends on nothing else that is stored."""
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


@functools.lru_cache(maxsize=1_024)
def encode_name(part: str) -> str:
    """Return a part of a name as a file or object name; a part that would be too long becomes its hash."""
    quoted = quote(part, safe="").replace(".", "%2E")
    return quoted if len(quoted) <= _MAX_ENCODED_CHARS else "~" + fingerprint(part)


def _check_lifetime(tag: str, lifetime_seconds: float | None) -> None:
    if lifetime_seconds is not None and not is_temporary(tag):
        problem = f"only tags that start with {TEMPORARY_PREFIX} expire; leave lifetime_seconds out"
        raise InvalidTag(tag=tag, problem=problem)
    if lifetime_seconds is not None and not lifetime_seconds > 0:
        raise InvalidTag(tag=tag, problem=f"lifetime_seconds must be above 0, not {lifetime_seconds!r:.40}")


def version_conflict(name: Name, stored: PromptOverride | None, *, expected: str) -> VersionConflict:
    """Return the error for a tag that no longer has the expected version."""
    ns, prompt_key, tag = name
    version = 0 if stored is None else stored.version
    return VersionConflict(ns=ns, prompt_key=prompt_key, tag=tag, version=version, expected_version=expected)


def _history(live: PromptOverride | None, approved_version: int | None) -> tuple[RollbackRecord, ...]:
    """Return the history of the next version: what the tag holds now, and the versions before it.

    The approved version stays, however old it is.
    """
    if live is None:
        return (RollbackRecord(version=0, overrides=None),)
    newest = RollbackRecord(
        version=live.version,
        overrides=live.overrides,
        seal_id=live.seal_id,
        approved_version=live.approved_version,
    )
    known = (newest, *live.history)
    old = (one for one in known[MAX_PROMPT_HISTORY - 1 :] if one.version == approved_version)
    return (*known[: MAX_PROMPT_HISTORY - 1], *(tuple(old) or known[MAX_PROMPT_HISTORY - 1 :][:1]))


def approved_prompt(template: PromptTemplate, held: PromptOverride | None) -> PromptDescriptor:
    """Return the version of a prompt that a human last approved, given what its tag holds, or the source.

    A version that no longer fits the source counts as none.
    """
    source = template.descriptor
    if held is None:
        return source
    overrides: tuple[SectionOverride, ...] | None = held.overrides
    if held.approved_version is not None:
        earlier = (one.overrides for one in held.history if one.version == held.approved_version)
        overrides = next(earlier, None)
    try:
        return apply_overrides(source, overrides or (), tag=held.tag)
    except StaleOverride:
        return source


def _encode(kind: str, value: Value) -> bytes:
    plain = value.as_json()
    return canonical_bytes({"fingerprint": fingerprint(plain), kind: plain}) + b"\n"


@functools.lru_cache(maxsize=64)
def _decode(name: str, content: bytes) -> PromptOverride:
    """Read and verify a stored override. Cached, because every rendering reads the same few overrides."""
    return _decode_as(PromptOverride, _OVERRIDE, name, content)


def _decode_listed(contents: Sequence[bytes]) -> list[PromptOverride]:
    """Decode the overrides among listed contents."""
    return [_decode("(listed)", content) for content in contents if not _HELD_OUT_RECORD.match(content)]


def _decode_as(kind: type[StoredT], member: str, name: str, content: bytes) -> StoredT:
    try:
        stored = parse(content)
        intact = fingerprint(stored[member]) == stored["fingerprint"]
        value = kind.from_json(stored[member])
    except (StandfastError, KeyError, TypeError) as error:
        raise PromptError("damaged_override", name=name, problem=str(error)) from None
    if not intact:
        raise PromptError("damaged_override", name=name, problem="its fingerprint does not match")
    return value
