"""The agent's own loop: recall, render, ask the model, remember.

It goes through memory as everyone does: a run is opened, context is recalled from its snapshot under the budget that the
prompt's memory section states, and what the agent wants to keep is remembered in the same run, so that it is committed if
the request succeeds and discarded if it does not. Under an experiment the run only reads. All of it is in the run's trace.

A request that is delivered twice has one effect: an idempotency record in the commit's own transaction tells that it had it.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from standfast.canon import utc_text
from standfast.clock import Clock, IdSource, RandomIds, SystemClock
from standfast.errors import CommitAborted, DeadlinePassed, ProviderGarbled
from standfast.limits import MAX_TOOL_ROUNDS
from standfast.memory.idempotency import IdempotencyRecord
from standfast.optimize.loops.agent import (
    AGENT,
    ASSISTANT,
    EVAL_CACHE,
    MAIN_LOOP,
    PROVIDER,
    AgentMemory,
    AgentSession,
    Bus,
    MemoryRun,
    Tool,
    Toolbox,
    ToolContext,
    ToRemember,
    Unrecorded,
    identity_of,
    record_output,
    record_prompt,
    shape_of,
)
from standfast.optimize.loops.worker import WorkerLoop, error_text
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.mailboxes.mailbox import Mailbox
from standfast.optimize.mailboxes.wire import message_kind
from standfast.optimize.prompts.overrides import STABLE, PromptOverridesStore
from standfast.optimize.prompts.prompt import Fallback, Prompt, RenderedPrompt
from standfast.optimize.prompts.template import PromptTemplate, as_text
from standfast.optimize.providers.adapter import (
    ChatMessage,
    MessageRole,
    ModelReply,
    ModelRequest,
    ProviderAdapter,
    TokenUsage,
)
from standfast.traces.recorder import Recorder
from standfast.traces.shapes import Shape
from standfast.vocabulary import Budget, Experiment, RunIdentity, Value, VisibilityMode

UserRequestT = TypeVar("UserRequestT")
_DEADLINE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def _now() -> str:
    return utc_text(SystemClock().now())


@message_kind("MainLoopRequest")
class MainLoopRequest(Value, Generic[UserRequestT], frozen=True, kw_only=True):
    """One request to the agent. An experiment decides which overrides are used, and that nothing is remembered.

    A budget caps what memory hands back, whatever the prompt allows; after the deadline nothing is done.
    """

    request: UserRequestT
    budget: Budget | None = None
    deadline: str | None = None
    experiment: Experiment | None = None
    repeat: int = 0
    request_id: str = msgspec.field(default_factory=RandomIds().new_id)
    created_at: str = msgspec.field(default_factory=_now)

    def __post_init__(self) -> None:
        self._require_name("request_id", self.request_id)
        if self.deadline is not None:
            self._require(
                _DEADLINE.fullmatch(self.deadline) is not None, "deadline must be as utc_text() writes it"
            )


@message_kind("MainLoopResult")
class MainLoopResult(Value, frozen=True, kw_only=True):
    """The agent's answer, with what it was made of: prompt, memory, model, tokens, and the run whose trace tells it."""

    request_id: str
    output: str = ""
    prompt_digest: str | None = None
    rendered_digest: str | None = None
    package_hash: str | None = None
    fell_back: str | None = None
    model: str = ""
    usage: TokenUsage = TokenUsage()
    remembered: int = 0
    run_id: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """A request whose prompt is rendered, and which is about to be sent to the model."""

    request: MainLoopRequest[Any]
    prompt: RenderedPrompt
    session: AgentSession
    recorder: Recorder


__all__ = ["AgentSession", "Bus", "MainLoop", "Rendering", "ToRemember"]
_WITHOUT_MEMORY: Final = "no-memory"


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
        self._tools, self._bus = Toolbox(*tools), bus

    def prepare(self, request: UserRequestT, experiment: Experiment | None) -> tuple[Prompt, AgentSession]:
        """The prompt for a request, with its values bound. An experiment's tag must be there; the stable one may not yet."""
        assert self._template is not None, "give a template, or say in a subclass what prepare() makes"
        prompt = Prompt(
            self._template,
            overrides_tag=experiment.overrides_tag if experiment else STABLE,
            fallback=Fallback.ERROR if experiment else Fallback.TEMPLATE,
        )
        params = request if isinstance(request, dict) else {"input": request}
        return prompt.bind(params), AgentSession()

    def query(self, request: UserRequestT) -> str:
        """What memory is asked for, if the prompt has a memory section."""
        if isinstance(request, dict):
            return " ".join(as_text(request[name]) for name in sorted(request))
        return as_text(request)

    def to_remember(self, request: UserRequestT, output: str) -> Sequence[ToRemember]:  # noqa: ARG002  # For subclasses.
        """What to keep of a request and its answer; nothing, unless a subclass says so."""
        return ()

    def shape(self, output: str) -> Shape:
        """What the answer looks like, apart from its words: how its trace tells it."""
        return shape_of(output)

    def handle(self, request: MainLoopRequest[UserRequestT]) -> MainLoopResult:
        """Recall, render, ask, remember."""
        now = utc_text(self._clock.now())
        if request.deadline is not None and request.deadline <= now:
            raise DeadlinePassed(request_id=request.request_id, deadline=request.deadline, at=now)
        idempotency = self._idempotency_record(request)
        remembered = self._remembered_before(idempotency)
        try:
            with self._opened(request, reading=idempotency is None or remembered is not None) as (
                run,
                recorder,
            ):
                result = self.answer(self._rendered(request, run, recorder))
                if run is not None and idempotency is not None and remembered is None:
                    remembered = self._remember(request, result, run)
                    run.commit(extra_writes=[idempotency.write({"remembered": remembered}, recorder.run)])
        except CommitAborted:
            # A worker whose lease had ended may have had the same request, and was faster: its effect is the only one.
            remembered = self._remembered_before(idempotency)
            if remembered is None:
                raise
        return msgspec.structs.replace(result, remembered=remembered or 0)

    def _idempotency_record(self, request: MainLoopRequest[UserRequestT]) -> IdempotencyRecord | None:
        """What tells whether a request had its effect; None for one that must have none."""
        if self._memory is None or request.experiment is not None:
            return None
        asked = ["main-loop/v1", request.created_at, as_text(request.request)]
        return IdempotencyRecord.of(
            f"loop/{self._workflow}", self._memory.namespace, request.request_id, asked
        )

    def _remembered_before(self, idempotency: IdempotencyRecord | None) -> int | None:
        """How much was remembered when the request was delivered before; None if it had no effect yet."""
        known = (
            None
            if idempotency is None or self._memory is None
            else idempotency.stored_answer(self._memory.store)
        )
        return None if known is None else int(known.answer["remembered"])

    def _remember(
        self, request: MainLoopRequest[UserRequestT], result: MainLoopResult, run: MemoryRun
    ) -> int:
        wanted = self.to_remember(request.request, result.output)
        # The text that the model read is where an answer comes from; which request it was, the run and its idempotency record tell.
        source = {"kind": "main-loop", "id": result.rendered_digest}
        if wanted:
            with run.recorder.event(role=AGENT, interceptor=MAIN_LOOP, decision_type="remember"):
                for one in wanted:
                    run.remember(one.text, tags=one.tags, subject=one.subject, source=source)
        return len(wanted)

    def failed(self, request: MainLoopRequest[UserRequestT], error: Exception) -> MainLoopResult:
        """An answer that tells the error."""
        return MainLoopResult(request_id=request.request_id, error=error_text(error))

    def execute(self, request: MainLoopRequest[UserRequestT]) -> MainLoopResult:
        """The answer to a request, without a mailbox between."""
        return self.handle(request)

    @contextmanager
    def rendered(self, request: MainLoopRequest[UserRequestT]) -> Iterator[Rendering]:
        """The prompt for a request, with what memory hands back, in a run that only reads and lasts as long as the block."""
        with self._opened(request, reading=True) as (run, recorder):
            yield self._rendered(request, run, recorder)

    def answer(self, rendering: Rendering) -> MainLoopResult:
        """What the model says, tools included."""
        prompt, request, recorder = rendering.prompt, rendering.request, rendering.recorder
        reply, usage = self._converse(rendering)
        record_output(recorder, reply.text, self.shape)
        told = {"model": reply.model, "request_id": request.request_id, "run_id": recorder.run.run_id}
        self._tell(rendering.session, {"event": "answered", **told, **usage.as_json()})
        return MainLoopResult(
            request_id=request.request_id,
            output=reply.text,
            prompt_digest=prompt.prompt_digest,
            rendered_digest=prompt.rendered_digest,
            package_hash=prompt.package_hash,
            fell_back=prompt.fell_back,
            model=reply.model,
            usage=usage,
            run_id=None if self._memory is None else recorder.run.run_id,
        )

    def answer_again(self, rendering: Rendering, output: str) -> None:
        """Say that the answer was known already, from an evaluation of the same prompt; its trace tells so."""
        with rendering.recorder.event(role=AGENT, interceptor=EVAL_CACHE, decision_type="known"):
            record_output(rendering.recorder, output, self.shape)

    @contextmanager
    def _opened(
        self, request: MainLoopRequest[UserRequestT], *, reading: bool
    ) -> Iterator[tuple[MemoryRun | None, Recorder]]:
        if self._memory is None:
            alone = RunIdentity(
                run_id=request.request_id,
                workflow_id=self._workflow,
                memory_snapshot_id=0,
                visibility_mode=VisibilityMode.OFF,
                policy_set_id=_WITHOUT_MEMORY,
            )
            yield None, Unrecorded(alone)
            return
        model = identity_of(self.adapter.config, tools=self._tools.specs, repeat=request.repeat)
        mode = VisibilityMode.READ_ONLY if reading else VisibilityMode.BUFFERED_WRITE
        with self._memory.run(workflow=self._workflow, mode=mode.value, model=model) as run:
            yield run, run.recorder

    def _rendered(
        self, request: MainLoopRequest[UserRequestT], run: MemoryRun | None, recorder: Recorder
    ) -> Rendering:
        self._tools.register(recorder)
        prompt, session = self.prepare(request.request, request.experiment)
        session.resources = session.resources.plus(request.experiment)
        resolved = prompt.resolve(self._store)
        budget = next((one.recall_tokens for one in resolved.descriptor.sections if one.recall_tokens), None)
        if budget is not None and request.budget is not None:
            budget = min(budget, request.budget.max_excerpt_tokens)
        with recorder.event(role=AGENT, interceptor=MAIN_LOOP, decision_type="prepare"):
            if budget is not None and run is not None:
                prompt = prompt.bind(memory=run.recall(self.query(request.request), tokens=budget))
            rendered = prompt.render(resolved=resolved)
            told = record_prompt(recorder, rendered)
        self._tell(session, {"event": "rendered", "request_id": request.request_id, **told})
        return Rendering(request=request, prompt=rendered, session=session, recorder=recorder)

    def _converse(self, rendering: Rendering) -> tuple[ModelReply, TokenUsage]:
        turns, usage = [ChatMessage(role=MessageRole.USER, text=rendering.prompt.text)], TokenUsage()
        for _ in range(MAX_TOOL_ROUNDS):
            with rendering.recorder.event(role=ASSISTANT, interceptor=PROVIDER) as event:
                asked = ModelRequest(
                    turns=tuple(turns), tools=self._tools.specs, repeat=rendering.request.repeat
                )
                reply = self.adapter.complete(asked)
                usage += reply.usage
                if reply.model:
                    rendering.recorder.answered_by(reply.model)
                event.decide("tool_calls" if reply.tool_calls else "message")
                if not reply.tool_calls:
                    return reply, usage
                turns += self._tool_turns(reply, rendering)
        problem = f"it called tools {MAX_TOOL_ROUNDS} times in a row and never answered"
        raise ProviderGarbled(provider=self.adapter.config.provider, problem=problem)

    def _tool_turns(self, reply: ModelReply, rendering: Rendering) -> Iterator[ChatMessage]:
        """What the model asked of tools, and what each of them answered."""
        context = ToolContext(resources=rendering.session.resources, request_id=rendering.request.request_id)
        yield ChatMessage(role=MessageRole.ASSISTANT, text=reply.text, tool_calls=reply.tool_calls)
        for call in reply.tool_calls:
            answer = self._tools.handle(call, context, rendering.recorder)
            self._tell(rendering.session, {"event": "tool", "name": call.name, "call_id": call.call_id})
            yield ChatMessage(role=MessageRole.TOOL, text=answer, call_id=call.call_id)

    def _tell(self, session: AgentSession, event: dict[str, Any]) -> None:
        session.events.append(event)
        if self._bus is not None:
            self._bus(event)
