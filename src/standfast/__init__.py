"""Standfast: deterministic, governed, budgeted memory for AI agents.

What someone uses for memory is exported here. ``standfast.optimize``, ``standfast.bench``,
``standfast.client``
and ``standfast.adapters`` export their own names, as ``standfast.errors`` does every error.

A name's module is imported when the name is first used, so ``import standfast`` loads nothing else.
"""

from standfast.lazy_names import lazy_names

__version__ = "0.1.0"
__getattr__, __dir__ = lazy_names(__name__, __file__)
