"""Decisions and preferences that a user stated in the transcript of a coding agent.

A sentence is taken if it begins as such statements do ("I prefer …", "let's use …", "from now on …"); no
model is asked. Each is judged like anything else, and cites the transcript.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

MAX_STATEMENTS: Final = 20
"""How many statements of one session are remembered at most: the last ones."""
_MAX_READ_BYTES: Final = 8 << 20
_WORDS: Final = range(3, 50)
_FILLERS: Final = (
    r"(?:(?:ok(?:ay)?|so|and|also|yes|please|but|no|ja|bitte|und|aber|oui|et|mais|donc|s[ií]|y|pero)"
    r"[,:]?\s+)*"
)
_BEGINNINGS: Final = [
    line
    for line in Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()
    if line and not line.startswith(("#", "["))
]
_STATEMENT: Final = re.compile(f"{_FILLERS}(?:{'|'.join(_BEGINNINGS)})", re.IGNORECASE | re.VERBOSE)
_LEAD: Final = re.compile(
    _FILLERS
    + r"""(?:(?:remember(?:\s+that\b|:)|(?:merke?\s+dir|denke?\s+daran)(?:,?\s+dass\b|:|,)?
       |(?:souviens-toi|rappelle-toi|retiens)\s+que\b|recuerda\s+que\b)\s*)?""",
    re.IGNORECASE | re.VERBOSE,
)
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


class UserStatement(NamedTuple):
    """A sentence of a user, where it stands in the transcript, and when it was said."""

    text: str
    place: str
    time: str | None


def statements_in(transcript: Path) -> list[UserStatement]:
    """The statements of a transcript of Claude Code or Codex, the last ones."""
    found: dict[str, UserStatement] = {}
    with transcript.open("rb") as file:
        file.seek(max(0, transcript.stat().st_size - _MAX_READ_BYTES))
        for number, line in enumerate(file):
            for text, place, time in _said_by_user(line):
                for sentence in _statements_of(text):
                    # What was said again counts as said then.
                    found.pop(sentence, None)
                    found[sentence] = UserStatement(sentence, place or f"line-{number}", time)
    return list(found.values())[-MAX_STATEMENTS:]


def capture(given: dict[str, Any], memory: Path | None) -> None:
    """Remember what a user stated in the session that a hook tells of.

    What is known already, or not accepted, changes nothing.
    """
    transcript = given.get("transcript_path")
    if memory is None or not transcript or not Path(transcript).is_file():
        return
    statements = statements_in(Path(transcript))
    if not statements:
        return
    from standfast.errors import StandfastError
    from standfast.memory import Memory
    from standfast.records.canon import fingerprint

    session = str(given.get("session_id") or Path(transcript).stem)[:200]
    with Memory.open(str(memory)) as opened:
        for one in statements:
            # One that can't be remembered must not keep back the others.
            with suppress(StandfastError):
                opened.remember(
                    one.text,
                    source={"kind": "user", "id": f"{Path(transcript).name}#{one.place}"[:250]},
                    tags=["captured"],
                    session=session,
                    speaker="user",
                    time=one.time,
                    workflow="hook",
                    # A session is captured again and again; what was judged once is not judged anew.
                    run_id=f"hook-{fingerprint([session, one.text])}",
                    # A prompt may have been pasted, or written by another program.
                    max_origin="ordinary",
                )


def _said_by_user(line: bytes) -> Iterator[tuple[str, str, str | None]]:
    """The texts of a line that the user wrote, each with its place and time."""
    try:
        entry = json.loads(line)
    except ValueError:
        return
    if not isinstance(entry, dict) or entry.get("isMeta") or entry.get("isSidechain"):
        return
    payload = entry.get("message") if entry.get("type") == "user" else entry.get("payload")
    if not isinstance(payload, dict) or payload.get("role") != "user":
        return
    content = payload.get("content")
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not all(isinstance(one, dict) for one in parts):
        return
    if any(one.get("type") == "tool_result" for one in parts):
        # Agents keep the results of tools as messages of the user.
        return
    time = entry.get("timestamp")
    for one in parts:
        text = one.get("text")
        # What programs add stands in tags, or is a file of instructions.
        if one.get("type") in ("text", "input_text") and isinstance(text, str) and text[:1] not in "<#[":
            yield text, str(entry.get("uuid") or ""), time if isinstance(time, str) else None


def _statements_of(text: str) -> Iterator[str]:
    for part in _SENTENCES.split(_CODE.sub("\n", text)):
        sentence = " ".join(part.split())
        if sentence.endswith("?") or len(sentence.split()) not in _WORDS or not _STATEMENT.match(sentence):
            continue
        plain = _LEAD.sub("", sentence, count=1)
        if len(plain.split()) in _WORDS:
            begun = plain[0].upper() + plain[1:]
            yield begun if begun.endswith((".", "!")) else f"{begun}."
