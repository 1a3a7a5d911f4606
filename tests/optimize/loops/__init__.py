"""Tests of the loops: workers, the gate, strategies, optimisations whole, and three processes that are
killed.
"""
