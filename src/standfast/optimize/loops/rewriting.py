"""Saying the same in fewer characters, without a model. Protected text is never touched."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from standfast.optimize.loops.proposals import SectionEdit, StrategySession, edit_of
from standfast.optimize.loops.protected_text import FENCED, compact_json, protected_spans
from standfast.optimize.prompts.template import PromptDescriptor, placeholders
from standfast.optimize.providers.adapter import ProviderAdapter

# Protected text is hidden behind these while the rest is changed: private characters, one a span.
_FIRST_MARK: Final = 0xE000
_MOST_MARKS: Final = 0x1800

# Left is what people write, right is what they mean. Case of the first letter is kept.
_WORDY: Final = (
    (r"in order to", "to"),
    (r"so as to", "to"),
    (r"due to the fact that", "because"),
    (r"owing to the fact that", "because"),
    (r"for the purpose of", "for"),
    (r"with (?:regard|respect) to", "about"),
    (r"in (?:the event|case) that", "if"),
    (r"at (?:this|the present) (?:point in time|moment)", "now"),
    (r"at all times", "always"),
    (r"prior to", "before"),
    (r"subsequent to", "after"),
    (r"a (?:large|great) (?:number|amount) of", "many"),
    (r"the majority of", "most"),
    (r"in spite of the fact that", "although"),
    (r"is able to", "can"),
    (r"are able to", "can"),
    (r"has the ability to", "can"),
    (r"make sure (?:that|to)", "ensure"),
    (r"it is important (?:to note )?that", ""),
    (r"please note that", ""),
    (r"please be so kind as to", ""),
    (r"please", ""),
    (r"kindly", ""),
    (r"basically|essentially|actually", ""),
    (r"and also", "and"),
    (r"each and every", "every"),
    (r"as well as", "and"),
)
_WORDY_PATTERNS: Final = tuple(
    (
        re.compile(
            rf"\b(?:{wordy})\b{'' if plain else ',?'}(?P<space>[ \t]*)(?P<follows>\w?)", re.IGNORECASE
        ),
        plain,
    )
    for wordy, plain in _WORDY
)

Rewrite = Callable[[str], str]


def compact_whitespace(body: str) -> str:
    """No space at the ends of lines, one empty line at most, one space between words; code is left alone."""

    def compact(text: str) -> str:
        text = re.sub(r"[ \t]+(?=\n|\Z)", "", text)
        text = re.sub(r"(?<=\S)[ \t]+(?=\S)", " ", text)
        return re.sub(r"\n{3,}", "\n\n", text)

    return _outside_code(body, compact).strip("\n")


def compact_markdown(body: str) -> str:
    """Less of what only looks: rules, bold and italics, empty lines between bullets; words stay."""

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
    """JSON in code fences on one line. What it says stays the same: a text that does not parse is left alone."""

    def minified(found: re.Match[str]) -> str:
        fence, language, content = found[1], found[2], found[3]
        compact = None if placeholders(content) else compact_json(content)
        if compact is None or language.lower() not in ("json", ""):
            return found[0]
        return f"{fence}{language}\n{compact}\n{fence}"

    return FENCED.sub(minified, body)


def plain_words(body: str) -> str:
    """Plain words for wordy phrases, outside of anything protected."""

    def replaced(text: str) -> str:
        for pattern, plain in _WORDY_PATTERNS:
            text = pattern.sub(partial(_plainly, plain), text)
        return text

    return _outside_protected(body, replaced)


class Rewriting:
    """A strategy that proposes one rewriting of every section that it changes."""

    def __init__(self, name: str, *rewrites: Rewrite) -> None:
        self._name, self._rewrites = name, rewrites

    def propose(
        self,
        prompt: PromptDescriptor,
        *,
        adapter: ProviderAdapter | None,  # noqa: ARG002  # It needs no model.
        session: StrategySession,
    ) -> Sequence[SectionEdit]:
        """The sections that get shorter."""
        edits = []
        for section in prompt.sections:
            body = section.body
            for rewrite in self._rewrites:
                body = rewrite(body)
            edit = edit_of(section, body, session=session, strategy=self._name)
            if edit.proposed_tokens < edit.original_tokens:
                edits.append(edit)
        return edits


def rewriting_strategies() -> tuple[Rewriting, ...]:
    """Each rewriting alone, and all in a row."""
    return (
        Rewriting("whitespace", compact_whitespace),
        Rewriting("markdown", compact_markdown),
        Rewriting("json", minify_json),
        Rewriting("plain-words", plain_words),
        Rewriting("all-rewritings", minify_json, compact_markdown, plain_words, compact_whitespace),
    )


def _outside_code(body: str, change: Rewrite) -> str:
    return _around(
        body, [(start, end) for start, end, kind, _ in protected_spans(body) if kind == "code"], change
    )


def _outside_protected(body: str, change: Rewrite) -> str:
    return _around(body, [(start, end) for start, end, _, _ in protected_spans(body)], change)


def _around(body: str, spans: list[tuple[int, int]], change: Rewrite) -> str:
    """Change a text around spans that must stay as they are. A change that would lose or move one is not made."""
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


def _plainly(plain: str, found: re.Match[str]) -> str:
    """The plain word, or the next one if there is none, with the capital that the sentence began with."""
    text, follows = plain + found["space"] if plain else "", found["follows"]
    if not found[0][:1].isupper():
        return text + follows
    return text[:1].upper() + text[1:] + follows if text else follows.upper()
