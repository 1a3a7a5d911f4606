"""What an agent's loop works with: memory, tools, the session of a request, and how a request is recorded.

The trace of a request has these events:

    agent      main-loop  prepare     what was recalled, and the prompt that was rendered with it
    assistant  provider   tool_calls  the tool calls that the model asked for, with their results; once per
               round
    assistant  provider   message     the model's answer
    agent      main-loop  answer      what was asked and answered, without secrets
    agent      main-loop  remember    what is remembered, with the judge's verdicts
    output                            the shape of the answer

Ids and times of a request are not recorded, so that a repeated request leaves an equivalent trace.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from standfast.errors import InvalidValue, NotCanonical, StandfastError
from standfast.govern.judge.secrecy import redacted_request
from standfast.optimize.evals.exchanges import EXCHANGE
from standfast.optimize.prompts.prompt import Experiment, RenderedPrompt
from standfast.optimize.providers.adapter import ModelToolCall, ProviderConfig, ToolSpec, tools_digest
from standfast.records.canon import parse
from standfast.records.requests import RememberRequest
from standfast.traces.artifact import ModelConfig, ToolProfile
from standfast.traces.recorder import REMEMBER, Recorder
from standfast.traces.shapes import Shape, json_shape, text_shape

_T = TypeVar("_T")

AGENT: Final = "agent"
ASSISTANT: Final = "assistant"
MAIN_LOOP: Final = "main-loop"
PROVIDER: Final = "provider"
EVAL_CACHE: Final = "eval-cache"

# Tag and version only say where the text came from; the digests say which text it was.
RENDER: Final = ToolProfile(
    tool_name="prompt.render",
    tool_profile_version="render-v1",
    normalized_args_fields=("ns", "prompt_key"),
    tool_result_fields=("fell_back", "prompt_digest", "rendered_digest"),
)
NO_SUCH_TOOL: Final = ToolProfile(tool_name="tool.unknown", tool_profile_version="unknown-v1")

Event = dict[str, Any]
Bus = Callable[[Event], None]
"""Receives every event of every request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRemember:
    """Something that the agent wants to remember, in the scope and the session of its request.

    Args:
        speaker: Who said it; by default nobody in particular.
    """

    text: str
    tags: tuple[str, ...] = ()
    subject: str | None = None
    speaker: str | None = None


class Resources:
    """Objects by their type, one of each."""

    def __init__(self, *objects: object) -> None:
        self._objects = {type(one): one for one in objects if one is not None}

    def get(self, kind: type[_T]) -> _T | None:
        """Return the object of that type, or None."""
        found = self._objects.get(kind)
        return found if isinstance(found, kind) else None

    @property
    def objects(self) -> tuple[object, ...]:
        """The objects, in the order in which they were given."""
        return tuple(self._objects.values())

    def plus(self, *objects: object) -> "Resources":
        """Return these resources and others; of two with the same type, the new one wins."""
        return Resources(*self._objects.values(), *objects)


@dataclass(slots=True)
class AgentSession:
    """The state of one request: resources for its tools, and its events so far."""

    resources: Resources = field(default_factory=Resources)
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool handler can see of the request it works for."""

    resources: Resources
    request_id: str

    @property
    def experiment(self) -> Experiment | None:
        """The request's experiment, or None."""
        return self.resources.get(Experiment)


ToolHandler = Callable[[dict[str, Any], ToolContext], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    """A tool with its handler, which may be called twice for one request if a worker dies.

    Args:
        profile: Which parts of a call count in a trace; without one, all of it.
        effects: Returns the side effects of a call, given its result, where the profile has any.
    """

    spec: ToolSpec
    handler: ToolHandler
    profile: ToolProfile | None = None
    effects: Callable[[Any], object] | None = None


class Toolbox:
    """The tools of an agent, by name. Every call is recorded."""

    def __init__(self, *tools: AgentTool) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._profiles = {tool.spec.name: tool.profile or ToolProfile.whole(tool.spec.name) for tool in tools}
        reserved = {profile.tool_name: profile for profile in (RENDER, REMEMBER, NO_SUCH_TOOL, EXCHANGE)}
        renamed = any(profile.tool_name != name for name, profile in self._profiles.items())
        if renamed or len(self._tools) < len(tools) or self._tools.keys() & reserved.keys():
            names = ", ".join(sorted(reserved))
            problem = f"each tool needs a unique name, the same in its profile, and none of {names}"
            raise InvalidValue(what="tools", problem=problem)
        # Every run registers all profiles, so that runs are comparable whichever tools they call.
        self._registered = (*reserved.values(), *self._profiles.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The descriptions that the model gets."""
        return tuple(tool.spec for tool in self._tools.values())

    def register(self, recorder: Recorder) -> None:
        """Register the profiles of all tools with a run."""
        for profile in self._registered:
            recorder.register(profile)

    def handle(self, call: ModelToolCall, context: ToolContext, recorder: Recorder) -> str:
        """Call a tool and return its result. The model gets an error text if the tool is unknown or fails."""
        tool = self._tools.get(call.name)
        if tool is None:
            answer = f"error: there is no tool {call.name!r:.80}"
            args = {"name": call.name, "arguments": call.arguments}
            recorder.tool_call(profile=NO_SUCH_TOOL, args=args, result=answer)
            return answer
        handler = tool.handler
        try:
            result: str = recorder.perform(
                self._profiles[call.name],
                call.arguments,
                lambda: handler(call.arguments, context),
                effects=tool.effects,
            )
        except StandfastError as error:
            return f"error: {error}"
        except Exception as error:  # noqa: BLE001  # A tool may raise anything; the model can try something else.
            return f"error: {type(error).__name__}: {error}"
        return result


def model_identity(config: ProviderConfig, *, tools: Sequence[ToolSpec] = (), repeat: int = 0) -> ModelConfig:
    """Return a provider's configuration as a trace records it, with a hash of the tools it is offered."""
    other: dict[str, Any] = {"repeat": repeat} if repeat else {}
    if tools:
        other["tools_digest"] = tools_digest(tools)
    if config.revision:
        other["revision"] = config.revision
    if config.parameters:
        other["parameters"] = config.parameters
    return ModelConfig(
        provider_name=config.provider,
        model_name=config.model,
        temperature=config.temperature,
        max_tokens=config.max_output_tokens,
        seed=config.seed,
        other_params=other,
    )


def output_shape(output: str) -> Shape:
    """Return an answer's shape: the structure of a JSON object or list, or the headings of a text."""
    if output.lstrip().startswith(("{", "[")):
        try:
            return json_shape(parse(output))
        except NotCanonical:
            pass
    return text_shape(output)


def record_prompt(recorder: Recorder, prompt: RenderedPrompt) -> dict[str, Any]:
    """Record which prompt was rendered, and return what was recorded: everything except the text."""
    facts = {name: value for name, value in prompt.as_json().items() if name != "text"}
    recorder.tool_call(profile=RENDER, args=facts, result=facts)
    return facts


def record_output(recorder: Recorder, output: str, shape: Callable[[str], Shape]) -> None:
    """Record an answer's shape. An answer whose shape can't be recorded leaves a gap in the trace."""
    try:
        recorder.output(shape(output))
    except StandfastError as error:
        recorder.gap("unrecordable_output", str(error))


def record_exchange(recorder: Recorder, *, workflow: str, facts: dict[str, Any]) -> None:
    """Record what was asked and answered, with every secret replaced by its kind."""
    recorder.tool_call(profile=EXCHANGE, args={"workflow": workflow}, result=without_secrets(facts))


def without_secrets(value: Any) -> Any:
    """Return JSON with every secret in its strings replaced by its kind."""
    if isinstance(value, str):
        return redacted_request(RememberRequest.of(value)).text if value.strip() else value
    if isinstance(value, dict):
        return {name: without_secrets(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [without_secrets(member) for member in value]
    return value
