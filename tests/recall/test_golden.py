"""The golden packages: the file, this implementation and the plain one agree, wherever they run."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from standfast.errors import InvalidValue
from standfast.recall.package import ContextPackage
from standfast.records.canon import fingerprint
from tests.recall import golden, plain_reader
from tests.subprocesses import ROOT, run_python, virtualenv

VECTORS: list[dict[str, Any]] = [
    json.loads(line) for line in golden.VECTORS.read_text(encoding="utf-8").splitlines()
]
PROGRAM = (
    "from tests.recall import golden; from standfast.records.canon import fingerprint;"
    " print(fingerprint(golden.vectors()))"
)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["name"]))
def test_the_same_request_gives_the_same_bytes_for_good(vector: dict[str, Any]) -> None:
    came_out = golden.outcome(vector)

    assert came_out == {name: vector[name] for name in came_out}


@pytest.mark.parametrize(
    "vector", [vector for vector in VECTORS if "package" in vector], ids=lambda vector: str(vector["name"])
)
def test_the_plain_implementation_gives_them_too(vector: dict[str, Any]) -> None:
    with golden.files_of(vector):
        assert plain_reader.read_plainly(vector["request"]) == vector["package"]


def test_every_case_has_its_vector() -> None:
    assert golden.vectors() == golden.VECTORS.read_text(encoding="utf-8"), (
        "run: python -m tests.recall.golden"
    )


def test_a_package_that_was_tampered_with_is_refused() -> None:
    package = VECTORS[0]["package"]
    assert ContextPackage.from_json(package).as_json() == package
    package["selection"]["selected"][0]["excerpt"] += "!"

    with pytest.raises(InvalidValue, match="package_hash"):
        ContextPackage.from_json(package)


def _told(python: str, **environment: str) -> str:
    path = f"{ROOT / 'src'}:{ROOT}"
    return run_python("-c", PROGRAM, python=python, PYTHONPATH=path, **environment).strip()


@pytest.mark.parametrize(
    ("seed", "locale", "zone"),
    [("0", "C", "UTC"), ("42", "tr_TR.UTF-8", "Asia/Kathmandu"), ("random", "POSIX", "America/St_Johns")],
)
def test_the_surroundings_never_show(seed: str, locale: str, zone: str) -> None:
    expected = fingerprint(golden.VECTORS.read_text(encoding="utf-8"))

    assert _told(sys.executable, PYTHONHASHSEED=seed, LC_ALL=locale, LANG=locale, TZ=zone) == expected


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_supported_python_gives_the_same_packages(version: str, tmp_path: Path) -> None:
    assert _told(virtualenv(version, tmp_path)) == fingerprint(golden.VECTORS.read_text(encoding="utf-8"))
