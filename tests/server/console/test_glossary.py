"""The page that explains every word: bands, verdicts, floors, roles, and the headings of all tables and
lists.
"""

import re

from standfast.govern.approvals.approvals import Decision
from standfast.govern.judge import FloorRegistry
from standfast.records.origins import Origin
from standfast.records.vocabulary import Band, Verdict
from standfast.server.access.permissions import KeyRole
from standfast.server.console.glossary import sections
from standfast.server.console.rendering import FLOOR_LABELS
from tests.server.console.conftest import BrowserClient, words_of
from tests.server.console.sample_server import SampleServer

EXPLAINED = {term.word.lower() for terms in sections().values() for term in terms}
# Headings that everybody knows.
EVERYDAY = {"from", "to", "valid until", "memories", "last message"}


def _is_explained(heading: str) -> bool:
    """Whether the words of a heading are explained: as a whole, in the singular, or by the words that it is
    made of.
    """
    words = heading.lower().strip()
    forms = {words, words.removesuffix("s"), words.removeprefix("in ")}
    parts = [part for part in re.split(r"\W+", words) if part not in ("in", "of", "")]
    return bool(forms & (EXPLAINED | EVERYDAY)) or (
        bool(parts) and all({part, part.removesuffix("s")} & EXPLAINED for part in parts)
    )


def test_every_heading_of_a_table_or_list_is_explained(
    harness: SampleServer, operator: BrowserClient
) -> None:
    headings = set[str]()
    for name, address in harness.pages().items():
        if name != "words":
            text = operator.get(address).text
            headings |= set(re.findall(r"<(?:th|dt)[^>]*>([^<]+)</", text))

    assert len(headings) > 50
    assert sorted(heading for heading in headings if not _is_explained(heading)) == []


def test_every_word_of_the_contract_has_a_plain_one() -> None:
    plain = {(term.data, term.word) for terms in sections().values() for term in terms}
    floors = {floor.name for floor in FloorRegistry.shipped()}

    assert {(one.value, one.label) for one in (*Band, *Verdict)} <= plain
    assert {(name, FLOOR_LABELS[name]) for name in floors} <= plain
    assert len(floors) == 9
    assert {*KeyRole, *Origin, *(decision.value for decision in Decision)} <= EXPLAINED


def test_the_page_shows_words_and_the_contracts_words(operator: BrowserClient) -> None:
    page = words_of(operator.get("/console/words"))

    assert "long-term memory What was accepted. Recall reads it and law. LEDGER" in page
    assert "What the words mean" in words_of(operator.get("/console/"))


def test_sizes_have_one_unit_on_all_pages(harness: SampleServer, operator: BrowserClient) -> None:
    """KiB is 1,024 bytes; no page says kB or KB for it."""
    for name in ("home", "bench"):
        text = words_of(operator.get(harness.pages()[name]))

        assert not re.search(r"\b[kKMG]B\b", text)
        assert "KiB" in text
