"""F6_Injection: a claim tells a fact, and does not tell its reader what to do."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Final

from standfast.govern.judge.floors.claim import CLEAN, OVERLONG, Claim, Finding, JudgingContext
from standfast.govern.judge.reading.disguise import unmasked
from standfast.govern.judge.reading.phrases import spoken
from standfast.govern.judge.reading.words import TextReading
from standfast.govern.judge.signs import orders
from standfast.govern.judge.signs.marks import marks_in
from standfast.govern.judge.signs.sayings import PHRASES

_WINDOW_WORDS: Final = 9
_WINDOW_BACK_WORDS: Final = 7
_MENTION_WINDOW_CHARS: Final = 140
_MENTIONED: Final = 0.35
# Kinds of which one can write without giving the order.
_CAN_BE_MENTIONED: Final = frozenset({"override", "role", "mode", "hijack", "exfiltration", "concealment"})
_DISCARDING: Final = orders.DISCARD | orders.DISCARD_WEAK
_LEAST_SQUEEZED_CHARS: Final = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectionFloor:
    """No orders to the model that will read the memory: to drop its rules, play a role, call tools, leak, or conceal.

    It knows set phrases (throwing orders away in some twenty languages, the rest mostly in English), the marks with
    which prompts are put together, hidden HTML, and leaking links, also under lookalike letters, leet, spaced-out
    letters, base64, hex, escapes, ROT13 and backwards. Text, subject, tags, source and refs are all read. An order
    that stands among words about attacks is taken for a quotation. It knows no orders in fresh words: a polite,
    indirect or translated wish passes, and so does an attack that calls itself an example of one.
    """

    name: str = "F6_Injection"
    threshold: float = 0.5
    hard: bool = True

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # A floor's signature.
        """1 less the certainty that somebody is giving orders."""
        if claim.is_overlong:
            return OVERLONG
        whole = claim.whole
        worst = _weighed([*marks_in(whole), *_said(whole)])
        if worst.score >= self.threshold:
            for inside in unmasked(whole):
                found = _weighed([*marks_in(inside), *_said(inside)])
                if found.score < worst.score:
                    worst = Finding(found.score, f"{found.reason}, in disguise")
        return worst


def _weighed(found: Iterable[tuple[str, float]]) -> Finding:
    """What all kinds together leave of doubt."""
    kinds: dict[str, float] = {}
    for kind, weight in found:
        kinds[kind] = max(weight, kinds.get(kind, 0.0))
    if not kinds:
        return CLEAN
    return Finding(prod(1 - weight for weight in kinds.values()), f"injection: {', '.join(sorted(kinds))}")


def _said(reading: TextReading) -> Iterator[tuple[str, float]]:
    """The kinds of orders that the words give, each with a weight."""
    folded, vocabulary = reading.folded, reading.vocabulary
    if not folded.isascii() and orders.UNSPACED_LETTERS.search(folded):
        for found in orders.UNSPACED.finditer(folded):
            yield "override", 0.8 * _share_given(folded, found.start(), "override")
        for kind, weight, pattern in orders.UNSPACED_WEAK:
            for found in pattern.finditer(folded):
                yield kind, weight * _share_given(folded, found.start(), kind)
    if (
        reading.longest_run_chars >= _LEAST_SQUEEZED_CHARS
        and any(map(folded.__contains__, orders.SQUEEZED_SIGNS))
        and orders.SQUEEZED.search(folded)
    ):
        yield "override", 0.9
    discards = not vocabulary.isdisjoint(_DISCARDING)
    phrases = PHRASES.possible(vocabulary)
    if not discards and not phrases:
        return
    said = spoken(reading)
    if discards:
        yield from _discarding(said)
    for phrase in phrases:
        for found in phrase.pattern.finditer(said):
            yield phrase.kind, phrase.weight * _share_given(said, found.start(), phrase.kind)


def _share_given(said: str, start: int, kind: str) -> float:
    """How much of a finding counts: less if its own sentence speaks of attacks before it comes, or quotes it first."""
    if kind not in _CAN_BE_MENTIONED or said[start : start + 2] == ". ":
        return 1.0
    before = said[max(0, start - _MENTION_WINDOW_CHARS) : start].rpartition(" . ")[2]
    quoted = before.endswith('" ') or said[start] == '"'
    after = said[start : start + _MENTION_WINDOW_CHARS].partition(" . ")[0] if quoted else ""
    company = f"{before} {after}"
    if orders.MENTIONS.isdisjoint(company.split()) and not any(
        map(company.__contains__, orders.MENTIONS_UNSPACED)
    ):
        return 1.0
    return _MENTIONED


def _discarding(said: str) -> Iterator[tuple[str, float]]:
    """A verb that throws away, with a word for orders close by, and what says which orders."""
    words = said.split(" ")
    start = 0
    for index, word in enumerate(words):
        weak = word in orders.DISCARD_WEAK
        if weak or word in orders.DISCARD:
            near = set(words[index + 1 : index + 1 + _WINDOW_WORDS])
            if not weak and word not in orders.DISCARD_ENGLISH:
                near.update(words[max(0, index - _WINDOW_BACK_WORDS) : index])
            elif not _is_an_order(words, index):
                near.clear()
            if sure := _sure(near, weak, words[index + 1 : index + 3]):
                yield "override", sure * _share_given(said, start, "override")
        start += len(word) + 1


def _sure(near: set[str], weak: bool, next_words: list[str]) -> float:
    """How sure a verb and its neighbours make us that orders are thrown away."""
    theirs = not near.isdisjoint(orders.YOURS) or not near.isdisjoint(orders.SAFETY)
    before = not near.isdisjoint(orders.BEFORE)
    if not near.isdisjoint(orders.ORDERS):
        if theirs or before:
            return 0.8 if weak else 0.9
        if weak:
            return 0.0
        return (
            0.9
            if not near.isdisjoint(orders.ALL)
            else 0.6
            if not orders.ORDERS.isdisjoint(next_words)
            else 0.0
        )
    if not near.isdisjoint(orders.ORDERS_WEAK):
        if theirs:
            return 0.6 if weak else 0.8
        return 0.8 if before and not weak else 0.0
    return 0.0


def _is_an_order(words: list[str], index: int) -> bool:
    """Whether an English verb stands as an order does: after a break, ``please``, ``you must`` and the like."""
    before = words[index - 1] if index else "."
    if before in orders.AFTER_A_SUBJECT:
        return (words[index - 2] if index > 1 else ".") in orders.YOU
    if before == "to":
        return (words[index - 2] if index > 1 else ".") in orders.BEFORE_TO
    return before in orders.LEADS_TO_AN_ORDER
