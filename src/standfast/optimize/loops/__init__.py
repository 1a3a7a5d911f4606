"""Loops: workers that take requests from a mailbox, and the optimization that shortens prompts.

worker.py        WorkerLoop: leases, retries, replies, orderly shutdown; LoopGroup runs several       <- START
HERE agent.py         what an agent works with: memory, tools, sessions, recording main.py          MainLoop:
recall, render, ask the model, remember; EvalLoop grades its answers optimize.py      OptimizeLoop: one
optimization per request; optimize, optimize_in_process optimization.py  one optimization, from baseline to
report trial.py         candidates under temporary tags, their evaluations and comparison gate.py          the
statistics that decide: GateSettings, rulings meaning.py       static checks: text that must not be lost,
sentences that must still say the same proposals.py     SectionEdit, CompressStrategy, rewriting without a
model; strategies.py has the other strategies spending.py      SpendingLimits, ModelSpending, estimates;
progress and the live table report.py        OptimizationReport, as data, text and HTML apply.py
applies a report and rolls back
"""
