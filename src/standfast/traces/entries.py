"""What a run far away adds to its trace, one entry at a time: events, tool calls, guardrails, the output.

In the library these are blocks and decorators of a run (``Run.event``, ``Run.tool``). Over HTTP the client
sends each as an entry, in the run's order, so that both make the same trace.
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec, Protocol, Self, TypeVar

import msgspec
import orjson

from standfast.limits import MAX_TRACE_BYTES
from standfast.records.canon import canonical_bytes, fingerprint_of_bytes
from standfast.records.requests import Name
from standfast.records.vocabulary import Value
from standfast.traces.artifact import Digest, ToolProfile, selected
from standfast.traces.recording import Redact, error_name, shortened
from standfast.traces.shapes import Shape

_P = ParamSpec("_P")
_R = TypeVar("_R")


class EventBegin(Value, frozen=True, kw_only=True):
    """An event begins: what comes next belongs to it, until it ends. Events do not overlap, but may nest.

    Args:
        role: Who acts, such as agent.
        interceptor: What observed it, such as the name of a hook.
        decision_type: What is decided, if it is known already.
    """

    role: Name
    interceptor: Name
    decision_type: Name | None = None


class EventEnd(Value, frozen=True, kw_only=True):
    """The event that began last ends.

    Args:
        decision_type: What was decided, if it was not known when the event began.
    """

    decision_type: Name | None = None


class ToolEntry(Value, frozen=True, kw_only=True):
    """A call of a tool.

    Args:
        profile: Which fields of the tool's calls are compared.
        args: Its arguments, by name.
        result: What it returned.
        side_effects: What it changed, for a profile that compares side effects; by default the result.
        result_fingerprint: Instead of a result that is too large to be kept: the SHA-256 of the canonical
            JSON of its compared fields.
        side_effects_fingerprint: The same of the side effects, if the profile compares some.
        error: The type of the error that it raised.
        message: The text of the error.
    """

    profile: ToolProfile
    args: Any = None
    result: Any = None
    side_effects: Any = msgspec.UNSET
    result_fingerprint: Digest | None = None
    side_effects_fingerprint: Digest | None = None
    error: Name | None = None
    message: str = ""

    def __post_init__(self) -> None:
        is_fingerprinted = self.result_fingerprint is not None
        has_value = self.result is not None or self.side_effects is not msgspec.UNSET
        self._require(
            not is_fingerprinted or (self.error is None and not has_value),
            "give a result or its fingerprint, not both",
        )
        has_effects = self.side_effects_fingerprint is not None
        self._require(
            has_effects == (is_fingerprinted and self.profile.has_side_effects),
            "side_effects_fingerprint goes with result_fingerprint, if the profile compares side effects",
        )

    @property
    def effects(self) -> Any:
        """What the call changed: the result, unless it says something else."""
        return self.result if self.side_effects is msgspec.UNSET else self.side_effects

    def fingerprinted(self, redact: Redact) -> Self:
        """The same call with fingerprints instead of what it returned and changed."""
        if self.error is not None or self.result_fingerprint is not None:
            return self
        profile = self.profile
        return msgspec.structs.replace(
            self,
            result=None,
            side_effects=msgspec.UNSET,
            result_fingerprint=_digest(profile.tool_result_fields, redact(self.result)),
            side_effects_fingerprint=(
                _digest(profile.side_effect_fields, redact(self.effects))
                if profile.has_side_effects
                else None
            ),
        )

    @classmethod
    def raised(cls, profile: ToolProfile, args: object, error: BaseException) -> Self:
        """The entry of a call that failed."""
        return cls(profile=profile, args=args, error=error_name(error), message=shortened(str(error)))


def _digest(fields: tuple[str, ...], value: object) -> str:
    # From the canonical form, as a trace that keeps the result has it.
    whole = orjson.loads(canonical_bytes(value, limit_bytes=MAX_TRACE_BYTES))
    return fingerprint_of_bytes(canonical_bytes(selected(fields, whole), limit_bytes=MAX_TRACE_BYTES))


class GapEntry(Value, frozen=True, kw_only=True):
    """Something happened that can't be recorded.

    Args:
        code: A short name of it.
        problem: What happened, in words.
    """

    code: Name
    problem: str


class TraceEntry(Value, frozen=True, kw_only=True):
    """One entry of a run's trace. Exactly one of the fields is given.

    Args:
        begin: An event begins.
        end: The event that began last ends.
        tool: A tool was called.
        offered: A tool that the run may call. Calling it says so, too.
        guardrail: The id of a guardrail that was triggered.
        output: The shape of the run's output; a run has one.
        model_revision: Which revision of the model answered, if the provider says so only then.
        gap: Something happened that can't be recorded.
    """

    begin: EventBegin | None = None
    end: EventEnd | None = None
    tool: ToolEntry | None = None
    offered: ToolProfile | None = None
    guardrail: Name | None = None
    output: Shape | None = None
    model_revision: Name | None = None
    gap: GapEntry | None = None

    def __post_init__(self) -> None:
        given = [name for name in self.__struct_fields__ if getattr(self, name) is not None]
        self._require(len(given) == 1, f"give exactly one of {', '.join(self.__struct_fields__)}")

    def as_json(self) -> dict[str, Any]:
        """The entry with the one field that it has, as it is read back: with lists, no tuples."""
        plain: dict[str, Any] = orjson.loads(msgspec.json.encode(self))
        return {name: value for name, value in plain.items() if value is not None}


class MakesCalls(Protocol):
    """What records calls of tools: a ``Recorder`` here, or one on a server."""

    def register(self, profile: ToolProfile) -> None:
        """Add a tool that the run may call."""

    def perform(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Any],
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Make a call and record it."""

    async def perform_async(
        self,
        profile: ToolProfile,
        args: object,
        call: Callable[[], Awaitable[Any]],
        *,
        effects: Callable[[Any], object] | None = None,
    ) -> Any:
        """Await a call and record it."""


def recorded_tool(
    recorder: MakesCalls, profile: ToolProfile | None, effects: Callable[[Any], object] | None
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """The decorator that ``Recorder.tool`` describes."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        own = profile or ToolProfile.whole(function.__name__)
        recorder.register(own)
        named = _argument_names(function)
        anything: Any = function

        @wraps(function)
        def recorded(*args: _P.args, **kwargs: _P.kwargs) -> Any:
            return recorder.perform(
                own, named(args, kwargs), lambda: anything(*args, **kwargs), effects=effects
            )

        @wraps(function)
        async def recorded_async(*args: _P.args, **kwargs: _P.kwargs) -> Any:
            return await recorder.perform_async(
                own, named(args, kwargs), lambda: anything(*args, **kwargs), effects=effects
            )

        wrapper: Any = recorded_async if inspect.iscoroutinefunction(function) else recorded
        checked: Callable[_P, _R] = wrapper
        return checked

    return decorate


def _argument_names(
    function: Callable[..., Any],
) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """Return what maps a call's arguments to names. A call that does not fit raises ``TypeError``."""
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    is_simple = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    names = tuple(signature.parameters)
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}

    def named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        # ``bind`` costs as much as the rest of recording, so common calls avoid it.
        if is_simple and len(args) <= len(names) and kwargs.keys().isdisjoint(names[: len(args)]):
            bound = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
            if bound.keys() == signature.parameters.keys():
                return bound
        arguments = signature.bind(*args, **kwargs)
        arguments.apply_defaults()
        return arguments.arguments

    return named
