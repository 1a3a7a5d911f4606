"""A small harness with an agent whose every need is known: which words its prompt must hold, for which
samples.

The script answers a sample right only if the prompt holds what that sample needs, so that a test can say
beforehand which edits do harm.
"""

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from standfast.clock import UUID, SystemClock
from standfast.errors import StandfastError
from standfast.optimize.evals.results import EvalRequest, EvalResult, InMemoryResultCache, ResultCache
from standfast.optimize.evals.samples import Dataset, Sample
from standfast.optimize.loops.gate import GateSettings
from standfast.optimize.loops.main import EvalLoop, MainLoop
from standfast.optimize.loops.optimize import OptimizeLoop, OptimizeRequest, OptimizeResult
from standfast.optimize.loops.proposals import CompressStrategy, SectionEdit, StrategySession, edit_of
from standfast.optimize.loops.report import OptimizationReport
from standfast.optimize.loops.spending import SpendingLimits
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.mailboxes.mailbox import InMemoryMailboxResolver
from standfast.optimize.prompts.backends import LocalPromptOverridesStore
from standfast.optimize.prompts.template import (
    InMemoryPromptRegistry,
    PromptDescriptor,
    PromptTemplate,
    Section,
)
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from standfast.recall.tokens import BpeCounter
from standfast.records.canon import fingerprint

START = datetime(2026, 1, 1, tzinfo=UTC)


def id_of(name: str) -> UUID:
    """The same id for the same name, in every run."""
    return UUID(fingerprint(name)[:32])


TEMPLATE = PromptTemplate(
    ns="agent",
    key="sum",
    sections=(
        Section(
            key="role",
            title="Role",
            body="You are a calculator that people like.\n\nYou are proud of it, and you like the sea.",
        ),
        Section(
            key="rules",
            title="Rules",
            body="Do not guess.\n\nAnswer with the sum alone.",
        ),
        Section(
            key="examples",
            title="Examples",
            body="One and one make two.\n\nTen and ten make twenty.\n\nThe sea is wide.",
        ),
        Section(key="task", title="Task", body="Add ${a} and ${b}."),
    ),
)
COUNTER = BpeCounter()
RIGHT = re.compile(r"Add (\d+) and (\d+)\.")


def dataset(count: int) -> Dataset[Any, Any]:
    """So many sums."""
    return Dataset(
        samples=tuple(
            Sample(id=f"s{number}", input={"a": number, "b": number + 1}, expected=str(2 * number + 1))
            for number in range(count)
        )
    )


Needs = Callable[[int, str, int], bool]
"""Whether the agent can do the sum of this number with this prompt, in this repeat."""


def agent(needs: Needs = lambda _number, _prompt, _repeat: True, **options: Any) -> ScriptedProvider:
    """A calculator with needs."""

    def script(request: ModelRequest) -> str:
        found = RIGHT.search(request.prompt)
        if found is None:
            return "What shall I add?"
        number = int(found[1])
        return (
            str(number + int(found[2])) if needs(number, request.prompt, request.repeat) else "I do not know"
        )

    return ScriptedProvider(script, **options)


class Planted:
    """A strategy that proposes what a test says: new bodies by section."""

    def __init__(self, *bodies: tuple[str, str]) -> None:
        self._bodies = bodies

    def propose(
        self, prompt: PromptDescriptor, *, adapter: object, session: StrategySession
    ) -> Sequence[SectionEdit]:
        """The planted edits that still change something."""
        assert adapter is None
        edits = []
        for key, body in self._bodies:
            section = prompt.section((key,))
            assert section is not None
            if section.body != body:
                edits.append(edit_of(section, body, session=session, strategy=f"planted:{body[:20]}"))
        return edits


class DirectEvals:
    """An eval mailbox whose worker is so quick that every request is answered before ``send_many``
    returns.
    """

    def __init__(self, worker: EvalLoop[Any, Any]) -> None:
        self._worker = worker
        self._resolver = InMemoryMailboxResolver()
        self._inner: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals", reply_resolver=self._resolver)
        self.name = "evals"

    def send_many(self, bodies: Sequence[EvalRequest[Any, Any]], *, reply_to: str | None = None) -> list[str]:
        """Handle and reply at once."""
        assert reply_to is not None
        replies = self._resolver.resolve(reply_to)
        assert replies is not None
        return replies.send_many([self._result(body) for body in bodies])

    def _result(self, request: EvalRequest[Any, Any]) -> EvalResult:
        try:
            return self._worker.handle(request)
        except StandfastError as error:
            return self._worker.failed(request, error)

    def reply_mailbox(self, name: str) -> Any:
        """As any mailbox's."""
        return self._inner.reply_mailbox(name)


@dataclass
class Harness:
    """Everything that an optimisation needs, in one process."""

    folder: Path
    provider: ScriptedProvider
    strategy: CompressStrategy
    gate: GateSettings = field(default_factory=lambda: GateSettings(remove_untested=True))
    cache: ResultCache = field(default_factory=InMemoryResultCache)
    template: PromptTemplate = TEMPLATE
    limits: SpendingLimits = field(default_factory=SpendingLimits)
    worker_type: type[EvalLoop[Any, Any]] = EvalLoop

    def __post_init__(self) -> None:
        self.store = LocalPromptOverridesStore(self.folder)
        self.resolver = InMemoryMailboxResolver()
        self.main: MainLoop[Any] = MainLoop(
            adapter=self.provider, template=self.template, overrides_store=self.store
        )

    def optimize(self, samples: Dataset[Any, Any], *, request_id: str = "r1") -> OptimizationReport:
        """The report, made in this thread."""
        return self.result(samples, request_id=request_id).report

    def result(self, samples: Dataset[Any, Any], *, request_id: str = "r1") -> OptimizeResult:
        """The report with what it cost."""
        evals: Any = InMemoryMailbox(name="unused")
        worker: EvalLoop[Any, Any] = self.worker_type(loop=self.main, requests=evals, cache=self.cache)
        direct: Any = DirectEvals(worker)
        loop = self.optimize_loop(direct, InMemoryMailbox(name="optimize"))
        request: OptimizeRequest[Any, Any] = OptimizeRequest(
            prompt_ns="agent",
            prompt_key="sum",
            dataset=samples,
            request_id=id_of(request_id),
            created_at=START,
        )
        return loop.handle(request)

    def optimize_loop(self, evals: Any, requests: Any) -> OptimizeLoop[Any, Any]:
        """An optimise worker on these mailboxes."""
        return OptimizeLoop(
            strategy=self.strategy,
            overrides_store=self.store,
            prompt_registry=InMemoryPromptRegistry(self.template),
            eval_requests=evals,
            requests=requests,
            gate=self.gate,
            limits=self.limits,
            counter=COUNTER,
            clock=SystemClock(),
        )

    @contextmanager
    def running(self, *, eval_workers: int = 2) -> Iterator[InMemoryMailbox[Any, OptimizeResult]]:
        """All workers in threads; gives the mailbox that takes optimise requests."""
        evals: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals", reply_resolver=self.resolver)
        requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="optimize", reply_resolver=self.resolver)
        loops: list[Any] = [self.optimize_loop(evals, requests)]
        loops += [
            self.worker_type(loop=self.main, requests=evals, cache=self.cache) for _ in range(eval_workers)
        ]
        threads = [threading.Thread(target=loop.run) for loop in loops]
        for thread in threads:
            thread.start()
        try:
            yield requests
        finally:
            for loop in loops:
                assert loop.shutdown(timeout=20)
            for thread in threads:
                thread.join()


def temporary_tags(harness: Harness) -> list[str]:
    """What should not be left behind."""
    return [held.tag for held in harness.store.list() if held.tag.startswith("opt-")]
