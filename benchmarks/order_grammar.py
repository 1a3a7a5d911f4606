"""Orders to memory, and ordinary sentences in their words, composed from a grammar with a seed.

The grammar (``tests/govern/order-grammar.json``) was written in one go by somebody who had read no rule
and no word table of the judge, and committed before it was measured. A *frame* is one wording, with slots.
"""

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

FILE: Final = Path(__file__).parents[1] / "tests/govern/order-grammar.json"
_EACH: Final = 3


class Sentence(NamedTuple):
    """A drawn sentence: what it is meant to do (empty for a fact), its language, its frame and its text."""

    family: str
    language: str
    frame: str
    text: str


def sentences() -> Iterator[Sentence]:
    """At most three different sentences of every frame, the same in every run."""
    grammar: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    dice = random.Random(grammar["seed"])

    def filled(frame: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda slot: dice.choice(grammar["slots"][slot[1]]), frame)

    for family, languages in {**grammar["orders"], "": grammar["facts"]}.items():
        for language, frames in languages.items():
            for frame in frames:
                for text in sorted({filled(frame) for _ in range(_EACH)}):
                    yield Sentence(family, language, frame, text)
