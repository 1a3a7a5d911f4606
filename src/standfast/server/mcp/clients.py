"""``standfast mcp install``: entries for this server in the settings of MCP clients, as each documents them.

Project memory is in the repository's folder, user memory in the home folder. Nothing here imports the SDK.
"""

import json
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from standfast.durable import sync_folder
from standfast.errors import InvalidValue, StandfastError
from standfast.places import FOLDER, STORE, memory_in, repository_of
from standfast.server.mcp.config_files import (
    with_json_entry,
    with_toml_entry,
    without_json_entry,
    without_toml_entry,
)

_T = TypeVar("_T")
DEFAULT_NAME: Final = "standfast"
_MARK: Final = "\ufeff"
"""The byte-order mark, with which some editors begin a file. It stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMachine:
    """Where files are: the folder that the command was called in, the home folder, and what the system is."""

    cwd: Path
    home: Path
    platform: str = sys.platform
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def repository(self) -> Path | None:
        """The folder of the Git repository that the working directory is in."""
        return repository_of(self.cwd)

    @property
    def settings_folder(self) -> Path:
        """Where applications keep the settings of a user."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.variables.get("APPDATA") or self.home / "AppData" / "Roaming")
        return self._xdg

    @property
    def _xdg(self) -> Path:
        return Path(self.variables.get("XDG_CONFIG_HOME") or self.home / ".config")

    def user_file(self, client: "ClientSettings") -> Path:
        """The settings of a user in a client."""
        if client.home_variable and self.variables.get(client.home_variable):
            return Path(self.variables[client.home_variable]) / Path(client.user_file).name
        if not client.user_file.startswith("@"):
            return self.home / client.user_file
        if client.name == "zed" and self.platform != "win32":
            # Zed has the same folder on macOS and Linux.
            return self._xdg / "zed" / "settings.json"
        return self.settings_folder / client.user_file.removeprefix("@")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """A program that uses MCP servers, and how its settings name one.

    Args:
        section: The object, or TOML table, with an entry for each server.
        user_file: The settings of a user, below the home folder; behind ``@``, below the folder where
            applications keep settings.
        project_file: The settings of a project, below its folder; None if it has none.
        project_folder: What stands for the project's folder in these; empty if nothing is documented.
        fields: What an entry has besides the command and its arguments.
        home_variable: The environment variable that names another folder for ``user_file``.
    """

    name: str
    title: str
    section: str
    user_file: str
    project_file: str | None = None
    project_folder: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    home_variable: str = ""


CLIENTS: Final[Mapping[str, ClientSettings]] = {
    name: ClientSettings(name=name, **fields)
    for name, fields in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEntry:
    """An entry in the settings of a client, and the memory that it names."""

    client: ClientSettings
    file: Path
    name: str
    content: dict[str, Any]
    store: str
    """The memory, as the entry names it."""
    is_project: bool

    @property
    def shown(self) -> str:
        """The entry as it stands in the file."""
        if self.file.suffix == ".toml":
            return with_toml_entry("", self.client.section, self.name, self.content).rstrip()
        return json.dumps({self.client.section: {self.name: self.content}}, indent=2, ensure_ascii=False)


def entry_for(
    machine: ClientMachine,
    client: ClientSettings,
    *,
    for_user: bool = False,
    for_project: bool = False,
    name: str = DEFAULT_NAME,
    store: str | None = None,
    tools: str = "",
) -> ServerEntry:
    """The entry that a client needs.

    Args:
        for_user: In the user's settings. By default in those of the repository, if there is one and the
            client reads any.
        for_project: In the settings of the repository, or nowhere.
        store: The memory, if it is another one than that of the project or the user.
        tools: The set of tools, if it is not the small one.
    """
    root = None if for_user or client.project_file is None else machine.repository
    if for_project and root is None:
        problem = (
            f"{client.title} has no settings for a project"
            if client.project_file is None
            else f"{machine.cwd} is in no Git repository"
        )
        raise InvalidValue(what="--project", problem=f"{problem}; use --user")
    memory = memory_in(root or machine.home)
    shown = str(memory) if store is None else store
    if store is None and root is not None and client.project_folder:
        shown = f"{client.project_folder}/{FOLDER}/{STORE}"
    elif store is not None and "://" not in store:
        # A client starts the server in a folder of its own choice.
        shown = str(machine.cwd / store)
    program, *words = _command(is_shared=root is not None)
    more = ["--tools", tools] if tools else []
    content = {**client.fields, "command": program, "args": [*words, "mcp", "--store", shown, *more]}
    file = machine.user_file(client) if root is None else root / (client.project_file or "")
    return ServerEntry(
        client=client, file=file, name=name, content=content, store=shown, is_project=root is not None
    )


def _command(*, is_shared: bool) -> list[str]:
    """How a client starts this program. A file that a team shares names it without a path, if that works."""
    found = shutil.which("standfast")
    if found is None:
        return [sys.executable, "-m", "standfast"]
    return ["standfast"] if is_shared else [str(Path(found).absolute())]


def install(entry: ServerEntry) -> str:
    """Write an entry. Returns what happened: ``added``, ``changed``, or ``unchanged``."""
    before = _text_of(entry.file)
    add = with_toml_entry if entry.file.suffix == ".toml" else with_json_entry
    after = _edited(entry, lambda: add(before or "", entry.client.section, entry.name, entry.content))
    if after == before:
        return "unchanged"
    removed = _removed(entry, before or "")
    _write(entry.file, after)
    return "added" if removed is None else "changed"


def uninstall(entry: ServerEntry) -> bool:
    """Take an entry out again; False if it is not there. A file that held nothing else is removed."""
    before = _text_of(entry.file)
    after = None if before is None else _removed(entry, before)
    if after is None:
        return False
    if "".join(after.split()) in ("", "{}"):
        entry.file.resolve().unlink()
    else:
        _write(entry.file, after)
    return True


def _removed(entry: ServerEntry, text: str) -> str | None:
    remove = without_toml_entry if entry.file.suffix == ".toml" else without_json_entry
    return _edited(entry, lambda: remove(text, entry.client.section, entry.name))


def _edited(entry: ServerEntry, edit: Callable[[], _T]) -> _T:
    try:
        return edit()
    except StandfastError as error:
        problem = f"{error.facts['problem']}. It was not changed. Mend it, or add by hand:\n{entry.shown}"
        raise InvalidValue(what=str(entry.file), problem=problem) from None


def _text_of(file: Path) -> str | None:
    try:
        return file.read_bytes().decode().removeprefix(_MARK)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(what=str(file), problem=f"it can't be read: {error}") from None


def make_memory_folder(store: str) -> None:
    """Make the folder of a memory that an entry names, which Git does not see: it is no source."""
    folder = Path(store).parent
    if "://" in store or folder.name != FOLDER:
        return
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def _write(file: Path, text: str) -> None:
    """Replace a file in one step, with its mode. A link stays a link."""
    target = file.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode, mark = 0o644, ""
    if target.exists():
        mode = target.stat().st_mode & 0o777
        mark = _MARK if target.read_bytes().startswith(_MARK.encode()) else ""
    descriptor, made = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as new:
            new.write(f"{mark}{text}")
            new.flush()
            os.fsync(new.fileno())
        Path(made).chmod(mode)
        Path(made).replace(target)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
