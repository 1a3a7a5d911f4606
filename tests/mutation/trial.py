"""Runs tests against a changed module, in a forked process.

All tests run unchanged once. That shows how long each takes and which blocks of the core modules it reaches:
a mark is put at the start of every block. A mutant then meets the tests that reach its block, quickest first,
and its trial ends with the first failure. What runs only while modules are imported meets all tests of its
module.
"""

import ast
import contextlib
import enum
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final

import hypothesis  # noqa: F401  # Takes most of a second to load; the children inherit it.
import pytest

from tests.mutation.mutants import Mutant, blocks_of

SOURCE: Final = Path(__file__).parents[2] / "src" / "standfast"
BASELINE_TIMEOUT_SECONDS: Final = 7_200
SHORTEST_TIMEOUT_SECONDS: Final = 60
FIRST_TESTS: Final = 24
"""Most mutants fail one of so many tests; only the others are worth loading every test file."""
LOADED_EARLY: Final = "ignore::pytest.PytestAssertRewriteWarning"
_MARKS: Final = "__reached__"
_OURS: Final = ("standfast", "tests", "_pytest", "pytest", "__main__", "conftest", "xdist")


class Outcome(enum.Enum):
    """How a trial ended."""

    PASSED = "passed"
    FAILED = "failed"
    HUNG = "hung"


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a run of the unchanged tests showed."""

    seconds: dict[str, float] = field(default_factory=dict)
    """How long each test took that passed."""
    tests_of_place: dict[str, list[str]] = field(default_factory=dict)
    """The tests that reach each block, by ``module:place``."""
    loaded: list[str] = field(default_factory=list)
    """Modules of libraries that the tests load."""

    def reaching(self, mutant: Mutant) -> list[str]:
        """The tests that reach a mutant, quickest first.

        Tests over PostgreSQL also run over SQLite, so they are only of use to PostgreSQL's own modules.
        """
        of_place = self.tests_of_place.get(f"{mutant.module}:{mutant.place}")
        if of_place is None:
            start = f"{mutant.module}:"
            of_module = (tests for place, tests in self.tests_of_place.items() if place.startswith(start))
            of_place = [test for tests in of_module for test in tests]
        is_postgres = mutant.module.startswith("store.postgres")
        chosen = {
            test for test in of_place if test in self.seconds and (is_postgres or "postgres" not in test)
        }
        return sorted(chosen, key=lambda test: (self.seconds[test], test))


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a module from code that is handed in, with marks if any."""

    def __init__(self, name: str, path: str, code: CodeType, marks: bytearray | None) -> None:
        super().__init__(name, path)
        self._code, self._marks = code, marks

    def get_code(self, fullname: str) -> CodeType:
        """Called by the import system."""
        del fullname
        return self._code

    def exec_module(self, module: ModuleType) -> None:
        """Called by the import system."""
        module.__dict__[_MARKS] = self._marks
        super().exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds changed modules in place of those on disk."""

    def __init__(self, trees: Mapping[str, ast.Module], marks: bytearray | None = None) -> None:
        self._trees, self._marks = trees, marks

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answers for the changed modules only."""
        del path, target
        module = fullname.removeprefix("standfast.")
        if module == fullname or module not in self._trees:
            return None
        file = path_of(module)
        code = compile(self._trees[module], str(file), "exec")
        return importlib.util.spec_from_file_location(
            fullname, file, loader=_Loader(fullname, str(file), code, self._marks)
        )


def path_of(module: str) -> Path:
    """The file of a module below ``standfast``."""
    package = SOURCE / module.replace(".", "/")
    return package / "__init__.py" if package.is_dir() else package.with_suffix(".py")


def marked(module: str, places: list[str]) -> ast.Module:
    """Return a module's tree with a mark at the start of each block, and add the marked places to the
    list.
    """
    tree = ast.parse(path_of(module).read_text(encoding="utf-8"))
    for block in list(blocks_of(tree)):
        if not block.place:
            continue
        mark = ast.parse(f"{_MARKS}[{len(places)}] = 1").body[0]
        first = block.statements[0]
        is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        places.append(f"{module}:{block.place}")
        block.statements.insert(1 if is_docstring else 0, ast.copy_location(mark, first))
    return ast.fix_missing_locations(tree)


class _InOrder:
    """Runs some tests only, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._rank = {test: rank for rank, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Called by pytest."""
        chosen = [item for item in items if item.nodeid in self._rank]
        items[:] = sorted(chosen, key=lambda item: self._rank[item.nodeid])


class _Stopwatch:
    """Notes how long each test takes that passes, and which marks it reaches."""

    def __init__(self, marks: bytearray) -> None:
        self.seconds: dict[str, float] = {}
        self.reached: dict[str, list[int]] = {}
        self._marks = marks
        self._failed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Called by pytest around each test."""
        self._marks[:] = bytes(len(self._marks))
        started = time.monotonic()
        try:
            return (yield)
        finally:
            if item.nodeid not in self._failed:
                self.seconds[item.nodeid] = round(time.monotonic() - started, 4)
                self.reached[item.nodeid] = [at for at, mark in enumerate(self._marks) if mark]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest after each phase of a test."""
        if report.failed:
            self._failed.add(report.nodeid)


def measure(modules: Sequence[str], tests: Sequence[str], report: Path) -> None:
    """Run the tests of unchanged modules and write what they show to a file."""

    def run() -> bool:
        places: list[str] = []
        trees = {module: marked(module, places) for module in modules}
        marks = bytearray(len(places))
        watch = _Stopwatch(marks)
        _run(_Finder(trees, marks), tests, watch)
        tests_of_place: dict[str, list[str]] = {}
        for test, reached in watch.reached.items():
            for mark in reached:
                tests_of_place.setdefault(places[mark], []).append(test)
        # A block that nothing reaches is written too: its mutants meet no test.
        shown = {
            "seconds": watch.seconds,
            "tests_of_place": {place: tests_of_place.get(place, []) for place in places},
            "loaded": sorted(name for name in sys.modules if name.partition(".")[0] not in _OURS),
        }
        report.write_text(json.dumps(shown), encoding="utf-8")
        return True

    _in_child(run, BASELINE_TIMEOUT_SECONDS)


def read_baseline(report: Path) -> Baseline:
    """Read what ``measure`` wrote, and load what the tests will load, so that the trials need not."""
    baseline = Baseline(**json.loads(report.read_text(encoding="utf-8")))
    for name in baseline.loaded:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    return baseline


def try_mutant(mutant: Mutant, baseline: Baseline) -> Outcome:
    """Run the tests against a mutant: PASSED means that it survived."""
    tests = baseline.reaching(mutant)
    for some in (tests[:FIRST_TESTS], tests[FIRST_TESTS:]):
        seconds = sum(baseline.seconds[test] for test in some)
        if some:
            files = list(dict.fromkeys(test.partition("::")[0] for test in some))
            finder = _Finder({mutant.module: ast.parse(mutant.source)})
            run = partial(_run, finder, ["-x", *files], _InOrder(some))
            outcome = _in_child(run, SHORTEST_TIMEOUT_SECONDS + 6 * seconds)
            if outcome is not Outcome.PASSED:
                return outcome
    return Outcome.PASSED


def _run(finder: _Finder, arguments: Sequence[str], plugin: object) -> bool:
    for name in [name for name in sys.modules if name.partition(".")[0] == "standfast" or name == "tests"]:
        del sys.modules[name]
    sys.meta_path.insert(0, finder)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", LOADED_EARLY, *arguments]
    # No test is left if the tests have changed since they were measured.
    return pytest.main(options, plugins=[plugin]) in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


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
