"""The same bytes under every hash seed, locale, time zone and Python that can be found."""

import itertools
import sys
from pathlib import Path

import pytest

from tests.subprocesses import ROOT, run_python, virtualenv

# Prints one fingerprint over everything that a run of this Python makes of the golden vectors and of a large
# value.
PROGRAM = """
import json, sys
from datetime import datetime
from pathlib import Path
from standfast.records.canon import canonical_bytes, fingerprint, parse
from standfast.clock import seeded
from standfast.errors import NotCanonical

answers = []
for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
    vector = json.loads(line)
    try:
        if "datetime" in vector:
            value = datetime.fromisoformat(vector["datetime"])
        elif "text" in vector:
            value = parse(vector["text"])
        else:
            continue
        answers.append(fingerprint(value))
    except NotCanonical as refusal:
        answers.append(refusal.code)
dice = seeded(20260101)
numbers = [dice.uniform(-10.0 ** dice.randrange(-7, 12), 10.0 ** dice.randrange(-7, 12)) for _ in range(20000)]
texts = ["".join(chr(dice.choice((dice.randrange(32, 0xD800), dice.randrange(0xE000, 0x2FFFF)))) for _ in range(8))
         for _ in range(3000)]
answers += [fingerprint(numbers), fingerprint(texts), fingerprint({text: {text, text}.__len__() for text in set(texts)})]
print(fingerprint(answers))
"""  # noqa: E501  # A text as a whole.
EXPECTED = "44279833ca8824b6b523d5c28e41f61c5ba9b54c3dae2930c0984e7f0172d2e2"


def _answer(python: str, **environment: str) -> str:
    vectors = str(ROOT / "tests" / "vectors" / "json-v1.jsonl")
    return run_python("-c", PROGRAM, vectors, python=python, **environment).strip()


@pytest.mark.parametrize(
    ("seed", "locale", "zone"),
    [
        *zip(
            ("0", "1", "42", "4294967295"),
            itertools.cycle(("C", "C.UTF-8")),
            itertools.repeat("UTC"),
            strict=False,
        ),
        ("random", "POSIX", "Asia/Kathmandu"),
        ("random", "tr_TR.UTF-8", "America/St_Johns"),
    ],
)
def test_the_surroundings_never_show(seed: str, locale: str, zone: str) -> None:
    assert _answer(sys.executable, PYTHONHASHSEED=seed, LC_ALL=locale, LANG=locale, TZ=zone) == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_supported_python_gives_the_same_bytes(version: str, tmp_path: Path) -> None:
    assert _answer(virtualenv(version, tmp_path), PYTHONPATH=str(ROOT / "src")) == EXPECTED
