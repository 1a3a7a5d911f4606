"""Memory as far as the agent's loop needs it. ``standfast.memory.Memory`` is one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from standfast.canon import fingerprint, parse
from standfast.errors import InvalidValue, NotCanonical, StandfastError
from standfast.optimize.prompts.prompt import ContextText, RenderedPrompt
from standfast.optimize.providers import adapter
from standfast.optimize.providers.adapter import ModelToolCall, ToolSpec
from standfast.store.commit import Write
from standfast.store.store import Store
from standfast.traces.artifact import ModelConfig, ToolProfile
from standfast.traces.recorder import REMEMBER, Recorder
from standfast.traces.recording import EventDraft
from standfast.traces.shapes import Shape, json_shape, text_shape
from standfast.vocabulary import Experiment, Receipt, RunIdentity


class MemoryRun(Protocol):
    """A run of memory. Its recorder makes the trace of it."""

    @property
    def recorder(self) -> Recorder:
        """Who is told of everything that the run does."""
        ...

    def recall(self, query: str, *, tokens: int) -> ContextText:
        """What memory hands back, of at most so many tokens; recorded."""
        ...

    def remember(self, text: str, *, tags: Sequence[str], subject: str | None, source: dict[str, Any]) -> Any:
        """Put something into the run's buffer, to be judged and committed with it; recorded."""
        ...

    def commit(self, *, extra_writes: Sequence[Write]) -> Receipt | None:
        """Apply all of it, and rows of the caller's own in the same transaction; None if there is nothing to apply."""
        ...


class AgentMemory(Protocol):
    """Memory: its runs, and the store that knows which requests had their effect."""

    @property
    def namespace(self) -> str:
        """Whose memory it is."""
        ...

    @property
    def store(self) -> Store:
        """Where it is kept."""
        ...

    def run(self, *, workflow: str, mode: str, model: ModelConfig) -> AbstractContextManager[MemoryRun]:
        """A run that commits when its block is left, and discards its buffer if an exception leaves it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRemember:
    """Something that the agent wants to keep."""

    text: str
    tags: tuple[str, ...] = ()
    subject: str | None = None


AGENT: Final = "agent"
ASSISTANT: Final = "assistant"
MAIN_LOOP: Final = "main-loop"
PROVIDER: Final = "provider"
EVAL_CACHE: Final = "eval-cache"

# The tag and its version only say where the text came from; the digests say which text it was.
RENDER: Final = ToolProfile(
    tool_name="prompt.render",
    tool_profile_version="render-v1",
    normalized_args_fields=("ns", "prompt_key"),
    tool_result_fields=("fell_back", "prompt_digest", "rendered_digest"),
)
NO_SUCH_TOOL: Final = ToolProfile(tool_name="tool.unknown", tool_profile_version="unknown-v1")


class Unrecorded(Recorder):
    """Stands in where there is no memory, and so nobody who keeps a trace: it makes the calls and notes nothing."""

    def __init__(self, run: RunIdentity) -> None:
        # Of what a recorder is made of, this one needs nothing else.
        self.run = run

    def register(self, profile: ToolProfile) -> None:
        """Nothing."""

    @contextmanager
    def event(self, *, role: str, interceptor: str, decision_type: str | None = None) -> Iterator[EventDraft]:
        """An event that nobody hears of."""
        yield EventDraft(role=role, interceptor=interceptor, decision_type=decision_type)

    def tool_call(
        self, *, profile: ToolProfile, args: object, result: object, side_effects: object = None
    ) -> None:
        """Nothing."""

    def perform(
        self,
        profile: ToolProfile,  # noqa: ARG002  # As the supertype.
        args: object,  # noqa: ARG002  # As above.
        call: Callable[[], Any],
        *,
        effects: Callable[[Any], object] | None = None,  # noqa: ARG002  # As above.
    ) -> Any:
        """The call."""
        return call()

    def output(self, shape: Shape | dict[str, Any]) -> None:
        """Nothing."""

    def answered_by(self, model_revision: str) -> None:
        """Nothing."""

    def gap(self, code: str, problem: str) -> None:
        """Nothing."""


def identity_of(
    config: adapter.ProviderConfig, *, tools: Sequence[adapter.ToolSpec] = (), repeat: int = 0
) -> ModelConfig:
    """The model of a provider as a trace tells it, with what the model is told of its tools."""
    other: dict[str, Any] = {"repeat": repeat} if repeat else {}
    if tools:
        other["tools_digest"] = fingerprint(["tool-specs/v1", [tool.as_json() for tool in tools]])
    return ModelConfig(
        provider_name=config.provider,
        model_name=config.model,
        temperature=config.temperature,
        max_tokens=config.max_output_tokens,
        seed=config.seed,
        other_params=other,
    )


def shape_of(output: str) -> Shape:
    """The shape of an answer: a JSON object or list by its structure, anything else as Markdown by its headings."""
    if output.lstrip().startswith(("{", "[")):
        try:
            return json_shape(parse(output))
        except NotCanonical:
            pass
    return text_shape(output)


def record_prompt(recorder: Recorder, prompt: RenderedPrompt) -> dict[str, Any]:
    """Tell which prompt was really rendered: all about it but its text."""
    told = {name: value for name, value in prompt.as_json().items() if name != "text"}
    recorder.tool_call(profile=RENDER, args=told, result=told)
    return told


def record_output(recorder: Recorder, output: str, shape: Callable[[str], Shape]) -> None:
    """Tell what was put out. An answer that has no shape is a gap in the trace, and an answer all the same."""
    try:
        recorder.output(shape(output))
    except StandfastError as error:
        recorder.gap("unrecordable_output", str(error))


_T = TypeVar("_T")


class Resources:
    """Things by their type, one of each."""

    def __init__(self, *things: object) -> None:
        self._things = {type(thing): thing for thing in things if thing is not None}

    def get(self, kind: type[_T]) -> _T | None:
        """The thing of that type, if there is one."""
        thing = self._things.get(kind)
        return thing if isinstance(thing, kind) else None

    def plus(self, *things: object) -> "Resources":
        """These and others; of the same type, the new one stays."""
        return Resources(*self._things.values(), *things)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """What a tool handler can see of the request that it works for."""

    resources: Resources
    request_id: str

    @property
    def experiment(self) -> Experiment | None:
        """The experiment that is under way, if there is one."""
        return self.resources.get(Experiment)


Handler = Callable[[dict[str, Any], ToolContext], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool and who handles its calls. Its profile says what of them counts in a trace: everything, unless it is given.

    A handler can be called twice for one request, by a worker that dies and by the one that takes over.
    """

    spec: ToolSpec
    handler: Handler
    profile: ToolProfile | None = None
    effects: Callable[[Any], object] | None = None
    """Tells from the answer what the call has done, where the profile has side effects in scope."""


class Toolbox:
    """The tools of an agent, by name. Every call is recorded with its profile."""

    def __init__(self, *tools: Tool) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._profiles = {tool.spec.name: tool.profile or ToolProfile.whole(tool.spec.name) for tool in tools}
        own = {profile.tool_name: profile for profile in (RENDER, REMEMBER, NO_SUCH_TOOL)}
        renamed = any(profile.tool_name != name for name, profile in self._profiles.items())
        if renamed or len(self._tools) < len(tools) or self._tools.keys() & own.keys():
            problem = f"each needs a name of its own, also in its profile, which is none of {', '.join(sorted(own))}"
            raise InvalidValue(what="tools", problem=problem)
        # All are registered with every run, so that its model is the same whichever of them it comes to call.
        self._registered = (*own.values(), *self._profiles.values())

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of them."""
        return tuple(tool.spec for tool in self._tools.values())

    def register(self, recorder: Recorder) -> None:
        """Say which tools a run may call."""
        for profile in self._registered:
            recorder.register(profile)

    def handle(self, call: ModelToolCall, context: ToolContext, recorder: Recorder) -> str:
        """What a tool answers. A tool that does not exist or refuses is told to the model, which may do better."""
        tool = self._tools.get(call.name)
        if tool is None:
            answer = f"error: there is no tool {call.name!r:.80}"
            asked = {"name": call.name, "arguments": call.arguments}
            recorder.tool_call(profile=NO_SUCH_TOOL, args=asked, result=answer)
            return answer
        handler = tool.handler
        try:
            said: str = recorder.perform(
                self._profiles[call.name],
                call.arguments,
                lambda: handler(call.arguments, context),
                effects=tool.effects,
            )
        except StandfastError as error:
            return f"error: {error}"
        return said


@dataclass(slots=True)
class AgentSession:
    """What one request has at hand: resources for its tools, and what happened so far, for its trace."""

    resources: Resources = field(default_factory=Resources)
    events: list[dict[str, Any]] = field(default_factory=list)


Bus = Callable[[dict[str, Any]], None]
