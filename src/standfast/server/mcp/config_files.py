"""Settings files of other programs, changed in one place: everything else, comments too, stays as it is.

JSON may have comments and trailing commas, as editors write it. A change is checked before it is written:
read back, the file must hold what it held, and the one entry more or less.
"""

import json
import re
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from standfast.errors import InvalidValue

_SPACE: Final = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_MAX_DEPTH: Final = 100


@dataclass(slots=True)
class _JsonNode:
    """A value in a text: what it is, where it stands, and the members of an object."""

    value: Any
    start: int
    end: int
    members: dict[str, tuple[int, "_JsonNode"]] = field(default_factory=dict)
    """Where the key of each member begins, and its value."""


def with_json_entry(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    """The text of a JSON file with an entry in a section, which is made if it is missing."""
    text = text if text.strip() else "{}\n"
    root = _object_in(text)
    expected = {**root.value, section: {**_section_of(root.value, section), name: entry}}
    if section not in root.members:
        changed = _inserted(text, root, section, {name: entry})
    else:
        inner = root.members[section][1]
        if name in inner.members:
            key, node = inner.members[name]
            if node.value == entry:
                return text
            changed = text[: node.start] + _dumped(entry, _indent_at(text, key), text) + text[node.end :]
        else:
            changed = _inserted(text, inner, name, entry)
    return _checked(changed, expected)


def without_json_entry(text: str, section: str, name: str) -> str | None:
    """The text without the entry, and without its section if that is empty; None if it is not there."""
    root = _object_in(text if text.strip() else "{}")
    entries = _section_of(root.value, section)
    if name not in entries:
        return None
    left = {one: value for one, value in entries.items() if one != name}
    node = root.members[section][1]
    without = _removed(text, node, name)
    if left or "/" in text[node.start : node.members[name][0]] + text[node.members[name][1].end : node.end]:
        # Other entries stay, and so do comments.
        return _checked(without, {**root.value, section: left})
    changed = _removed(text, root, section)
    return _checked(changed, {one: value for one, value in root.value.items() if one != section})


def with_toml_entry(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    """The text of a TOML file with a table ``[section.name]``."""
    held = _toml_in(text)
    expected = {**held, section: {**_section_of(held, section), name: entry}}
    lines = [f"[{section}.{name}]", *(f"{key} = {_toml_value(value)}" for key, value in entry.items())]
    end = _line_end(text)
    block = end.join(lines) + end
    span = _toml_table(text, section, name)
    if span is None:
        gap = "" if not text else end if text.endswith("\n") else end * 2
        changed = f"{text}{gap}{block}"
    else:
        tail = end if span[1] < len(text) else ""
        changed = text[: span[0]] + block + tail + text[span[1] :]
    return _checked_toml(changed, expected)


def without_toml_entry(text: str, section: str, name: str) -> str | None:
    """The text without the table ``[section.name]`` and those below it; None if it is not there."""
    held = _toml_in(text)
    entries = _section_of(held, section)
    if name not in entries:
        return None
    left = {one: value for one, value in entries.items() if one != name}
    span = _toml_table(text, section, name)
    before, behind = (text, "") if span is None else (text[: span[0]], text[span[1] :])
    if not behind.strip():
        # The empty line before the table goes with it, unless another table follows.
        before = re.sub(r"(\n|\A)\r?\n\Z", r"\1", before)
    # The section itself stays if it has a header of its own.
    kept = left or tomllib.loads(before + behind).get(section)
    expected = {
        key: value for key, value in {**held, section: left}.items() if key != section or kept == left
    }
    return _checked_toml(before + behind, expected)


# JSON with comments.


def _object_in(text: str) -> _JsonNode:
    try:
        node, end = _read(text, _skip(text, 0), 0)
    except (ValueError, IndexError, RecursionError) as error:
        raise InvalidValue(what="the file", problem=f"it is no JSON: {error}") from None
    if not isinstance(node.value, dict) or _skip(text, end) != len(text):
        raise InvalidValue(what="the file", problem="it is not one JSON object")
    return node


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _read(text: str, at: int, depth: int) -> tuple[_JsonNode, int]:
    """The value that begins at a place, and where it ends."""
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    if text[at : at + 1] == "{":
        return _read_object(text, at, depth)
    if text[at : at + 1] == "[":
        return _read_array(text, at, depth)
    found = _STRING.match(text, at) or _SCALAR.match(text, at)
    if found is None:
        raise ValueError(f"no value at character {at}")
    return _JsonNode(json.loads(found[0]), at, found.end()), found.end()


def _read_object(text: str, start: int, depth: int) -> tuple[_JsonNode, int]:
    node, at = _JsonNode({}, start, start), _skip(text, start + 1)
    while text[at] != "}":
        key = _STRING.match(text, at)
        if key is None:
            raise ValueError(f"no key at character {at}")
        name, colon = json.loads(key[0]), _skip(text, key.end())
        if text[colon] != ":" or name in node.members:
            raise ValueError(f"the key at character {at} is there twice or has no value")
        value, end = _read(text, _skip(text, colon + 1), depth + 1)
        node.members[name], node.value[name] = (at, value), value.value
        at = _after_item(text, end, "}")
    node.end = at + 1
    return node, node.end


def _read_array(text: str, start: int, depth: int) -> tuple[_JsonNode, int]:
    node, at = _JsonNode([], start, start), _skip(text, start + 1)
    while text[at] != "]":
        value, end = _read(text, at, depth + 1)
        node.value.append(value.value)
        at = _after_item(text, end, "]")
    node.end = at + 1
    return node, node.end


def _after_item(text: str, end: int, closing: str) -> int:
    """Where the next item begins, or the closing bracket is."""
    at = _skip(text, end)
    if text[at] == ",":
        return _skip(text, at + 1)
    if text[at] != closing:
        raise ValueError(f"a comma is missing at character {at}")
    return at


def _inserted(text: str, node: _JsonNode, name: str, value: dict[str, Any]) -> str:
    """The text with one member more at the end of an object."""
    closing = node.end - 1
    if not node.members:
        outer = _indent_at(text, node.start)
        inner = outer + _unit_of(text)
        inside = text[node.start + 1 : closing].rstrip()
        member = f"{json.dumps(name)}: {_dumped(value, inner, text)}"
        end = _line_end(text)
        return f"{text[: node.start + 1]}{inside}{end}{inner}{member}{end}{outer}{text[closing:]}"
    key, last = list(node.members.values())[-1]
    has_comma = text[_skip(text, last.end)] == ","
    before = text[: last.end] + ("" if has_comma else ",") + text[last.end : closing]
    if "\n" not in text[node.start : closing]:
        member = f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}"
        return f"{before.rstrip()} {member}{text[closing:]}"
    indent = _indent_at(text, key)
    kept, space = before.rstrip(), before[len(before.rstrip()) :]
    member = f"{json.dumps(name)}: {_dumped(value, indent, text)}"
    return f"{kept}{_line_end(text)}{indent}{member}{',' if has_comma else ''}{space}{text[closing:]}"


def _removed(text: str, node: _JsonNode, name: str) -> str:
    """The text without one member of an object."""
    members = list(node.members)
    place, (key, value) = members.index(name), node.members[name]
    start, end = key, value.end
    comma = _skip(text, end)
    if text[comma] == ",":
        end = comma + 1
    elif place:
        # The comma that is left before it would be one too many for a strict reader.
        before = node.members[members[place - 1]][1].end
        at = _skip(text, before)
        text = text[:at] + text[at + 1 :]
        start, end = start - 1, end - 1
    # What is left of its line goes with it.
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip() and line:
        rest = re.compile(r"[ \t]*(?=\r?\n|\})").match(text, end)
        return text[: line - 1].removesuffix("\r") + text[rest.end() if rest else end :]
    return text[:start].rstrip(" ") + text[end:]


def _indent_at(text: str, at: int) -> str:
    """The space that the line of a place begins with."""
    line = text.rfind("\n", 0, at) + 1
    found = re.compile(r"[ \t]*").match(text, line)
    return found[0] if found else ""


def _unit_of(text: str) -> str:
    """By how much the file indents."""
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else "  "


def _dumped(value: Any, indent: str, text: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=_unit_of(text)).split("\n")
    return f"{_line_end(text)}{indent}".join(lines)


def _line_end(text: str) -> str:
    """How the lines of a file end."""
    return "\r\n" if "\r\n" in text else "\n"


def _section_of(held: dict[str, Any], section: str) -> dict[str, Any]:
    entries = held.get(section, {})
    if not isinstance(entries, dict):
        raise InvalidValue(what="the file", problem=f"its {section} is no object with an entry a server")
    return entries


def _checked(text: str, expected: dict[str, Any]) -> str:
    if _object_in(text).value != expected:
        raise InvalidValue(what="the file", problem="it can't be changed without changing something else")
    return text


# TOML.


def _toml_in(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidValue(what="the file", problem=f"it is no TOML: {error}") from None


def _toml_table(text: str, section: str, name: str) -> tuple[int, int] | None:
    """Where a table begins and ends, with those below it."""
    own = re.compile(rf'^[ \t]*\[\s*{section}\s*\.\s*"?{re.escape(name)}"?\s*[\].]', re.MULTILINE)
    starts = [found.start() for found in own.finditer(text)]
    if not starts:
        return None
    headers = [found.start() for found in re.finditer(r"^[ \t]*\[", text, re.MULTILINE)]
    last = starts[-1]
    return starts[0], next((one for one in headers if one > last), len(text))


def _toml_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _checked_toml(text: str, expected: dict[str, Any]) -> str:
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(text) == expected:
            return text
    raise InvalidValue(what="the file", problem="it can't be changed without changing something else")
