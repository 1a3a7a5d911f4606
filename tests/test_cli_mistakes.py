"""Every command reports a user's mistake: no traceback, a documented exit code, and with --json an object."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from standfast.cli import main
from standfast.errors import StoreFailed
from tests.project.cli_reference import contexts

# These run until they are stopped; each mistake below must keep them from starting.
SERVERS = ("standfast serve", "standfast mcp")
# It creates all that it needs, and is slow.
TOUR = "standfast demo"
LEAVES = {
    context.command_path: context.command
    for context in contexts(main, "standfast")
    if not isinstance(context.command, click.Group)
}
NAMES = sorted(set(LEAVES) - {TOUR})
QUIET = [name for name in NAMES if name not in SERVERS]
# A hook never fails, and installing only names a store.
OPENS_NONE = ("standfast hook", "standfast mcp install")
WITH_STORE = [
    name
    for name in NAMES
    if name not in OPENS_NONE and any("--store" in one.opts for one in LEAVES[name].params)
]
BAD_VALUES = (
    "",
    "no/such/thing",
    "garbage.bin",
    "folder",
    "-1",
    "9" * 30,
    "x" * 5_000,
    "é\u202e\n",
    "{}",
)


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Commands that write into the settings of other programs.
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("garbage.bin").write_bytes(bytes(range(256)) * 8)
    Path("folder").mkdir()
    with sqlite3.connect("theirs.db") as theirs:
        theirs.execute("CREATE TABLE contacts (name TEXT)")
    theirs.close()


def call(name: str, *words: str) -> Result:
    result = CliRunner().invoke(main, [*name.split()[1:], *words], input="")
    shown = f"{name} {words!r:.300}: {result.exception!r:.200} {result.output:.300}"

    assert result.exception is None or isinstance(result.exception, SystemExit), shown
    assert result.exit_code in (0, 1, 2), shown
    assert "Traceback" not in result.output, shown
    return result


def parts(name: str) -> tuple[list[click.Argument], list[click.Option]]:
    """The arguments of a command, and the options that take a value."""
    found = LEAVES[name].params
    options = [one for one in found if isinstance(one, click.Option) and not one.is_flag and not one.count]
    return [one for one in found if isinstance(one, click.Argument)], options


def filled(name: str, value: str) -> list[str]:
    """Arguments in which every required value is this one."""
    arguments, options = parts(name)
    needed = [f"{one.opts[-1]}={value}" for one in options if one.required]
    needed += ["--yes" for one in LEAVES[name].params if "--yes" in one.opts]
    values = [value] * sum(max(1, one.nargs) for one in arguments)
    return [*needed, "--", *values] if values else needed


@pytest.mark.parametrize("name", QUIET)
def test_bad_arguments_are_reported(name: str) -> None:
    for value in BAD_VALUES:
        call(name, *filled(name, value))


@pytest.mark.parametrize("name", QUIET)
def test_bad_options_are_reported(name: str) -> None:
    for option in parts(name)[1]:
        for value in BAD_VALUES:
            call(name, f"{option.opts[-1]}={value}", *filled(name, "1"))


def test_an_unknown_option_and_a_missing_argument_have_exit_code_2() -> None:
    for name in QUIET:
        assert call(name, "--no-such-option").exit_code == 2
        if any(one.required for one in LEAVES[name].params):
            assert call(name).exit_code == 2


@pytest.mark.parametrize("store", ["garbage.bin", "theirs.db", "folder", "no/such/folder/x.db"])
def test_a_file_that_is_no_store_is_refused_and_not_changed(store: str) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    for name in WITH_STORE:
        result = call(name, "--store", store, *filled(name, "1"))
        # `read` takes a file that is no store for JSON lines, whose bad lines are skipped.
        expected = 0 if (name, store) == ("standfast read", "garbage.bin") else 2
        assert result.exit_code == expected, f"{name}: {result.output}"

    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("option", ["--store", "--namespace"])
def test_an_option_that_is_empty_means_no_other_store(option: str) -> None:
    """It is a variable of the shell that is not set, and the setting would be another store."""
    call("standfast remember", "The shelf holds nine books.", "--scope", "user/ada")
    result = call("standfast forget", "--scope", "user/ada", "--reason", "r", "--yes", option, "")

    assert result.exit_code == 2
    assert "is empty" in result.output
    assert "nine books" in call("standfast at", "--scope", "user/ada").output


def test_a_url_of_another_database_is_no_path() -> None:
    for name in ("standfast remember", "standfast recall"):
        assert "postgresql://" in call(name, "A fact.", "--store", "mysql://db/x").output


def test_a_folder_is_called_one() -> None:
    assert "it is a folder" in call("standfast remember", "A fact.", "--store", "folder").output


def test_an_unreachable_server_is_reported() -> None:
    result = call("standfast history", "--store", "postgresql://127.0.0.1:1/x", "cats")

    assert result.exit_code == 2
    assert "cannot_open" in result.output or "store_failed" in result.output


@pytest.mark.parametrize(
    "text",
    [
        "store = ",
        "no_such_setting = 1",
        'strict = "maybe"',
        'visibility_mode = "live_read_write"',
        'store = ""',
        "\xff",
    ],
)
def test_bad_settings_are_reported_with_file_and_name(text: str) -> None:
    Path("standfast.toml").write_text(text, encoding="latin-1")
    result = call("standfast history", "cats")

    assert result.exit_code == 2
    assert "invalid_settings" in result.output
    assert "standfast.toml" in result.output or "settings" in result.output


def test_errors_are_objects_with_json() -> None:
    for name in WITH_STORE:
        if any("--json" in one.opts for one in LEAVES[name].params):
            result = call(name, "--json", "--store", "theirs.db", *filled(name, "1"))
            answer = json.loads(result.stdout)
            assert set(answer["error"]) == {"code", "message", "facts"}, name


def test_a_question_without_a_yes_is_an_object_with_json() -> None:
    call("standfast remember", "The shelf holds nine books.", "--subject", "shelf", "--store", "s.db")
    result = call("standfast forget", "shelf", "--reason", "r", "--store", "s.db", "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "declined"
    assert "nine books" in call("standfast history", "shelf", "--store", "s.db").output


def test_an_export_replaces_a_file_when_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Iterator[str]:
        yield "half of it"
        raise StoreFailed(store="s.db", problem="the disk is gone")

    call("standfast remember", "The shelf holds nine books.", "--store", "s.db")
    Path("out.jsonl").write_text("earlier")
    monkeypatch.setattr("standfast.adapters.commands.export_text", broken)
    failed = call("standfast export", "out.jsonl", "--store", "s.db")

    assert failed.exit_code == 2
    assert Path("out.jsonl").read_text() == "earlier"
    assert not list(Path().glob(".*"))


def test_an_export_writes_into_a_pipe_and_makes_an_empty_file() -> None:
    """It replaced the pipe, or the device, by a file."""
    call("standfast remember", "The shelf holds nine books.", "--store", "s.db")
    os.mkfifo("pipe")
    reader = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    call("standfast export", "pipe", "--store", "s.db")
    read = os.read(reader, 100_000)
    os.close(reader)
    none = call("standfast export", "none.jsonl", "--scope", "user/nobody", "--store", "s.db", "--json")

    assert b"nine books" in read
    assert Path("pipe").is_fifo()
    assert Path("none.jsonl").read_text() == ""
    assert json.loads(none.stdout) == {"file": "none.jsonl", "file_format": "jsonl"}


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_output_that_can_not_be_written_is_no_traceback(options: list[str]) -> None:
    call("standfast remember", "The shelf holds nine books.", "--store", "s.db")
    words = [sys.executable, "-m", "standfast", "at", "--store", "s.db", *options]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *words], stderr=subprocess.PIPE, text=True, check=False
    )

    assert result.returncode == 2
    assert "Traceback" not in result.stderr + closed.stderr
    assert closed.returncode == 0


def test_every_command_has_json() -> None:
    """Except the hook of coding agents, whose standard output carries a protocol."""
    without = [name for name, one in LEAVES.items() if not any("--json" in part.opts for part in one.params)]

    assert without == ["standfast hook"]


@pytest.mark.parametrize(
    ("command", "example"),
    [("remember", "doc:handbook#4"), ("forget", "doc:handbook"), ("quarantine", "doc:handbook")],
)
def test_the_help_shows_a_source_in_the_form_that_the_option_takes(command: str, example: str) -> None:
    shown = " ".join(call(f"standfast {command}", "--help").output.split())

    assert f"such as {example}" in shown
    assert '"kind"' not in shown
