"""``standfast mcp install`` and ``uninstall``, in a home folder of their own."""

import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from standfast.cli import main
from standfast.errors import InvalidValue
from standfast.server.mcp.clients import CLIENTS, ClientMachine, entry_for, install, uninstall
from standfast.server.mcp.config_files import (
    with_json_entry,
    with_toml_entry,
    without_json_entry,
    without_toml_entry,
)

ENTRY: dict[str, Any] = {"command": "standfast", "args": ["mcp", "--store", '/tmp/é\\ "x".db']}
PROJECT_FILES = {
    "claude-code": (".mcp.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".vscode/mcp.json", "servers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "zed": (".zed/settings.json", "context_servers"),
}
USER_FILES = {
    "claude-code": ".claude.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "codex": ".codex/config.toml",
    "zed": ".config/zed/settings.json",
}
ZED = """// Zed settings
{
  "theme": "One Dark", // dark
  /* servers */
  "context_servers": {
    // mine
    "files": {
      "command": "files", // note
      "args": [],
    }, // end
  },
  "vim_mode": false,
}
"""
CODEX = """# mine
model = "gpt-5" # the best

[mcp_servers.files]
command = "files"

[mcp_servers.files.env]
A = "1"

[profiles.x]
model = "y"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, with a repository that is the working directory."""
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "APPDATA", "STANDFAST_STORE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "src").mkdir()
    monkeypatch.chdir(tmp_path / "repo" / "src")
    return tmp_path


def call(*words: str) -> Result:
    """Call the command."""
    return CliRunner().invoke(main, ["mcp", *words])


def held(file: Path) -> dict[str, Any]:
    """What a settings file holds."""
    text = file.read_text(encoding="utf-8")
    loaded: dict[str, Any] = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    return loaded


@pytest.mark.parametrize("client", PROJECT_FILES)
def test_in_a_repository_the_entry_and_memory_are_the_projects(home: Path, client: str) -> None:
    path, section = PROJECT_FILES[client]
    file = home / "repo" / path
    result = call("install", client)

    assert result.exit_code == 0, result.output
    assert str(file) in result.output
    entry = held(file)[section]["standfast"]
    assert entry["args"][-3:-1] == ["mcp", "--store"]
    assert entry["args"][-1].endswith("/.standfast/memory.db")
    assert str(home) not in entry["args"][-1] or client in ("codex", "zed"), "a team can share the file"
    assert entry.get("type") == ("stdio" if client == "vscode" else None)
    assert entry["args"][-1] in result.output
    assert "unchanged" in call("install", client).output
    assert call("uninstall", client).exit_code == 0
    assert not file.exists()
    assert call("uninstall", client).exit_code == 1


@pytest.mark.parametrize("client", USER_FILES)
def test_for_a_user_the_entry_and_memory_are_in_the_home_folder(home: Path, client: str) -> None:
    result = json.loads(call("install", client, "--user", "--json", "--tools", "all").output)
    file = home / USER_FILES[client]

    assert result["file"] == str(file)
    assert result["done"] == "added"
    assert result["memory"] == str(home / ".standfast" / "memory.db")
    (entry,) = [one["standfast"] for one in held(file).values()]
    assert entry == result["entry"]
    assert entry["args"][-2:] == ["--tools", "all"]
    assert json.loads(call("uninstall", client, "--user", "--json").output)["removed"] is True


def test_where_files_are_on_other_systems(tmp_path: Path) -> None:
    mac = ClientMachine(cwd=tmp_path, home=Path("/h"), platform="darwin", variables={})
    windows = ClientMachine(cwd=tmp_path, home=Path("/h"), platform="win32", variables={"APPDATA": "/a"})
    moved = ClientMachine(cwd=tmp_path, home=Path("/h"), platform="linux", variables={"CODEX_HOME": "/c"})
    support = "/h/Library/Application Support"

    assert str(mac.user_file(CLIENTS["claude-desktop"])) == f"{support}/Claude/claude_desktop_config.json"
    assert str(mac.user_file(CLIENTS["vscode"])) == f"{support}/Code/User/mcp.json"
    assert str(mac.user_file(CLIENTS["zed"])) == "/h/.config/zed/settings.json"
    assert str(windows.user_file(CLIENTS["zed"])) == "/a/Zed/settings.json"
    assert str(windows.user_file(CLIENTS["vscode"])) == "/a/Code/User/mcp.json"
    assert str(moved.user_file(CLIENTS["codex"])) == "/c/config.toml"


def test_the_entry_starts_a_server_that_remembers_beside_the_source(home: Path) -> None:
    """As a client would: the command of the file, from the repository's folder, with the folder filled in."""
    call("install", "cursor")
    entry = held(home / "repo" / ".cursor" / "mcp.json")["mcpServers"]["standfast"]
    words = [one.replace("${workspaceFolder}", str(home / "repo")) for one in entry["args"]]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "standfast", *words[words.index("mcp") :]],
        env={"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(home)},
        cwd=home,
    )

    async def use() -> None:
        async with Client(server) as client:
            await client.call_tool("memory_remember", {"text": "We deploy on Thursdays."})

    anyio.run(use)
    folder = home / "repo" / ".standfast"

    assert (folder / "memory.db").exists()
    assert (folder / ".gitignore").read_text() == "*\n"


def test_other_entries_comments_mode_and_links_stay(home: Path) -> None:
    real = home / "dotfiles" / "zed.json"
    real.parent.mkdir()
    real.write_text(ZED)
    real.chmod(0o600)
    file = home / ".config" / "zed" / "settings.json"
    file.parent.mkdir(parents=True)
    file.symlink_to(real)
    call("install", "zed", "--user")

    added = real.read_text()
    assert file.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert all(line in added for line in ZED.splitlines())
    assert call("uninstall", "zed", "--user").exit_code == 0
    assert real.read_text() == ZED
    assert [one.name for one in real.parent.iterdir()] == ["zed.json"], "no temporary file is left"


def test_an_entry_that_changed_is_replaced_and_a_rehearsal_writes_nothing(home: Path) -> None:
    file = home / "repo" / ".mcp.json"
    assert "would be written" in call("install", "claude-code", "--dry-run").output
    assert not file.exists()
    call("install", "claude-code", "--store", "../here.db")
    first = held(file)["mcpServers"]["standfast"]["args"]
    changed = call("install", "claude-code", "--name", "standfast")

    assert first[-1] == str(home / "repo" / "src" / "../here.db")
    assert "changed" in changed.output
    assert held(file)["mcpServers"]["standfast"]["args"][-1].startswith("${CLAUDE_PROJECT_DIR:-.}")


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("cursor", '{"mcpServers": {'),
        ("cursor", '{"mcpServers": ["x"]}'),
        ("cursor", "[1]"),
        ("cursor", "{} {}"),
        ("cursor", "{'a': 1}"),
        ("codex", "[mcp_servers"),
        ("codex", 'mcp_servers = "x"'),
        ("codex", "mcp_servers = { standfast = { command = 'x' } }\n"),
    ],
)
def test_a_file_that_can_not_be_changed_stays_and_the_entry_is_told(
    home: Path, client: str, text: str
) -> None:
    file = home / "repo" / PROJECT_FILES[client][0]
    file.parent.mkdir()
    file.write_text(text)
    result = call("install", client)

    assert result.exit_code == 2
    assert "It was not changed" in result.output
    assert "--store" in result.output, "what to add by hand"
    assert file.read_text() == text


def test_mistakes_are_named(home: Path) -> None:
    assert "no settings for a project" in call("install", "claude-desktop", "--project").output
    assert "not both" in call("install", "cursor", "--project", "--user").output
    assert call("install", "emacs").exit_code == 2
    os.chdir(home)
    assert "is in no Git repository" in call("install", "cursor", "--project").output
    assert json.loads(call("install", "cursor", "--dry-run", "--json").output)["file"] == str(
        home / ".cursor" / "mcp.json"
    )


def test_a_program_that_is_not_on_the_path_is_started_by_its_interpreter(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(home))
    entry = entry_for(ClientMachine(cwd=home, home=home), CLIENTS["cursor"])

    assert entry.content["command"] == sys.executable
    assert entry.content["args"][:3] == ["-m", "standfast", "mcp"]


JSON_FILES = [
    "",
    "{}",
    "{}\n",
    '{"a": 1}',
    '{"a": 1, "servers": {}}',
    '{"servers": {"x": {"command": "y"}}, "b": [1, {"c": null}]}',
    '{\n\t"a": "}, // no comment",\n\t"servers": {\n\t\t"x": {}\n\t}\n}\n',
    "{\n    // only a comment\n}\n",
    '{\n  "servers": {\n    // only a comment\n  }\n}\n',
    '{\n  "a": 1 // last\n}\n',
    ZED,
    ZED.replace("context_servers", "servers"),
]


@pytest.mark.parametrize("text", JSON_FILES)
def test_a_json_entry_is_added_and_taken_out_again(text: str) -> None:
    added = with_json_entry(text, "servers", "standfast", ENTRY)
    back = without_json_entry(added, "servers", "standfast")

    assert with_json_entry(added, "servers", "standfast", ENTRY) == added
    assert back is not None
    assert without_json_entry(back, "servers", "standfast") is None
    for comment in ("// only a comment", "// last", "// mine", "/* servers */", "// note"):
        assert (comment in added) == (comment in text)


@pytest.mark.parametrize(
    ("client", "content"),
    [
        ("cursor", '{\n  "mcpServers": {\n    // none yet\n  }\n}\n'),
        (
            "cursor",
            '{\n  "a": 1, // one\n  "mcpServers": {\n    /* mine */ "x": {"command": "y"},\n  },\n}\n',
        ),
        ("cursor", '\ufeff{\n  "a": 1\n}\n'),
        ("cursor", '{\r\n  "a": 1,\r\n  "mcpServers": {\r\n    "x": {}\r\n  }\r\n}\r\n'),
        ("cursor", '{\r\n  "a": 1\r\n}\r\n'),
        ("codex", 'model = "o3"\r\n\r\n[mcp_servers.x]\r\ncommand = "y"\r\n'),
        ("codex", 'model = "o3" # mine   \n\n\n'),
        ("codex", "[mcp_servers]\n\n[other]\nb = 1\n"),
        ("codex", '\ufeffmodel = "o3"\n'),
    ],
)
def test_what_was_installed_is_undone_to_the_byte(home: Path, client: str, content: str) -> None:
    """Comments, line ends, a byte-order mark and empty tables included."""
    entry = entry_for(ClientMachine(cwd=home, home=home, variables={}), CLIENTS[client])
    entry.file.parent.mkdir(parents=True, exist_ok=True)
    entry.file.write_bytes(content.encode())
    assert install(entry) == "added"
    added = entry.file.read_bytes()
    assert added.count(b"\r") in (0, added.count(b"\n")), "all lines end alike"
    assert uninstall(entry)

    assert entry.file.read_bytes() == content.encode()


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(
    before=st.dictionaries(names, values, max_size=3),
    servers=st.none() | st.dictionaries(names, st.dictionaries(names, values, max_size=2), max_size=3),
    indent=st.sampled_from([None, 2, "\t"]),
)
def test_whatever_a_json_file_holds_only_the_entry_changes(
    before: dict[str, Any], servers: dict[str, Any] | None, indent: int | str | None
) -> None:
    file = {**before, **({} if servers is None else {"servers": servers})}
    text = json.dumps(file, indent=indent)
    added = with_json_entry(text, "servers", "standfast", ENTRY)
    back = without_json_entry(added, "servers", "standfast")
    others = {name: one for name, one in (servers or {}).items() if name != "standfast"}

    assert json.loads(added) == {**file, "servers": {**(servers or {}), "standfast": ENTRY}}
    assert back is not None
    assert json.loads(back) == {**before, **({"servers": others} if others else {})}


@pytest.mark.parametrize("text", ["", CODEX, CODEX.rstrip("\n"), "a = 1", "# only a comment\n"])
def test_a_toml_entry_is_added_and_taken_out_again(text: str) -> None:
    added = with_toml_entry(text, "mcp_servers", "standfast", ENTRY)
    back = without_toml_entry(added, "mcp_servers", "standfast")
    other = with_toml_entry(added, "mcp_servers", "standfast", {**ENTRY, "command": "x"})

    assert tomllib.loads(added)["mcp_servers"]["standfast"] == ENTRY
    assert tomllib.loads(other)["mcp_servers"]["standfast"]["command"] == "x"
    assert back is not None
    assert back.strip() == text.strip()
    assert without_toml_entry(back, "mcp_servers", "standfast") is None


def test_a_table_between_others_is_replaced_in_place() -> None:
    text = CODEX.replace(
        "[mcp_servers.files]", '[mcp_servers.standfast]\ncommand = "old"\n\n[mcp_servers.files]'
    )
    changed = with_toml_entry(text, "mcp_servers", "standfast", ENTRY)

    assert changed.index("standfast") < changed.index("[mcp_servers.files]")
    assert without_toml_entry(changed, "mcp_servers", "standfast") == CODEX


def test_a_text_that_looks_like_a_table_is_not_taken_for_one() -> None:
    text = 'note = """\n[mcp_servers.standfast]\n"""\n'

    with pytest.raises(InvalidValue, match="without changing something else"):
        with_toml_entry(text, "mcp_servers", "standfast", ENTRY)


def test_installing_does_not_load_the_sdk(home: Path) -> None:
    program = (
        "import sys; sys.modules['mcp'] = None\n"
        "from standfast.cli import main\n"
        "main(['mcp', 'install', 'cursor', '--dry-run'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
