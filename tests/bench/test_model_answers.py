"""A model is asked the questions of the condition "answers", from what a policy kept and recall finds."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast.bench import Entrant, PricedEpisode, ask_model, write_jsonl
from standfast.bench.kept_memory import parse_answer
from standfast.cli import main
from tests.bench.episodes import episode_of

EPISODE = episode_of(
    {"api": "pay", "params": ["amount", "token"], "version": "1"},
    {"api": "other", "params": ["x"], "version": "1"},
    {"api": "pay", "params": ["amount"], "version": "2"},
    critical=(2,),
)
ANSWERS = {
    "what is the current state": {"api": "pay", "params": ["amount"]},
    "which version": "2",
    "was removed": ["token"],
}


def _model(prompt: str) -> str:
    """Answers rightly if the notes have the newest state, in three forms."""
    notes, _, question = prompt.partition("Question: ")
    right = next(answer for words, answer in ANSWERS.items() if words in question)
    if '"version": "2"' not in notes:
        return '{"answer": null}'
    text = json.dumps({"answer": right})
    return f"Sure:\n```json\n{text}\n```" if "version" in question else text


def test_a_model_answers_from_what_was_kept() -> None:
    priced = [PricedEpisode(EPISODE)]
    kept = ask_model(priced, Entrant.parse("AlwaysWrite"), 2_000, _model)
    nothing = ask_model(priced, Entrant.parse("NeverWrite"), 2_000, _model)

    assert (kept.questions, kept.answered, kept.answered_by_model, kept.unreadable) == (3, 1.0, 1.0, 0)
    assert (nothing.answered, nothing.answered_by_model) == (0.0, 0.0)
    assert (
        ask_model(priced, Entrant.parse("AlwaysWrite"), 2_000, lambda _: "I think so", most=2).unreadable == 2
    )


@pytest.mark.parametrize("text", ["", "yes", "[1]", '"2"', '{"other": 1}', "```json\n{broken\n```"])
def test_a_reply_that_gives_no_answer_is_none(text: str) -> None:
    assert parse_answer(text) is None


def test_the_command_asks_the_provider_and_shows_both_shares(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "e.jsonl", [EPISODE])
    rules = [
        {"contains": [words], "answer": json.dumps({"answer": answer})} for words, answer in ANSWERS.items()
    ]
    (tmp_path / "rules.jsonl").write_text(
        "".join(json.dumps(rule) + "\n" for rule in rules), encoding="utf-8"
    )
    arguments = [
        "bench",
        "ask",
        str(tmp_path / "e.jsonl"),
        "--policy",
        "NeverWrite",
        "--provider",
        "scripted",
    ]
    run = CliRunner().invoke(main, [*arguments, "--script", str(tmp_path / "rules.jsonl"), "--json"])
    table = CliRunner().invoke(main, [*arguments, "--script", str(tmp_path / "rules.jsonl")])

    assert run.exit_code == 0, run.output
    (answers,) = json.loads(run.stdout)["answers"]
    assert (answers["answered"], answers["answered_by_model"]) == (0.0, 1.0)
    assert "NeverWrite" in table.stdout
    assert CliRunner().invoke(main, arguments).exit_code != 0
