"""Evals: samples that a prompt is tried on, evaluators that grade the output, results that are never paid for twice.

samples.py     Sample, Dataset, and its split into a part to choose by and a part to confirm by
evaluators.py  Evaluator and Score; exact, contains, JSON schema, numeric, composed; judge.py asks a model
results.py     EvalRequest, EvalResult (pass, fail or error), EvalReport
cache.py       results by the content of what was evaluated: in memory, in a folder, on Redis
"""
