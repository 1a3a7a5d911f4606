"""Records agents from OpenAI-style chat messages: assistant messages request tool calls, ``tool`` messages answer them.

Most providers and frameworks use this format, so a list of messages is enough to record an agent without changing it. Calls are
recorded in the order in which the model requested them, whatever the order of the answers.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from standfast.canon import parse
from standfast.errors import InvalidValue, NotCanonical
from standfast.traces.artifact import ToolProfile
from standfast.traces.recorder import Recorder

INTERCEPTOR: Final = "chat_messages"
_ROLE: Final = "assistant"


class ChatRecorder:
    """Records a conversation message by message; ``close`` records the calls that are still open.

    Every assistant message is an event: ``tool_calls`` if it requests tools, ``refusal`` or ``message`` otherwise. A call that is
    never answered is a gap. Messages of other roles are inputs and record nothing.
    """

    def __init__(self, recorder: Recorder, *, profiles: Iterable[ToolProfile] = ()) -> None:
        self._recorder = recorder
        self._profiles = {profile.tool_name: profile for profile in profiles}
        self._requested: dict[str, tuple[str, Any]] = {}
        self._answers: dict[str, Any] = {}
        for profile in self._profiles.values():
            recorder.register(profile)

    def feed(self, message: Any) -> None:
        """Record one message: a mapping, or a client library's object with ``model_dump``."""
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
        """Record the calls that were requested last; those without an answer become gaps."""
        if not self._requested:
            return
        requested, answers = self._requested, self._answers
        self._requested, self._answers = {}, {}
        with self._recorder.event(role=_ROLE, interceptor=INTERCEPTOR, decision_type="tool_calls"):
            for call_id, (name, args) in requested.items():
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
            self._requested[str(call_id)] = (str(name), _read(arguments or "{}"))

    def _answer(self, message: Mapping[str, Any]) -> None:
        call_id = str(message.get("tool_call_id"))
        if call_id not in self._requested:
            self._recorder.gap("unasked_answer", f"an answer to {call_id} came, which was not requested")
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
        raise InvalidValue(what="Message", problem=f"{type(message).__name__} is not a mapping")
    return plain


def _text(content: Any) -> Any:
    """Return the text of an answer, which may come in parts."""
    if isinstance(content, list) and all(isinstance(part, Mapping) and "text" in part for part in content):
        return "".join(str(part["text"]) for part in content)
    return content


def _read(text: Any) -> Any:
    """Return the value of a JSON text, so that spaces and key order do not count; any other text unchanged."""
    if not isinstance(text, str):
        return text
    try:
        return parse(text)
    except NotCanonical:
        return text
