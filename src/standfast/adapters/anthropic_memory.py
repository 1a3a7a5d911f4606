"""Anthropic's memory tool over a scope: Claude's files under ``/memories`` are records, judged and versioned.

    tool = StandfastMemoryTool(Memory.open("agent.db"), scope="user/ada")
    runner = client.beta.messages.tool_runner(model=…, messages=[…], tools=[tool])

Each file is one record; its path is the subject, e.g. ``memories/notes/tea.md``. A long file has further
parts, which are records of their own (``memories#2/notes/tea.md``). A directory exists while a file is in it.
What the judge does not accept is not stored, and Claude is told why. ``memory.recall`` finds them too.
"""

import json
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from standfast.adapters.data_refs import data_ref, data_ref_of
from standfast.adapters.on_refusal import OnRefusal
from standfast.errors import InvalidValue, MissingExtra
from standfast.govern.judge.secrecy import redacted_json
from standfast.memory import Memory, Run
from standfast.memory.messages import cut_text
from standfast.records.origins import Origin
from standfast.records.scopes import SHARED, checked_scope, scoped_key
from standfast.records.vocabulary import Band, Record, VisibilityMode, member_of
from standfast.store.stored_records import record_of

try:
    from anthropic.lib.tools import BetaAbstractMemoryTool, ToolError
    from anthropic.types.beta import (
        BetaMemoryTool20250818CreateCommand,
        BetaMemoryTool20250818DeleteCommand,
        BetaMemoryTool20250818InsertCommand,
        BetaMemoryTool20250818RenameCommand,
        BetaMemoryTool20250818StrReplaceCommand,
        BetaMemoryTool20250818ViewCommand,
    )
except ImportError:
    raise MissingExtra(feature="Anthropic's memory tool", extra="anthropic") from None

_ROOT: Final = "/memories"
_SUBJECTS: Final = "memories"
_KIND: Final = "memory-file"
_WORKFLOW: Final = "memory-tool"
_MAX_PATH_CHARS: Final = 200
# A part is judged with its JSON, in which a character may take twelve, and stays within what the judge reads.
_PART_CHARS: Final = 2_000
_LISTED_LEVELS: Final = 2
_LINE_WIDTH: Final = 6
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "view": frozenset({"path", "view_range"}),
    "create": frozenset({"path", "file_text"}),
    "str_replace": frozenset({"path", "old_str", "new_str"}),
    "insert": frozenset({"path", "insert_line", "insert_text"}),
    "delete": frozenset({"path"}),
    "rename": frozenset({"old_path", "new_path"}),
}


class StandfastMemoryTool(BetaAbstractMemoryTool):
    """The memory tool of one scope. Threads may share it.

    Args:
        memory: Where the files are stored.
        scope: Whose files they are, e.g. ``"user/ada"``. Nothing outside of it is shown or changed.
        on_refusal: What becomes of a file that the judge refuses: ``"raise"``, the default, tells Claude why;
            ``"redact"`` stores it without its secrets, and tells why if it is refused all the same.
        max_origin: The most that the files may be trusted: the agent's own word is ordinary.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        scope: str = SHARED,
        on_refusal: OnRefusal | str = OnRefusal.RAISE,
        max_origin: Origin | str = Origin.ORDINARY,
    ) -> None:
        super().__init__()
        self.memory = memory
        self._on_refusal = OnRefusal.of(on_refusal)
        if self._on_refusal is OnRefusal.SKIP:
            problem = "a model must be told that its file was not stored; use raise or redact"
            raise InvalidValue(what="on_refusal", problem=problem)
        self._max_origin = member_of(Origin, max_origin, what="max_origin")
        self.scope = checked_scope(scope)

    def call(self, input: object) -> str:  # noqa: A002  # The SDK's name.
        """Carry out a command, given as the model sends it.

        Raises the SDK's ``ToolError`` with what to tell the model.
        """
        if not isinstance(input, Mapping) or input.get("command") not in _FIELDS:
            raise ToolError(f"Unknown command; the commands are {', '.join(_FIELDS)}")
        unknown = sorted(set(input) - _FIELDS[input["command"]] - {"command"})
        if unknown:
            raise ToolError(f"Unknown parameter `{unknown[0]}` of {input['command']}")
        missing = sorted(_FIELDS[input["command"]] - set(input) - {"view_range"})
        if missing:
            raise ToolError(f"Missing parameter `{missing[0]}` of {input['command']}")
        return str(super().call(input))

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file with line numbers, or list a directory two levels deep."""
        path = _checked(command.path)
        files = self._files()
        if path in files:
            return _numbered(command.path, files[path], command.view_range)
        if path != () and not _below(files, path):
            raise ToolError(f"The path {command.path} does not exist. Please provide a valid path.")
        return _listing(command.path.rstrip("/"), path, files)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file. One that exists is not overwritten."""
        path = _checked(command.path)
        files = self._files()
        _require_file_name(command.path, path)
        if path in files or _below(files, path):
            raise ToolError(f"File {command.path} already exists")
        if parent := next((one for one in files if path[: len(one)] == one), None):
            raise ToolError(f"The path {_shown(parent)} is not a directory.")
        self._write(lambda run: self._remember(run, path, command.file_text))
        return f"File created successfully at: {command.path}"

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace a text that stands once in a file."""
        path, content = self._content(command.path)
        count = content.count(command.old_str) if command.old_str else 0
        if count == 0:
            raise ToolError(
                f"No replacement was performed, old_str `{command.old_str}` did not appear verbatim in"
                f" {command.path}."
            )
        if count > 1:
            lines = ", ".join(str(line) for line in _lines_with(content, command.old_str))
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{command.old_str}` in lines:"
                f" {lines}. Please ensure it is unique"
            )
        changed = content.replace(command.old_str, command.new_str)
        self._write(lambda run: self._remember(run, path, changed))
        line = content[: content.find(command.old_str)].count("\n")
        lines_after = changed.split("\n")
        snippet = "\n".join(
            f"{number + 1:>{_LINE_WIDTH}}\t{lines_after[number]}"
            for number in range(max(0, line - 2), min(len(lines_after), line + 3))
        )
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line"
            f" numbers):\n{snippet}"
        )

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert a text after a line; 0 is the beginning."""
        path, content = self._content(command.path)
        lines = content.split("\n")
        if lines[-1] == "":
            lines.pop()
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. It should be within the range [0,"
                f" {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        changed = "\n".join(lines)
        self._write(
            lambda run: self._remember(run, path, changed if changed.endswith("\n") else f"{changed}\n")
        )
        return f"The file {command.path} has been edited."

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Delete a file, or a directory with everything in it, and erase the content."""
        path = _checked(command.path)
        if path == ():
            raise ToolError(f"Cannot delete the {_ROOT} directory itself")
        found = _below(self._files(), path)
        if not found:
            raise ToolError(f"The path {command.path} does not exist")
        self._write(lambda run: self._forget(run, found))
        return f"Successfully deleted {command.path}"

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename or move a file or a directory. What is at the destination is not overwritten."""
        old, new = _checked(command.old_path), _checked(command.new_path)
        if old == ():
            raise ToolError(f"Cannot rename the {_ROOT} directory itself")
        files = self._files()
        found = _below(files, old)
        if not found:
            raise ToolError(f"The path {command.old_path} does not exist")
        if new == () or _below(files, new):
            raise ToolError(f"The destination {command.new_path} already exists")
        if new[: len(old)] == old:
            raise ToolError(f"Cannot move {command.old_path} into itself")

        def move(run: Run) -> None:
            for path in found:
                moved = new + path[len(old) :]
                _require_file_name(_shown(moved), moved)
                self._remember(run, moved, files[path])
            self._forget(run, found)

        self._write(move)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    def clear_all_memory(self) -> str:
        """Delete every file, and erase the content."""
        found = list(self._files())
        if found:
            self._write(lambda run: self._forget(run, found))
        return "All memory cleared"

    # Files as records.

    def _files(self) -> dict[tuple[str, ...], str]:
        """The content of every file, by path."""
        parts, counts = self._parts(), dict[tuple[str, ...], int]()
        for (path, number), part in parts.items():
            if number == 1:
                counts[path] = part.of_parts
        found = {
            path: [parts[path, number] for number in range(1, count + 1) if (path, number) in parts]
            for path, count in counts.items()
        }
        return {
            path: "".join(part.content for part in found[path])
            for path in sorted(found)
            if len(found[path]) == counts[path]
        }

    def _parts(self) -> dict[tuple[tuple[str, ...], int], "_Part"]:
        """The parts of every file, by path and number."""
        self.memory.require_readable("read files")
        prefix = scoped_key(Band.LEDGER, self.scope, _SUBJECTS)
        rows = self.memory.store.scan(self.memory.namespace, prefix=prefix)
        found = (_part_of(record_of(row)) for row in rows)
        parts: dict[tuple[tuple[str, ...], int], _Part] = {}
        for part in found:
            if part is not None:
                # What an untrusted source says about the same subject has a longer key, and comes later.
                parts.setdefault((part.path, part.number), part)
        return parts

    def _content(self, shown: str) -> tuple[tuple[str, ...], str]:
        path, files = _checked(shown), self._files()
        if path in files:
            return path, files[path]
        if path == () or _below(files, path):
            raise ToolError(f"The path {shown} is not a file.")
        raise ToolError(f"The path {shown} does not exist. Please provide a valid path.")

    def _write(self, change: Callable[[Run], None]) -> None:
        """Carry out a change in one commit; nothing of it if the judge does not accept all of it."""

        def attempt() -> None:
            with self.memory.run(
                workflow=_WORKFLOW, mode=VisibilityMode.BUFFERED_WRITE, max_origin=self._max_origin
            ) as run:
                change(run)

        self.memory.retry(attempt, key=f"{_WORKFLOW} {self.scope}")

    def _remember(self, run: Run, path: tuple[str, ...], content: str) -> None:
        pieces = cut_text(self._on_refusal.prepared(content), max_chars=_PART_CHARS)
        for number, piece in enumerate(pieces, 1):
            ref = data_ref(_KIND, content=json.dumps(piece))
            if number == 1 < len(pieces):
                ref["parts"] = str(len(pieces))
            # Two equal parts must not be taken for one record.
            title = _shown(path) if number == 1 else f"{_shown(path)}, part {number}"
            answer = run.remember(
                f"{title}:\n{piece}", subject=_subject(path, number), scope=self.scope, refs=[ref]
            )
            if answer.known is None and Band.LEDGER not in answer.bands:
                raise ToolError(f"The memory was not stored: {'; '.join(answer.reasons)}")
        if self._on_refusal is OnRefusal.RAISE and redacted_json(content) != content:
            # It crosses the end of a part, so no part shows it.
            raise ToolError("The memory was not stored: it holds a secret. Leave it out")
        self._forget(run, [path], beyond=len(pieces))

    def _forget(self, run: Run, paths: list[tuple[str, ...]], *, beyond: int = 0) -> None:
        """Forget the parts of files behind this many."""
        gone = sorted(one for one in self._parts() if one[0] in paths and one[1] > beyond)
        for path, number in gone:
            run.forget(_subject(path, number), reason="deleted with the memory tool", scope=self.scope)


class _Part(NamedTuple):
    """A part of a file, and how many the first one says that there are."""

    path: tuple[str, ...]
    number: int
    content: str
    of_parts: int


def _part_of(record: Record) -> _Part | None:
    """The part of a file that a record holds; None for a record that is none, or that somebody forged."""
    ref = data_ref_of(record, _KIND)
    folder, _, below = (record.subject or "").partition("/")
    mark = folder.removeprefix(_SUBJECTS)
    try:
        number = int(mark.removeprefix("#")) if mark else 1
        content = json.loads(ref["content"]) if ref is not None else None
        count = int(ref.get("parts", "1")) if ref is not None else 1
        path = _checked(f"{_ROOT}/{below}")
    except (KeyError, TypeError, ValueError, ToolError):
        return None
    if not isinstance(content, str) or not path or record.subject != _subject(path, number):
        return None
    return _Part(path, number, content, count)


def _checked(shown: str) -> tuple[str, ...]:
    """The parts of a path below ``/memories``; ``ToolError`` if it leads elsewhere."""
    if not isinstance(shown, str) or not (shown == _ROOT or shown.startswith(f"{_ROOT}/")):
        raise ToolError(f"Path must start with {_ROOT}, got: {shown}")
    parts = tuple(part for part in shown.removeprefix(_ROOT).split("/") if part)
    if any(part in (".", "..") or "\\" in part or "%2e" in part.lower() for part in parts):
        raise ToolError(f"Path {shown} would escape {_ROOT} directory")
    if len(shown) > _MAX_PATH_CHARS or not shown.isprintable():
        raise ToolError(f"Path {shown!r} must be at most {_MAX_PATH_CHARS} printable characters")
    return parts


def _require_file_name(shown: str, path: tuple[str, ...]) -> None:
    if not path or shown.endswith("/"):
        raise ToolError(f"The path {shown} is not a file name.")
    _checked(_shown(path))


def _subject(path: tuple[str, ...], number: int = 1) -> str:
    return "/".join((_SUBJECTS if number == 1 else f"{_SUBJECTS}#{number}", *path))


def _shown(path: tuple[str, ...]) -> str:
    return "/".join((_ROOT, *path))


def _below(files: Mapping[tuple[str, ...], str], path: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The files at a path and below it."""
    return [one for one in files if one[: len(path)] == path]


def _lines_with(content: str, text: str) -> list[int]:
    """The numbers of the lines in which a text begins."""
    found, start = [], content.find(text)
    while start != -1:
        found.append(content[:start].count("\n") + 1)
        start = content.find(text, start + 1)
    return found


def _numbered(shown: str, content: str, view_range: list[int] | None) -> str:
    lines = content.split("\n")
    first, last = 0, len(lines)
    if view_range and len(view_range) == 2:  # First and last.
        first = max(1, view_range[0]) - 1
        last = len(lines) if view_range[1] == -1 else view_range[1]
    numbered = (
        f"{number:>{_LINE_WIDTH}}\t{line}" for number, line in enumerate(lines[first:last], first + 1)
    )
    return f"Here's the content of {shown} with line numbers:\n" + "\n".join(numbered)


def _listing(shown: str, path: tuple[str, ...], files: Mapping[tuple[str, ...], str]) -> str:
    sizes: dict[str, int] = {"": 0}
    for one in _below(files, path):
        parts = one[len(path) :]
        if any(part.startswith(".") for part in parts):
            continue
        size = len(files[one].encode("utf-8", "surrogatepass"))
        sizes[""] += size
        for depth in range(1, min(len(parts), _LISTED_LEVELS) + 1):
            name = "/".join(parts[:depth]) + ("" if depth == len(parts) else "/")
            sizes[name] = sizes.get(name, 0) + size
    lines = [
        f"{_size(size)}\t{shown}/{name}" if name else f"{_size(size)}\t{shown}"
        for name, size in sizes.items()
    ]
    header = f"Here're the files and directories up to 2 levels deep in {shown}, excluding hidden items:"
    return "\n".join([header, *lines])


def _size(size: int) -> str:
    """A size as ``ls -h`` shows it."""
    if size == 0:
        return "0B"
    power = min((size.bit_length() - 1) // 10, 3)
    scaled = size / 1024**power
    return f"{int(scaled) if scaled == int(scaled) else format(scaled, '.1f')}{'BKMG'[power]}"
