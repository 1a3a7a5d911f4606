"""The same program in other surroundings: a process of its own with nothing of our environment but the path."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Europe/Berlin")


def told_elsewhere(*words: str, python: str = sys.executable, **environment: str) -> str:
    """What a Python that is called with these words prints; it must end well."""
    result = subprocess.run(
        [python, *words],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def surroundings(number: int) -> dict[str, str]:
    """Another hash seed and time zone for each number."""
    return {"PYTHONHASHSEED": str(number * 1_000_003 % 4_294_967_296), "TZ": ZONES[number % len(ZONES)]}


def virtualenv(version: str, folder: Path) -> str:
    """A Python of this version with what the lock file names. One that is missing is a failure, not a skip."""
    subprocess.run([_interpreter(version), "-m", "venv", str(folder)], check=True)
    inside = str(folder / "bin" / "python")
    quiet = ["--quiet", "--disable-pip-version-check"]
    lock = str(ROOT / "requirements" / "run.txt")
    subprocess.run([inside, "-m", "pip", "install", *quiet, "-r", lock], check=True)
    return inside


def _interpreter(version: str) -> str:
    """The named variable, what is on the path, or pyenv's: the first that really is that version."""
    shims = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    named = os.environ.get(f"STANDFAST_TEST_PYTHON_{version.replace('.', '')}")
    for candidate in filter(
        None, [named, sys.executable, shutil.which(f"python{version}"), *map(str, shims)]
    ):
        probe = "import sys; print('%d.%d' % sys.version_info[:2])"
        told = subprocess.run([candidate, "-c", probe], capture_output=True, text=True, check=False)
        if told.stdout.strip() == version:
            return candidate
    pytest.fail(f"there is no Python {version}; set STANDFAST_TEST_PYTHON_{version.replace('.', '')} to one")
