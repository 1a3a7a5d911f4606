"""One section of a prompt: a heading, a text with placeholders, and sections below it."""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from standfast.canon import fingerprint, normal_string
from standfast.errors import UnknownPrompt
from standfast.vocabulary import Value

Path = tuple[str, ...]
HexDigest = str

MEMORY: Final = "memory"
"""The placeholder that a memory section's context package takes."""

_PLACEHOLDER: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Section(Value, frozen=True, kw_only=True):
    """A node of a prompt. ``${name}`` in the body is a placeholder, ``$${`` is the text ``${``.

    With ``recall_tokens`` it is a memory section: ``${memory}`` in its body becomes the text of a context package of at
    most so many tokens.
    """

    key: str
    title: str = ""
    body: str = ""
    children: "tuple[Section, ...]" = ()
    recall_tokens: int | None = None

    def __post_init__(self) -> None:
        self._require_name("key", self.key)
        for field in ("title", "body"):
            text = getattr(self, field)
            self._require(isinstance(text, str), f"{field} must be a string")
            # Two texts that look the same are the same from here on, to a hash as well as to a model.
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
        """Every section of this branch with its path, in the order of the text."""
        path = (*above, self.key)
        yield path, self
        for child in self.children:
            yield from child.walk(path)

    @property
    def content_hash(self) -> HexDigest:
        """The hash of what an override replaces: the body, and the recall budget of a memory section."""
        return content_hash(self.body, self.recall_tokens)


def memory_section(
    *, key: str = MEMORY, title: str = "Memory", tokens: int, body: str = "${memory}"
) -> Section:
    """A section that holds what memory hands back, of at most so many tokens."""
    return Section(key=key, title=title, body=body, recall_tokens=tokens)


def content_hash(body: str, recall_tokens: int | None = None) -> HexDigest:
    """The hash of a section's content."""
    return fingerprint(["section/v1", body, recall_tokens])


def placeholders(body: str) -> tuple[str, ...]:
    """The names of the placeholders in a text, each once, in order of the alphabet."""
    return tuple(sorted({found[1] for found in _PLACEHOLDER.finditer(body) if found[1]}))


def placeholder_spans(body: str) -> list[tuple[int, int]]:
    """Where the placeholders and escapes of a text stand."""
    return [found.span() for found in _PLACEHOLDER.finditer(body)]


def filled(body: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled in, in one pass: what a value holds is never read as a placeholder."""

    def value(found: re.Match[str]) -> str:
        return values[found[1]] if found[1] else "${"

    return _PLACEHOLDER.sub(value, body)


def path_text(path: Path) -> str:
    """A path as people read it."""
    return "/".join(path)


def as_text(value: Any) -> str:
    """A parameter as it stands in a prompt: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()


class SectionDescriptor(Value, frozen=True, kw_only=True):
    """One section as it is now, with its source's hash, which is what an override must name."""

    path: Path
    title: str
    body: str
    recall_tokens: int | None = None
    source_hash: HexDigest
    placeholders: tuple[str, ...] = ()

    @property
    def body_hash(self) -> HexDigest:
        """The hash of the section as it is now; the source's, if nothing overrides it."""
        return content_hash(self.body, self.recall_tokens)


class PromptDescriptor(Value, frozen=True, kw_only=True):
    """A prompt as a list of sections. Its digest says which texts a rendering was made of."""

    ns: str
    key: str
    sections: tuple[SectionDescriptor, ...]

    @property
    def digest(self) -> HexDigest:
        """The hash of every section's path, title and content: the identity of the prompt before values are bound."""
        return _digest(self)

    def section(self, path: Path) -> SectionDescriptor | None:
        """The section at a path."""
        return next((section for section in self.sections if section.path == path), None)


class PromptTemplate(Value, frozen=True, kw_only=True):
    """A prompt's source: sections in order. Files and code hold these; overrides change what they say."""

    ns: str
    key: str
    sections: tuple[Section, ...]

    def __post_init__(self) -> None:
        self._require_name("ns", self.ns)
        self._require_name("key", self.key)
        self._require(len(self.sections) > 0, "a prompt has at least one section")
        keys = [section.key for section in self.sections]
        self._require(len(set(keys)) == len(keys), "two sections have the same key")

    def walk(self) -> Iterator[tuple[Path, Section]]:
        """Every section with its path, in the order of the text."""
        for section in self.sections:
            yield from section.walk()

    @property
    def placeholders(self) -> tuple[str, ...]:
        """The names of all placeholders, each once."""
        return tuple(sorted({name for _, section in self.walk() for name in placeholders(section.body)}))

    @property
    def descriptor(self) -> PromptDescriptor:
        """The source as a list of sections."""
        return _descriptor(self)


# Both are asked for at every rendering, of the same few prompts.
@functools.lru_cache(maxsize=256)
def _digest(prompt: PromptDescriptor) -> HexDigest:
    told = [
        [list(section.path), section.title, section.body, section.recall_tokens]
        for section in prompt.sections
    ]
    return fingerprint(["prompt-digest/v1", prompt.ns, prompt.key, told])


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
            )
            for path, section in template.walk()
        ),
    )


class PromptRegistry(Protocol):
    """Resolves prompt references."""

    def get(self, ns: str, key: str) -> PromptTemplate:
        """The prompt of that name, or an ``UnknownPrompt``."""
        ...


class InMemoryPromptRegistry:
    """The prompts of one program."""

    def __init__(self, *templates: PromptTemplate) -> None:
        self._known: Mapping[tuple[str, str], PromptTemplate] = {
            (template.ns, template.key): template for template in templates
        }
        assert len(self._known) == len(templates), "two prompts have the same name"

    def get(self, ns: str, key: str) -> PromptTemplate:
        """The prompt of that name, or an ``UnknownPrompt``."""
        try:
            return self._known[ns, key]
        except KeyError:
            raise UnknownPrompt(ns=ns, prompt_key=key) from None


def descriptor_for_prompt(prompt: Any) -> PromptDescriptor:
    """The descriptor of a template, or of a ``Prompt`` as its tag resolves now."""
    descriptor: PromptDescriptor = prompt.descriptor
    return descriptor
