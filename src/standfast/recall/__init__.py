"""``memory.read``, controller ``phase6-v1``: what is handed back, the same to the byte, under a token budget.

Read in this order: ``request`` (what is asked), ``controller`` (the whole of it in one function), ``rank`` and ``fit``
(which records, in which order), ``package`` (what comes out).
"""
