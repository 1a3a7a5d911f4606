"""The agent's own loop: recall, render, ask the model, remember.

It goes through memory as everyone does: a run is opened, context is recalled from its snapshot under the budget that the
prompt's memory section states, and what the agent wants to keep is remembered in the same run, so that it is committed if
the request succeeds and discarded if it does not. Under an experiment the run only reads.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol

import msgspec

from holdfast.canon import utc_text
from holdfast.clock import Clock, IdSource, RandomIds
from holdfast.errors import DeadlinePassed, ProviderGarbled
from holdfast.limits import MAX_TOOL_ROUNDS
from holdfast.loops.requests import MainLoopRequest, MainLoopResult, UserRequestT, error_text
from holdfast.loops.tools import Resources, Tool, ToolContext, handled
from holdfast.loops.worker import WorkerLoop
from holdfast.mailboxes.in_memory import InMemoryMailbox
from holdfast.mailboxes.mailbox import Mailbox
from holdfast.prompts.overrides import STABLE, PromptOverridesStore
from holdfast.prompts.prompt import ContextText, Fallback, Prompt, RenderedPrompt
from holdfast.prompts.section import as_text
from holdfast.prompts.template import PromptTemplate
from holdfast.providers.adapter import (
    ModelReply,
    ModelRequest,
    ProviderAdapter,
    Role,
    TokenUsage,
    Turn,
)
from holdfast.vocabulary import Experiment, VisibilityMode


class MemoryRun(Protocol):
    """A run of memory, as far as the loop needs it."""

    def recall(self, query: str, *, tokens: int) -> ContextText:
        """What memory hands back, of at most so many tokens."""
        ...

    def remember(self, text: str, *, tags: Sequence[str], subject: str | None, source: dict[str, Any]) -> Any:
        """Put something into the run's buffer, to be judged and committed with it."""
        ...


class AgentMemory(Protocol):
    """Memory, as far as the loop needs it. ``holdfast.memory.Memory`` is one."""

    def run(self, *, workflow: str, mode: str) -> AbstractContextManager[MemoryRun]:
        """A run that commits when its block is left, and discards its buffer if an exception leaves it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToRemember:
    """Something that the agent wants to keep."""

    text: str
    tags: tuple[str, ...] = ()
    subject: str | None = None


@dataclass(slots=True)
class Session:
    """What one request has at hand: resources for its tools, and what happened so far, for its trace."""

    resources: Resources = field(default_factory=Resources)
    events: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """A request whose prompt is rendered, and which is about to be sent to the model."""

    request: MainLoopRequest[Any]
    prompt: RenderedPrompt
    session: Session


Bus = Callable[[dict[str, Any]], None]
"""Hears of every event of every request."""


class MainLoop(WorkerLoop[MainLoopRequest[UserRequestT], MainLoopResult], Generic[UserRequestT]):
    """An agent. Give it a template, or say in a subclass what ``prepare`` makes of a request."""

    takes: ClassVar[type] = MainLoopRequest
    name = "main"

    def __init__(
        self,
        *,
        adapter: ProviderAdapter,
        template: PromptTemplate | None = None,
        overrides_store: PromptOverridesStore | None = None,
        requests: Mailbox[MainLoopRequest[UserRequestT], MainLoopResult] | None = None,
        memory: AgentMemory | None = None,
        workflow: str = "main",
        tools: Sequence[Tool] = (),
        bus: Bus | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        # Without a mailbox of its own nobody can ask it from outside, but eval workers can use it.
        super().__init__(
            requests=requests or InMemoryMailbox(name=f"main-{(ids or RandomIds()).new_id()}"), clock=clock
        )
        self.adapter = adapter
        self._template, self._store = template, overrides_store
        self._memory, self._workflow = memory, workflow
        self._tools, self._bus = tuple(tools), bus

    def prepare(self, request: UserRequestT, experiment: Experiment | None) -> tuple[Prompt, Session]:
        """The prompt for a request, with its values bound. An experiment's tag must be there; the stable one may not yet."""
        assert self._template is not None, "give a template, or say in a subclass what prepare() makes"
        prompt = Prompt(
            self._template,
            overrides_tag=experiment.overrides_tag if experiment else STABLE,
            fallback=Fallback.ERROR if experiment else Fallback.TEMPLATE,
        )
        params = request if isinstance(request, dict) else {"input": request}
        return prompt.bind(params), Session()

    def query(self, request: UserRequestT) -> str:
        """What memory is asked for, if the prompt has a memory section."""
        if isinstance(request, dict):
            return " ".join(as_text(request[name]) for name in sorted(request))
        return as_text(request)

    def to_remember(self, request: UserRequestT, output: str) -> Sequence[ToRemember]:  # noqa: ARG002  # For subclasses.
        """What to keep of a request and its answer; nothing, unless a subclass says so."""
        return ()

    def handle(self, request: MainLoopRequest[UserRequestT]) -> MainLoopResult:
        """Recall, render, ask, remember."""
        now = utc_text(self._clock.now())
        if request.deadline is not None and request.deadline <= now:
            raise DeadlinePassed(request_id=request.request_id, deadline=request.deadline, at=now)
        with self._run(request) as run:
            rendering = self._rendered(request, run)
            result = self.answer(rendering)
            remembered = 0
            if run is not None and request.experiment is None:
                source = {"kind": "main-loop", "id": request.request_id}
                for one in self.to_remember(request.request, result.output):
                    run.remember(one.text, tags=one.tags, subject=one.subject, source=source)
                    remembered += 1
        return msgspec.structs.replace(result, remembered=remembered)

    def failed(self, request: MainLoopRequest[UserRequestT], error: Exception) -> MainLoopResult:
        """An answer that tells the error."""
        return MainLoopResult(request_id=request.request_id, error=error_text(error))

    def execute(self, request: MainLoopRequest[UserRequestT]) -> MainLoopResult:
        """The answer to a request, without a mailbox between."""
        return self.handle(request)

    def render(self, request: MainLoopRequest[UserRequestT]) -> Rendering:
        """The prompt for a request, with what memory hands back; nothing is written."""
        with self._run(request, read_only=True) as run:
            return self._rendered(request, run)

    def answer(self, rendering: Rendering) -> MainLoopResult:
        """What the model says, tools included."""
        prompt, request = rendering.prompt, rendering.request
        reply, usage = self._converse(rendering)
        self._tell(rendering.session, {"event": "answered", "model": reply.model, **usage.as_json()})
        return MainLoopResult(
            request_id=request.request_id,
            output=reply.text,
            prompt_digest=prompt.prompt_digest,
            rendered_digest=prompt.rendered_digest,
            package_hash=prompt.package_hash,
            fell_back=prompt.fell_back,
            model=reply.model,
            usage=usage,
        )

    def _run(
        self, request: MainLoopRequest[UserRequestT], *, read_only: bool = False
    ) -> AbstractContextManager[MemoryRun | None]:
        if self._memory is None:
            return nullcontext()
        reading = read_only or request.experiment is not None
        mode = VisibilityMode.READ_ONLY if reading else VisibilityMode.BUFFERED_WRITE
        return self._memory.run(workflow=self._workflow, mode=mode.value)

    def _rendered(self, request: MainLoopRequest[UserRequestT], run: MemoryRun | None) -> Rendering:
        prompt, session = self.prepare(request.request, request.experiment)
        session.resources = session.resources.plus(request.experiment)
        resolved = prompt.resolve(self._store)
        budget = next((one.recall_tokens for one in resolved.descriptor.sections if one.recall_tokens), None)
        if budget is not None and request.budget is not None:
            budget = min(budget, request.budget.max_excerpt_tokens)
        if budget is not None and run is not None:
            prompt = prompt.bind(memory=run.recall(self.query(request.request), tokens=budget))
        rendered = prompt.render(resolved=resolved)
        told = {name: value for name, value in rendered.as_json().items() if name != "text"}
        self._tell(session, {"event": "rendered", "request_id": request.request_id, **told})
        return Rendering(request=request, prompt=rendered, session=session)

    def _converse(self, rendering: Rendering) -> tuple[ModelReply, TokenUsage]:
        context = ToolContext(resources=rendering.session.resources, request_id=rendering.request.request_id)
        turns = [Turn(role=Role.USER, text=rendering.prompt.text)]
        usage, specs = TokenUsage(), tuple(tool.spec for tool in self._tools)
        for _ in range(MAX_TOOL_ROUNDS):
            asked = ModelRequest(turns=tuple(turns), tools=specs, repeat=rendering.request.repeat)
            reply = self.adapter.complete(asked)
            usage += reply.usage
            if not reply.tool_calls:
                return reply, usage
            turns.append(Turn(role=Role.ASSISTANT, text=reply.text, tool_calls=reply.tool_calls))
            for call in reply.tool_calls:
                answer = handled(call, self._tools, context)
                self._tell(rendering.session, {"event": "tool", "name": call.name, "call_id": call.call_id})
                turns.append(Turn(role=Role.TOOL, text=answer, call_id=call.call_id))
        problem = f"it called tools {MAX_TOOL_ROUNDS} times in a row and never answered"
        raise ProviderGarbled(provider=self.adapter.config.provider, problem=problem)

    def _tell(self, session: Session, event: dict[str, Any]) -> None:
        session.events.append(event)
        if self._bus is not None:
            self._bus(event)
