"""Runs tests against a changed module, in a forked process.

The tests of a module run unchanged first, which gives the time they take and the lines that each test
reaches. A mutant then meets the tests that reach its line, quickest first, and its trial ends with the first
failure. A line that runs only while modules are imported meets all tests.
"""

import enum
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Final

import hypothesis  # noqa: F401  # Takes most of a second to load; the children inherit it.
import pytest

from tests.mutation.mutants import Mutant

if TYPE_CHECKING:
    from _typeshed import TraceFunction

SHORTEST_TIMEOUT_SECONDS: Final = 30
BASELINE_TIMEOUT_SECONDS: Final = 600
LOADED_EARLY: Final = "ignore::pytest.PytestAssertRewriteWarning"


class Outcome(enum.Enum):
    """How a trial ended."""

    PASSED = "passed"
    FAILED = "failed"
    HUNG = "hung"


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a run of the unchanged tests showed."""

    seconds: float
    """How long all of them took."""
    test_seconds: dict[str, float] = field(default_factory=dict)
    tests_of_line: dict[int, list[str]] = field(default_factory=dict)
    """The tests that reach each line of the module."""

    @property
    def timeout_seconds(self) -> float:
        """Tests that take longer than this hang."""
        return max(SHORTEST_TIMEOUT_SECONDS, 3 * self.seconds)

    def reaching(self, line: int) -> list[str]:
        """The tests that reach a line, quickest first."""
        return sorted(
            self.tests_of_line.get(line, []), key=lambda test: (self.test_seconds.get(test, 0.0), test)
        )


class _SourceFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the given source in place of a module's own."""

    def __init__(self, module: str, source: str) -> None:
        self._name = f"standfast.{module}"
        self._source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answers for the changed module only."""
        del path, target
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        """Runs the given source."""
        exec(compile(self._source, _file_name(self._name), "exec"), module.__dict__)


def _file_name(module: str) -> str:
    return f"<mutant of {module}>"


class _InOrder:
    """Runs some tests only, in this order; all of them if none is named."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._rank = {test: rank for rank, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called by pytest."""
        if self._rank:
            chosen = [item for item in items if item.nodeid in self._rank]
            items[:] = sorted(chosen, key=lambda item: self._rank[item.nodeid])


class _Stopwatch:
    """Notes how long each test takes, and which lines of a module it reaches if they are traced."""

    def __init__(self, file_name: str = "") -> None:
        self.test_seconds: dict[str, float] = {}
        self.lines_of_test: dict[str, list[int]] = {}
        self._file_name = file_name
        self._lines: set[int] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Called by pytest around each test."""
        started = time.monotonic()
        self._lines = set()
        if self._file_name:
            threading.settrace(self._enter)
            sys.settrace(self._enter)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)
            self.test_seconds[item.nodeid] = time.monotonic() - started
            self.lines_of_test[item.nodeid] = sorted(self._lines)

    def _enter(self, frame: FrameType, event: str, _: object) -> "TraceFunction | None":
        return self._step if event == "call" and frame.f_code.co_filename == self._file_name else None

    def _step(self, frame: FrameType, event: str, _: object) -> "TraceFunction":
        if event == "line":
            self._lines.add(frame.f_lineno)
        return self._step


def measure(module: str, source: str, tests: Sequence[str]) -> Baseline:
    """Runs the tests of an unchanged module twice: for their times, then for the lines they reach.

    Raises RuntimeError if one fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        started = time.monotonic()
        outcome = _in_child(lambda: _timed(module, source, tests, report), BASELINE_TIMEOUT_SECONDS)
        seconds = time.monotonic() - started
        if outcome is not Outcome.PASSED:
            msg = f"{module}: its tests do not pass without a change; run pytest {' '.join(tests)}"
            raise RuntimeError(msg)
        test_seconds = json.loads(report.read_text(encoding="utf-8"))
        tests_of_line: dict[int, list[str]] = {}
        # Tracing slows tests down, so what fails here says nothing; it only leaves tests out of the order.
        _in_child(lambda: _traced(module, source, tests, report), BASELINE_TIMEOUT_SECONDS)
        for test, lines in json.loads(report.read_text(encoding="utf-8")).items():
            if isinstance(lines, list):
                for line in lines:
                    tests_of_line.setdefault(line, []).append(test)
    return Baseline(seconds, test_seconds, tests_of_line)


def try_mutant(mutant: Mutant, tests: Sequence[str], baseline: Baseline) -> Outcome:
    """Runs the tests against a mutant: PASSED means that it survived."""
    order = _InOrder(baseline.reaching(mutant.line_number))
    return _in_child(
        lambda: _run(mutant.module, mutant.source, ["-x", *tests], order), baseline.timeout_seconds
    )


def _timed(module: str, source: str, tests: Sequence[str], report: Path) -> bool:
    watch = _Stopwatch()
    passed = _run(module, source, ["-x", *tests], watch)
    report.write_text(json.dumps(watch.test_seconds), encoding="utf-8")
    return passed


def _traced(module: str, source: str, tests: Sequence[str], report: Path) -> bool:
    watch = _Stopwatch(_file_name(f"standfast.{module}"))
    passed = _run(module, source, tests, watch)
    report.write_text(json.dumps(watch.lines_of_test), encoding="utf-8")
    return passed


def _run(module: str, source: str, arguments: Sequence[str], plugin: object) -> bool:
    for name in [name for name in sys.modules if name.partition(".")[0] == "standfast" or name == "tests"]:
        del sys.modules[name]
    sys.meta_path.insert(0, _SourceFinder(module, source))
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", LOADED_EARLY, *arguments]
    return pytest.main(options, plugins=[plugin]) == pytest.ExitCode.OK


def _in_child(run: Callable[[], bool], timeout_seconds: float) -> Outcome:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            code = 0 if run() else 1
        finally:
            os._exit(code)
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return Outcome.PASSED if status == 0 else Outcome.FAILED
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Outcome.HUNG
