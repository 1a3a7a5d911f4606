"""What was said last about a matter: of whom it counts, how it is dated, and which texts are nearly equal."""

import pytest

from standfast.recall.analysis import IndexedRecord
from standfast.recall.newest_first import LATER_CHARS, SaidLast, are_nearly_equal
from standfast.records.statements import PlainStatement
from standfast.records.vocabulary import Verdict


def said(
    memory_id: str, value: str, ts_utc: str | None = "2026-05-07T09:30:00Z", **fields: object
) -> IndexedRecord:
    """A record that says where somebody lives."""
    statement = PlainStatement("ada", "home", value)
    given: dict[str, object] = {
        "text": f"Ada lives in {value}.",
        "origin": "ordinary",
        "scope": "shared",
        **fields,
    }
    return IndexedRecord(memory_id=memory_id, ts_utc=ts_utc, statements=(statement,), **given)  # type: ignore[arg-type]  # Fields.


def later(record: IndexedRecord, *others: IndexedRecord, snapshot: int = 1) -> tuple[str, str] | None:
    """What is shown beside a record of a snapshot, if the others were written in this order after it."""
    last = SaidLast()
    last.note(record, snapshot)
    for number, other in enumerate(others, snapshot + 1):
        last.note(other, number)
    found = last.later_than(record, snapshot)
    return None if found is None else (found.memory_id, found.text)


OSLO = said("oslo", "oslo")


def test_something_else_that_was_said_later_is_shown_with_its_date() -> None:
    rome = said("rome", "rome", "2026-05-08T10:05:00Z")

    assert later(OSLO, rome) == ("rome", "2026-05-08: Ada lives in rome.")
    assert later(rome, OSLO) is None
    assert later(OSLO, said("same", "oslo", "2026-05-08T10:05:00Z")) is None
    assert later(OSLO) is None


def test_on_one_day_the_time_is_shown_too_as_it_was_where_it_was_said() -> None:
    assert later(OSLO, said("rome", "rome", "2026-05-07T10:05:00Z")) == (
        "rome",
        "2026-05-07 10:05: Ada lives in rome.",
    )
    assert later(OSLO, said("rome", "rome", "2026-05-07T10:05:00Z", utc_offset=120)) == (
        "rome",
        "2026-05-07 12:05: Ada lives in rome.",
    )


def test_at_one_time_the_snapshot_decides_and_then_the_place_in_the_conversation() -> None:
    rome = said("rome", "rome")

    assert later(OSLO, rome) is not None
    assert later(said("oslo", "oslo", position=4), rome, snapshot=7) is not None
    last = SaidLast()
    first, second = said("a", "oslo", position=1), said("b", "rome", position=2)
    for record in (second, first):
        last.note(record, 5)
    assert last.later_than(second, 5) is None
    found = last.later_than(first, 5)
    assert found is not None
    assert found.memory_id == "b"


def test_without_a_time_there_is_no_date() -> None:
    assert later(said("a", "oslo", None), said("b", "rome", None)) == ("b", "no date: Ada lives in rome.")


@pytest.mark.parametrize(
    "fields",
    [{"origin": "untrusted"}, {"verdict": "PARTIAL"}, {"verdict": Verdict.HOLD.value}, {"scope": "other"}],
)
def test_what_is_untrusted_or_not_reviewed_or_of_another_scope_is_not_said_last(
    fields: dict[str, str],
) -> None:
    assert later(OSLO, said("rome", "rome", "2026-05-08T10:05:00Z", **fields)) is None


def test_beside_what_is_untrusted_nothing_is_shown() -> None:
    rome = said("rome", "rome", "2026-05-08T10:05:00Z")

    assert later(said("x", "oslo", origin="untrusted"), rome) is None
    assert later(said("x", "oslo", verdict="PARTIAL"), rome) is not None


def test_of_a_long_text_whole_words_are_shown() -> None:
    def shown(text: str) -> str:
        found = later(OSLO, said("rome", "rome", "2026-05-08T10:05:00Z", text=text))
        assert found is not None
        return found[1].removeprefix("2026-05-08: ")

    assert shown("ab " * 26 + "cd") == "ab " * 26 + "cd"
    assert len("ab " * 26 + "cd") == LATER_CHARS
    assert shown("ab " * 26 + "cde") == "ab " * 25 + "ab…"
    assert shown("Ada  lives\nin Rome.") == "Ada lives in Rome."


@pytest.mark.parametrize(
    ("words", "others", "are"),
    [
        ("a b c", "a b c", True),
        ("a b c", "a b d", True),
        ("a b c d", "a b e", False),
        ("a b c d e", "a b c f", True),
        ("a", "a", False),
        ("a b", "a b", True),
        ("a b", "a c", False),
    ],
)
def test_texts_are_nearly_equal_if_they_share_two_words_and_half_of_all(
    words: str, others: str, are: bool
) -> None:
    assert are_nearly_equal(frozenset(words.split()), frozenset(others.split())) is are
