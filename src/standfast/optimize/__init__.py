"""Loops that run agents, evaluate them and shorten their prompts, with what they need.

prompts/    prompts as trees of sections, overrides by tag
mailboxes/  queues with leases, in memory and on Redis
providers/  models behind one protocol
evals/      datasets, evaluators, results and their cache
loops/      MainLoop, EvalLoop, OptimizeLoop, LoopGroup                  <- START HERE

Names are imported from their modules when they are first used, so that ``import standfast.optimize`` is cheap
and a missing extra is reported only where it is needed.
"""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
