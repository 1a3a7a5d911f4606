"""Golden judgements of the worked-on corpus: what every floor says, word for word, and what is read and cut.

The figures of the corpus leave room for a claim or two; these leave none, so a change of the judge shows each
claim that it touches. If it is meant, ``python -m tests.govern.judgements`` writes them anew, and the
difference of the file says how many claims are judged otherwise.
"""

import hashlib
from pathlib import Path

from standfast.govern.judge.judge import FloorRegistry, Judge
from standfast.govern.judge.secrecy import redacted
from standfast.govern.judge.text_reading import TextReading
from tests.govern.corpus import Case, cases

FILE = Path(__file__).with_name("judgements.txt")
JUDGE = Judge(FloorRegistry.shipped())


def told(case: Case) -> list[object]:
    """Everything that the judge tells of a claim."""
    judgement, reading = JUDGE.judge(case.claim, case.context), TextReading(case.claim.record.text)
    return [
        [[one.floor, one.score, one.passed, one.reason] for one in judgement.floor_checks],
        judgement.verdict.value,
        judgement.known,
        redacted(case.claim.record).text,
        [list(reading.carrying), sorted(reading.numbers), sorted(reading.qualifiers), sorted(reading.topic)],
    ]


def written(case: Case) -> str:
    """The line of a claim: its number, and a digest of what is told of it."""
    return f"{case.number} {hashlib.sha256(ascii(told(case)).encode()).hexdigest()[:16]}"


if __name__ == "__main__":
    FILE.write_text("".join(f"{written(case)}\n" for case in cases()), encoding="utf-8")
