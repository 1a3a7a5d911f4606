"""The same program in other other_environment: a process of its own with nothing of our environment but the
path.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ZONES = ("UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Europe/Berlin")


def run_python(*arguments: str, python: str = sys.executable, **environment: str) -> str:
    """Run Python with these arguments and return what it prints. Fails the test if the exit code is not 0.

    The subprocess inherits only ``PATH`` from the environment.
    """
    result = subprocess.run(
        [python, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def other_environment(number: int) -> dict[str, str]:
    """Environment variables with a hash seed and a time zone that depend on the number."""
    return {"PYTHONHASHSEED": str(number * 1_000_003 % 4_294_967_296), "TZ": ZONES[number % len(ZONES)]}


def virtualenv(version: str, folder: Path, *others: str) -> str:
    """Create a virtualenv with this Python version and the locked dependencies, and return its interpreter.

    Args:
        others: Other versions of some of the dependencies, for example ``numpy==2.0.2``.

    A missing Python version fails the test; it is not skipped.
    """
    subprocess.run([_interpreter(version), "-m", "venv", str(folder)], check=True)
    inside = str(folder / "bin" / "python")
    quiet = ["--quiet", "--disable-pip-version-check"]
    lock = str(ROOT / "requirements" / "run.txt")
    subprocess.run([inside, "-m", "pip", "install", *quiet, "-r", lock], check=True)
    if others:
        subprocess.run([inside, "-m", "pip", "install", *quiet, "--no-deps", *others], check=True)
    return inside


def _interpreter(version: str) -> str:
    """Find an interpreter of this version: named by the environment variable, on the path, or from pyenv."""
    shims = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    named = os.environ.get(f"STANDFAST_TEST_PYTHON_{version.replace('.', '')}")
    for candidate in filter(
        None, [named, sys.executable, shutil.which(f"python{version}"), *map(str, shims)]
    ):
        probe = "import sys; print('%d.%d' % sys.version_info[:2])"
        probed = subprocess.run([candidate, "-c", probe], capture_output=True, text=True, check=False)
        if probed.stdout.strip() == version:
            return candidate
    pytest.fail(
        f"no Python {version} found; set STANDFAST_TEST_PYTHON_{version.replace('.', '')} to its path"
    )
