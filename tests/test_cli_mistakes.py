"""A user's mistake is told in words by every command: no traceback, a documented exit code, and with --json an object."""

import json
import sqlite3
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from standfast.cli import main
from tests.project.cli_reference import contexts

# These end when they are told to; each of the mistakes below must keep them from beginning.
SERVERS = ("standfast serve", "standfast mcp")
# It makes all that it needs, and takes as long as a tour takes.
TOUR = "standfast demo"
LEAVES = {
    context.command_path: context.command
    for context in contexts(main, "standfast")
    if not isinstance(context.command, click.Group)
}
NAMES = sorted(set(LEAVES) - {TOUR})
QUIET = [name for name in NAMES if name not in SERVERS]
WITH_STORE = [name for name in NAMES if any("--store" in one.opts for one in LEAVES[name].params)]
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
    Path("garbage.bin").write_bytes(bytes(range(256)) * 8)
    Path("folder").mkdir()
    with sqlite3.connect("theirs.db") as theirs:
        theirs.execute("CREATE TABLE contacts (name TEXT)")
    theirs.close()


def call(name: str, *words: str) -> Result:
    result = CliRunner().invoke(main, [*name.split()[1:], *words], input="")
    told = f"{name} {words!r:.300}: {result.exception!r:.200} {result.output:.300}"

    assert result.exception is None or isinstance(result.exception, SystemExit), told
    assert result.exit_code in (0, 1, 2), told
    assert "Traceback" not in result.output, told
    return result


def parts(name: str) -> tuple[list[click.Argument], list[click.Option]]:
    """The arguments of a command, and the options that take a value."""
    found = LEAVES[name].params
    options = [one for one in found if isinstance(one, click.Option) and not one.is_flag and not one.count]
    return [one for one in found if isinstance(one, click.Argument)], options


def filled(name: str, value: str) -> list[str]:
    """A call in which all that must be given is this."""
    arguments, options = parts(name)
    needed = [f"{one.opts[-1]}={value}" for one in options if one.required]
    needed += ["--yes" for one in LEAVES[name].params if "--yes" in one.opts]
    given = [value] * sum(max(1, one.nargs) for one in arguments)
    return [*needed, "--", *given] if given else needed


@pytest.mark.parametrize("name", QUIET)
def test_bad_arguments_are_told_in_words(name: str) -> None:
    for value in BAD_VALUES:
        call(name, *filled(name, value))


@pytest.mark.parametrize("name", QUIET)
def test_bad_options_are_told_in_words(name: str) -> None:
    for option in parts(name)[1]:
        for value in BAD_VALUES:
            call(name, f"{option.opts[-1]}={value}", *filled(name, "1"))


def test_an_unknown_option_and_a_missing_argument_have_exit_code_2() -> None:
    for name in QUIET:
        assert call(name, "--no-such-option").exit_code == 2
        if any(one.required for one in LEAVES[name].params):
            assert call(name).exit_code == 2


@pytest.mark.parametrize("store", ["garbage.bin", "theirs.db", "folder", "no/such/folder/x.db"])
def test_a_store_that_is_none_is_refused_in_words_and_left_alone(store: str) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    for name in WITH_STORE:
        result = call(name, "--store", store, *filled(name, "1"))
        # A file that is no store is read as JSON lines, each of which may be bad.
        expected = 0 if (name, store) == ("standfast read", "garbage.bin") else 2
        assert result.exit_code == expected, f"{name}: {result.output}"

    assert {path: path.read_bytes() for path in before} == before


def test_a_server_that_is_not_there_is_told_in_words() -> None:
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
def test_bad_settings_are_told_in_words_with_the_file_and_the_name(text: str) -> None:
    Path("standfast.toml").write_text(text, encoding="latin-1")
    result = call("standfast history", "cats")

    assert result.exit_code == 2
    assert "invalid_settings" in result.output
    assert "standfast.toml" in result.output or "settings" in result.output


def test_errors_are_objects_where_json_is_asked_for() -> None:
    for name in WITH_STORE:
        if any("--json" in one.opts for one in LEAVES[name].params):
            result = call(name, "--json", "--store", "theirs.db", *filled(name, "1"))
            told = json.loads(result.stdout)
            assert set(told["error"]) == {"code", "message", "facts"}, name


def test_every_command_that_answers_has_json() -> None:
    """The server over standard input speaks a protocol of its own."""
    without = [name for name, one in LEAVES.items() if not any("--json" in part.opts for part in one.params)]

    assert without == ["standfast mcp"]
