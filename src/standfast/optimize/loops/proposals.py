"""What strategies propose and what they have to work with: SectionEdit, CompressStrategy; and rewriting,
which needs no model.

Rewriting changes white space, Markdown, JSON and wordy phrases, and never protected text.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Protocol

import msgspec

from standfast.optimize.evals.samples import Sample
from standfast.optimize.loops.meaning import FENCED, compact_json, protected_spans, section_tokens
from standfast.optimize.loops.sentences import phrases
from standfast.optimize.prompts.template import (
    HexDigest,
    Path,
    PromptDescriptor,
    SectionDescriptor,
    placeholders,
)
from standfast.optimize.providers.adapter import ProviderAdapter, TokenUsage
from standfast.recall.tokens import TokenCounter
from standfast.records.vocabulary import Value


class SectionEdit(Value, frozen=True, kw_only=True):
    """A proposed edit to one section. ``original_hash`` is the hash of the section's source."""

    path: Path
    original_hash: HexDigest
    proposed_body: str
    original_tokens: int
    proposed_tokens: int
    recall_tokens: int | None = None
    strategy: str = ""
    screened: bool = False
    """Whether the strategy has seen that no choosing sample needs what the edit removes."""
    adds: bool = False
    """Whether the edit only adds to the section. It must then make the prompt better."""
    removed: tuple[int, ...] = ()
    """Which units of the section an ablation removes, by their position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOutcome:
    """A choosing sample and how one run of it ended."""

    sample: Sample[Any, Any]
    output: str
    passed: bool
    reason: str
    truncated: bool = False
    """Whether the output ends at the limit of output tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategySession:
    """What a strategy can use: a token counter and, for strategies that need it, quick evaluations.

    Args:
        survives: Returns for each prompt whether it shows no regression on the choosing samples: a screen.
        spent: Called by a strategy after each call of a model, with its tokens.
        outcomes: Returns how a prompt does on the choosing samples, one run each.
        may_ask: Returns whether the proposer's limits allow another call.
    """

    counter: TokenCounter
    survives: Callable[[Sequence[PromptDescriptor]], list[bool]] | None = None
    spent: Callable[[TokenUsage], None] | None = None
    outcomes: Callable[[PromptDescriptor], Sequence[SampleOutcome]] | None = None
    may_ask: Callable[[], bool] | None = None


class CompressStrategy(Protocol):
    """Proposes shorter sections, or additions that make a prompt better. The gate decides."""

    def propose(
        self, prompt: PromptDescriptor, *, adapter: ProviderAdapter | None, session: StrategySession
    ) -> Sequence[SectionEdit]:
        """Return edits. Several edits of one section compete; the best one that passes is taken."""
        ...


class ModelFreeStrategy(ABC):
    """The base of strategies that ask no model. A subclass implements ``propose_edits``."""

    def propose(
        self,
        prompt: PromptDescriptor,
        *,
        adapter: ProviderAdapter | None,  # noqa: ARG002  # Needs no model.
        session: StrategySession,
    ) -> Sequence[SectionEdit]:
        """Return the edits."""
        return self.propose_edits(prompt, session)

    @abstractmethod
    def propose_edits(self, prompt: PromptDescriptor, session: StrategySession) -> Sequence[SectionEdit]:
        """Return the edits."""


class Strategies:
    """Several strategies as one: it proposes what all of them propose."""

    def __init__(self, *strategies: CompressStrategy) -> None:
        self._strategies = strategies

    def propose(
        self, prompt: PromptDescriptor, *, adapter: ProviderAdapter | None, session: StrategySession
    ) -> Sequence[SectionEdit]:
        """Return the edits of all strategies."""
        return [
            edit
            for strategy in self._strategies
            for edit in strategy.propose(prompt, adapter=adapter, session=session)
        ]


def edit_of(
    section: SectionDescriptor,
    body: str,
    *,
    session: StrategySession,
    strategy: str,
    recall_tokens: int | None = None,
    screened: bool = False,
    adds: bool = False,
    removed: tuple[int, ...] = (),
) -> SectionEdit:
    """Return the edit that gives a section a new body, with its token counts."""
    recall = recall_tokens if recall_tokens is not None else section.recall_tokens
    changed = msgspec.structs.replace(section, body=body, recall_tokens=recall)
    return SectionEdit(
        path=section.path,
        original_hash=section.source_hash,
        proposed_body=body,
        original_tokens=section_tokens(section, session.counter),
        proposed_tokens=section_tokens(changed, session.counter),
        recall_tokens=recall,
        strategy=strategy,
        screened=screened,
        adds=adds,
        removed=removed,
    )


def apply_edits(prompt: PromptDescriptor, edits: Sequence[SectionEdit]) -> PromptDescriptor:
    """Return a prompt with edits applied, at most one per section."""
    bodies = {edit.path: (edit.proposed_body, edit.recall_tokens) for edit in edits}
    assert len(bodies) == len(edits), "two edits of one section can't both be applied"
    return prompt.with_bodies(bodies)


def removal_edit(
    section: SectionDescriptor, removed: Sequence[int], like: SectionEdit, *, counter: TokenCounter
) -> SectionEdit:
    """Return an ablation of a section that removes only these units."""
    remaining = [unit for number, unit in enumerate(units_of(section.body)) if number not in set(removed)]
    changed = msgspec.structs.replace(section, body=join_units(remaining))
    return msgspec.structs.replace(
        like,
        proposed_body=changed.body,
        proposed_tokens=section_tokens(changed, counter),
        removed=tuple(removed),
    )


_CODE: Final = re.compile(r"(```|~~~).*?(?:\n\1|\Z)", re.DOTALL)
_BULLET: Final = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]")


@dataclass(frozen=True, slots=True)
class EditUnit:
    """A paragraph, bullet or code block with the empty lines after it. Units concatenate to the text."""

    text: str
    is_code: bool = False


def units_of(body: str) -> list[EditUnit]:
    """Split a text into units, in order."""
    units: list[EditUnit] = []
    at = 0
    for block in _CODE.finditer(body):
        units += _prose(body[at : block.start()])
        end = _after_blank(body, block.end())
        units.append(EditUnit(body[block.start() : end], is_code=True))
        at = end
    return units + _prose(body[at:])


def join_units(units: Sequence[EditUnit]) -> str:
    """Join units to a text without trailing newlines."""
    return "".join(unit.text for unit in units).rstrip("\n")


def _after_blank(body: str, at: int) -> int:
    blank = re.compile(r"(?:[ \t]*\n)+").match(body, at)
    return blank.end() if blank else at


def _prose(text: str) -> list[EditUnit]:
    """Split prose into paragraphs and bullets, each with its continuation lines."""
    units: list[list[str]] = []
    fresh = True
    for line in text.splitlines(keepends=True):
        if not line.strip():
            if units:
                units[-1].append(line)
            else:
                units.append([line])
            fresh = True
            continue
        if fresh or _BULLET.match(line):
            units.append([line])
        else:
            units[-1].append(line)
        fresh = False
    return [EditUnit("".join(lines)) for lines in units]


# Each protected span is replaced by one private-use character while the rest is rewritten.
_FIRST_MARK: Final = 0xE000
_MOST_MARKS: Final = 0x1800


@cache
def _wordy() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return wordy phrases with what each becomes."""
    ends = r"(?P<space>[ \t]*)(?P<follows>\w?)"
    return tuple(
        (re.compile(rf"\b(?:{form})\b{'' if plain else ',?'}{ends}", re.IGNORECASE), plain)
        for form, plain in phrases("wordy")
    )


Rewrite = Callable[[str], str]


def compact_whitespace(body: str) -> str:
    """Remove trailing spaces, repeated spaces and repeated empty lines, except in code."""

    def compact(text: str) -> str:
        text = re.sub(r"[ \t]+(?=\n|\Z)", "", text)
        text = re.sub(r"(?<=\S)[ \t]+(?=\S)", " ", text)
        return re.sub(r"\n{3,}", "\n\n", text)

    return _outside_code(body, compact).strip("\n")


def compact_markdown(body: str) -> str:
    """Remove Markdown that is only decoration: rules, bold, italics, empty lines between bullets."""

    def compact(text: str) -> str:
        text = re.sub(r"^[ \t]*([-*_])(?:[ \t]*\1){2,}[ \t]*$\n?", "", text, flags=re.MULTILINE)
        text = re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
        text = re.sub(r"^([ \t]*)[*+](?=[ \t])", r"\1-", text, flags=re.MULTILINE)
        text = re.sub(
            r"(^[ \t]*(?:-|\d+\.)[ \t].*\n)\n+(?=[ \t]*(?:-|\d+\.)[ \t])", r"\1", text, flags=re.MULTILINE
        )
        return re.sub(r"[ \t]+#+[ \t]*$", "", text, flags=re.MULTILINE)

    return compact_whitespace(_outside_code(body, compact))


def minify_json(body: str) -> str:
    """Put JSON in code fences on one line. Text that does not parse is not changed."""

    def minified(found: re.Match[str]) -> str:
        fence, language, content = found[1], found[2], found[3]
        compact = None if placeholders(content) else compact_json(content)
        if compact is None or language.lower() not in ("json", ""):
            return found[0]
        return f"{fence}{language}\n{compact}\n{fence}"

    return FENCED.sub(minified, body)


def plain_words(body: str) -> str:
    """Replace wordy phrases outside protected text by plain ones."""

    def replaced(text: str) -> str:
        for pattern, plain in _wordy():
            text = pattern.sub(partial(_replacement, plain), text)
        return text

    return _outside_protected(body, replaced)


class Rewriting(ModelFreeStrategy):
    """A strategy that applies rewrites to every section."""

    def __init__(self, name: str, *rewrites: Rewrite) -> None:
        self._name, self._rewrites = name, rewrites

    def propose_edits(self, prompt: PromptDescriptor, session: StrategySession) -> Sequence[SectionEdit]:
        """Propose the sections that get shorter."""
        edits = []
        for section in prompt.sections:
            if section.protected:
                continue
            body = section.body
            for rewrite in self._rewrites:
                body = rewrite(body)
            edit = edit_of(section, body, session=session, strategy=self._name)
            if edit.proposed_tokens < edit.original_tokens:
                edits.append(edit)
        return edits


def rewriting_strategies() -> tuple[Rewriting, ...]:
    """Return a strategy for each rewrite alone and one for all in a row."""
    return (
        Rewriting("whitespace", compact_whitespace),
        Rewriting("markdown", compact_markdown),
        Rewriting("json", minify_json),
        Rewriting("plain-words", plain_words),
        Rewriting("all-rewritings", minify_json, compact_markdown, plain_words, compact_whitespace),
    )


def _outside_code(body: str, change: Rewrite) -> str:
    return _rewrite_outside(
        body, [(start, end) for start, end, kind, _ in protected_spans(body) if kind == "code"], change
    )


def _outside_protected(body: str, change: Rewrite) -> str:
    return _rewrite_outside(body, [(start, end) for start, end, _, _ in protected_spans(body)], change)


def _rewrite_outside(body: str, spans: list[tuple[int, int]], change: Rewrite) -> str:
    """Rewrite a text except for some spans. A rewrite that would lose or move a span is not applied."""
    merged: list[list[int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    marks = [chr(_FIRST_MARK + number) for number in range(len(merged))]
    if len(marks) > _MOST_MARKS or any(_FIRST_MARK <= ord(char) < _FIRST_MARK + _MOST_MARKS for char in body):
        return body
    masked, at = "", 0
    for mark, (start, end) in zip(marks, merged, strict=True):
        masked += body[at:start] + mark
        at = end
    changed = change(masked + body[at:])
    if [char for char in changed if char in set(marks)] != marks:
        return body
    for mark, (start, end) in zip(marks, merged, strict=True):
        changed = changed.replace(mark, body[start:end])
    return changed


def _replacement(plain: str, found: re.Match[str]) -> str:
    """Return the replacement with the capital that the phrase started with."""
    text, follows = plain + found["space"] if plain else "", found["follows"]
    if not found[0][:1].isupper():
        return text + follows
    return text[:1].upper() + text[1:] + follows if text else follows.upper()
