"""The judge and its floors: named checks that decide whether a text may be remembered, and where.

``claim.py`` has what floors judge, ``judge.py`` turns their findings into a verdict, ``floors.py``,
``secrecy.py`` and ``injection.py`` are the nine floors that ship. The other files read texts for them:
``text_reading.py``, ``similarity.py``, ``phrases.py``, ``secrets.py``. Words, phrases and forms of keys are
data files in ``data/``, which ``tables.py`` reads.
"""

from standfast.govern.judge.claim import Claim, Finding, Floor, JudgingContext
from standfast.govern.judge.judge import FloorRegistry, Judge, Judgement

__all__ = ["Claim", "Finding", "Floor", "FloorRegistry", "Judge", "Judgement", "JudgingContext"]
