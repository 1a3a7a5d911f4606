"""A prompt's source: sections with placeholders, templates of sections, and the registry that finds them.

``${name}`` in a section's body is a placeholder; ``$${`` stands for the text ``${``.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from standfast.errors import InvalidValue
from standfast.optimize.errors import PromptError
from standfast.records.canon import fingerprint, normal_string
from standfast.records.vocabulary import Value

Path = tuple[str, ...]
HexDigest = str

MEMORY: Final = "memory"
"""The placeholder that a memory section fills with a context package."""

_PLACEHOLDER: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Section(Value, frozen=True, kw_only=True):
    """One node of a prompt: a heading, a body with placeholders, and sections below it.

    Args:
        key: Its name among its neighbours.
        title: The heading.
        body: The text, with placeholders such as ${language}.
        children: The sections below it.
        recall_tokens: Makes it a memory section: ${memory} in its body becomes the text of a context package
            of at most that many tokens.
        protected: Whether the optimizer never changes it.
    """

    key: str
    title: str = ""
    body: str = ""
    children: "tuple[Section, ...]" = ()
    recall_tokens: int | None = None
    protected: bool = False

    def __post_init__(self) -> None:
        self._require_name("key", self.key)
        for field in ("title", "body"):
            text = getattr(self, field)
            self._require(isinstance(text, str), f"{field} must be a string")
            # Texts that look the same get the same hash.
            msgspec.structs.force_setattr(self, field, normal_string(text))
        keys = [child.key for child in self.children]
        self._require(len(set(keys)) == len(keys), f"two sections below {self.key!r} have the same key")
        if self.recall_tokens is not None:
            self._require_whole("recall_tokens", self.recall_tokens, least=1)
        self._require(
            (MEMORY in placeholders(self.body)) == (self.recall_tokens is not None),
            f"section {self.key!r} needs both recall_tokens and ${{{MEMORY}}}, or neither",
        )

    def walk(self, above: Path = ()) -> "Iterator[tuple[Path, Section]]":
        """Yield this section and all below it with their paths, in text order."""
        path = (*above, self.key)
        yield path, self
        for child in self.children:
            yield from child.walk(path)

    @property
    def content_hash(self) -> HexDigest:
        """The hash that an override of this section must name."""
        return content_hash(self.body, self.recall_tokens)


def memory_section(
    *, key: str = MEMORY, title: str = "Memory", tokens: int, body: str = "${memory}"
) -> Section:
    """Return a section that shows a context package of at most ``tokens`` tokens."""
    return Section(key=key, title=title, body=body, recall_tokens=tokens)


def content_hash(body: str, recall_tokens: int | None = None) -> HexDigest:
    """Return the hash of a section's content: its body and, for a memory section, its recall budget."""
    return fingerprint(["section/v1", body, recall_tokens])


def placeholders(body: str) -> tuple[str, ...]:
    """Return the names of the placeholders in a text, sorted, without duplicates."""
    return tuple(sorted({match[1] for match in _PLACEHOLDER.finditer(body) if match[1]}))


def placeholder_spans(body: str) -> list[tuple[int, int]]:
    """Return the start and end of every placeholder and every escape in a text."""
    return [match.span() for match in _PLACEHOLDER.finditer(body)]


def fill(body: str, values: Mapping[str, str]) -> str:
    """Replace placeholders by their values in one pass: a value that contains ``${…}`` is not filled in."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]] if match[1] else "${", body)


def path_text(path: Path) -> str:
    """Return a path as people read it, e.g. ``role/tone``."""
    return "/".join(path)


def as_text(value: Any) -> str:
    """Return a parameter as it appears in a prompt: a string unchanged, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()


class SectionDescriptor(Value, frozen=True, kw_only=True):
    """One section as it is now, with the hash of its source, which an override must name."""

    path: Path
    title: str
    body: str
    recall_tokens: int | None = None
    source_hash: HexDigest
    placeholders: tuple[str, ...] = ()
    protected: bool = False

    @property
    def body_hash(self) -> HexDigest:
        """The hash of the section as it is now; equal to ``source_hash`` if nothing overrides it."""
        return content_hash(self.body, self.recall_tokens)


class PromptDescriptor(Value, frozen=True, kw_only=True):
    """A prompt as a flat list of sections. Its digest identifies the texts that a rendering uses."""

    ns: str
    key: str
    sections: tuple[SectionDescriptor, ...]

    @property
    def digest(self) -> HexDigest:
        """The hash of every section's path, title and content, before values are bound."""
        return _digest(self)

    def section(self, path: Path) -> SectionDescriptor | None:
        """Return the section at a path, or None."""
        return next((section for section in self.sections if section.path == path), None)

    def with_bodies(self, bodies: "Mapping[Path, tuple[str, int | None]]") -> "PromptDescriptor":
        """Return the prompt with other bodies and recall budgets in the sections of these paths."""
        sections = (
            (section, *bodies.get(section.path, (section.body, section.recall_tokens)))
            for section in self.sections
        )
        changed = (
            msgspec.structs.replace(section, body=body, recall_tokens=recall)
            for section, body, recall in sections
        )
        return msgspec.structs.replace(self, sections=tuple(changed))


class PromptTemplate(Value, frozen=True, kw_only=True):
    """A prompt's source: its sections in order. Overrides change what it says in production.

    Args:
        ns: The namespace of the prompt.
        key: Its name in the namespace.
        sections: The sections, in order.
    """

    ns: str
    key: str
    sections: tuple[Section, ...]

    def __post_init__(self) -> None:
        self._require_name("ns", self.ns)
        self._require_name("key", self.key)
        self._require(len(self.sections) > 0, "a prompt needs at least one section")
        keys = [section.key for section in self.sections]
        self._require(len(set(keys)) == len(keys), "two sections have the same key")

    def walk(self) -> Iterator[tuple[Path, Section]]:
        """Yield every section with its path, in text order."""
        for section in self.sections:
            yield from section.walk()

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names of all placeholders, sorted, without duplicates."""
        return tuple(sorted({name for _, section in self.walk() for name in placeholders(section.body)}))

    @property
    def descriptor(self) -> PromptDescriptor:
        """The source as a flat list of sections."""
        return _descriptor(self)


# Every rendering asks for both, of the same few prompts.
@functools.lru_cache(maxsize=256)
def _digest(prompt: PromptDescriptor) -> HexDigest:
    sections = [
        [list(section.path), section.title, section.body, section.recall_tokens]
        for section in prompt.sections
    ]
    return fingerprint(["prompt-digest/v1", prompt.ns, prompt.key, sections])


@functools.lru_cache(maxsize=256)
def _descriptor(template: PromptTemplate) -> PromptDescriptor:
    return PromptDescriptor(
        ns=template.ns,
        key=template.key,
        sections=tuple(
            SectionDescriptor(
                path=path,
                title=section.title,
                body=section.body,
                recall_tokens=section.recall_tokens,
                source_hash=section.content_hash,
                placeholders=placeholders(section.body),
                protected=section.protected,
            )
            for path, section in template.walk()
        ),
    )


class PromptRegistry(Protocol):
    """Finds prompts by namespace and key."""

    def get(self, ns: str, key: str) -> PromptTemplate:
        """Return the prompt, or raise ``PromptError``."""
        ...


class InMemoryPromptRegistry:
    """The prompts of one program."""

    def __init__(self, *templates: PromptTemplate) -> None:
        self._templates = {(template.ns, template.key): template for template in templates}
        if len(self._templates) != len(templates):
            raise InvalidValue(what="InMemoryPromptRegistry", problem="two prompts have the same ns and key")

    def get(self, ns: str, key: str) -> PromptTemplate:
        """Return the prompt, or raise ``PromptError``."""
        try:
            return self._templates[ns, key]
        except KeyError:
            raise PromptError("unknown_prompt", ns=ns, prompt_key=key) from None
