"""Exports of chats, read: ChatGPT's, Claude's, and agent files of Letta.

A conversation is a session: its messages go to ``Memory.add``, which judges them and knows them by session and position.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from standfast.adapters.import_formats import (
    ImportedConversation,
    ImportedFact,
    ImportedItem,
    Unreadable,
    flat_metadata,
    item_of,
    json_file,
    list_in,
    loaded_json,
    mapping_of,
    name_of,
    pieces_of,
)
from standfast.errors import InvalidValue
from standfast.remember_request import RememberRequest


def read_chatgpt(path: Path, scope: str) -> Iterator[ImportedItem]:
    """ChatGPT's export. Of a conversation with several branches, the one that was shown last."""
    for number, one in enumerate(list_in(json_file(path), path, "a list of conversations"), 1):
        plain = mapping_of(one)
        session = name_of(plain.get("conversation_id") or plain.get("id"))
        where = f"conversation {number}"
        if session is None or not isinstance(plain.get("mapping"), dict):
            yield Unreadable(where=where, problem="it has no id or no messages")
            continue
        messages = [_chatgpt_message(message) for message in _branch(plain)]
        yield _conversation(where, scope, session, plain.get("title"), [one for one in messages if one])


def _branch(conversation: Mapping[str, Any]) -> list[Any]:
    """The messages from the root of the tree to the current node."""
    nodes = conversation["mapping"]
    leaf = conversation.get("current_node")
    if leaf not in nodes:
        leaf = next((name for name in reversed(nodes) if not mapping_of(nodes[name]).get("children")), None)
    found, seen = [], set()
    while leaf in nodes and leaf not in seen:
        seen.add(leaf)
        node = mapping_of(nodes[leaf])
        found.append(node.get("message"))
        leaf = node.get("parent")
    return [message for message in reversed(found) if message]


def _chatgpt_message(message: Any) -> dict[str, Any] | None:
    plain = mapping_of(message)
    role = mapping_of(plain.get("author")).get("role")
    hidden = mapping_of(plain.get("metadata")).get("is_visually_hidden_from_conversation")
    content = mapping_of(plain.get("content"))
    if role not in ("user", "assistant", "tool") or hidden or content.get("content_type") in _THOUGHTS:
        return None
    parts = content.get("parts") or [content.get("text")]
    texts = [one if isinstance(one, str) else mapping_of(one).get("text") for one in parts]
    text = "\n".join(one for one in texts if isinstance(one, str) and one.strip())
    shape = {"role": role, "content": text}
    if role == "tool" and mapping_of(plain["author"]).get("name"):
        shape["name"] = plain["author"]["name"]
    return _timed(shape, plain.get("create_time")) if text else None


_THOUGHTS: Final = ("thoughts", "reasoning_recap", "model_editable_context", "user_editable_context")


def read_claude(path: Path, scope: str) -> Iterator[ImportedItem]:
    """Claude's export. The text of an attachment is part of its message."""
    for number, one in enumerate(list_in(json_file(path), path, "a list of conversations"), 1):
        plain = mapping_of(one)
        session, where = name_of(plain.get("uuid")), f"conversation {number}"
        if session is None or not isinstance(plain.get("chat_messages"), list):
            yield Unreadable(where=where, problem="it has no uuid or no chat_messages")
            continue
        messages = [_claude_message(message) for message in plain["chat_messages"]]
        yield _conversation(where, scope, session, plain.get("name"), [one for one in messages if one])


def _claude_message(message: Any) -> dict[str, Any] | None:
    plain = mapping_of(message)
    role = {"human": "user", "assistant": "assistant"}.get(str(plain.get("sender")))
    blocks = [block for block in plain.get("content") or () if isinstance(block, dict) and "type" in block]
    content: list[Any] = blocks or ([plain["text"]] if isinstance(plain.get("text"), str) else [])
    for attachment in plain.get("attachments") or ():
        extracted = mapping_of(attachment).get("extracted_content")
        if isinstance(extracted, str) and extracted.strip():
            content = [*content, {"type": "text", "text": extracted}]
    if role is None or not content:
        return None
    known = [one for one in content if isinstance(one, str) or one["type"] in _CLAUDE_BLOCKS]
    return _timed({"role": role, "content": known}, plain.get("created_at"))


_CLAUDE_BLOCKS: Final = ("text", "tool_use", "tool_result")


def _conversation(
    where: str, scope: str, session: str, title: object, messages: list[dict[str, Any]]
) -> ImportedItem:
    if not messages:
        return Unreadable(where=where, problem="it has no messages with text")
    metadata = flat_metadata({"title": title}) if isinstance(title, str) and title else {}
    return ImportedConversation(
        where=where, scope=scope, session=session, messages=messages, metadata=metadata
    )


def _timed(message: dict[str, Any], time: object) -> dict[str, Any]:
    return message if time is None else {**message, "created_at": time}


def read_letta(path: Path, scope: str) -> Iterator[ImportedItem]:
    """An agent file of Letta: each memory block is a subject, the messages of each agent are a session."""
    whole = json_file(path)
    if not isinstance(whole, dict) or not ("agents" in whole or "core_memory" in whole):
        raise InvalidValue(what=str(path), problem="it must be an agent file (.af) of Letta")
    agents = whole.get("agents") or [whole]
    name = str(agents[0].get("name") or "agent")
    for block in whole.get("blocks") or whole.get("core_memory") or ():
        label = str(mapping_of(block).get("label") or "block")
        for part, text in enumerate(pieces_of(mapping_of(block).get("value"))):
            subject = f"letta/{name}/{label}" + (f"/{part}" if part else "")
            yield item_of(f"block {label}", _letta_block, text, subject, name, label, scope)
    for number, agent in enumerate(agents):
        messages = [one for message in agent.get("messages") or () for one in _letta_message(message)]
        if messages:
            session = f"letta/{agent.get('name') or number}/{agent.get('id', number)}"
            yield ImportedConversation(
                where=f"messages of {agent.get('name') or number}",
                scope=scope,
                session=name_of(session) or "letta",
                messages=messages,
            )


def _letta_block(  # noqa: PLR0917  # A helper of one caller.
    where: str, text: str, subject: str, agent: str, label: str, scope: str
) -> ImportedFact:
    return ImportedFact(
        where=where,
        request=RememberRequest.of(
            text,
            subject=name_of(subject),
            source={"kind": "doc", "id": name_of(subject) or label},
            scope=scope,
            metadata=flat_metadata({"agent": agent, "block": label}),
        ),
    )


def _letta_message(message: Any) -> Iterator[dict[str, Any]]:
    """A message as chat messages have it. What the agent says to its user is the argument of a call of ``send_message``."""
    plain = mapping_of(message)
    role, texts = plain.get("role"), []
    content = plain.get("content") or plain.get("text") or ()
    for part in [content] if isinstance(content, str) else content:
        text = part if isinstance(part, str) else mapping_of(part).get("text")
        if isinstance(text, str) and text.strip():
            texts.append(_unpacked(text) if role == "user" else text)
    for call in plain.get("tool_calls") or ():
        function = mapping_of(mapping_of(call).get("function"))
        if function.get("name") == "send_message":
            said = mapping_of(loaded_json(function.get("arguments"))).get("message")
            texts += [said] if isinstance(said, str) else []
    if role in ("user", "assistant") and any(texts):
        shape = {"role": role, "content": "\n".join(text for text in texts if text)}
        yield {**shape, **({"created_at": plain["created_at"]} if plain.get("created_at") else {})}


def _unpacked(text: str) -> str:
    """A message of the user inside Letta's envelope; events of the system are none."""
    envelope = loaded_json(text)
    if not isinstance(envelope, dict) or "type" not in envelope:
        return text
    return str(envelope.get("message", "")) if envelope["type"] == "user_message" else ""
