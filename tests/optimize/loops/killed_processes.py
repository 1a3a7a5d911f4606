"""One of three workers on a Redis: main, eval or optimise. It is killed at any moment and started again.

``python -m tests.optimize.loops.killed_processes ROLE URL LATENCY_SECONDS LENGTH``
"""

import sys
from typing import Any

import redis

from standfast.optimize.evals.results import RedisResultCache
from standfast.optimize.loops.gate import GateSettings
from standfast.optimize.loops.main import EvalLoop, MainLoop
from standfast.optimize.loops.optimize import OptimizeLoop
from standfast.optimize.loops.proposals import CompressStrategy, Strategies
from standfast.optimize.loops.strategies import Ablation
from standfast.optimize.loops.worker import LoopGroup
from standfast.optimize.mailboxes.redis import RedisMailbox, RedisMailboxResolver
from standfast.optimize.prompts.backends import RedisPromptOverridesStore
from standfast.optimize.prompts.template import InMemoryPromptRegistry
from tests.optimize.loops.harness import COUNTER, TEMPLATE, Planted, agent

ROLES = ("main", "eval", "optimize")
DELIVERIES = 1_000


def needs(number: int, prompt: str, _repeat: int) -> bool:
    """Every third sample needs the second example: a loss beyond the margin, whichever samples are drawn."""
    return "One and one" in prompt and (number % 3 != 0 or "Ten and ten" in prompt)


def mailbox(client: "redis.Redis", name: str) -> "RedisMailbox[Any, Any]":
    """One of the three mailboxes."""
    resolver = RedisMailboxResolver(client=client)
    return RedisMailbox(name=name, client=client, reply_resolver=resolver, max_deliveries=DELIVERIES)


PLANTED = Planted(("role", "You are a calculator."), ("task", "Add ${a}."))
GATE = GateSettings(margin=0.2, remove_untested=True)
PROVIDER = agent(needs, noise=0.02, seed=3)


def strategy(length: str) -> CompressStrategy:
    """What is proposed: two edits, or much more."""
    return PLANTED if length == "short" else Strategies(PLANTED, Ablation())


def loop_of(role: str, client: "redis.Redis", latency_seconds: float, length: str) -> Any:
    """The worker of a role."""
    store = RedisPromptOverridesStore(client=client)
    provider = agent(needs, noise=0.02, seed=3, latency_seconds=latency_seconds)
    main: MainLoop[Any] = MainLoop(
        adapter=provider, template=TEMPLATE, overrides_store=store, requests=mailbox(client, "main")
    )
    evals = mailbox(client, "eval")
    if role == "main":
        return main
    if role == "eval":
        return EvalLoop(loop=main, requests=evals, cache=RedisResultCache(client=client))
    return OptimizeLoop(
        strategy=strategy(length),
        overrides_store=store,
        prompt_registry=InMemoryPromptRegistry(TEMPLATE),
        eval_requests=evals,
        requests=mailbox(client, "optimize"),
        gate=GATE,
        counter=COUNTER,
    )


def main(role: str, url: str, latency_seconds: float, length: str) -> None:
    """Work until killed."""
    client = redis.Redis.from_url(url)
    group = LoopGroup(loops=[loop_of(role, client, latency_seconds, length)])
    sys.stdout.write("up\n")
    sys.stdout.flush()
    group.run(visibility_timeout=1.5, wait_time_seconds=5)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4])
