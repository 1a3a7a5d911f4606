"""Loops: workers that take requests from a mailbox, and the optimization that shortens prompts.

worker.py        WorkerLoop: leases, retries, replies, orderly shutdown; LoopGroup      <- START HERE
agent.py         what an agent works with: memory, tools, sessions, recording
main.py          MainLoop: recall, render, ask the model, remember; EvalLoop grades its answers
evaluation.py    evaluate, compare_experiments and provider_matrix: experiments without an optimization
optimize.py      OptimizeLoop: one optimization per request; optimize, optimize_in_process
optimization.py  one optimization, from baseline to report
trial.py         candidates under temporary tags, their evaluations and comparison
gate.py          what decides: GateSettings, rulings; statistics.py has the exact tests
meaning.py       static checks: text that must not be lost; sentences.py compares what sentences say
proposals.py     SectionEdit, CompressStrategy, rewriting without a model; strategies.py has the others
spending.py      SpendingLimits, ModelSpending, estimates; progress and the live table
report.py        OptimizationReport, as data, text and HTML
apply.py         applies a report and rolls back
"""
