"""Recall: what memory hands back, the same to the byte, under a token budget.

Read in this order: ``controllers`` (what answers, and how to add one), ``answers`` (what it is given and what
it gives), ``lexical`` and ``hybrid`` (scores and ranks), ``packing``, ``package`` (what comes out), ``index``
and
``analysis`` (what is ranked), ``vectors`` and ``embedders``. ``phase6`` is the contract's ``memory.read``,
with ``request`` and ``selection``. ``words`` has word lists as data, which ``word_lists`` reads.
"""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
