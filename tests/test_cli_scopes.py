"""``--scope`` and the filters of the commands."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from standfast.cli import main


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def call(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_commands_read_and_write_in_their_scope() -> None:
    for name, language, plan in (("ada", "German", "1"), ("bob", "French", "free")):
        made = call(
            *("remember", f"{name} prefers {language}.", "--subject", "language", "--source", f"user:{name}"),
            *("--scope", f"user/{name}", "--metadata", f"plan={plan}", "--tag", "style", "--session", "s-1"),
            *(
                "--position",
                "0",
                "--speaker",
                name,
                "--valid-from",
                "2026-11-16",
                "--valid-until",
                "2027-11-16",
            ),
        )
        assert made.exit_code == 0, made.output
    (record,) = [
        one
        for one in json.loads(call("at", "2", "--scope", "user/ada", "--json").output)["records"]
        if one["band"] == "LEDGER"
    ]

    assert (record["scope"], record["metadata"], record["position"]) == ("user/ada", {"plan": 1}, 0)
    assert "0 records" in call("at", "2").output
    assert "4 records" in call("at", "2", "--scope", "*").output
    assert call("history", "language").exit_code == 1
    assert "user/bob" in call("history", "language", "--scope", "user/bob").output
    assert call("diff", "0").output == ""
    assert "French" not in call("diff", "0", "--scope", "user/ada").output
    assert "French" in call("recall", "prefers", "--scope", "user/bob", "--scope", "shared").stdout
    assert "prefers" not in call("recall", "prefers").stdout
    found = call("recall", "prefers", "--scope", "user", "--metadata", "plan=1", "--tag", "style").stdout
    assert ("German" in found, "French" in found) == (True, False)
    for words in (
        ("--subject-prefix", "x"),
        ("--source-kind", "doc"),
        ("--after", "2999-01-01"),
        ("--before", "2000-01-01"),
    ):
        assert "prefers" not in call("recall", "prefers", "--scope", "user", *words).stdout
    assert call("forget", "language", "--reason", "a test", "--yes", "--scope", "user/ada").exit_code == 0
    assert "German" not in call("recall", "prefers", "--scope", "user").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("remember", "A fact.", "--scope", "user//ada"),
        ("remember", "A fact.", "--metadata", "plan"),
        ("remember", "A fact.", "--valid-from", "soon"),
        ("recall", "a fact", "--after", "soon"),
        ("at", "0", "--scope", "/"),
    ],
)
def test_a_wrong_scope_or_filter_is_refused(words: tuple[str, ...]) -> None:
    call("init")

    assert call(*words).exit_code == 2
