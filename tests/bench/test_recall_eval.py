"""The evaluation of recall: the formats, figures that can be checked by hand, peers, and the command."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from standfast.bench.recall_eval import evaluate_recall
from standfast.bench.recall_sets import SHIPPED, read_set, without_names_and_times
from standfast.cli import main
from standfast.errors import InvalidValue
from standfast.records.requests import DEFAULT_CONTROLLER

LINES: list[dict[str, object]] = [
    {"memory_id": "a", "text": "EU refunds take 14 days."},
    {"memory_id": "b", "text": "Parcels to Norway take five days."},
    {"question": "How long do refunds take?", "evidence": ["a"]},
    {"question": "What of Norway and of gravity?", "evidence": ["b", "a"]},
    {"question": "What of gravity?", "evidence": ["unknown"]},
    {"question": "Who composed it?", "evidence": []},
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
CHAT = [
    {
        "batch_number": 1,
        "turns": [
            [
                {
                    "role": "user",
                    "id": 0,
                    "time_anchor": "March-15-2024",
                    "content": "My deadline is June. ->-> 1,1",
                },
                {"role": "assistant", "id": 1, "content": "Noted: June."},
            ]
        ],
    }
]
PROBES = {
    "abstention": [{"question": "What do I earn?"}],
    "knowledge_update": [
        {"question": "When is my deadline?", "source_chat_ids": {"original": [0], "new": [1]}}
    ],
}
ARTICLES = {
    "data": [
        {
            "title": "Oslo",
            "paragraphs": [
                {
                    "context": "Oslo is the capital of Norway.",
                    "qas": [
                        {"question": "What is the capital of Norway?", "is_impossible": False},
                        {"question": "Who is its king?", "is_impossible": True},
                    ],
                }
            ],
        }
    ]
}


def _written(path: Path, lines: Sequence[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_recall_is_the_share_of_the_evidence_that_is_in_the_package(tmp_path: Path) -> None:
    small = read_set(_written(tmp_path / "small.jsonl", LINES))
    done: list[tuple[int, int]] = []
    (score,) = evaluate_recall(
        [small], controllers=["phase6-v1"], budgets=[100], progress=lambda *counts: done.append(counts)
    )
    (bare,) = evaluate_recall([small], controllers=["lexical-v1"], budgets=[1])

    assert len(small.corpora[0].questions) == 3, "a question with evidence elsewhere is left out"
    assert (score.recall.value, score.complete, score.first_three) == (1.0, 1.0, 1.0)
    assert (score.questions, score.unanswerable) == (2, 1)
    assert (bare.recall.value, bare.first_three, bare.unanswerable_tokens) == (0.0, 0.0, 0.0)
    assert done[-1] == (3, 3)


def test_peers_hand_out_what_fits_in_their_order(tmp_path: Path) -> None:
    small = read_set(_written(tmp_path / "small.jsonl", LINES))
    scores = evaluate_recall(
        [small], controllers=[], peers=["fts5", "fts5-no-stop-words", "langgraph"], budgets=[6, 100]
    )
    by_name = {(one.system, one.tokens): one for one in scores}

    assert by_name["langgraph", 100].recall.value == 1.0, "vectors rank everything"
    assert by_name["fts5", 100].recall.value == 0.75, "refunds and gravity share no word"
    assert by_name["fts5", 6].recall.value == 0.5, "only the first text has six tokens"
    assert by_name["fts5-no-stop-words", 100].unanswerable_tokens == 0
    with pytest.raises(InvalidValue, match="fts5, fts5-no-stop-words, langgraph, mem0"):
        evaluate_recall([small], peers=["elsewhere"])


def test_conversations_of_locomo_are_read(tmp_path: Path) -> None:
    for whole in (TALK, [TALK]):
        path = tmp_path / "talk.json"
        path.write_text(json.dumps(whole), encoding="utf-8")
        (corpus,) = read_set(path).corpora

        assert corpus.name == "talk-1"
        assert [one.evidence for one in corpus.questions] == [("D1:1",), ()]
        assert (corpus.records[1].speaker, corpus.records[1].session) == ("Bob", "session_1")
        assert corpus.records[0].time == "2023-05-08T13:56:00.000000Z"


def test_chats_of_beam_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    (folder / "probing_questions").mkdir(parents=True)
    (folder / "chat.json").write_text(json.dumps(CHAT), encoding="utf-8")
    (folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(PROBES), encoding="utf-8")
    (corpus,) = read_set(folder).corpora
    first, second = corpus.records

    assert (first.text, first.role, first.time) == (
        "My deadline is June.",
        "user",
        "2024-03-15T00:00:00.000000Z",
    )
    assert (second.role, second.session) == ("assistant", "batch 1")
    assert [one.evidence for one in corpus.questions] == [(), ("0", "1")]


def test_paragraphs_of_squad_are_read(tmp_path: Path) -> None:
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(ARTICLES), encoding="utf-8")
    (corpus,) = read_set(path).corpora

    assert (corpus.name, corpus.records[0].session) == ("Oslo", None)
    assert [one.evidence for one in corpus.questions] == [("1.0",)]


def test_the_same_conversation_without_names_and_times_has_two_roles(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    path.write_text(json.dumps(TALK), encoding="utf-8")
    plain = without_names_and_times(read_set(path))

    assert [(one.role, one.speaker, one.time) for one in plain.corpora[0].records] == [
        ("user", None, None),
        ("assistant", None, None),
    ]


def test_wrong_files_say_what_is_wrong(tmp_path: Path) -> None:
    for lines, problem in (
        ([{"text": "no id"}], "line 1 is neither a record"),
        (LINES[:2], "no question with evidence"),
        ([LINES[0], LINES[0], LINES[2]], "twice"),
    ):
        with pytest.raises(InvalidValue, match=problem):
            read_set(_written(tmp_path / "wrong.jsonl", lines))
    (tmp_path / "odd.json").write_text('{"qa": 5}', encoding="utf-8")
    with pytest.raises(InvalidValue, match="none of the formats"):
        read_set(tmp_path / "odd.json")
    with pytest.raises(InvalidValue, match="can't be read"):
        read_set(tmp_path)


def test_the_shipped_pairs_share_no_question_between_their_halves() -> None:
    first, second = (read_set(path) for path in SHIPPED[:2])
    asked = [
        [one.question for each in half.corpora for one in each.questions if one.evidence]
        for half in (first, second)
    ]
    told = [[one.text for each in half.corpora for one in each.records] for half in (first, second)]

    assert [len(half) for half in asked] == [120, 120]
    assert not set(asked[0]) & set(asked[1])
    assert not set(told[0]) & set(told[1])
    assert {each.name[:2] for each in first.corpora} == {"en", "de", "fr", "es", "it"}


def test_facts_asked_in_other_words_are_in_the_text_by_default() -> None:
    (score,) = evaluate_recall([read_set(SHIPPED[0])], budgets=[500])

    assert score.recall.value >= 0.95
    assert score.first_three >= 0.4


def test_the_command_prints_figures_and_draws_them(tmp_path: Path) -> None:
    plot = tmp_path / "recall.svg"
    sets = [str(SHIPPED[2]), str(SHIPPED[3])]
    options = ["--tokens", "200", "--peer", "fts5"]
    ran = CliRunner().invoke(main, ["eval", "recall", *sets, *options, "--plot", str(plot)])
    plain = CliRunner().invoke(main, ["eval", "recall", *sets, *options, "--json"])
    scores = json.loads(plain.stdout)["scores"]

    assert ran.exit_code == 0, ran.output
    assert DEFAULT_CONTROLLER in ran.stdout
    assert b"<svg" in plot.read_bytes()
    assert {(one["set_name"], one["system"]) for one in scores} == {
        (name, system)
        for name in ("recall-chat", "recall-handbook")
        for system in (DEFAULT_CONTROLLER, "fts5")
    }
    wrong = CliRunner().invoke(main, ["eval", "recall", "--plot", "recall.gif"])
    assert wrong.exit_code == 2
    assert CliRunner().invoke(main, ["eval", "recall", "--controller", "none-v1"]).exit_code == 2


def test_questions_of_the_shipped_sets_have_evidence_among_their_records() -> None:
    for path in SHIPPED:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        asked = sum("question" in line for line in lines)

        assert sum(len(corpus.questions) for corpus in read_set(path).corpora) == asked
    assert msgspec.json.decode(SHIPPED[0].read_bytes().splitlines()[0])["corpus"] == "en-ada"
