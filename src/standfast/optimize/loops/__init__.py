"""Loops: workers that take requests from a mailbox, and the optimization that shortens prompts.

worker.py          WorkerLoop: leases, retries, replies, orderly shutdown                    <- START HERE
agent.py           what an agent works with: memory, tools, sessions, recording
main.py            MainLoop: recall, render, ask the model, remember
eval.py            EvalLoop: evaluates one sample with the agent
optimize.py        OptimizeLoop: one optimization per request; optimize_in_process
optimization.py    one optimization, from baseline to report
trial.py           candidates under temporary tags, their evaluations and comparison
gate.py            the statistics that decide: GateSettings, rulings
protected_text.py  static checks: text that must not be lost; meaning.py compares sentences
proposals.py       SectionEdit, CompressStrategy; strategies.py and rewriting.py implement it
spending.py        SpendingLimits, ModelSpending, estimate_spending
report.py          OptimizationReport, as data, text and HTML
apply.py           applies a report and rolls back
group.py           LoopGroup: threads, watchdog, signals, health checks
"""
