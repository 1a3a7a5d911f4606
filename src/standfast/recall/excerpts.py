"""Excerpts: what is shown of a text that is too long to be shown whole."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from standfast.recall.analysis import Analyzer, sentences_of, words_of

CUT: Final = "…"


def excerpt_of(
    text: str,
    weights: Mapping[str, int],
    analyzer: Analyzer,
    count: Callable[[str], int],
    limit: int,
    *,
    focus: str = "",
    fills: bool = False,
) -> str:
    """The text if it has at most ``limit`` tokens, else its best sentences within them.

    Args:
        weights: The terms of the query and what each is worth.
        count: Counts tokens.
        focus: The passage of the text to show if it has no term of the query.
        fills: Whether sentences that do not match are shown too while there is room, from the first on.
    """
    text = text.strip()
    if len(text) <= limit or count(text) <= limit:
        return text
    sentences = sentences_of(text)
    worth = [_worth(one, weights, analyzer) for one in sentences]
    if focus and not any(worth):
        worth = [int(one.strip() in focus) for one in sentences]
    chosen: set[int] = set()
    left = limit - 2 * count(CUT)
    order = sorted(range(len(sentences)), key=lambda at: (-worth[at], at))
    best = order[0]
    # What stands beside the best sentence explains it; other sentences come only if they match.
    wanted = [best, *(at for at in order[1:] if worth[at] > 0), best + 1, best - 1]
    if fills:
        wanted += range(len(sentences))
    for at in dict.fromkeys(wanted):
        if 0 <= at < len(sentences):
            cost = count(sentences[at]) + count(CUT)
            if cost <= left:
                chosen.add(at)
                left -= cost
    if not chosen or (fills and best not in chosen):
        return _cut_sentence(sentences, best, weights, analyzer, count=count, limit=limit)
    return _joined(sentences, sorted(chosen))


def _worth(sentence: str, weights: Mapping[str, int], analyzer: Analyzer) -> int:
    return sum(weights.get(term, 0) for term in set(analyzer.terms_of(words_of(sentence))))


def _joined(sentences: list[str], chosen: list[int]) -> str:
    parts, last = [], -1
    for at in chosen:
        if at != last + 1:
            parts.append(f"{CUT} ")
        parts.append(sentences[at])
        last = at
    return "".join(parts).strip() + (f" {CUT}" if last != len(sentences) - 1 else "")


def _cut_sentence(
    sentences: list[str],
    at: int,
    weights: Mapping[str, int],
    analyzer: Analyzer,
    *,
    count: Callable[[str], int],
    limit: int,
) -> str:
    """A sentence that is too long alone: from shortly before its first matching word on."""
    sentence, start = sentences[at].strip(), 0
    for match in re.finditer(r"\S+", sentence):
        if any(term in weights for term in analyzer.terms_of(words_of(match.group()[:256]))):
            start = max(0, match.start() - limit)
            break
    # Bytes per token differ between counters: shorten until it fits, by a quarter each time.
    size = limit * 8
    while size > 0:
        piece = sentence[start : start + size].strip()
        is_cut_behind = start + size < len(sentence) or at < len(sentences) - 1
        shown = f"{CUT if start or at else ''}{piece}{CUT if is_cut_behind else ''}"
        if count(shown) <= limit:
            return shown
        size = size * 3 // 4
    return ""
