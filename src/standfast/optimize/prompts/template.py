"""A prompt's source, what can be said of it without rendering it, and where programs find it."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from standfast.canon import fingerprint
from standfast.errors import UnknownPrompt
from standfast.optimize.prompts.section import HexDigest, Path, Section, content_hash, placeholders
from standfast.vocabulary import Value


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
