"""Reports have every file that the document names, and their figures agree with the results."""

import csv
import io
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from standfast import Settings
from standfast.bench.commands import BYTE_MODELS, REGIMES
from standfast.bench.commands import CONDITIONS as CLI_CONDITIONS
from standfast.bench.commands import GROUPINGS as CLI_GROUPINGS
from standfast.bench.conditions import CONDITIONS
from standfast.bench.episodes import write_jsonl
from standfast.bench.grid import read_results
from standfast.bench.leaderboard import (
    GROUPINGS,
    group_rows,
    pairs_csv,
    rank_policies,
    result_table,
    size_name,
)
from standfast.bench.report import _counted, _interval, regret_over_time
from standfast.bench.sources.synthetic import Regime
from standfast.cli import main
from standfast.errors import InvalidSettings
from standfast.policies import ByteModel, policy_names
from tests.bench.episodes import small_episode

POLICIES = ["AlwaysWrite", "AlwaysWrite@privileged", "DriftValue", "OracleOptimal"]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished grid."""
    folder = tmp_path_factory.mktemp("grid")
    write_jsonl(folder / "e.jsonl", [small_episode(50, number=number) for number in range(4)])
    arguments = [part for policy in POLICIES for part in ("--policy", policy)]
    budgets = ["--budget", "1024", "--budget", "10240"]
    run = CliRunner().invoke(
        main,
        [
            "bench",
            "run",
            str(folder / "e.jsonl"),
            "--out",
            str(folder),
            "--workers",
            "1",
            *arguments,
            *budgets,
            "--json",
        ],
    )
    assert run.exit_code == 0, run.output
    assert json.loads(run.output)["rows"] == 4 * 2 * 4
    return folder


@pytest.fixture(scope="module")
def files(results: Path) -> list[str]:
    """The files of its report."""
    result = CliRunner().invoke(main, ["bench", "report", str(results), "--json"])
    written: list[str] = json.loads(result.output)["files"]
    return written


def test_the_report_has_every_file_that_the_document_names(results: Path, files: list[str]) -> None:
    for policy in ("AlwaysWrite", "AlwaysWrite@privileged", "DriftValue", "OracleOptimal"):
        for name in (
            "recall_at_budget.csv",
            "confusion_matrix.csv",
            "utility_per_kb.json",
            "regret_curve.png",
        ):
            assert f"{policy}/{name}" in files
    boards = {f"leaderboard{by}.{form}" for by in ("", "_by_length", "_by_source") for form in ("csv", "md")}
    assert {*boards, "pairs.csv", "report.html"} <= set(files)
    folder = results / "report"
    for form, start, count in (("png", b"\x89PNG", 4), ("svg", b"<?xml", 4), ("pdf", b"%PDF", 4)):
        pictures = list(folder.rglob(f"*.{form}"))
        assert len(pictures) == count
        assert all(picture.read_bytes().startswith(start) for picture in pictures)
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") == 4
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)


def test_the_tables_of_a_report_agree(results: Path, files: list[str]) -> None:
    matrix = list(
        csv.DictReader(io.StringIO((results / "report/DriftValue/confusion_matrix.csv").read_text()))
    )
    names = ("true_positives", "false_positives", "false_negatives", "true_negatives")

    assert [sum(int(row[name]) for name in names) for row in matrix] == [200, 200]
    recall = list(
        csv.DictReader(io.StringIO((results / "report/OracleOptimal/recall_at_budget.csv").read_text()))
    )
    assert [row["budget_bytes"] for row in recall] == ["1024", "10240"]
    assert all(
        float(row["mean_recall_low"]) <= float(row["mean_recall"]) <= float(row["mean_recall_high"])
        for row in recall
    )


def test_the_page_says_what_it_can_tell_and_repeats_no_table(results: Path, files: list[str]) -> None:
    page = (results / "report" / "report.html").read_text(encoding="utf-8")

    assert "What this can tell, and what not" in page
    assert "All episodes are of one length" in page
    assert page.count(" episodes at ") == page.count("<h3>")
    assert re.search(r"of \d+ steps", page)
    for place in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{place}"' in page


def test_the_same_results_make_the_same_report(results: Path, files: list[str], tmp_path: Path) -> None:
    CliRunner().invoke(main, ["bench", "report", str(results), "--out", str(tmp_path)])

    first, again = (
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}
        for folder in (results / "report", tmp_path)
    )
    assert first == again
    assert len(first) >= len(files)


@pytest.mark.parametrize("form", ["table", "csv", "markdown"])
def test_the_leaderboard_is_printed_in_three_forms(results: Path, form: str) -> None:
    result = CliRunner().invoke(
        main, ["bench", "leaderboard", str(results), "--format", form, "--budget", "1024"]
    )

    assert result.exit_code == 0
    assert result.output.index("OracleOptimal") < result.output.index("AlwaysWrite")


def test_the_leaderboard_is_json_too_and_an_unknown_budget_is_reported(results: Path) -> None:
    result = json.loads(CliRunner().invoke(main, ["bench", "leaderboard", str(results), "--json"]).output)
    wrong = CliRunner().invoke(main, ["bench", "leaderboard", str(results), "--budget", "5"])

    assert result["budget_bytes"] == 10_240
    assert {one["policy"] for one in result["standings"]} == {"AlwaysWrite", "DriftValue", "OracleOptimal"}
    assert wrong.exit_code == 2
    assert "no run had 5 bytes" in wrong.stderr


def test_a_condition_has_a_leaderboard_by_its_own_metric(results: Path, tmp_path: Path) -> None:
    arguments = [
        "--out",
        str(tmp_path),
        "--condition",
        "retrieval",
        "--policy",
        "DriftValue",
        "--workers",
        "1",
    ]
    assert CliRunner().invoke(main, ["bench", "run", str(results / "e.jsonl"), *arguments]).exit_code == 0
    result = CliRunner().invoke(main, ["bench", "leaderboard", str(tmp_path)])

    assert "retrieval_at_5" in result.output
    for form in ("csv", "markdown"):
        printed = CliRunner().invoke(main, ["bench", "leaderboard", str(tmp_path), "--format", form]).output
        assert "retrieval_at_5" in printed.splitlines()[0]
    report = CliRunner().invoke(main, ["bench", "report", str(tmp_path), "--json"])
    assert {"report.html", "retrieval_at_5.svg", "retrieval_at_5_against_budget.pdf", "pairs.csv"} <= set(
        json.loads(report.output)["files"]
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"band_policies": {"LEDGER": "Nobody"}},
        {"band_policies": {"VAULT": "DriftValue"}},
        {"band_budgets_bytes": {"ACTIVE": 0}},
    ],
)
def test_settings_without_a_policy_or_a_budget_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidSettings):
        Settings(**wrong)  # type: ignore[arg-type]


def test_without_the_extra_the_pip_command_is_named(results: Path) -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\nfrom standfast.cli import main; main(sys.argv[1:])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program, "bench", "report", str(results)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 2
    assert "pip install 'standfast[bench]'" in result.stderr


def test_episodes_are_made_imported_and_checked_from_the_command_line(tmp_path: Path) -> None:
    runner, folder = CliRunner(), str(tmp_path / "e")
    log = tmp_path / "CHANGES.md"
    log.write_text(
        "## 1.1.0 (May 2, 2026)\n- Remove `x`\n## 1.0.0 (May 1, 2026)\n- Add `x`\n", encoding="utf-8"
    )
    made = runner.invoke(main, ["bench", "generate", folder, "--steps", "20", "--episodes", "2", "--json"])
    imported = runner.invoke(
        main, ["bench", "import", "changelog", str(log), "--out", f"{folder}/c.jsonl", "--json"]
    )

    assert json.loads(made.output)["episodes"] == 2
    assert json.loads(imported.output) | {"file": "", "sha256": ""} == {
        "episodes": 1,
        "file": "",
        "steps": 2,
        "critical": 1,
        "sha256": "",
        "skipped": [],
    }
    assert runner.invoke(main, ["bench", "manifest", folder, "--write"]).exit_code == 0
    assert runner.invoke(main, ["bench", "manifest", folder]).exit_code == 0
    (tmp_path / "e" / "c.jsonl").write_bytes(b"{}\n")
    assert runner.invoke(main, ["bench", "manifest", folder]).exit_code == 1
    assert runner.invoke(main, ["bench", "generate", folder, "--regime", "adversarial"]).exit_code == 2
    assert runner.invoke(main, ["bench", "import", "openapi", "--out", "x"]).exit_code == 2


def test_the_report_of_answers_has_their_correlations(results: Path, tmp_path: Path) -> None:
    options = ["--out", str(tmp_path), "--condition", "answers", "--budget", "3000", "--workers", "1"]
    policies = ["--policy", "DriftValue", "--policy", "RecencyBias", "--policy", "NeverWrite"]
    run = CliRunner().invoke(main, ["bench", "run", str(results / "e.jsonl"), *options, *policies])
    report = CliRunner().invoke(main, ["bench", "report", str(tmp_path), "--json"])

    assert run.exit_code == 0
    assert "correlations.csv" in json.loads(report.output)["files"]
    assert "Rank correlation with answers" in (tmp_path / "report/report.html").read_text(encoding="utf-8")


def test_a_column_that_only_some_episodes_have_is_a_mean_over_those() -> None:
    rows = [
        {
            "condition": "hierarchical",
            "file": "e",
            "line": line,
            "steps": 9,
            "policy": "P",
            "track": "t",
            "budget_bytes": 9,
            "mode": "docs",
        }
        | {"balanced_recall": 0.5, "recall_docs": docs, "bytes_docs": 3}
        for line, docs in enumerate((0.25, None, 0.75))
    ]
    table = result_table(rows, 9)

    assert table.headings == ("Place", "Policy", "Track", "balanced_recall", "recall_docs")
    assert table.lines == [["1", "P", "t", "0.500 [0.500, 0.500]", "0.500"]]
    assert "Labels of documentation have a precision of 0.21" in table.notes[1]


def test_sizes_have_units() -> None:
    assert [size_name(n) for n in (100, 1_024, 10_240, 1 << 20)] == ["100 B", "1 KB", "10 KB", "1 MB"]


def _row(policy: str, line: int, recall: float, *, seed: int = 0, steps: int = 100) -> dict[str, Any]:
    names = ("f1", "utility_per_kb", "avg_staleness", "regret", "utility", "oracle_utility")
    head = {"condition": "plain", "file": "f", "line": line, "steps": steps, "seed": seed, "mode": "m"}
    entrant = {"policy": policy, "track": "unprivileged", "budget_bytes": 1_024}
    source = {"source": "odd" if line % 2 else "even"}
    return {**head, **entrant, **source, **dict.fromkeys(names, 0.5), "recall": recall}


def test_an_episode_counts_once_however_many_seeds_ran() -> None:
    rows = [_row("RandomPolicy", line, (line + seed) / 10, seed=seed) for line in range(4) for seed in (0, 2)]
    (row,) = rank_policies(rows, 1_024)

    assert row.recall.episodes == 4
    assert row.recall.value == pytest.approx(0.25)


def test_an_order_is_shown_only_where_it_is_significant() -> None:
    rows = [
        _row(policy, line, score + line % 3 / 100, steps=100 if line < 9 else 1_000)
        for policy, score in (("A", 0.9), ("B", 0.1), ("C", 0.1))
        for line in range(18)
    ]
    table = result_table(rows, 1_024)

    assert [line[:2] for line in table.lines] == [["1", "A"], ["2-3", "B"], ["2-3", "C"]]
    assert table.title == "all: 18 episodes at 1 KB"
    assert list(group_rows(rows, "length")) == ["short", "medium"]
    assert {name: len(own) for name, own in group_rows(rows, "source").items()} == {"even": 27, "odd": 27}
    assert "A,B,0.8,0.8,0.8,5e-05,0.00015,18,18" in pairs_csv(rows, 1_024).splitlines()


def test_leaderboards_by_group_are_printed_in_every_form(results: Path) -> None:
    for form in ("table", "csv", "markdown"):
        printed = CliRunner().invoke(
            main, ["bench", "leaderboard", str(results), "--by", "length", "--format", form]
        )
        assert "short: 4 episodes" in printed.output
    groups = json.loads(
        CliRunner().invoke(main, ["bench", "leaderboard", str(results), "--by", "source", "--json"]).output
    )
    assert list(groups["groups"]) == ["synthetic"]


def test_the_choices_of_the_command_line_are_those_of_the_benchmark() -> None:
    assert list(REGIMES) == [regime.value for regime in Regime]
    assert list(CLI_CONDITIONS) == list(CONDITIONS)
    assert CLI_GROUPINGS == GROUPINGS
    assert list(BYTE_MODELS) == [model.value for model in ByteModel]


def test_a_caption_is_never_wider_than_its_figure(results: Path) -> None:
    """Measured by the renderer: all of the text lies inside the picture."""
    curves = read_results(results, "curves.jsonl")
    plot = regret_over_time(curves, 10_240, ["DriftValue"])
    canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(plot.figure)
    canvas.draw()
    label = plot.figure._supxlabel
    box = label.get_window_extent(canvas.get_renderer())

    assert plot.text in label.get_text().replace("\n", " ")
    assert box.x0 >= 0
    assert box.x1 <= plot.figure.bbox.width


@pytest.mark.parametrize("columns", [40, 60, 200])
def test_the_terminals_table_cuts_no_figure(
    results: Path, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns that do not fit are left out and named."""
    monkeypatch.setenv("COLUMNS", str(columns))
    shown = CliRunner().invoke(main, ["bench", "leaderboard", str(results)]).output
    wide = "Of best" in shown.splitlines()[1]

    assert "…" not in shown
    assert wide == (columns == 200)
    assert wide or "in a wider terminal" in shown
    assert "Compared:" in shown


def test_a_policy_of_ones_own_runs_beside_the_shipped_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document's example writes nothing without hints, and the command says why."""
    text = (
        "from standfast.policies import write\n\nclass Printed:\n    def select(self, step, store):\n"
        "        if step.metadata.get('breaking_change'):\n            yield write(step)\n"
    )
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    write_jsonl(tmp_path / "e.jsonl", [small_episode(10)])
    runner = CliRunner()
    common = ["bench", "run", str(tmp_path / "e.jsonl"), "--workers", "1", "--no-curves", "--budget", "1024"]
    run = runner.invoke(main, [*common, "--policy", "mine:Printed", "--out", str(tmp_path / "a")])
    only = runner.invoke(main, [*common, "--policy", "mine:Printed", "--only", "--out", str(tmp_path / "b")])

    assert len(read_results(tmp_path / "a")) == 1 + len(policy_names())
    assert "mine:Printed stored nothing" in run.output
    assert "mine:Printed@privileged" in run.output
    assert "NeverWrite stored nothing" not in run.output
    assert len(read_results(tmp_path / "b")) == 1, only.output


def test_one_history_is_ranked_in_three_commands(tmp_path: Path) -> None:
    notes = "".join(
        f"\n## {n // 9}.{n % 9}.0\n\n- Removed the option number {n}\n"
        + "".join(f"- Added thing {n} {m} of some length\n" for m in range(5))
        for n in range(1, 100)
    )
    (tmp_path / "CHANGELOG.md").write_text(notes, encoding="utf-8")
    runner = CliRunner()
    file, out = str(tmp_path / "e.jsonl"), str(tmp_path / "results")
    made = runner.invoke(
        main, ["bench", "import", "changelog", str(tmp_path / "CHANGELOG.md"), "--out", file]
    )
    run = runner.invoke(
        main,
        ["bench", "run", file, "--out", out, "--workers", "1", "--no-curves", "--budget", "1024",
         "--policy", "DriftValue", "--policy", "RecencyBias", "--policy", "NeverWrite"],
    )  # fmt: skip
    table = json.loads(runner.invoke(main, ["bench", "leaderboard", out, "--json"]).output)

    assert "windows" in made.output
    assert run.exit_code == 0
    assert [(row["policy"], row["best_place"], row["worst_place"]) for row in table["standings"]] == [
        ("DriftValue", 1, 1),
        ("RecencyBias", 2, 2),
        ("NeverWrite", 3, 3),
    ]
    assert {row["histories"] for row in table["standings"]} == {1}
    assert "holds for that history only" in table["notes"]["all"][0]
    assert "Labels of changelogs" in table["notes"]["all"][1]


def test_a_caption_says_what_its_intervals_are_over() -> None:
    rows = [{"file": "a.jsonl", "line": number, "history": "one"} for number in (1, 2)]
    others = [{**row, "history": f"h{row['line']}"} for row in rows]

    assert (_counted(rows), _interval(rows)) == (
        "n = 1 history with 2 windows",
        "95 % intervals over its windows",
    )
    assert (_counted(others), _interval(others)) == ("n = 2 histories", "95 % intervals over histories")
