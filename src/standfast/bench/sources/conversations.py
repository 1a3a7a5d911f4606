"""Episodes from conversations: each message is a step, in the order in which it was said.

Reads JSON, or JSON lines: a list of messages, an object with ``messages`` (or ``utterances`` or ``turns``),
or a list of such objects. A message has a ``role`` (or ``speaker``) and a ``content`` (or ``text``). A
conversation may have ``questions``, each with the ``evidence`` that answers it: the positions of messages,
from 0, or their ids. A message's kind is the first of these that applies:

    cited          a question names it as evidence
    acknowledged   it only greets, thanks or agrees
    duplicate      the same speaker said the same before in this conversation
    corrected      it takes back or changes something that was said or chosen: "actually", "instead", "I
                   changed my mind"
    stated         it asks for something, or says that it can't be had, even if it is put as a question
    asked          it is a question, or an offer with a question
    stated         it says something lasting or specific: who somebody is, what they have, like, want, chose
                   or booked
    said           anything else
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.sources.labelling import (
    DriftEvent,
    ReportSkipped,
    forms_of,
    ignore_skipped,
    label_episode,
)
from standfast.errors import BadFile

_LISTS: Final = ("messages", "utterances", "turns")
_SPEAKERS: Final = ("role", "speaker", "name")
_TEXTS: Final = ("content", "text")
_IDS: Final = ("id", "message_id", "dia_id")
ACKNOWLEDGED_WORDS: Final = 8

_FORMS: Final = forms_of("conversations.forms")
_ACKNOWLEDGED: Final = re.compile(rf"(?:(?:{_FORMS['acknowledging'].pattern})\b|[\W_])+", re.IGNORECASE)


class SpokenMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation."""

    conversation: str
    position: int
    speaker: str
    text: str
    cited: bool = False


def conversation_episode(
    content: bytes, *, source: str, name: str, skipped: ReportSkipped = ignore_skipped
) -> Episode:
    """Return the messages of one or several conversations as one stream, in their order.

    Args:
        content: JSON, or JSON lines.
        source: The prefix of the conversations' names.
        name: The file's name.
        skipped: Receives each message and conversation that is left out, and why.
    """
    messages = list(read_conversations(content, name, skipped))
    if not messages:
        raise BadFile(file=name, problem="it has no message with a speaker and a text")
    events = list(_events(messages, source))
    return label_episode(events, source=source, mode="conversation", episode_id=name, halve_superseded=False)


def read_conversations(
    content: bytes, name: str, skipped: ReportSkipped = ignore_skipped
) -> Iterator[SpokenMessage]:
    """Yield the messages of all conversations of a file."""
    for number, conversation in enumerate(_conversations(content, name)):
        known = conversation.get("conversation_id", conversation.get("id"))
        title = str(known) if isinstance(known, str | int) else str(number + 1)
        listed = next((conversation[key] for key in _LISTS if isinstance(conversation.get(key), list)), None)
        if listed is None:
            skipped(f"conversation {title}", f"it has none of {', '.join(_LISTS)}")
            continue
        cited = _evidence(conversation.get("questions"))
        for position, message in enumerate(listed):
            spoken = message if isinstance(message, dict) else {}
            text = next((spoken[key] for key in _TEXTS if isinstance(spoken.get(key), str)), "").strip()
            if not text:
                skipped(f"conversation {title}, message {position}", "it has no text")
                continue
            speaker = next((spoken[key] for key in _SPEAKERS if isinstance(spoken.get(key), str)), "unknown")
            own_id = next((spoken[key] for key in _IDS if isinstance(spoken.get(key), str)), None)
            yield SpokenMessage(
                conversation=title,
                position=position,
                speaker=speaker.casefold(),
                text=text,
                cited=position in cited or own_id in cited,
            )


def _conversations(content: bytes, name: str) -> list[dict[str, Any]]:
    try:
        text = content.decode("utf-8")
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        raise BadFile(file=name, problem=f"it is neither JSON nor JSON lines: {error}") from None
    items = parsed if isinstance(parsed, list) else [parsed]
    if items and all(isinstance(item, dict) and not any(key in item for key in _LISTS) for item in items):
        return [{"messages": items}]
    return [item if isinstance(item, dict) else {"messages": item} for item in items]


def _evidence(questions: Any) -> set[object]:
    """Return the positions and ids of the messages that questions cite."""
    cited: set[object] = set()
    for question in questions if isinstance(questions, list) else ():
        evidence = question.get("evidence") if isinstance(question, dict) else None
        cited.update(
            one for one in (evidence if isinstance(evidence, list) else ()) if isinstance(one, str | int)
        )
    return cited


def _events(messages: Sequence[SpokenMessage], source: str) -> Iterator[DriftEvent]:
    known: set[tuple[str, str, str]] = set()
    for message in messages:
        words = (message.conversation, message.speaker, " ".join(re.findall(r"\w+", message.text.casefold())))
        observation = {
            "api": f"{source}:{message.conversation}#{message.speaker}",
            "section": message.speaker,
            "content": message.text,
            "position": message.position,
        }
        repeated = words in known
        known.add(words)
        yield DriftEvent(observation=observation, kinds=(kind_of_message(message, repeated=repeated),))


def kind_of_message(message: SpokenMessage, *, repeated: bool = False) -> str:
    """Return the kind of a message by the rules of this module."""
    text = message.text
    if message.cited:
        return "cited"
    if _ACKNOWLEDGED.fullmatch(text) and len(text.split()) <= ACKNOWLEDGED_WORDS:
        return "acknowledged"
    if repeated:
        return "duplicate"
    if _FORMS["corrected"].search(text):
        return "corrected"
    if _FORMS["requested"].search(text):
        return "stated"
    if text.rstrip().endswith("?"):
        return "asked"
    if _FORMS["stated"].search(text) or _FORMS["specific"].search(text):
        return "stated"
    return "said"
