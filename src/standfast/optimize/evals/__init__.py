"""Evaluations: samples, evaluators that grade outputs, results, and a cache: nothing is evaluated twice.

samples.py     Sample, Dataset, its split into a choosing part and a held-out part, and reading one from a
file evaluators.py  Evaluator and Score; exact, contains, numeric, JSON schema, combinations, a model as judge
results.py     EvalRequest, EvalResult (pass, fail or error), and the cache: in memory, in a folder, on Redis
"""
