"""``standfast recall`` and ``standfast read``."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.cli import main
from standfast.memory import Memory
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


def test_read_prints_text_for_a_prompt_and_a_summary_on_stderr() -> None:
    result = _call("eu refunds", "--store", "facts.jsonl", "--tokens", "6")

    assert "EU refunds take 14 days.\n[END " in result.stdout
    assert result.stderr.startswith("1 selected, 6 of 6 tokens")
    assert "1 invalid_record_schema, 1 budget_exhausted" in result.stderr


def test_json_is_the_context_package_of_the_contract() -> None:
    words = ("eu refunds", "--store", "facts.jsonl", "--tokens", "100", "--json")
    counted, full = json.loads(_call(*words).stdout), json.loads(_call(*words, "--dropped", "full").stdout)

    assert ContextPackage.from_json(counted).as_json() == counted
    assert counted["selection"]["dropped"]["invalid_record_schema"] == 1
    assert full["selection"]["dropped"][0]["reason"] == "invalid_record_schema"
    assert full["selection"]["selected"] == counted["selection"]["selected"]


def test_explain_prints_a_table_without_control_characters() -> None:
    result = _call("eu refunds", "--store", "facts.jsonl", "--tokens", "100", "--explain")

    assert [
        word in result.stdout for word in ("rank", "tag bonus", "recency", "eu, refunds", "selected")
    ] == [True] * 5
    assert "skipped: facts.jsonl, line 3: not JSON" in result.stdout
    assert "\x1b2" not in result.stdout
    answer = json.loads(_call("eu", "--store", "facts.jsonl", "--tokens", "9", "--explain", "--json").stdout)
    assert answer["explanation"]["items"][0]["matched_tags"] == ["eu"]
    assert answer["package"]["controller_version"] == "phase6-v1"


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


def test_a_standfast_store_is_read_at_any_snapshot() -> None:
    Path("good.jsonl").write_text(LINES.splitlines()[0] + "\n", encoding="utf-8")
    assert CliRunner().invoke(main, ["import", "good.jsonl"]).exit_code == 0
    now = json.loads(_call("refunds", "--tokens", "100", "--json").stdout)
    before = json.loads(
        _call("refunds", "--store", "standfast.db", "--at", "0", "--tokens", "100", "--json").stdout
    )

    assert [item["store_path"] for item in now["selection"]["selected"]] == ["standfast:default/LEDGER"]
    assert before["selection"]["selected"] == []


def _recall(*words: str) -> Result:
    return CliRunner().invoke(main, ["recall", *words], catch_exceptions=False, env={"COLUMNS": "160"})


@pytest.fixture
def _two_versions() -> None:
    for days, source in ((14, "doc:handbook#4"), (30, "doc:handbook#5")):
        text = f"EU refunds take {days} days."
        words = ["remember", text, "--subject", "policy/eu-refunds", "--source", source]
        assert CliRunner().invoke(main, words).exit_code == 0


@pytest.mark.usefixtures("_two_versions")
def test_recall_prints_what_the_library_recalls() -> None:
    result = _recall("refunds", "--json")
    with Memory.open("standfast.db") as memory:
        package = memory.recall("refunds")

    assert json.loads(result.stdout) == package.as_json()
    assert "] EU refunds take 30 days.\n" in _recall("refunds").stdout
    assert _recall("refunds").stderr.startswith("1 selected, 32 of 1000 tokens")


@pytest.mark.usefixtures("_two_versions")
def test_recall_takes_a_snapshot_a_budget_and_a_number_of_items() -> None:
    assert "14 days" in _recall("refunds", "--at", "1").stdout
    assert _recall("refunds", "--at", "0").stdout == ""
    assert _recall("refunds", "--tokens", "1").stderr.startswith("Nothing fits the question")
    assert "14 days" not in _recall("refunds", "--max-items", "1").stdout
    assert _recall("refunds", "--at", "3").exit_code == 2


@pytest.mark.usefixtures("_two_versions")
def test_recall_explains_ranks_and_trust() -> None:
    shown = _recall("refunds", "--explain").stdout
    answer = json.loads(_recall("refunds", "--explain", "--json").stdout)

    trust = answer["explanation"]["items"][0]["ceiling"]["confidence"]
    excerpt = answer["package"]["items"][0]["excerpt"]
    assert 0 < trust <= 0.85
    assert shown.startswith(
        f"  1  selected, trust {trust}: policy/eu-refunds\n     {excerpt}\n     why: words"
    )


@pytest.mark.usefixtures("_two_versions")
def test_read_takes_one_standfast_store_and_any_number_of_files() -> None:
    words = ("refunds", "--tokens", "100", "--json", "--store", "standfast.db", "--store", "facts.jsonl")
    paths = {item["store_path"] for item in json.loads(_call(*words).stdout)["selection"]["selected"]}
    twice = _call(*words, "--store", "standfast.db")

    assert paths == {"standfast:default/LEDGER", "facts.jsonl"}
    assert twice.exit_code == 2
    assert "at most one Standfast store" in twice.stdout


def test_recall_does_not_create_a_store() -> None:
    assert _recall("refunds").exit_code == 2
    assert not Path("standfast.db").exists()


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
def test_a_bad_call_is_reported_with_its_code(words: tuple[str, ...], code: str) -> None:
    result = _call(*words, "--json")

    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["code"] == code
