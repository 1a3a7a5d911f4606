"""How the agent's loop tells its recorder what happened, so that two traces of it can be compared.

    agent      main-loop  prepare     what memory handed back; the prompt that was made of it
    assistant  provider   tool_calls  what the model asked of tools, and what they answered; as often as it asks
    assistant  provider   message     what the model said in the end
    agent      main-loop  remember    what is to be kept, as the judge ruled
    output                            its shape

Ids and times of a request are in none of it: the same request made again gives an equivalent trace.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from standfast.canon import fingerprint, parse
from standfast.errors import NotCanonical, StandfastError
from standfast.optimize.prompts.prompt import RenderedPrompt
from standfast.optimize.providers import adapter
from standfast.traces.drafts import EventDraft
from standfast.traces.identity import ModelConfig, ToolProfile
from standfast.traces.recorder import Recorder
from standfast.traces.shapes import Shape, json_shape, text_shape
from standfast.vocabulary import RunIdentity

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
    config: adapter.ModelConfig, *, tools: Sequence[adapter.ToolSpec] = (), repeat: int = 0
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
