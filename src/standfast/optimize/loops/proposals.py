"""SectionEdit and CompressStrategy: what strategies propose, and what they have to work with."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from standfast.optimize.evals.samples import Sample
from standfast.optimize.loops.meaning import section_tokens
from standfast.optimize.prompts.template import (
    HexDigest,
    Path,
    PromptDescriptor,
    SectionDescriptor,
)
from standfast.optimize.providers.adapter import ProviderAdapter, TokenUsage
from standfast.recall.tokens import TokenCounter
from standfast.vocabulary import Value


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
    """Whether the edit only adds to the section's end. It must then make the prompt better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleOutcome:
    """A choosing sample and how one run of it ended."""

    sample: Sample[Any, Any]
    output: str
    passed: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategySession:
    """What a strategy can use: a token counter and, for strategies that need it, quick evaluations.

    Args:
        survives: Returns for each prompt whether it shows no regression on the choosing samples. A screen, not the gate.
        spent: Called by a strategy after each call of a model, with its tokens.
        outcomes: Returns how a prompt does on the choosing samples, one run each.
    """

    counter: TokenCounter
    survives: Callable[[Sequence[PromptDescriptor]], list[bool]] | None = None
    spent: Callable[[TokenUsage], None] | None = None
    outcomes: Callable[[PromptDescriptor], Sequence[SampleOutcome]] | None = None


class CompressStrategy(Protocol):
    """Proposes shorter sections, or additions that make a prompt better. A strategy only proposes; the gate decides."""

    def propose(
        self, prompt: PromptDescriptor, *, adapter: ProviderAdapter | None, session: StrategySession
    ) -> Sequence[SectionEdit]:
        """Return edits. Several edits of one section compete; the best one that passes is taken."""
        ...


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
    )


def apply_edits(prompt: PromptDescriptor, edits: Sequence[SectionEdit]) -> PromptDescriptor:
    """Return a prompt with edits applied, at most one per section."""
    bodies = {edit.path: (edit.proposed_body, edit.recall_tokens) for edit in edits}
    assert len(bodies) == len(edits), "two edits of one section can't both be applied"
    return prompt.with_bodies(bodies)


_CODE: Final = re.compile(r"(```|~~~).*?(?:\n\1|\Z)", re.DOTALL)
_BULLET: Final = re.compile(r"[ \t]*(?:[-*+]|\d+[.)])[ \t]")


@dataclass(frozen=True, slots=True)
class EditUnit:
    """A paragraph, bullet or code block with the empty lines after it. The units of a text concatenate to the text."""

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
