"""``--scope`` and the filters of the commands."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
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
    assert "2 records" in call("at", "2", "--scope", "*").output
    assert "user/ada, user/bob. Name one." in call("at").stderr
    assert "1 record in" in call("at", "--scope", "*", "--speaker", "ada").output
    assert call("history", "language").exit_code == 1
    assert "user/bob" in call("history", "language", "--scope", "user/bob").output
    assert call("diff", "0").stdout == ""
    assert "user/ada, user/bob. Name one." in call("diff", "0").stderr
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


def _commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _commands(command, *path, name)
        elif command is not None:
            yield (*path, name), command


ARGUMENTS = {
    ("remember",): ("Ada sails.",),
    ("recall",): ("green parrot",),
    ("add",): ("chat.json",),
    ("session",): ("monday",),
    ("forget",): ("preference", "--reason", "x", "--dry-run"),
    ("history",): ("preference",),
    ("diff",): ("0",),
    ("at",): ("4",),
    ("conflicts", "list"): (),
    ("conflicts", "settle"): ("--all", "--reason", "x", "--rehearse"),
    ("profile",): (),
    ("judge",): ("Ada sails.",),
    ("export",): (),
    ("import",): ("chat.json", "--from", "markdown", "--dry-run"),
    ("patterns", "lift"): ("web:example.com", "--reason", "x"),
    ("refusals", "list"): (),
    ("refusals", "lift"): ("web:example.com", "--reason", "x"),
    ("keys", "create"): ("ada",),
    ("investigate",): ("preference",),
    ("quarantine",): ("preference", "--dry-run"),
    ("revert",): ("--since-snapshot", "0", "--dry-run"),
}


def test_no_command_with_a_scope_shows_a_byte_of_another() -> None:
    Path("chat.json").write_text('[{"role": "user", "content": "Hello there."}]')
    for name in ("ada", "bob"):
        scope = ("--scope", f"user/{name}-zorro")
        said = call("remember", f"The parrot of {name}-quagga is green.", "--subject", "preference", *scope)
        assert said.exit_code == 0, said.output
        call("remember", f"{name}-quagga may get refunds.", "--propose", *scope)
        call("add", "chat.json", "--session", "monday", *scope)
    for name, old, new in (("ada", "Munich", "Lisbon"), ("bob", "Cork", "Rome")):
        for text in (f"I live in {old}.", f"I moved to {new}."):
            call("remember", text, "--as-human", "--scope", f"user/{name}-zorro")
    scoped = [
        path for path, command in _commands(main) if any("--scope" in one.opts for one in command.params)
    ]
    shown = []
    for path in scoped:
        if path in (("mcp",), ("sessions",)):
            continue
        for extra in ((), ("--json",)):
            answer = call(*path, *ARGUMENTS[path], "--scope", "user/ada-zorro", *extra)
            if any(word in answer.output for word in ("bob", "Cork", "Rome")):
                shown.append((path, answer.output))

    assert shown == []
    assert "bob" not in call("sessions", "--scope", "user/ada-zorro").output
    assert "ada-quagga" in call("recall", "green parrot", "--scope", "user/ada-zorro").output
    assert "Munich" in call("conflicts", "list", "--scope", "user/ada-zorro").output
    assert "Cork" in call("conflicts", "list", "--scope", "*").output
    assert len(scoped) >= len(ARGUMENTS)


def test_a_key_is_limited_to_scopes() -> None:
    made = call("keys", "create", "phone", "--scope", "user/ada/phone", "--scope", "user/ada", "--json")
    wrong = call("keys", "create", "phone", "--scope", "user//ada")

    assert json.loads(made.output)["key"]["scopes"] == ["user/ada"]
    assert "user/ada" in call("keys", "list").output
    assert "only scope user/ada" in call("keys", "create", "tab", "--scope", "user/ada").output
    assert wrong.exit_code == 2


@pytest.mark.parametrize("words", [("at",), ("sessions",), ("conflicts", "list"), ("profile",)])
def test_a_listing_of_nothing_names_the_scopes_that_hold_something(words: tuple[str, ...]) -> None:
    assert call("remember", "Ada lives in Oslo.", "--scope", "user/ada").exit_code == 0

    hint = "Nothing is in the scope shared. Other scopes hold memories: user/ada. Name one."
    assert hint in call(*words).stderr
    assert hint not in call(*words, "--json").output
    assert hint not in call(*words, "--scope", "*" if words != ("profile",) else "user/ada").output


def test_a_profile_of_nothing_says_what_a_profile_is_made_of() -> None:
    assert call("remember", "Ada likes tea.", "--scope", "user/ada").exit_code == 0
    shown = call("profile", "--scope", "user/ada")

    assert (shown.exit_code, shown.stdout) == (1, "")
    assert "is a plain statement" in shown.stderr


@pytest.mark.parametrize("words", [("forget", "diet", "--reason", "she asked", "--yes"), ("history", "diet")])
def test_what_is_not_in_a_scope_may_be_in_another(words: tuple[str, ...]) -> None:
    made = call("remember", "Ada eats no meat.", "--subject", "diet", "--scope", "user/ada")
    assert made.exit_code == 0, made.output

    assert "--scope names another" in call(*words).output
    assert "--scope names another" not in call(*words, "--scope", "user/ada").output
