"""Governance: what may be remembered, where, for how long, who decides it, and how that is proved.

Read in this order:

    authority.py    which role may write and seal
    evidence.py     what ties a write to its verdict
    policy.py       ``MemoryWritePolicy``, the document's engine: from verdict to bands, how far a recalled
                    memory may be trusted, and how long each band keeps its items; sweep.py carries it out
    judge/          the floors, and the judge that turns their findings into a verdict
    patterns.py     repeated rejections, which later judgements take into account
    approvals/      proposals, the signatures that decide them, and the queue in which they wait
    admission.py    one claim through judge, evidence and policy
    audit.py        checks everything stored against the rules above
"""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
