"""JSON inside a prompt: the same value on one line, with every number as it was written."""

import json
import re
from typing import Any, Final

FENCED: Final = re.compile(r"(```|~~~)(\w*)[ \t]*\n(.*?)\n?[ \t]*\1", re.DOTALL)
"""A code block: its fence, its language, its content."""


class _Literal(str):
    """A number as it was written, so that 1.10 stays 1.10."""

    __slots__ = ()


def compact_json(text: str) -> str | None:
    """An object or array on one line; None if the text is neither, or would lose a repeated key."""
    try:
        value = json.loads(text, parse_int=_Literal, parse_float=_Literal, object_pairs_hook=_unrepeated)
    except (ValueError, RecursionError):
        return None
    return _dumped(value) if isinstance(value, dict | list) else None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice")
    return members


def _dumped(value: object) -> str:
    if isinstance(value, _Literal):
        return str(value)
    if isinstance(value, dict):
        members = (
            f"{json.dumps(key, ensure_ascii=False)}:{_dumped(member)}" for key, member in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
