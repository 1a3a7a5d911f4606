"""The same bytes under every hash seed, locale, time zone and Python that can be found."""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Prints one fingerprint over everything that a run of this Python makes of the golden vectors and of a large value.
PROGRAM = """
import json, sys
from datetime import datetime
from pathlib import Path
from holdfast.canon import canonical_bytes, fingerprint, parse
from holdfast.clock import seeded
from holdfast.errors import NotCanonical

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
"""
EXPECTED = "44279833ca8824b6b523d5c28e41f61c5ba9b54c3dae2930c0984e7f0172d2e2"


def _answer(python: str, **environment: str) -> str:
    result = subprocess.run(
        [python, "-c", PROGRAM, str(ROOT / "tests" / "vectors" / "json-v1.jsonl")],
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


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
    """Builds a virtualenv of each Python from the lock file. A Python that is missing is a failure, not a skip."""
    python = _interpreter(version)
    subprocess.run([python, "-m", "venv", str(tmp_path)], check=True)
    inside = str(tmp_path / "bin" / "python")
    quiet = ["--quiet", "--disable-pip-version-check"]
    lock = str(ROOT / "requirements" / "run.txt")
    subprocess.run([inside, "-m", "pip", "install", *quiet, "-r", lock], check=True)

    assert _answer(inside, PYTHONPATH=str(ROOT / "src")) == EXPECTED


def _interpreter(version: str) -> str:
    """The named variable, what is on the path, or pyenv's: the first that really is that version."""
    shims = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    named = os.environ.get(f"HOLDFAST_TEST_PYTHON_{version.replace('.', '')}")
    for candidate in filter(
        None, [named, sys.executable, shutil.which(f"python{version}"), *map(str, shims)]
    ):
        probe = "import sys; print('%d.%d' % sys.version_info[:2])"
        told = subprocess.run([candidate, "-c", probe], capture_output=True, text=True, check=False)
        if told.stdout.strip() == version:
            return candidate
    pytest.fail(f"there is no Python {version}; set HOLDFAST_TEST_PYTHON_{version.replace('.', '')} to one")
