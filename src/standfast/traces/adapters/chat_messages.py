"""The OpenAI-style message format: an assistant's message asks for tool calls, messages of role ``tool`` answer them.

The format is spoken by most providers and frameworks, so that a list of messages is enough to record an agent that knows
nothing of this. Calls stand in the order in which the model asked for them, in whichever order the answers came.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from standfast.canon import parse
from standfast.errors import InvalidValue, NotCanonical
from standfast.traces.identity import ToolProfile
from standfast.traces.recorder import Recorder

INTERCEPTOR: Final = "chat_messages"
_ROLE: Final = "assistant"


class ChatRecorder:
    """Records a conversation message by message; ``close`` records what is still open.

    Every message of the assistant is an event: ``tool_calls`` if it asks for tools, ``refusal`` or ``message`` otherwise. A
    call that is never answered is a gap. Messages of other roles record nothing: what users say is an input.
    """

    def __init__(self, recorder: Recorder, *, profiles: Iterable[ToolProfile] = ()) -> None:
        self._recorder = recorder
        self._profiles = {profile.tool_name: profile for profile in profiles}
        self._asked: dict[str, tuple[str, Any]] = {}
        self._answers: dict[str, Any] = {}
        for profile in self._profiles.values():
            recorder.register(profile)

    def feed(self, message: Any) -> None:
        """Record one message: a mapping, or an object of a client library that can be dumped to one."""
        plain = _plain(message)
        match plain.get("role"):
            case "assistant":
                self.close()
                self._begin(plain)
            case "tool":
                self._answer(plain)
            case _:
                pass

    def close(self) -> None:
        """Record the calls that were asked for last, and complain of those that have no answer."""
        if not self._asked:
            return
        asked, answers = self._asked, self._answers
        self._asked, self._answers = {}, {}
        with self._recorder.event(role=_ROLE, interceptor=INTERCEPTOR, decision_type="tool_calls"):
            for call_id, (name, args) in asked.items():
                profile = self._profiles.setdefault(name, ToolProfile.whole(name))
                if call_id in answers:
                    self._recorder.tool_call(profile=profile, args=args, result=answers[call_id])
                else:
                    self._recorder.gap("unanswered_call", f"{name} ({call_id}) was never answered")

    def _begin(self, message: Mapping[str, Any]) -> None:
        calls = message.get("tool_calls") or ()
        if not calls:
            decision = "refusal" if message.get("refusal") else "message"
            with self._recorder.event(role=_ROLE, interceptor=INTERCEPTOR, decision_type=decision):
                return
        for call in calls:
            try:
                call_id, function = call["id"], call["function"]
                name, arguments = function["name"], function.get("arguments", "")
            except (KeyError, TypeError, AttributeError):
                raise InvalidValue(
                    what="Message", problem="a tool call needs id, function.name and function.arguments"
                ) from None
            self._asked[str(call_id)] = (str(name), _read(arguments or "{}"))

    def _answer(self, message: Mapping[str, Any]) -> None:
        call_id = str(message.get("tool_call_id"))
        if call_id not in self._asked:
            self._recorder.gap("unasked_answer", f"an answer to {call_id} came, which nobody had asked for")
            return
        self._answers[call_id] = _read(_text(message.get("content")))


def record_messages(
    recorder: Recorder, messages: Iterable[Any], *, profiles: Iterable[ToolProfile] = ()
) -> None:
    """Record a whole conversation."""
    chat = ChatRecorder(recorder, profiles=profiles)
    for message in messages:
        chat.feed(message)
    chat.close()


def _plain(message: Any) -> Mapping[str, Any]:
    dump = getattr(message, "model_dump", None)
    plain = dump() if callable(dump) else message
    if not isinstance(plain, Mapping):
        raise InvalidValue(what="Message", problem=f"{type(message).__name__} is no mapping")
    return plain


def _text(content: Any) -> Any:
    """The text of an answer, which may come in parts."""
    if isinstance(content, list) and all(isinstance(part, Mapping) and "text" in part for part in content):
        return "".join(str(part["text"]) for part in content)
    return content


def _read(text: Any) -> Any:
    """A JSON text as its value, so that spaces and key order do not count; any other text as it is."""
    if not isinstance(text, str):
        return text
    try:
        return parse(text)
    except NotCanonical:
        return text
