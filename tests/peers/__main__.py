"""Run other projects' suites against the adapters, and print what passed: ``python -m tests.peers SUITES``.

``SUITES`` is a folder with checkouts, each in a folder of its repository's name. A suite whose folder or
environment is not there is left out. mem0's tests replace its model by mocks of its own internals, so its
documented quickstarts are run instead, with the import changed.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT
from collections.abc import Awaitable
from inspect import isawaitable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_RESULT = re.compile(r"^(PASSED|FAILED|ERROR) (\S+)", re.MULTILINE)
_FENCE = re.compile(r"```python[^\n]*\n(.*?)```", re.DOTALL)
_QUICKSTARTS = ("docs/open-source/python-quickstart.mdx", "docs/open-source/features/async-memory.mdx")

_ANTHROPIC = "tests/lib/tools/memory_tools/test_filesystem.py"


class Suite(NamedTuple):
    """A suite: the repository's name, where it is run, the tests, the environment, and options of pytest."""

    name: str
    folder: str
    tests: tuple[str, ...]
    environment: str = ".venv-frameworks"
    options: tuple[str, ...] = ()


SUITES = (
    Suite("langgraph", "libs/checkpoint", ("tests/test_store.py",)),
    Suite(
        "openai-agents-python", ".", ("tests/memory/test_session.py", "tests/memory/test_session_limit.py")
    ),
    Suite(
        "llama_index",
        "llama-index-core",
        ("tests/memory/test_memory_base.py", "tests/memory/test_memory_blocks_base.py"),
    ),
    Suite(
        "anthropic-sdk-python",
        ".",
        (f"{_ANTHROPIC}::TestBetaLocalFilesystemMemoryTool",),
        # What its conftest needs is for tests of the client.
        options=("--noconftest",),
    ),
    Suite("crewAI", "lib/crewai", ("tests/memory/test_unified_memory.py",), ".venv-crewai"),
)


def run(suite: Suite, suites: Path) -> list[tuple[str, str]] | None:
    """The outcome of each test; None if the suite or its environment is not there."""
    python, folder = ROOT / suite.environment / "bin" / "python", suites / suite.name / suite.folder
    if not python.exists() or not folder.exists():
        return None
    # The suites have packages called tests themselves, so the plugin is a module of its own.
    path = os.pathsep.join([str(Path(__file__).parent), str(folder)])
    environment = {**os.environ, "STANDFAST_PEER": suite.name, "PYTHONPATH": path}
    environment |= {"OTEL_SDK_DISABLED": "true", "CREWAI_DISABLE_TELEMETRY": "true"}
    options = (
        "-p",
        "stand_ins",
        "-p",
        "no:cacheprovider",
        "-rA",
        "-q",
        "--no-header",
        "--tb=line",
    )
    with tempfile.TemporaryDirectory() as home:
        ran = subprocess.run(
            [
                str(python),
                "-m",
                "pytest",
                *options,
                *suite.options,
                *suite.tests,
                "-o",
                "asyncio_mode=auto",
                "-o",
                "addopts=",
            ],
            cwd=folder,
            env={**environment, "HOME": home},
            capture_output=True,
            text=True,
            check=False,
        )
    if not _RESULT.search(ran.stdout):
        sys.stderr.write(f"{ran.stdout[-3_000:]}\n{ran.stderr[-3_000:]}\n")
    return sorted(_RESULT.findall(ran.stdout), key=lambda one: one[1])


def quickstarts(mem0: Path) -> list[tuple[str, str]]:
    """The Python blocks of mem0's quickstarts, run in order with the import changed."""
    outcomes = []
    for page in _QUICKSTARTS:
        if not (mem0 / page).exists():
            continue
        names: dict[str, object] = {"__name__": "quickstart"}
        for number, block in enumerate(_FENCE.findall((mem0 / page).read_text(encoding="utf-8")), 1):
            program = block.replace("from mem0 import", "from standfast.adapters.mem0 import")
            try:
                # Blocks of the page on async code await outside of a function.
                code = compile(program, page, "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT)
                running = eval(code, names)  # A page of the checkout.
                if isawaitable(running):
                    asyncio.run(_finished(running))
                outcomes.append(("PASSED", f"{page}::{number}"))
            except Exception as error:
                sys.stderr.write(f"{page}, block {number}: {type(error).__name__}: {error}\n")
                outcomes.append(("FAILED", f"{page}::{number}"))
    return outcomes


async def _finished(running: Awaitable[object]) -> None:
    await running


def main(suites: Path, only: str = "") -> None:
    """Print a line for each suite, or only one, and one for each test that did not pass."""
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        found = {suite.name: run(suite, suites) for suite in SUITES if only in suite.name}
        found["mem0, quickstarts"] = quickstarts(suites / "mem0") if (suites / "mem0").exists() else None
        os.chdir(ROOT)
    for name, outcomes in found.items():
        if outcomes is None:
            print(f"{name}: not run; its folder or environment is not there")
            continue
        passed = sum(outcome == "PASSED" for outcome, _ in outcomes)
        print(f"{name}: {passed} of {len(outcomes)} passed")
        for outcome, test in outcomes:
            if outcome != "PASSED":
                print(f"  {outcome} {test}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
