"""Governance: what may be remembered, where, for how long, who decides it, and how that is proved.

Read in this order: ``authority.py`` (who may write and seal), ``evidence.py`` (what ties a write to its verdict),
``policy.py`` (verdict to bands: ``MemoryWritePolicy``, the document's engine), ``ceilings.py`` (how far what is recalled
may be trusted), ``retention.py`` (how long it is kept), ``judge.py`` over ``floors/`` (what the verdict rests on), ``approvals.py``
(a human's word, which is a signature) over ``signers.py`` and ``sshsig.py`` (whose, and in which form).
"""
