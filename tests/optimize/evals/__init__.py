"""Tests of the evals: datasets, evaluators, results and the cache of results."""
