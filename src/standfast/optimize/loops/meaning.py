"""What a prompt must not lose: protected text, the meaning of its sentences; and whether it is shorter.

Protected text must still occur somewhere in the prompt: placeholders, commands in capitals, numbers,
addresses and code. Sentences are compared by ``sentences.py``. Nothing here needs a model.
"""

import json
import re
from typing import Any, Final

from standfast.optimize.loops.gate import RejectReason
from standfast.optimize.loops.sentences import (
    NEGATION,
    Sentence,
    dropped,
    meaning_change,
    reworded,
    sentences_of,
)
from standfast.optimize.prompts.template import (
    Path,
    PromptDescriptor,
    SectionDescriptor,
    path_text,
    placeholder_spans,
    placeholders,
)
from standfast.recall.tokens import TokenCounter

FENCED: Final = re.compile(r"(```|~~~)(\w*)[ \t]*\n(.*?)\n?[ \t]*\1", re.DOTALL)
"""A code block: its fence, language and content."""


class _Literal(str):
    """A number as it was written: 1.10 stays 1.10."""

    __slots__ = ()


def compact_json(text: str) -> str | None:
    """Return a JSON object or array on one line; None if the text is neither or repeats a key."""
    try:
        value = json.loads(text, parse_int=_Literal, parse_float=_Literal, object_pairs_hook=_unrepeated)
    except (ValueError, RecursionError):
        return None
    return _dumped(value) if isinstance(value, dict | list) else None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is repeated")
    return members


def _dumped(value: object) -> str:
    if isinstance(value, _Literal):
        return str(value)
    if isinstance(value, dict):
        members = (
            f"{json.dumps(key, ensure_ascii=False)}:{_dumped(member)}" for key, member in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


_NEGATION: Final = (
    r"not|never|no|none|nobody|nothing|neither|nor|without|unless|except|cannot|avoid|refuse|forbidden|prohibited"
    r"|[a-z]+n['\u2019]t"
)
_KINDS: Final = (
    ("code", re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]+`", re.DOTALL)),
    ("address", re.compile(r"\b(?:https?|ftp|mailto):\S+|\b[\w.+-]+@[\w-]+\.[\w.]+", re.IGNORECASE)),
    ("negation", re.compile(rf"\b(?:{_NEGATION})\b(?:[^\w\n]+\w+)?", re.IGNORECASE)),
    (
        "command",
        re.compile(r"\b(?:MUST|SHALL|ALWAYS|ONLY|REQUIRED|MANDATORY|IMPORTANT|WARNING)\b(?:[^\w\n]+\w+)?"),
    ),
    ("number", re.compile(r"\d[\d.,:/]*\d%?|\d%?")),
)


def protected_spans(body: str) -> list[tuple[int, int, str, str]]:
    """Return what must not be lost in a text: start, end, kind, and normalized content."""
    found = [(start, end, "placeholder", body[start:end]) for start, end in placeholder_spans(body)]
    code: list[tuple[int, int]] = []
    for kind, pattern in _KINDS:
        for match in pattern.finditer(body):
            if kind == "code":
                code.append(match.span())
            elif any(start <= match.start() < end for start, end in code):
                continue  # The code block protects it.
            found.append((*match.span(), kind, _normal(kind, match[0])))
    return sorted(found)


def _normal(kind: str, text: str) -> str:
    """Normalize white space, and case where it carries no meaning."""
    if kind == "code":
        fenced = FENCED.fullmatch(text)
        compact = None if fenced is None else compact_json(fenced[3])
        return compact if compact is not None else "\n".join(line.strip() for line in text.splitlines())
    words = " ".join(re.findall(r"\S+", text))
    if kind == "negation":
        return " ".join(re.findall(r"[\w'\u2019]+", words.casefold()))
    return " ".join(re.findall(r"\w+", words)) if kind == "command" else words


def protected(body: str) -> set[tuple[str, str]]:
    """Return the set of (kind, content) that must not be lost in a text."""
    return {(kind, content) for _, _, kind, content in protected_spans(body)}


def static_objection(
    before: PromptDescriptor, after: PromptDescriptor, *, counter: TokenCounter
) -> tuple[RejectReason, str] | None:
    """Return why a shorter prompt is rejected without running it, or None."""
    for old, new in zip(before.sections, after.sections, strict=True):
        if placeholders(new.body) != old.placeholders:
            lost = sorted(set(old.placeholders) - set(placeholders(new.body)))
            detail = f"lost {', '.join(lost)}" if lost else "has placeholders that the source does not have"
            return RejectReason.PLACEHOLDER_DROPPED, f"section {path_text(old.path)}: {detail}"
        if old.protected and old.body_hash != new.body_hash:
            return RejectReason.PROTECTED_SECTION, f"section {path_text(old.path)} is declared protected"
    old_tokens, new_tokens = prompt_tokens(before, counter), prompt_tokens(after, counter)
    if new_tokens >= old_tokens:
        return (
            RejectReason.NOT_SHORTER,
            f"{new_tokens} tokens by {counter.name}, and the baseline has {old_tokens}",
        )
    needed = {one for section in before.sections for one in protected(section.body)}
    present = {one for section in after.sections for one in protected(section.body)}
    # Negations are compared with the words that they negate, sentence by sentence.
    if lost_text := sorted(one for one in needed - present if one[0] != NEGATION):
        detail = ", ".join(f"{kind} {content!r:.60}" for kind, content in lost_text[:5])
        return RejectReason.PROTECTED_TEXT_LOST, f"lost {detail}"
    change = meaning_change(_sentences(before), _sentences(after))
    if change is not None:
        is_negation = change.about == NEGATION
        return RejectReason.NEGATION_REMOVED if is_negation else RejectReason.MEANING_CHANGED, change.detail
    return None


def addition_objection(
    before: PromptDescriptor,
    after: PromptDescriptor,
    *,
    counter: TokenCounter,  # noqa: ARG001  # As for static_objection.
) -> tuple[RejectReason, str] | None:
    """Why an addition is rejected without running it, or None. What was there must stay, word for word."""
    for old, new in zip(before.sections, after.sections, strict=True):
        where = f"section {path_text(old.path)}"
        if old.protected and old.body_hash != new.body_hash:
            return RejectReason.PROTECTED_SECTION, f"{where} is declared protected"
        if not _only_adds(old.body, new.body) or old.recall_tokens != new.recall_tokens:
            return (
                RejectReason.MEANING_CHANGED,
                f"{where}: an addition must keep the text and the recall budget",
            )
        if placeholders(new.body) != old.placeholders:
            return RejectReason.PLACEHOLDER_DROPPED, f"{where} has placeholders that the source does not have"
    return None


def _only_adds(old: str, new: str) -> bool:
    """Return whether a text is another one with something put in at one place, between paragraphs."""
    kept, blocks = (re.split(r"\n\s*\n", text.strip("\n")) for text in (old, new))
    first = next((at for at, (a, b) in enumerate(zip(kept, blocks, strict=False)) if a != b), len(kept))
    rest = len(kept) - first
    return blocks[:first] == kept[:first] and (rest == 0 or blocks[-rest:] == kept[-rest:])


def dropped_sentences(before: PromptDescriptor, after: PromptDescriptor) -> list[str]:
    """Return the sentences of a prompt that have no counterpart in another."""
    return dropped(_sentences(before), _sentences(after))


def reworded_sentences(before: PromptDescriptor, after: PromptDescriptor) -> list[tuple[str, str]]:
    """Return the sentences that can't be compared word by word, each with the one it comes from."""
    return reworded(_sentences(before), _sentences(after))


def without_sentence(prompt: PromptDescriptor, path: Path, text: str) -> PromptDescriptor:
    """Return a prompt in which a section lacks a sentence; its placeholders stay."""
    section = prompt.section(path)
    words = text.split()
    if section is None or not words:
        return prompt
    pattern = r"\s+".join(map(re.escape, words))
    left = " ".join(f"${{{name}}}" for name in placeholders(text))
    body = re.sub(pattern, lambda _: left, section.body, count=1)
    return prompt.with_bodies({path: (body, section.recall_tokens)})


def _sentences(prompt: PromptDescriptor) -> list[Sentence]:
    return [sentence for section in prompt.sections for sentence in sentences_of(section.body)]


def section_tokens(section: SectionDescriptor, counter: TokenCounter) -> int:
    """Return the tokens of a section's body and of what memory may add to it."""
    return counter.count(section.body) + (section.recall_tokens or 0)


def section_cost(section: SectionDescriptor, counter: TokenCounter) -> int:
    """Return the tokens of a section with its heading, which an empty section does not have."""
    return section_tokens(section, counter) + (counter.count(section.title) if section.body.strip() else 0)


def prompt_tokens(prompt: PromptDescriptor, counter: TokenCounter) -> int:
    """Return the tokens of a prompt before values are bound."""
    return sum(section_cost(section, counter) for section in prompt.sections)
