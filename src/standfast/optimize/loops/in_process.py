"""A whole optimisation in one process: mailboxes in memory, eval workers in threads. For the command line and notebooks."""

import threading
from collections.abc import Sequence
from typing import Any

from standfast.limits import MAX_WAIT_SECONDS
from standfast.optimize.evals.cache import ResultCache
from standfast.optimize.evals.evaluators import Evaluator
from standfast.optimize.evals.samples import Dataset
from standfast.optimize.loops.agent.memory import AgentMemory
from standfast.optimize.loops.eval import EvalLoop
from standfast.optimize.loops.gate.settings import GateSettings
from standfast.optimize.loops.main import MainLoop
from standfast.optimize.loops.optimize import OptimizeLoop
from standfast.optimize.loops.requests import OptimizeRequest, OptimizeResult
from standfast.optimize.loops.strategies.proposals import CompressStrategy
from standfast.optimize.loops.trials.trial import Progress
from standfast.optimize.mailboxes.in_memory import InMemoryMailbox
from standfast.optimize.mailboxes.resolvers import InMemoryMailboxResolver
from standfast.optimize.prompts.overrides import STABLE, PromptOverridesStore
from standfast.optimize.prompts.template import InMemoryPromptRegistry, PromptTemplate
from standfast.optimize.providers.adapter import ProviderAdapter


def optimize_in_process(
    template: PromptTemplate,
    dataset: Dataset[Any, Any],
    *,
    provider: ProviderAdapter,
    strategy: CompressStrategy,
    overrides_store: PromptOverridesStore,
    memory: AgentMemory | None = None,
    evaluator: Evaluator | None = None,
    cache: ResultCache | None = None,
    gate: GateSettings | None = None,
    tag: str = STABLE,
    workers: int = 4,
    progress: Progress | None = None,
) -> OptimizeResult:
    """Optimise a prompt with so many eval workers, and give the result; interrupting it leaves nothing temporary."""
    resolver = InMemoryMailboxResolver()
    evals: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="evals", reply_resolver=resolver)
    requests: InMemoryMailbox[Any, Any] = InMemoryMailbox(name="optimize", reply_resolver=resolver)
    main: MainLoop[Any] = MainLoop(
        adapter=provider, template=template, overrides_store=overrides_store, memory=memory
    )
    optimize: OptimizeLoop[Any, Any] = OptimizeLoop(
        strategy=strategy,
        overrides_store=overrides_store,
        prompt_registry=InMemoryPromptRegistry(template),
        eval_requests=evals,
        requests=requests,
        adapter=provider,
        gate=gate,
        progress=progress,
    )
    loops: Sequence[Any] = [
        optimize,
        *(EvalLoop(loop=main, requests=evals, evaluator=evaluator, cache=cache) for _ in range(workers)),
    ]
    threads = [threading.Thread(target=loop.run, daemon=True) for loop in loops]
    replies = requests.reply_mailbox("results")
    for thread in threads:
        thread.start()
    try:
        requests.send(
            OptimizeRequest(
                prompt_ns=template.ns, prompt_key=template.key, dataset=dataset, baseline_tag=tag
            ),
            reply_to=replies.name,
        )
        messages: list[Any] = []
        while not messages:
            messages = replies.receive(wait_time_seconds=MAX_WAIT_SECONDS)
        result: OptimizeResult = messages[0].body
        return result
    finally:
        # The optimiser first: it still deletes its tags, for which it needs nobody.
        for loop in loops:
            loop.shutdown()
        for thread in threads:
            thread.join()
