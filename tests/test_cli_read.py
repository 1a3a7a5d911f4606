"""``standfast read``, used as a user would."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.cli import main
from standfast.recall.package import ContextPackage

LINES = (
    '{"memory_id":"m1","text":"EU refunds take 14 days.","tags":["eu"],"ts_utc":"2026-01-15T10:30:00Z"}\n'
    '{"memory_id":"m\\u001b2","text":"Refunds need a receipt."}\n'
    "broken\n"
)


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("facts.jsonl").write_text(LINES, encoding="utf-8")


def _call(*words: str) -> Result:
    return CliRunner().invoke(main, ["read", *words], catch_exceptions=False, env={"COLUMNS": "160"})


def test_what_is_read_is_text_for_a_prompt_and_the_rest_is_told_beside_it() -> None:
    result = _call("eu refunds", "--store", "facts.jsonl", "--tokens", "6")

    assert "EU refunds take 14 days.\n[END " in result.stdout
    assert result.stderr.startswith("1 selected, 6 of 6 tokens")
    assert "1 invalid_record_schema, 1 budget_exhausted" in result.stderr


def test_the_package_is_the_contracts_and_has_its_hash() -> None:
    words = ("eu refunds", "--store", "facts.jsonl", "--tokens", "100", "--json")
    counted, full = json.loads(_call(*words).stdout), json.loads(_call(*words, "--dropped", "full").stdout)

    assert ContextPackage.from_json(counted).as_json() == counted
    assert counted["selection"]["dropped"]["invalid_record_schema"] == 1
    assert full["selection"]["dropped"][0]["reason"] == "invalid_record_schema"
    assert full["selection"]["selected"] == counted["selection"]["selected"]


def test_an_explanation_is_a_table_that_a_memory_can_not_scribble_on() -> None:
    result = _call("eu refunds", "--store", "facts.jsonl", "--tokens", "100", "--explain")

    assert [
        word in result.stdout for word in ("rank", "tag bonus", "recency", "eu, refunds", "selected")
    ] == [True] * 5
    assert "passed over: facts.jsonl, line 3: not JSON" in result.stdout
    assert "\x1b2" not in result.stdout
    told = json.loads(_call("eu", "--store", "facts.jsonl", "--tokens", "9", "--explain", "--json").stdout)
    assert told["explanation"]["items"][0]["matched_tags"] == ["eu"]
    assert told["package"]["controller_version"] == "phase6-v1"


def test_every_option_reaches_the_request() -> None:
    Path("trust.jsonl").write_text('{"memory_id":"m1","classification":"spam"}\n', encoding="utf-8")
    common = ("refunds", "--store", "facts.jsonl", "--tokens", "100", "--json")

    def read(*words: str) -> list[tuple[str, float, int]]:
        package = json.loads(_call(*common, *words).stdout)
        return [
            (item["memory_id"], item["score"], item["excerpt_tokens"])
            for item in package["selection"]["selected"]
        ]

    assert read() == [("m1", 1.0, 6), ("m\x1b2", 1.0, 6)]
    assert read("--max-items", "1") == [("m1", 1.0, 6)]
    assert read("--per-item-tokens", "2")[0] == ("m1", 1.0, 2)
    assert read("--term", "eu")[0] == ("m1", 1.5, 6)
    assert read("--term", "eu", "--no-tags")[0] == ("m1", 1.0, 6)
    assert read("--now", "2026-01-25T10:30:00Z", "--half-life", "10")[0] == ("m1", 1.5, 6)
    assert read("--trust", "trust.jsonl")[0][0] == "m1"
    assert read("--trust", "trust.jsonl", "--deny", "spam")[0][0] == "m\x1b2"


def test_a_cache_changes_nothing_but_the_time() -> None:
    Path("stores").mkdir()
    Path("facts.jsonl").rename("stores/facts.jsonl")
    words = ("eu", "--store", "stores/facts.jsonl", "--tokens", "100", "--json")
    cold = _call(*words).stdout

    assert _call(*words, "--cache", "cache").stdout == cold
    assert _call(*words, "--cache", "cache").stdout == cold
    assert len(list(Path("cache").iterdir())) == 1


def test_a_standfast_store_is_read_at_any_snapshot() -> None:
    Path("good.jsonl").write_text(LINES.splitlines()[0] + "\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["import", "good.jsonl"]).exit_code == 0
    now = json.loads(_call("refunds", "--tokens", "100", "--json").stdout)
    before = json.loads(
        _call("refunds", "--store", "standfast.db", "--at", "0", "--tokens", "100", "--json").stdout
    )

    assert [item["store_path"] for item in now["selection"]["selected"]] == ["standfast:default/LEDGER"]
    assert before["selection"]["selected"] == []


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((" ", "--store", "facts.jsonl", "--tokens", "9"), "recall_empty_query"),
        (("x", "--store", "nowhere.jsonl", "--tokens", "9"), "recall_missing_store"),
        (("x", "--store", ".", "--tokens", "9"), "recall_unreadable_store"),
        (("x", "--store", "facts.jsonl", "--tokens", "0"), "recall_budget"),
        (("x", "--tokens", "9"), "recall_missing_store"),
    ],
)
def test_a_bad_call_is_told_with_its_code(words: tuple[str, ...], code: str) -> None:
    result = _call(*words, "--json")

    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == code
