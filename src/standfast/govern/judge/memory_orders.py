"""Orders to memory: a text that says what a user wants, or what is to be done from now on.

Said by the user, it is a preference. From an untrusted source, ``F9_Authority`` refuses it. Three tables are
searched: whole phrases (``data/standing.phrases``), acts where a clause begins, with what they are about
(``data/memory_acts.phrases``), and the parts that orders are made of, in any words
(``data/order_parts.phrases``). One part is ordinary. The combinations in ``_ORDERS`` are orders, if their
parts stand within ``_WINDOW_CHARS`` of each other and do not overlap.
"""

import re
from functools import cache
from typing import Final

from standfast.govern.judge.claim import Claim
from standfast.govern.judge.phrases import Phrasebook, spoken
from standfast.govern.judge.tables import WordTable, read_phrases
from standfast.govern.judge.text_reading import TextReading, word_set

# Subjects and tags under which agents keep what they are to do from now on.
_STANDING: Final = WordTable("floors.words").words("standing")
_UNSPACED_LETTERS: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
# "If the user wants" does not say that they do.
_CONDITIONS: Final = word_set("if when whether what how where which those unless until once")
# An order and what it is about stand in one sentence, or in two short ones.
_STEP_CHARS: Final = 80
_ORDERS: Final = (
    ("keep", "own memory"),
    ("keep", "later talks"),
    ("keep", "lasting", "profile"),
    ("keep", "lasting", "user"),
    ("keep this", "profile", "user"),
    ("change", "own memory"),
    ("change", "kept data"),
    ("tell", "again"),
    ("tell", "later talks"),
    ("habit", "answers"),
    ("habit", "lasting"),
    ("habit", "later talks"),
    ("habit", "again"),
    ("habit", "tell"),
    ("its principal", "keep"),
    ("its principal", "tell"),
    ("its principal", "decided"),
    ("its principal", "lasting"),
    ("to the reader", "keep"),
    ("to the reader", "change"),
    ("to the reader", "tell"),
    ("to the reader", "lasting"),
    ("open with", "own answers", "lasting"),
    ("open with", "own answers", "later talks"),
    ("open with", "own answers", "next time"),
    ("next time", "tell"),
    ("remember", "future requests"),
    ("remember", "next time"),
    ("remember", "trusted source"),
    ("remember", "put first"),
    ("remember", "next word"),
    ("own memory", "next word"),
    ("silently", "next word"),
    ("silently", "keep this"),
)
"""The parts that are an order if they stand together."""


@cache
def standing_phrases() -> Phrasebook:
    """Phrases that tell memory what a user wants, or what is to be done from now on."""
    return Phrasebook(*read_phrases("standing.phrases"), *read_phrases("memory_acts.phrases"))


@cache
def order_parts() -> Phrasebook:
    """Parts of which orders to memory are made; the kind of a phrase is the name of its part."""
    return Phrasebook(*read_phrases("order_parts.phrases"))


@cache
def _unspaced_orders() -> re.Pattern[str]:
    return re.compile("|".join(line for _, _, line in read_phrases("standing_unspaced.forms")))


def is_order_to_memory(claim: Claim) -> bool:
    """Whether a text says what a user wants, or what is to be done from now on: by subject, tags or words."""
    named = {*(claim.record.subject or "").lower().split("/")[:-1], *claim.record.tags}
    return not _STANDING.isdisjoint(named) or any(map(_gives_orders, claim.fields))


def _gives_orders(field: TextReading) -> bool:
    phrases = standing_phrases().possible(field.vocabulary)
    parts = order_parts().possible(field.vocabulary)
    text = spoken(field) if phrases or parts else ""
    for phrase in phrases:
        for found in phrase.pattern.finditer(text):
            before = text[: found.start()].rpartition(" ")[0].rpartition(" ")[2]
            if phrase.kind != "preference" or before not in _CONDITIONS:
                return True
    passages: dict[str, set[int]] = {}
    for part in parts:
        for found in part.pattern.finditer(text):
            step = found.start() // _STEP_CHARS
            passages.setdefault(part.kind, set()).update((step - 1, step))
    if any(set.intersection(*(passages.get(kind, set()) for kind in order)) for order in _ORDERS):
        return True
    folded = field.folded
    if folded.isascii() or _UNSPACED_LETTERS.search(folded) is None:
        return False
    return _unspaced_orders().search(folded) is not None
