"""Statistics, charts, and escaping."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from standfast.memory import Memory
from standfast.records.vocabulary import Band
from standfast.server.console.charts import HEIGHT, WIDTH, line_chart, nice
from standfast.server.console.namespace_stats import StatsCache, What
from standfast.server.console.rendering import bytes_text, link, render, subject_name, timestamp_text, visible

TEMPLATES = Path(__file__).parents[3] / "src" / "standfast" / "server" / "console" / "templates"
few = settings(max_examples=60)


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=80))
@few
def test_a_chart_stays_inside_its_frame(values: list[float]) -> None:
    chart = line_chart([("one", values)], [str(number) for number in range(len(values))], filled=True)

    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y, _ in chart.series[0].dots)
    assert len({tick.at for tick in chart.columns}) == len(chart.columns) <= 6


@given(st.floats(1e-9, 1e15))
@few
def test_an_axis_ends_at_a_near_round_number(value: float) -> None:
    assert value * (1 - 1e-9) <= nice(value) <= value * 2.000001


def test_sizes_and_timestamps_are_readable() -> None:
    assert [bytes_text(size) for size in (0, 1_023, 1_024, 5 << 20, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]
    assert timestamp_text("2026-01-02T03:04:05.678901Z") == "2026-01-02 03:04:05 UTC"
    assert timestamp_text("yesterday") == "yesterday"
    assert timestamp_text(None) == "—"


@given(st.text(alphabet="a b\n\x00\x1b\x7f\x85\u200b\u200f\u202e\u2066\ufeff\ud800é", max_size=30))
@few
def test_invisible_characters_are_spelled_out(text: str) -> None:
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]", visible(text)
    )


def test_an_address_contains_the_given_fields_escaped() -> None:
    assert link("search", "a b&c", q="<x>", at=None) == "/console/search?in=a+b%26c&q=%3Cx%3E"


def test_no_template_turns_escaping_off() -> None:
    words = re.compile(r"\|\s*safe|autoescape|Markup|style=|<script(?! src)|\son\w+=|javascript:")

    assert [
        path.name for path in sorted(TEMPLATES.iterdir()) if words.search(path.read_text(encoding="utf-8"))
    ] == []


@given(st.text(alphabet="<>&\"'{}%$`/ a", max_size=30))
@few
def test_the_text_of_an_error_is_escaped(text: str) -> None:
    layout = {
        "caller": None,
        "title": None,
        "current": None,
        "group": None,
        "version": "1",
        "namespace": None,
    }
    problem = {"title": text, "status": 400, "detail": text, "code": "x"}
    page = render("error.html", {**layout, "problem": problem})
    plain = render("error.html", {**layout, "problem": {**problem, "title": "", "detail": ""}})

    assert page.count("<") == plain.count("<")
    assert page.count(">") == plain.count(">")
    assert page.count('"') == plain.count('"')


CHANGES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["write", "forget"]), st.integers(0, 99)), max_size=5
)


@given(CHANGES)
@settings(max_examples=10)
def test_incremental_statistics_equal_a_full_count(changes: list[tuple[str, str, int]]) -> None:
    stats = StatsCache()
    with Memory.open(":memory:") as memory:
        stats.of(memory)
        for subject, what, number in changes:
            with memory.run(workflow="w", mode="buffered_write") as run:
                if what == "write":
                    source = {"kind": "doc", "id": "d"}
                    run.remember(f"Gate {number} opens at noon.", subject=subject, source=source)
                elif any(record.subject == subject for record in memory.records()):
                    run.forget(subject, reason="asked to")
            stats.of(memory)
        counted, anew = stats.of(memory), StatsCache().of(memory)

        assert [(one.records, one.size_bytes) for one in counted.bands.values()] == [
            (one.records, one.size_bytes) for one in anew.bands.values()
        ]
        assert counted.memories == anew.memories == sum(1 for _ in memory.records(band=Band.LEDGER))
        assert sum(one.what is What.STORED for one in counted.recent) == sum(
            what == "write" for _, what, _ in changes
        )


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("policy/warranty", "policy/warranty"),
        ("policy/warranty~b4549602ee93", "policy/warranty"),
        ("m-35ff8581b828045ae4535b7600000001", "details"),
        ("m-35ff8581b828045ae4535b7600000001~b46377a41022", "details"),
        ("plan~b", "plan~b"),
    ],
)
def test_a_link_names_a_subject_and_no_digest(name: str, shown: str) -> None:
    assert subject_name(name) == shown


@pytest.mark.parametrize("most", range(1, 60))
def test_an_axis_of_counts_names_whole_numbers(most: int) -> None:
    rows = line_chart([("waiting", [0, most])], ["a", "b"]).rows

    assert all(row.label.isdigit() for row in rows), [row.label for row in rows]
    assert 2 <= len(rows) <= 6
