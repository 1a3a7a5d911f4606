"""MainLoop, the agent's own loop: recall, render, ask the model, remember; and EvalLoop, which grades it.

Each request is one run of memory. Context is recalled from the run's snapshot under the budget that the
prompt's memory section states. What the agent wants to remember is committed with the run, or discarded if
the request fails. Under an experiment the run is read-only. Everything is in the run's trace.

A request that is delivered twice takes effect once: an idempotency record is part of the commit.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from standfast.clock import UUID, Clock, IdSource, RandomIds, SystemClock, fresh_uuid
from standfast.errors import CommitAborted, InvalidValue, StandfastError
from standfast.limits import MAX_TOOL_ROUNDS
from standfast.memory.idempotency import IdempotencyRecord
from standfast.memory.memory import Memory
from standfast.memory.run import Run
from standfast.optimize.errors import LoopError, ProviderError
from standfast.optimize.evals.evaluators import (
    Evaluator,
    Exact,
    Metric,
    Score,
    SessionFacts,
    as_evaluator,
    graded_session,
)
from standfast.optimize.evals.results import (
    CachedGrade,
    CacheKey,
    EvalRequest,
    EvalResult,
    Outcome,
    ResultCache,
    store_grade,
)
from standfast.optimize.evals.samples import ExpectedT, InputT
from standfast.optimize.loops.agent import (
    AGENT,
    ASSISTANT,
    EVAL_CACHE,
    MAIN_LOOP,
    PROVIDER,
    AgentSession,
    AgentTool,
    Bus,
    Event,
    Resources,
    Toolbox,
    ToolContext,
    ToRemember,
    model_identity,
    output_shape,
    record_exchange,
    record_output,
    record_prompt,
)
from standfast.optimize.loops.worker import WorkerLoop, error_text
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.mailboxes.mailbox import Mailbox
from standfast.optimize.mailboxes.wire import message_kind
from standfast.optimize.prompts.overrides import STABLE, PromptOverridesStore
from standfast.optimize.prompts.prompt import ContextText, Experiment, Fallback, Prompt, RenderedPrompt
from standfast.optimize.prompts.template import PromptTemplate, as_text
from standfast.optimize.providers.adapter import (
    ChatMessage,
    MessageRole,
    ModelReply,
    ModelRequest,
    ProviderAdapter,
    TokenUsage,
    checked_provider,
    tools_digest,
)
from standfast.records.canon import fingerprint, utc_text
from standfast.records.requests import RecallFields
from standfast.records.scopes import SHARED, checked_scope
from standfast.records.vocabulary import Budget, RunIdentity, Value, VisibilityMode
from standfast.traces.recorder import Recorder
from standfast.traces.shapes import Shape

UserRequestT = TypeVar("UserRequestT")


@message_kind("MainLoopRequest")
class MainLoopRequest(Value, Generic[UserRequestT], frozen=True):
    """One request to the agent.

    Args:
        budget: Caps the recalled tokens, whatever the prompt allows.
        deadline: After this time nothing is done.
        experiment: Decides which overrides are used. Nothing is remembered under an experiment.
        resources: Objects for the tools of this request, by type. They can't be sent, so a request with
            resources goes to ``execute``.
        scope: Where the request reads and remembers, such as ``user/ada``. Nothing of another scope reaches
            it, except of those that the agent's ``recall`` names.
        session: The conversation that the request is part of; what is remembered belongs to it.
        speaker: Who asks. Only recorded.
        conversation: The earlier messages, oldest first; the rendered prompt is the last.
    """

    request: UserRequestT
    budget: Budget | None = None
    deadline: datetime | None = None
    experiment: Experiment | None = None
    repeat: int = 0
    resources: Resources | None = None
    request_id: UUID = msgspec.field(default_factory=fresh_uuid)
    created_at: datetime = msgspec.field(default_factory=SystemClock().now)
    scope: str = SHARED
    session: str | None = None
    speaker: str | None = None
    conversation: tuple[ChatMessage, ...] = ()

    def __post_init__(self) -> None:
        self._require_aware("created_at", self.created_at)
        checked_scope(self.scope)
        if self.deadline is not None:
            self._require_aware("deadline", self.deadline)


@message_kind("MainLoopResult")
class MainLoopResult(Value, frozen=True, kw_only=True):
    """The agent's answer, and what it was made of: prompt, recalled package, model, tokens, and the run."""

    request_id: UUID
    output: str = ""
    prompt_digest: str | None = None
    rendered_digest: str | None = None
    package_hash: str | None = None
    fell_back: str | None = None
    model: str = ""
    usage: TokenUsage = TokenUsage()
    calls: int = 0
    remembered: int = 0
    run_id: str | None = None
    error: str | None = None
    truncated: bool = False
    """Whether the output ends at the limit of output tokens."""
    tools_called: tuple[str, ...] = ()
    """The names of the tools that the model called, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """A request whose prompt is rendered and ready for the model."""

    request: MainLoopRequest[Any]
    prompt: RenderedPrompt
    session: AgentSession
    recorder: Recorder


_NO_MEMORY: Final = "no-memory"


class MainLoop(WorkerLoop[MainLoopRequest[UserRequestT], MainLoopResult], Generic[UserRequestT]):
    """An agent. Pass a template, or override ``prepare`` in a subclass.

    Subclasses may also override ``query``, ``to_remember`` and ``shape``.

    Args:
        system: The system message of every request.
        output_schema: A JSON schema that every answer must fit.
        recall: Further fields of the memory section's ``RecallRequest``, such as ``where``. ``scopes`` are
            read besides the request's own. The section says how many tokens.
    """

    takes: ClassVar[type] = MainLoopRequest
    name = "main"

    def __init__(
        self,
        *,
        adapter: ProviderAdapter,
        template: PromptTemplate | None = None,
        overrides_store: PromptOverridesStore | None = None,
        requests: Mailbox[MainLoopRequest[UserRequestT], MainLoopResult] | None = None,
        memory: Memory | None = None,
        workflow: str = "main",
        tools: Sequence[AgentTool] = (),
        system: str = "",
        output_schema: dict[str, Any] | None = None,
        recall: RecallFields | None = None,
        bus: Bus | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        # Without a mailbox, only ``execute`` and evaluation workers use the agent.
        super().__init__(
            requests=requests or InMemoryMailbox(name=f"main-{(ids or RandomIds()).new_id()}"), clock=clock
        )
        self.adapter = checked_provider(adapter)
        self._template, self._store = template, overrides_store
        self._memory, self._workflow = memory, workflow
        self._tools, self._bus = Toolbox(*tools), bus
        self._system, self._output_schema = system, output_schema
        self._recall: RecallFields = recall or {}

    def prepare(self, request: UserRequestT, experiment: Experiment | None) -> tuple[Prompt, AgentSession]:
        """Return the prompt for a request, with its values bound.

        An experiment's override must exist, and fit the source. Only the tag ``stable`` may be missing: as
        long as nothing is applied, it means the source.
        """
        if self._template is None:
            raise InvalidValue(what="MainLoop", problem="pass a template, or override prepare()")
        prompt = Prompt(
            self._template,
            overrides_tag=experiment.overrides_tag if experiment else STABLE,
            fallback=self._fallback(experiment),
        )
        params = request if isinstance(request, dict) else {"input": request}
        return prompt.bind(params), AgentSession()

    def _fallback(self, experiment: Experiment | None) -> Fallback:
        if experiment is None:
            return Fallback.TEMPLATE
        return Fallback.IF_MISSING if experiment.overrides_tag == STABLE else Fallback.ERROR

    def query(self, request: UserRequestT) -> str:
        """Return the query for memory, used if the prompt has a memory section."""
        if isinstance(request, dict):
            return " ".join(as_text(request[name]) for name in sorted(request))
        return as_text(request)

    def to_remember(self, request: UserRequestT, output: str) -> Sequence[ToRemember]:  # noqa: ARG002  # For subclasses.
        """Return what to remember of a request and its answer; nothing by default."""
        return ()

    def shape(self, output: str) -> Shape:
        """Return the shape of an answer that its trace records."""
        return output_shape(output)

    def handle(self, request: MainLoopRequest[UserRequestT]) -> MainLoopResult:
        """Answer a request: recall, render, ask the model, remember."""
        now = self._clock.now()
        if request.deadline is not None and request.deadline <= now:
            raise LoopError(
                "deadline_passed",
                request_id=str(request.request_id),
                deadline=utc_text(request.deadline),
                at=utc_text(now),
            )
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
            # Another worker may have had the same request, after a lease ended, and committed first.
            remembered = self._remembered_before(idempotency)
            if remembered is None:
                raise
        return msgspec.structs.replace(result, remembered=remembered or 0)

    def _idempotency_record(self, request: MainLoopRequest[UserRequestT]) -> IdempotencyRecord | None:
        """Return the record that makes the request take effect once; None if it must have no effect."""
        if self._memory is None or request.experiment is not None:
            return None
        placed = [request.scope, request.session, request.speaker]
        content = ["main-loop/v2", utc_text(request.created_at), as_text(request.request), placed]
        return IdempotencyRecord.of(
            f"loop/{self._workflow}", self._memory.namespace, str(request.request_id), content
        )

    def _remembered_before(self, idempotency: IdempotencyRecord | None) -> int | None:
        """Return how much an earlier delivery of the request remembered; None if it took no effect yet."""
        if idempotency is None or self._memory is None:
            return None
        stored = idempotency.stored_answer(self._memory.store)
        return None if stored is None else int(stored.answer["remembered"])

    def _remember(self, request: MainLoopRequest[UserRequestT], result: MainLoopResult, run: Run) -> int:
        wanted = self.to_remember(request.request, result.output)
        # An answer's source is the text that the model read.
        source = {"kind": "model", "id": result.rendered_digest}
        if wanted:
            with run.recorder.event(role=AGENT, interceptor=MAIN_LOOP, decision_type="remember"):
                for one in wanted:
                    run.remember(
                        one.text,
                        tags=one.tags,
                        subject=one.subject,
                        source=source,
                        session=request.session,
                        speaker=one.speaker,
                    )
        return len(wanted)

    def failed(self, request: MainLoopRequest[UserRequestT], error: Exception) -> MainLoopResult:
        """Return a result with the error."""
        return MainLoopResult(request_id=request.request_id, error=error_text(error))

    def execute(self, request: MainLoopRequest[UserRequestT]) -> MainLoopResult:
        """Answer a request directly, without a mailbox."""
        return self.handle(request)

    @contextmanager
    def rendered(self, request: MainLoopRequest[UserRequestT]) -> Iterator[Rendering]:
        """Render the prompt for a request, in a read-only run that lasts as long as the block."""
        with self._opened(request, reading=True) as (run, recorder):
            yield self._rendered(request, run, recorder)

    def answer(self, rendering: Rendering, *, beat: Callable[[], None] | None = None) -> MainLoopResult:
        """Ask the model, call the tools it asks for, and return its answer.

        ``beat`` is called before each question to the model; by default it is this loop's own.
        """
        prompt, request, recorder = rendering.prompt, rendering.request, rendering.recorder
        reply, usage, tools_called, calls = self._converse(rendering, beat or self.beat)
        with recorder.event(role=AGENT, interceptor=MAIN_LOOP, decision_type="answer"):
            self._record_exchange(rendering, reply.text, truncated=reply.is_truncated)
        record_output(recorder, reply.text, self.shape)
        facts = {"model": reply.model, "request_id": str(request.request_id), "run_id": recorder.run.run_id}
        self._publish(rendering.session, {"event": "answered", **facts, **usage.as_json()})
        return MainLoopResult(
            request_id=request.request_id,
            output=reply.text,
            prompt_digest=prompt.prompt_digest,
            rendered_digest=prompt.rendered_digest,
            package_hash=prompt.package_hash,
            fell_back=prompt.fell_back,
            model=reply.model,
            usage=usage,
            calls=calls,
            run_id=None if self._memory is None else recorder.run.run_id,
            truncated=reply.is_truncated,
            tools_called=tools_called,
        )

    def _record_exchange(self, rendering: Rendering, output: str, *, truncated: bool) -> None:
        request = rendering.request
        facts = {
            "input": msgspec.to_builtins(request.request),
            "output": output,
            "truncated": truncated,
            "prompt_digest": rendering.prompt.prompt_digest,
            "scope": request.scope,
            "session": request.session,
            "speaker": request.speaker,
            "experiment": None if request.experiment is None else request.experiment.id,
        }
        try:
            record_exchange(rendering.recorder, workflow=self._workflow, facts=facts)
        except StandfastError as error:
            rendering.recorder.gap("unrecordable_exchange", str(error))

    @property
    def tools_digest(self) -> str:
        """A hash of the tools that the model is offered, of the system message and of the output's schema."""
        offered = tools_digest(self._tools.specs)
        if not self._system and self._output_schema is None:
            return offered
        return fingerprint(["surroundings/v1", offered, self._system, self._output_schema])

    def answer_again(self, rendering: Rendering, output: str, *, truncated: bool) -> None:
        """Record that the answer came from the evaluation cache."""
        with rendering.recorder.event(role=AGENT, interceptor=EVAL_CACHE, decision_type="known"):
            self._record_exchange(rendering, output, truncated=truncated)
            record_output(rendering.recorder, output, self.shape)

    @contextmanager
    def _opened(
        self, request: MainLoopRequest[UserRequestT], *, reading: bool
    ) -> Iterator[tuple[Run | None, Recorder]]:
        if self._memory is None:
            identity = RunIdentity(
                run_id=str(request.request_id),
                workflow_id=self._workflow,
                memory_snapshot_id=0,
                visibility_mode=VisibilityMode.OFF,
                policy_set_id=_NO_MEMORY,
            )
            # Nobody stores this trace; recording anyway keeps one code path.
            yield None, Recorder(identity, clock=self._clock)
            return
        model = model_identity(self.adapter.config, tools=self._tools.specs, repeat=request.repeat)
        mode = VisibilityMode.READ_ONLY if reading else VisibilityMode.BUFFERED_WRITE
        # An evaluation reads the snapshot that its experiment names, and its trace says so.
        pinned = request.experiment.memory_snapshot if reading and request.experiment is not None else None
        with self._memory.run(
            workflow=self._workflow, mode=mode.value, model=model, scope=request.scope, snapshot=pinned
        ) as run:
            yield run, run.recorder

    def _rendered(
        self, request: MainLoopRequest[UserRequestT], run: Run | None, recorder: Recorder
    ) -> Rendering:
        self._tools.register(recorder)
        prompt, session = self.prepare(request.request, request.experiment)
        extra = () if request.resources is None else request.resources.objects
        session.resources = session.resources.plus(*extra, request.experiment)
        resolved = prompt.resolve(self._store)
        budget = next((one.recall_tokens for one in resolved.descriptor.sections if one.recall_tokens), None)
        if budget is not None and request.budget is not None:
            budget = min(budget, request.budget.max_excerpt_tokens)
        with recorder.event(role=AGENT, interceptor=MAIN_LOOP, decision_type="prepare"):
            if budget is not None and run is not None:
                prompt = prompt.bind(memory=self._recalled(request, run, budget))
            rendered = prompt.render(resolved=resolved)
            facts = record_prompt(recorder, rendered)
        self._publish(session, {"event": "rendered", "request_id": str(request.request_id), **facts})
        return Rendering(request=request, prompt=rendered, session=session, recorder=recorder)

    def _recalled(self, request: MainLoopRequest[UserRequestT], run: Run, tokens: int) -> ContextText:
        """Recall for a request, from its run's snapshot."""
        also = [scope for scope in self._recall.get("scopes") or () if scope != request.scope]
        fields: RecallFields = {
            **self._recall,
            "tokens": tokens,
            "scope": None,
            "scopes": [request.scope, *also],
        }
        return run.recall(self.query(request.request), **fields)

    def _converse(
        self, rendering: Rendering, beat: Callable[[], None]
    ) -> tuple[ModelReply, TokenUsage, tuple[str, ...], int]:
        """Return the last reply, the tokens, the names of the tools called, and the number of calls."""
        system = [ChatMessage(role=MessageRole.SYSTEM, text=self._system)] if self._system else []
        asked = ChatMessage(role=MessageRole.USER, text=rendering.prompt.text)
        messages = [*system, *rendering.request.conversation, asked]
        usage, called = TokenUsage(), list[str]()
        for number in range(1, MAX_TOOL_ROUNDS + 1):
            beat()
            with rendering.recorder.event(role=ASSISTANT, interceptor=PROVIDER) as event:
                model_request = ModelRequest(
                    messages=tuple(messages),
                    tools=self._tools.specs,
                    output_schema=self._output_schema,
                    repeat=rendering.request.repeat,
                )
                reply = self.adapter.complete(model_request)
                usage += reply.usage
                if reply.model:
                    rendering.recorder.answered_by(reply.model)
                event.decide("tool_calls" if reply.tool_calls else "message")
                if not reply.tool_calls:
                    return reply, usage, tuple(called), number
                called += [call.name for call in reply.tool_calls]
                messages += self._call_tools(reply, rendering)
        problem = f"it called tools {MAX_TOOL_ROUNDS} times in a row without answering"
        raise ProviderError("provider_garbled", provider=self.adapter.config.provider, problem=problem)

    def _call_tools(self, reply: ModelReply, rendering: Rendering) -> Iterator[ChatMessage]:
        """Yield the model's message and the result of each tool call in it."""
        context = ToolContext(
            resources=rendering.session.resources, request_id=str(rendering.request.request_id)
        )
        yield ChatMessage(role=MessageRole.ASSISTANT, text=reply.text, tool_calls=reply.tool_calls)
        for call in reply.tool_calls:
            answer = self._tools.handle(call, context, rendering.recorder)
            self._publish(rendering.session, {"event": "tool", "name": call.name, "call_id": call.call_id})
            yield ChatMessage(role=MessageRole.TOOL, text=answer, call_id=call.call_id)

    def _publish(self, session: AgentSession, event: Event) -> None:
        session.events.append(event)
        if self._bus is not None:
            self._bus(event)


class EvalLoop(WorkerLoop[EvalRequest[InputT, ExpectedT], EvalResult], Generic[InputT, ExpectedT]):
    """Evaluates samples with the agent of a ``MainLoop``.

    A failure gives an error result, not a failed sample.

    Args:
        evaluator: Grades the outputs; ``Exact()`` by default.
        cache: Results found here are not computed again.
    """

    takes: ClassVar[type] = EvalRequest
    name = "eval"

    def __init__(
        self,
        *,
        loop: MainLoop[Any],
        requests: Mailbox[EvalRequest[InputT, ExpectedT], EvalResult],
        evaluator: Evaluator | Metric | None = None,
        cache: ResultCache | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(requests=requests, clock=clock)
        self._loop = loop
        self._evaluator = Exact() if evaluator is None else as_evaluator(evaluator)
        self._cache = cache

    def handle(self, request: EvalRequest[InputT, ExpectedT]) -> EvalResult:
        """Evaluate one sample."""
        agent_request: MainLoopRequest[Any] = MainLoopRequest(
            request=request.sample.params,
            experiment=request.experiment,
            repeat=request.repeat,
            request_id=request.request_id,
            created_at=request.created_at,
            scope=SHARED if request.sample.scope is None else request.sample.scope,
        )
        with self._loop.rendered(agent_request) as rendering:
            key = self._key(request, rendering)
            grade = None if self._cache is None else self._cache.get(key)
            calls = 0
            if grade is None:
                answer = self._loop.answer(rendering, beat=self.beat)
                score = self._score(answer, request.sample.expected)
                calls, usage = answer.calls + score.calls, answer.usage + score.usage
                graded = CachedGrade(
                    key=key, output=answer.output, score=score, usage=usage, truncated=answer.truncated
                )
                grade = store_grade(self._cache, graded)
            else:
                self._loop.answer_again(rendering, grade.output, truncated=grade.truncated)
        return grade.result(request_id=request.request_id, sample=request.sample, calls=calls)

    def _score(self, answer: MainLoopResult, expected: ExpectedT) -> Score:
        facts = SessionFacts(
            tools_called=answer.tools_called,
            usage=answer.usage,
            calls=answer.calls,
            truncated=answer.truncated,
        )
        return graded_session(self._evaluator, answer.output, expected, facts)

    def failed(self, request: EvalRequest[InputT, ExpectedT], error: Exception) -> EvalResult:
        """Return an error result, which says nothing about the prompt."""
        return EvalResult(
            request_id=request.request_id,
            sample_id=request.sample.id,
            repeat=request.repeat,
            outcome=Outcome.ERROR,
            error=error_text(error),
        )

    def _key(self, request: EvalRequest[InputT, ExpectedT], rendering: Rendering) -> CacheKey:
        return CacheKey(
            prompt_digest=rendering.prompt.prompt_digest,
            rendered_digest=rendering.prompt.rendered_digest,
            sample_digest=request.sample.digest,
            model_config_id=self._loop.adapter.config.config_id,
            tools_digest=self._loop.tools_digest,
            evaluator_id=self._evaluator.evaluator_id,
            repeat=request.repeat,
        )
