"""The document's own examples, as they are written there, apart from package names and what stands for
``...``.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from redis import Redis

from standfast.optimize.evals.samples import Dataset, Sample
from standfast.optimize.loops.apply import apply_modifications
from standfast.optimize.loops.main import EvalLoop, MainLoop
from standfast.optimize.loops.optimize import OptimizeLoop, OptimizeRequest
from standfast.optimize.loops.strategies import LLMCompressStrategy
from standfast.optimize.loops.worker import LoopGroup
from standfast.optimize.mailboxes.redis import RedisMailbox, RedisMailboxResolver
from standfast.optimize.prompts.backends import RedisPromptOverridesStore
from standfast.optimize.prompts.template import InMemoryPromptRegistry, PromptTemplate, Section
from standfast.optimize.providers.adapter import ModelRequest, ScriptedProvider
from tests.servers.redis import RedisServer

prompt = PromptTemplate(
    ns="agent",
    key="code-review",
    sections=(
        Section(
            key="role",
            title="Role",
            body=(
                "You are a reviewer who looks at code with great care and who is always friendly to its"
                " author."
            ),
        ),
        Section(key="task", title="Task", body="Review: ${input}"),
    ),
)
prompts = InMemoryPromptRegistry(prompt)


def script(request: ModelRequest) -> str:
    """A reviewer, and, when asked to shorten, an editor."""
    if "<section>" in request.prompt:
        return "<shortened>You are a reviewer who looks at code with care and is always friendly.</shortened>"
    return "good" if "review" in request.prompt else "?"


adapter = ScriptedProvider(script)


class MyMainLoop(MainLoop[Any]):
    """An agent of one's own."""

    def __init__(self, *, adapter: Any, bus: Any, overrides_store: Any) -> None:
        super().__init__(adapter=adapter, template=prompt, bus=bus, overrides_store=overrides_store)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that nobody kills, and that therefore need not sync its disk."""
    made = RedisServer(tmp_path, appendonly=False)
    made.start()
    yield made
    made.stop()


def test_the_examples_of_the_document_run(server: RedisServer) -> None:
    redis = Redis.from_url(server.url)
    bus: Any = lambda _event: None  # noqa: E731
    test_cases = [(f"change {number}", "good") for number in range(90)]

    # Shared override store (all workers use same Redis)
    store = RedisPromptOverridesStore(client=redis)

    # Mailboxes with reply resolver
    resolver = RedisMailboxResolver(client=redis)
    eval_requests: Any = RedisMailbox(name="eval-requests", client=redis, reply_resolver=resolver)
    optimize_requests: Any = RedisMailbox(name="optimize-requests", client=redis, reply_resolver=resolver)

    # Loops
    main_loop = MyMainLoop(adapter=adapter, bus=bus, overrides_store=store)
    eval_loop: Any = EvalLoop(loop=main_loop, requests=eval_requests)
    optimize_loop: Any = OptimizeLoop(
        strategy=LLMCompressStrategy(adapter, least_tokens=10),
        overrides_store=store,
        prompt_registry=prompts,
        eval_requests=eval_requests,
        requests=optimize_requests,
    )

    # Run all loops
    group = LoopGroup(loops=[main_loop, eval_loop, optimize_loop])
    running = threading.Thread(target=group.run)
    running.start()

    # Build dataset
    dataset: Any = Dataset(
        samples=tuple(Sample(id=str(i), input=inp, expected=exp) for i, (inp, exp) in enumerate(test_cases))
    )

    # Create reply mailbox
    my_replies: Any = RedisMailbox(name=f"opt-replies-{uuid4()}", client=redis)
    resolver.register(my_replies.name, my_replies)

    # Submit request
    optimize_requests.send(
        OptimizeRequest(
            prompt_ns="agent",
            prompt_key="code-review",
            dataset=dataset,
            baseline_tag="stable",
        ),
        reply_to=my_replies.name,
    )

    # Collect result via reply
    for msg in my_replies.receive(wait_time_seconds=300):
        result = msg.body
        if result.report.has_modifications:
            apply_modifications(store, prompt, result.report.modifications)
        msg.acknowledge()

    group.shutdown()
    running.join()
    applied = store.resolve(ns="agent", prompt_key="code-review", tag="stable")
    redis.close()

    assert applied is not None
    assert [override.body for override in applied.overrides] == [
        "You are a reviewer who looks at code with care and is always friendly."
    ]
