"""``standfast optimize`` from the first run to the rollback, as a user would."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.cli import main
from standfast.memory import Memory
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from tests.servers.s3 import REGION

PROMPT = """
ns = "agent"
key = "sum"

[[sections]]
key = "role"
title = "Role"
body = '''
Please note that you are a calculator that people like.

You are very proud of it, and you like the sea.
'''

[[sections]]
key = "task"
title = "Task"
body = "Add ${a} and ${b}."
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompt.toml").write_text(PROMPT, encoding="utf-8")
    samples = [{"id": f"s{n}", "input": {"a": n, "b": 1}, "expected": str(n + 1)} for n in range(80)]
    _write(tmp_path / "data.jsonl", samples)
    rules: list[Mapping[str, object]] = [
        {"contains": ["calculator", f"Add {n} and 1."], "answer": str(n + 1)} for n in range(80)
    ]
    _write(tmp_path / "rules.jsonl", [*rules, {"contains": [], "answer": "?"}])
    return tmp_path


def _write(file: Path, rows: Sequence[Mapping[str, object]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _call(*words: str) -> Result:
    return CliRunner().invoke(main, ["optimize", *words])


RUN = (
    "run",
    "prompt.toml",
    "data.jsonl",
    "--provider",
    "scripted",
    "--script",
    "rules.jsonl",
    "--remove-untested",
)


def test_a_prompt_is_optimised_applied_and_rolled_back(folder: Path) -> None:
    ran = _call(*RUN, "--cache", ":memory:")

    assert ran.exit_code == 0, ran.output
    assert "tokens (o200k_base)" in ran.output
    assert "role" in ran.output
    shown = _call("report", "optimization.json", "--html", "page.html", "--json")
    report = json.loads(shown.stdout)
    assert report["modifications"]
    assert "<del>" in (folder / "page.html").read_text(encoding="utf-8")
    applied = _call("apply", "optimization.json", "prompt.toml", "--json")
    assert json.loads(applied.stdout)["version"] == 1
    again = _call("apply", "optimization.json", "prompt.toml")
    assert again.exit_code == 2
    assert "[baseline_moved]" in again.stderr
    back = _call("rollback", "prompt.toml")
    assert back.exit_code == 0
    assert "overrides nothing" in back.output


@pytest.mark.parametrize("kind", ["redis", "s3"])
def test_overrides_and_cache_may_be_anywhere(
    folder: Path, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "redis":
        overrides = cache = request.getfixturevalue("redis_url")
    else:
        server = request.getfixturevalue("s3_server")
        overrides, cache = f"s3://{server.new_bucket()}/overrides/", "cache"
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.endpoint_url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
        monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    place = ("--overrides", overrides)
    ran = _call(*RUN, "--strategy", "rewrite", *place, "--cache", cache)
    applied = _call("apply", "optimization.json", "prompt.toml", *place, "--json")
    back = _call("rollback", "prompt.toml", *place)

    assert (ran.exit_code, applied.exit_code, back.exit_code) == (0, 0, 0), ran.output
    assert json.loads(applied.stdout)["version"] == 1
    assert not (folder / "overrides").exists()


def test_running_again_asks_the_cache_and_says_the_same(folder: Path) -> None:
    _call(*RUN, "--strategy", "rewrite")
    first = json.loads((folder / "optimization.json").read_text(encoding="utf-8"))
    _call(*RUN, "--strategy", "rewrite")
    second = json.loads((folder / "optimization.json").read_text(encoding="utf-8"))

    assert first["modifications"] == second["modifications"]
    assert first["experiment_id"] != second["experiment_id"]


def test_a_dry_run_prints_an_estimate_and_calls_nobody(folder: Path) -> None:
    ran = _call(*RUN, "--dry-run", "--input-price", "3")

    assert ran.exit_code == 0, ran.output
    assert ran.output.startswith("About ")
    assert "cost" in ran.output
    assert not Path("optimization.json").exists()
    few = _call(*RUN, "--dry-run", "--margin", "0.01")
    assert "No call would be made" in few.output


def test_what_is_spent_is_limited_and_printed(folder: Path) -> None:
    stopped = _call(*RUN, "--max-calls", "20")
    assert stopped.exit_code == 1
    assert "spent 20 calls" in stopped.output
    assert "limit is reached" in stopped.output

    assert _call(*RUN).exit_code == 0
    assert "spent 0 calls" in _call(*RUN).output


def test_nothing_to_change_is_a_no(folder: Path) -> None:
    ran = _call(*RUN, "--margin", "0.01", "--strategy", "rewrite")

    assert ran.exit_code == 1
    assert "348 held-out samples, and there are 48" in ran.output
    assert "pass rate" not in ran.output
    assert _call("apply", "optimization.json", "prompt.toml").exit_code == 1


RECALLING = """
ns = "agent"
key = "sum"

[[sections]]
key = "memory"
title = "Memory"
body = "${memory}"
recall_tokens = 80

[[sections]]
key = "task"
title = "Task"
body = "Add ${a} and ${b}."
"""


def test_the_smallest_recall_budget_is_found_applied_and_rolled_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget has room for two memories, of which the agent needs one."""
    monkeypatch.setenv("STANDFAST_TRACES", "traces")
    (folder / "prompt.toml").write_text(RECALLING, encoding="utf-8")
    samples = [
        {"id": f"s{n}", "input": {"a": n, "b": 1, "ask": "how to add"}, "expected": str(n + 1)}
        for n in range(45)
    ]
    _write(folder / "data.jsonl", samples)
    rules = [{"contains": ["count on", f"Add {n} and 1."], "answer": str(n + 1)} for n in range(45)]
    _write(folder / "rules.jsonl", [*rules, {"contains": [], "answer": "?"}])
    with Memory.open("agent.db") as memory, memory.run(workflow="seed", mode="buffered_write") as run:
        for text in ("How to add: count on.", "The sea is wide and there is much to see on it."):
            run.remember(text, source={"kind": "doc", "id": "handbook"})
    words = (*RUN, "--store", "agent.db", "--margin", "0.2", "--strategy", "recall")
    ran = _call(*words)

    assert ran.exit_code == 0, ran.output
    report = json.loads((folder / "optimization.json").read_text(encoding="utf-8"))
    [smaller] = report["modifications"]
    assert (smaller["original_recall_tokens"], smaller["recall_tokens"]) == (80, 40)
    assert smaller["token_reduction"] == 40
    assert not (folder / "traces").exists()
    assert _call("apply", "optimization.json", "prompt.toml", "--store", "agent.db").exit_code == 0
    [override] = LocalPromptOverridesStore("overrides").list()[0].overrides
    assert override.recall_tokens == 40
    assert _call("rollback", "prompt.toml", "--store", "agent.db").exit_code == 0


def test_a_recall_budget_that_nothing_is_recalled_under_proves_nothing(folder: Path) -> None:
    """A prompt without memory, and samples that bring what it would have handed back."""
    without = _call(*RUN, "--strategy", "recall")
    (folder / "prompt.toml").write_text(RECALLING, encoding="utf-8")
    samples = [{"id": "s", "input": {"a": 1, "b": 1, "memory": "count on"}, "expected": "2"}]
    _write(folder / "data.jsonl", samples)
    brought = _call(*RUN, "--strategy", "recall")

    for result in (without, brought):
        assert result.exit_code == 2
        assert "recall needs a prompt with a memory section" in result.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (
            (
                "run",
                "none.toml",
                "data.jsonl",
                "--provider",
                "scripted",
                "--script",
                "rules.jsonl",
                "--remove-untested",
            ),
            "invalid_value",
        ),
        (
            (
                "run",
                "data.jsonl",
                "data.jsonl",
                "--provider",
                "scripted",
                "--script",
                "rules.jsonl",
                "--remove-untested",
            ),
            "invalid_value",
        ),
        (
            (
                "run",
                "prompt.toml",
                "prompt.toml",
                "--provider",
                "scripted",
                "--script",
                "rules.jsonl",
                "--remove-untested",
            ),
            "invalid_dataset",
        ),
        (("run", "prompt.toml", "data.jsonl", "--provider", "scripted"), "invalid_settings"),
        (
            ("run", "prompt.toml", "data.jsonl", "--provider", "scripted", "--script", "prompt.toml"),
            "provider_refused",
        ),
        (("run", "prompt.toml", "data.jsonl"), "invalid_settings"),
        ((*RUN, "--level", "2"), "invalid_value"),
        ((*RUN, "--evaluator", "numeric", "--evaluator", "json-schema"), "optimization_failed"),
        (("report", "data.jsonl"), "invalid_value"),
        (("report", "none.json"), "invalid_value"),
        (("rollback", "prompt.toml"), "no_rollback"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_mistakes_are_told_in_words(folder: Path, words: tuple[str, ...], code: str) -> None:
    result = _call(*words)

    assert result.exit_code == 2
    assert f"[{code}]" in result.stderr
    assert "Traceback" not in result.output
