"""What pages are made of: counts, charts, differences of texts, and that nothing stored is taken for markup."""

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.memory import Memory
from standfast.server.console.charts import HEIGHT, WIDTH, line_chart, nice, shares
from standfast.server.console.rendering import bytes_text, instant_text, link, render, seen, word_pieces
from standfast.server.console.tally import Tallies

TEMPLATES = Path(__file__).parents[3] / "src" / "standfast" / "server" / "console" / "templates"
few = settings(max_examples=60)
TEXTS = st.text(alphabet="ab c.\n<é", max_size=40)


@given(before=TEXTS, after=TEXTS)
@few
def test_a_difference_holds_both_texts(before: str, after: str) -> None:
    pieces = word_pieces(before, after)

    assert "".join(text for kind, text in pieces if kind != "come") == before
    assert "".join(text for kind, text in pieces if kind != "gone") == after


def test_a_difference_of_very_long_texts_is_told_by_lines_and_then_as_a_whole() -> None:
    by_lines = word_pieces("a b c\n" * 1_000 + "x", "a b c\n" * 1_000 + "y")
    whole = word_pieces("a\n" * 5_000, "b\n" * 5_000)

    assert [kind for kind, _ in by_lines] == ["same", "gone", "come"]
    assert [kind for kind, _ in whole] == ["gone", "come"]


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=80))
@few
def test_a_chart_stays_in_its_frame(values: list[float]) -> None:
    chart = line_chart([("one", values)], [str(number) for number in range(len(values))], filled=True)

    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y, _ in chart.series[0].dots)
    assert len({tick.at for tick in chart.columns}) == len(chart.columns) <= 6


@given(st.floats(1e-9, 1e15))
@few
def test_an_axis_ends_at_a_round_number_that_is_not_too_far(value: float) -> None:
    assert value * (1 - 1e-9) <= nice(value) <= value * 2.000001


@given(st.lists(st.integers(0, 10_000), max_size=8))
@few
def test_shares_fill_the_bar(values: list[int]) -> None:
    drawn = shares([(str(number), value) for number, value in enumerate(values)])

    assert not drawn or abs(sum(one.width for one in drawn) - 1000) < 0.1
    assert [one.value for one in drawn] == [value for value in values if value]


def test_sizes_and_instants_read_as_people_say_them() -> None:
    assert [bytes_text(size) for size in (0, 1_023, 1_024, 5 << 20, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]
    assert instant_text("2026-01-02T03:04:05.678901Z") == "2026-01-02 03:04:05 UTC"
    assert instant_text("yesterday") == "yesterday"
    assert instant_text(None) == "—"


@given(st.text(alphabet="a b\n\x00\x1b\x7f\x85\u200b\u200f\u202e\u2066\ufeff\ud800é", max_size=30))
@few
def test_nothing_unseen_is_left_in_what_is_shown(text: str) -> None:
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", seen(text)
    )


def test_an_address_says_what_was_given_and_escapes_it() -> None:
    assert link("memory", "a b&c", q="<x>", at=None) == "/console/memory?in=a+b%26c&q=%3Cx%3E"


def test_no_template_lets_anything_through_unescaped() -> None:
    words = re.compile(r"\|\s*safe|autoescape|Markup|style=|<script(?! src)|\son\w+=|javascript:")

    assert [
        path.name for path in sorted(TEMPLATES.iterdir()) if words.search(path.read_text(encoding="utf-8"))
    ] == []


@given(st.text(alphabet="<>&\"'{}%$`/ a", max_size=30))
@few
def test_whatever_an_error_says_is_text_on_its_page(text: str) -> None:
    around = {"caller": None, "title": None, "here": None, "version": "1", "namespace": None}
    problem = {"title": text, "status": 400, "detail": text, "code": "x"}
    page = render("error.html", {**around, "problem": problem})
    plain = render("error.html", {**around, "problem": {**problem, "title": "", "detail": ""}})

    assert page.count("<") == plain.count("<")
    assert page.count(">") == plain.count(">")
    assert page.count('"') == plain.count('"')


CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["write", "forget"]), st.integers(0, 99)), max_size=5
)


@given(CHANGES)
@settings(max_examples=10)
def test_counting_on_gives_what_counting_anew_does(changes: list[tuple[str, str, int]]) -> None:
    tallies = Tallies()
    with Memory.open(":memory:") as memory:
        tallies.of(memory)
        for subject, what, number in changes:
            with memory.run(workflow="w", mode="buffered_write") as run:
                if what == "write":
                    source = {"kind": "doc", "id": "d"}
                    run.remember(f"EdgeMiddleware {number} opens at noon.", subject=subject, source=source)
                elif any(record.subject == subject for record in memory.records()):
                    run.forget(subject, reason="asked to")
            tallies.of(memory)
        counted, anew = tallies.of(memory), Tallies().of(memory)

        assert counted.verdicts == anew.verdicts
        assert [(one.records, one.size_bytes) for one in counted.bands.values()] == [
            (one.records, one.size_bytes) for one in anew.bands.values()
        ]
        assert counted.growth == anew.growth
        assert counted.growth[0].records == 0
        assert counted.records == sum(1 for _ in memory.records())
