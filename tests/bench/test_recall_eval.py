"""The evaluation of recall: both formats, figures that can be checked by hand, and the command."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast.bench.recall_eval import SAMPLE, evaluate_recall, read_corpora
from standfast.cli import main
from standfast.errors import InvalidValue

LINES: list[dict[str, object]] = [
    {"memory_id": "a", "text": "EU refunds take 14 days.", "speaker": "Ada"},
    {"memory_id": "b", "text": "Parcels to Norway take five days."},
    {"question": "How long do refunds take?", "evidence": ["a"]},
    {"question": "What of Norway and of gravity?", "evidence": ["b", "a"]},
    {"question": "What of gravity?", "evidence": ["unknown"]},
]
TALK = {
    "sample_id": "talk-1",
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "I went to a support group yesterday."},
            {"speaker": "Bob", "dia_id": "D1:2", "text": "Good for you!"},
        ],
    },
    "qa": [
        {"question": "When did Ada go to the support group?", "evidence": ["D1:1; D1:9"], "category": 2},
        {"question": "What did Ada say of trains?", "evidence": ["D1:1"], "category": 5},
    ],
}


def _written(path: Path, lines: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_recall_is_the_share_of_the_evidence_that_is_selected(tmp_path: Path) -> None:
    (corpus,) = read_corpora(_written(tmp_path / "small.jsonl", LINES))
    done: list[tuple[int, int]] = []
    best, contract = evaluate_recall(
        [corpus],
        controllers=["lexical-v1", "phase6-v1"],
        budgets=[100],
        progress=lambda *counts: done.append(counts),
    )

    assert len(corpus.questions) == 2, "a question without evidence among the records is left out"
    assert (best.recall.value, best.complete, best.questions) == (0.75, 0.5, 2)
    assert contract.recall.value == 1.0, "it fills the budget with what does not match"
    assert 0 < best.frame_share < 1
    assert done[-1] == (4, 4)


def test_conversations_of_locomo_are_read(tmp_path: Path) -> None:
    for whole in (TALK, [TALK]):
        path = tmp_path / "talk.json"
        path.write_text(json.dumps(whole), encoding="utf-8")
        (corpus,) = read_corpora(path)

        assert corpus.name == "talk-1"
        assert [one.evidence for one in corpus.questions] == [("D1:1",)]
        assert (corpus.records[1].speaker, corpus.records[1].position) == ("Bob", 1)
        assert corpus.records[0].ts_utc == "2023-05-08T13:56:00.000000Z"


def test_wrong_files_say_what_is_wrong(tmp_path: Path) -> None:
    for lines, problem in (
        ([{"text": "no id"}], "line 1 is neither a record"),
        (LINES[:2], "no question with evidence"),
        ([LINES[0], LINES[0], LINES[2]], "twice"),
    ):
        with pytest.raises(InvalidValue, match=problem):
            read_corpora(_written(tmp_path / "wrong.jsonl", lines))
    with pytest.raises(InvalidValue, match="can't be read"):
        read_corpora(tmp_path)


def test_the_command_prints_figures_and_draws_them(tmp_path: Path) -> None:
    plot = tmp_path / "recall.svg"
    ran = CliRunner().invoke(main, ["eval", "recall", "--tokens", "200", "--plot", str(plot)])
    plain = CliRunner().invoke(main, ["eval", "recall", str(SAMPLE), "--tokens", "200", "--json"])
    (score,) = json.loads(plain.stdout)["scores"]

    assert ran.exit_code == 0, ran.output
    assert ran.stdout.splitlines()[1].startswith("lexical-v1")
    assert b"<svg" in plot.read_bytes()
    assert score["recall"]["value"] > 0.9
    assert score["questions"] == 28
    wrong = CliRunner().invoke(main, ["eval", "recall", "--plot", "recall.gif"])
    assert wrong.exit_code == 2
    assert CliRunner().invoke(main, ["eval", "recall", "--controller", "none-v1"]).exit_code == 2


def test_hybrid_recall_is_measured_with_the_shipped_table() -> None:
    answer = CliRunner().invoke(
        main,
        [
            "eval",
            "recall",
            "--controller",
            "hybrid-v1",
            "--controller",
            "lexical-v1",
            "--tokens",
            "200",
            "--json",
        ],
    )
    scores = {one["controller"]: one for one in json.loads(answer.stdout)["scores"]}

    assert answer.exit_code == 0
    assert scores.keys() == {"hybrid-v1", "lexical-v1"}
    assert scores["hybrid-v1"]["recall"]["value"] > 0.5
