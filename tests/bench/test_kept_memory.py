"""What a policy kept can be recalled, and questions about the end of the stream are answered from it."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from standfast.bench import Entrant, PricedEpisode, ask_model, write_jsonl
from standfast.bench.conditions import condition_named
from standfast.bench.episodes import Episode
from standfast.bench.kept_memory import (
    MOST_QUESTIONED,
    KeptMemory,
    Question,
    answer_from,
    parse_answer,
    questions_about,
    read_answer,
)
from standfast.bench.leaderboard import answer_correlations, correlations_csv
from standfast.bench.statistics import rank_correlation
from standfast.cli import main
from standfast.policies import ByteBudget, ByteMemoryStore, ByteModel, expire, merge, write
from tests.bench.episodes import episode_of

OLD = {"api": "pay:POST /charges", "params": ["amount", "source"], "deprecated": False, "version": "1"}
NEW = {"api": "pay:POST /charges", "params": ["amount"], "deprecated": True, "version": "2"}
SAME = {**NEW, "version": "3"}
OTHER = {"api": "pay:GET /refunds", "params": ["limit"], "deprecated": False, "version": "1"}


def _kept(*observations: Any, merged: tuple[int, ...] = ()) -> ByteMemoryStore:
    store = ByteMemoryStore(ByteBudget(10_000))
    for step in episode_of(*observations).steps:
        assert store.apply(merge(step, 0) if step.t in merged else write(step))
    return store


def _answers(store: ByteMemoryStore, stream: Episode, *, tokens: int = 800) -> dict[str, bool]:
    memory = KeptMemory(store)
    return {
        one.kind: read_answer(one, memory, tokens=tokens, max_items=10) == one.answer
        for one in questions_about(stream.steps)
    }


def test_questions_are_about_endpoints_that_changed() -> None:
    questions = questions_about(episode_of(OLD, OTHER, NEW, SAME, "prose").steps)

    assert {one.api for one in questions} == {"pay:POST /charges"}
    assert {one.kind: one.answer for one in questions} == {
        "state": {"api": "pay:POST /charges", "params": ["amount"], "deprecated": True},
        "when": "2",
        "lost": ["source"],
    }


def test_the_number_of_endpoints_that_are_asked_about_is_bounded() -> None:
    many = [{"api": f"a{n % 50}", "v": n} for n in range(100)]

    assert len({one.api for one in questions_about(episode_of(*many).steps)}) == MOST_QUESTIONED


def test_answers_need_what_was_kept() -> None:
    stream = episode_of(OLD, NEW, OTHER)

    assert _answers(_kept(OLD, NEW, OTHER), stream) == {"state": True, "when": True, "lost": True}
    assert _answers(_kept(NEW), stream) == {"state": True, "when": True, "lost": False}
    assert _answers(_kept(OLD), stream) == {"state": False, "when": False, "lost": False}
    assert _answers(_kept(OTHER), stream) == {"state": False, "when": False, "lost": False}
    assert _answers(ByteMemoryStore(ByteBudget(9)), stream) == {"state": False, "when": False, "lost": False}


def test_a_delta_is_recalled_as_a_whole_state_while_its_base_is_kept() -> None:
    stream = episode_of(OLD, NEW)
    store = _kept(OLD, NEW, merged=(1,))

    assert _answers(store, stream) == {"state": True, "when": True, "lost": True}
    store.apply(expire(0))
    assert KeptMemory(store).recall("charges", tokens=800, max_items=5) == []


def test_an_excerpt_that_is_cut_off_gives_no_answer() -> None:
    long = {**NEW, "content": "word " * 400}
    stream = episode_of(OLD, long)

    assert _answers(_kept(OLD, long), stream, tokens=4_000)["state"]
    assert not _answers(_kept(OLD, long), stream, tokens=50)["state"]


def test_recall_hands_out_what_matches_best_first() -> None:
    charges = [{"api": "charges", "v": n, "note": "refund " * n} for n in range(3)]
    kept = KeptMemory(_kept(*charges, {"api": "invoices", "v": 3}))

    assert {t for t, _ in kept.recall("refund of charges", max_items=2)} == {2, 1}
    assert json.loads(kept.recall("invoices")[0][1]) == {"api": "invoices", "v": 3}
    assert len(kept.recall("nobody wrote this")) == 4, "few records are handed out whole"
    assert kept.recall(" ") == []


def test_no_states_give_no_answer() -> None:
    assert answer_from("state", []) is None
    assert answer_from("when", [{"api": "a"}]) is None
    assert answer_from("lost", [NEW]) is None
    missing = Question(kind="state", api="nobody", text="what of nobody", answer={})
    assert read_answer(missing, KeptMemory(_kept(OLD)), tokens=100, max_items=3) is None


def test_the_condition_reports_answers_beside_the_metrics_of_the_budget() -> None:
    episode = episode_of(OLD, OTHER, NEW, critical=(0,))
    run = condition_named("answers")(episode, name="e", seed=0, model=ByteModel.SPEC)
    (row,) = run.records([Entrant.parse("RecencyBias")], (200,))

    assert (row["questions"], row["answered_state"], row["answered_lost"]) == (3, 1.0, 0.0)
    assert row["answered"] == pytest.approx(2 / 3)
    assert (row["recall"], row["utility_share"]) == (0.0, 1.0)


def test_rank_correlations() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert rank_correlation([1, 1], [1, 2]) is None
    rows = [
        {
            "budget_bytes": 9,
            "file": "f",
            "line": line,
            "recall": n,
            "precision": 1.0,
            "utility_share": -n,
            "answered": n,
        }
        for line in range(2)
        for n in range(3)
    ]
    found = answer_correlations(rows, 9)
    assert (found["recall"].value, found["utility_share"].value) == pytest.approx((1.0, -1.0))
    assert found["precision"].episodes == 0
    assert "recall,1.0,1.0,1.0,2" in correlations_csv(rows, 9)


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
