"""Loops: workers that take requests from a mailbox, and the one that makes prompts shorter and proves them no worse.

worker.py       WorkerLoop: leases kept while at work, failures answered or retried, an orderly end    <- START HERE
requests.py     what is asked of the loops and what they answer
main.py         MainLoop: recall, render, ask the model, remember; tools.py: what tool handlers see
eval.py         EvalLoop: one sample, one grade
optimize.py     OptimizeLoop: one optimisation a request; in_process.py: all of it in one process
trials/         the course of an optimisation, its report, applying it
gate/           what a shorter prompt must prove: static checks, statistics, rulings
strategies/     where shorter prompts come from
group.py        LoopGroup: threads, watchdog, signals; health.py answers for it over HTTP
"""
