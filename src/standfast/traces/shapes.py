"""Output shapes: the structure of an output without its words. Equivalent runs have equal shape hashes.

A shape is plain JSON with a ``type``; each type has a schema. An agent builds the shape itself
(``TextShape(sections=…)``) or derives it: ``text_shape`` from Markdown, ``code_patch_shape`` from a unified
diff, ``json_shape`` from a value.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, Final

from msgspec import Meta

from standfast.limits import MAX_NAME_CHARS, SAFE_INTEGER
from standfast.records.canon import canonical_bytes, fingerprint, normal_string, parse
from standfast.records.vocabulary import Value

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
Count = Annotated[int, Meta(ge=0, le=SAFE_INTEGER)]

_HEADING: Final = re.compile(r"#{1,6}[ \t](.*)")
_FENCE: Final = re.compile(r"[ ]{0,3}(```|~~~)")
_HUNK: Final = re.compile(r"@@ -\d{1,9}(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_KINDS: Final = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "string"}


class TextShape(Value, frozen=True, kw_only=True, tag="text", tag_field="type"):
    """Prose: the headings of its sections, in order.

    Args:
        sections: Its headings, in order.
    """

    sections: tuple[str, ...]


class PlanStep(Value, frozen=True, kw_only=True):
    """One step of a plan.

    Args:
        id: The number of the step.
        action: What is done.
    """

    id: Count
    action: Name


class PlanShape(Value, frozen=True, kw_only=True, tag="plan", tag_field="type"):
    """A plan: its actions, in order.

    Args:
        steps: Its steps, in order.
    """

    steps: tuple[PlanStep, ...]


class ChangeKind(StrEnum):
    """What a change does to lines of a file."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


class ShapeChange(Value, frozen=True, kw_only=True):
    """A run of changed lines; ``at_line`` counts in the new file.

    Args:
        kind: What the change does.
        at_line: Where it begins in the new file.
        lines_added: How many lines it adds.
        lines_removed: How many lines it removes.
    """

    kind: ChangeKind
    at_line: Count
    lines_added: Count = 0
    lines_removed: Count = 0


class PatchedFile(Value, frozen=True, kw_only=True):
    """One file of a patch.

    Args:
        path: The path of the file.
        changes: Its changes, in order.
    """

    path: Annotated[str, Meta(min_length=1)]
    changes: tuple[ShapeChange, ...]


class CodePatchShape(Value, frozen=True, kw_only=True, tag="code_patch", tag_field="type"):
    """A patch: its files, and where and by how much each changes.

    Args:
        files: The files that it changes.
    """

    files: tuple[PatchedFile, ...]


class JsonShape(Value, frozen=True, kw_only=True, tag="json", tag_field="type"):
    """A structured answer: its keys and the kinds of its values. Build it with ``json_shape``.

    Args:
        structure: The value with the kinds of its parts in their places.
    """

    structure: Any


class TableShape(Value, frozen=True, kw_only=True, tag="table", tag_field="type"):
    """A table: its columns, in order, and its number of rows.

    Args:
        columns: Their names, in order.
        rows: How many rows there are.
    """

    columns: tuple[str, ...]
    rows: Count


class ChoiceShape(Value, frozen=True, kw_only=True, tag="choice", tag_field="type"):
    """A choice between given options: a class, a route, yes or no.

    Args:
        options: What could be chosen.
        chosen: What was.
    """

    options: tuple[Name, ...]
    chosen: tuple[Name, ...]


class RefusalShape(Value, frozen=True, kw_only=True, tag="refusal", tag_field="type"):
    """The agent declined, for a named reason.

    Args:
        reason_code: The name of the reason.
    """

    reason_code: Name


class CustomShape(Value, frozen=True, kw_only=True, tag="custom", tag_field="type"):
    """Any other structure, under a name and version that the user chooses.

    Args:
        name: The name of the structure.
        version: Its version.
        structure: The structure as JSON.
    """

    name: Name
    version: Name
    structure: Any


Shape = (
    TextShape | PlanShape | CodePatchShape | JsonShape | TableShape | ChoiceShape | RefusalShape | CustomShape
)


def output_type(shape: Shape) -> str:
    """Return the ``type`` of a shape."""
    kind: str = shape.as_json()["type"]
    return kind


def output_shape_hash(shape: Shape) -> str:
    """Return the SHA-256 of the shape's json-v1 text."""
    return fingerprint(shape.as_json())


def text_shape(markdown: str) -> TextShape:
    """Return the shape of a Markdown text: its headings, and ``""`` for text before the first one."""
    sections: list[str] = []
    fence = ""
    for line in markdown.splitlines():
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        heading = None if fence or mark else _HEADING.match(line)
        if heading:
            sections.append(normal_string(heading[1].strip().rstrip("#").rstrip()))
        elif line.strip() and not sections:
            sections.append("")
    return TextShape(sections=tuple(sections))


def json_shape(value: object) -> JsonShape:
    """The shape of a JSON value: kinds of scalars, keys of objects, distinct kinds of an array's members."""
    return JsonShape(structure=_structure(parse(canonical_bytes(value))))


def _structure(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _structure(member) for key, member in value.items()}
    if isinstance(value, list):
        kinds = {fingerprint(kind): kind for kind in map(_structure, value)}
        return [kinds[digest] for digest in sorted(kinds)]
    return _KINDS[type(value)]


def code_patch_shape(unified_diff: str) -> CodePatchShape:
    """The shape of a unified diff: files by path, with position and size of each run of changed lines."""
    files: dict[str, list[ShapeChange]] = {}
    old_path, changes = "/dev/null", list[ShapeChange]()
    lines = iter(unified_diff.splitlines())
    for line in lines:
        if line.startswith("--- "):
            old_path = _path(line)
        elif line.startswith("+++ "):
            path = _path(line)
            changes = files.setdefault(old_path if path == "/dev/null" else path, [])
        elif hunk := _HUNK.match(line):
            changes += _changes_of_hunk(lines, _lines(hunk[1]), int(hunk[2]), _lines(hunk[3]))
    return CodePatchShape(
        files=tuple(PatchedFile(path=path, changes=tuple(files[path])) for path in sorted(files))
    )


def _changes_of_hunk(
    lines: Iterator[str], old_left: int, line_number: int, new_left: int
) -> Iterator[ShapeChange]:
    """Yield the runs of changed lines of one hunk. Its header says how many lines of each file it has."""
    added = removed = 0
    # The header may promise more lines than there are.
    while (old_left > 0 or new_left > 0) and (line := next(lines, None)) is not None:
        mark = line[:1]
        if mark == "+":
            added, new_left = added + 1, new_left - 1
        elif mark == "-":
            removed, old_left = removed + 1, old_left - 1
        elif mark != "\\":
            old_left, new_left = old_left - 1, new_left - 1
            if added or removed:
                yield _change(line_number, added, removed)
            line_number, added, removed = line_number + added + 1, 0, 0
    if added or removed:
        yield _change(line_number, added, removed)


def _change(at_line: int, added: int, removed: int) -> ShapeChange:
    kind = ChangeKind.REPLACE if added and removed else ChangeKind.ADD if added else ChangeKind.REMOVE
    return ShapeChange(kind=kind, at_line=at_line, lines_added=added, lines_removed=removed)


def _path(header: str) -> str:
    name = header[4:].split("\t", maxsplit=1)[0].strip() or "/dev/null"
    return name[2:] if name.startswith(("a/", "b/")) and len(name) > 2 else name


def _lines(count: str | None) -> int:
    return 1 if count is None else int(count)
