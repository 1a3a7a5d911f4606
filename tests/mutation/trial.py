"""Runs tests against a changed module, in a forked process.

All tests run unchanged once. That shows how long each takes and which blocks of the core modules it reaches:
a mark is put at the start of every block. A mutant then meets the tests that reach its block, quickest first,
and its trial ends with the first failure. What runs only while modules are imported meets all tests of its
module.

Most trials are forks of one process that has loaded every test: the fork gives the changed function its new
code. A change of what runs while a module is imported takes a process that loads the module anew.
"""

import ast
import contextlib
import enum
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Final

import hypothesis  # noqa: F401  # Takes most of a second to load; the children inherit it.
import pytest
from _pytest.main import pytest_runtestloop as run_items

from tests.mutation.mutants import Mutant, blocks_of

SOURCE: Final = Path(__file__).parents[2] / "src" / "standfast"
BASELINE_TIMEOUT_SECONDS: Final = 7_200
SHORTEST_TIMEOUT_SECONDS: Final = 10
"""Of processor time: how busy the machine is must not decide whether a mutant hangs."""
WAITING_FACTOR: Final = 10
"""Tests that only wait hang after so much more time by the clock."""
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
    NOT_REACHED = "not reached"
    """No test reaches it."""
    NOT_TRIED = "not tried"
    """It changes what runs while its module is imported."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a run of the unchanged tests showed."""

    seconds: dict[str, float] = field(default_factory=dict)
    """How long each test took that passed."""
    tests_of_place: dict[str, list[str]] = field(default_factory=dict)
    """The tests that reach each block, by ``module:place``."""
    loaded: list[str] = field(default_factory=list)
    """Modules of libraries that the tests load."""
    at_import: list[str] = field(default_factory=list)
    """The blocks that run while modules are imported, by ``module:place``."""

    def runs_at_import(self, mutant: Mutant) -> bool:
        """Whether its block runs while modules are imported."""
        return not mutant.place or f"{mutant.module}:{mutant.place}" in self.at_import

    def reaching(self, mutant: Mutant, most_seconds: float = BASELINE_TIMEOUT_SECONDS) -> list[str]:
        """The tests that reach a mutant, quickest first, as many as take so long together.

        Tests over PostgreSQL also run over SQLite, so they are only of use to PostgreSQL's own modules.
        """
        of_place = self.tests_of_place.get(f"{mutant.module}:{mutant.place}")
        if of_place is None or self.runs_at_import(mutant):
            start = f"{mutant.module}:"
            of_module = (tests for place, tests in self.tests_of_place.items() if place.startswith(start))
            of_place = [test for tests in of_module for test in tests]
        is_postgres = mutant.module.startswith("store.postgres")
        chosen = {
            test for test in of_place if test in self.seconds and (is_postgres or "postgres" not in test)
        }
        ordered = sorted(chosen, key=lambda test: (self.seconds[test], test))
        totals = accumulate(self.seconds[test] for test in ordered)
        return [test for test, total in zip(ordered, totals, strict=True) if total <= most_seconds]

    def as_json(self) -> str:
        """Its fields, as JSON."""
        return json.dumps(asdict(self))

    def with_tests(self, other: "Baseline") -> "Baseline":
        """Return it with the files of tests that another one measured later."""
        files = {test.partition("::")[0] for test in other.seconds}

        def kept(tests: Sequence[str]) -> list[str]:
            return [test for test in tests if test.partition("::")[0] not in files]

        return Baseline(
            {**{test: self.seconds[test] for test in kept(list(self.seconds))}, **other.seconds},
            {
                place: kept(self.tests_of_place.get(place, [])) + reached
                for place, reached in other.tests_of_place.items()
            },
            sorted({*self.loaded, *other.loaded}),
            sorted({*self.at_import, *other.at_import}),
        )


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
        self.at_import: list[int] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Called by pytest around each test."""
        if not self.seconds:
            self.at_import = [at for at, mark in enumerate(self._marks) if mark]
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
        shown = Baseline(
            watch.seconds,
            {place: tests_of_place.get(place, []) for place in places},
            sorted(name for name in sys.modules if name.partition(".")[0] not in _OURS),
            [places[mark] for mark in watch.at_import],
        )
        report.write_text(shown.as_json(), encoding="utf-8")
        return True

    _in_child(run, BASELINE_TIMEOUT_SECONDS)


def read_baseline(report: Path) -> Baseline:
    """Read what ``measure`` wrote."""
    return Baseline(**json.loads(report.read_text(encoding="utf-8")))


def preload(baseline: Baseline) -> None:
    """Load what the tests will load, so that the trials need not."""
    for name in baseline.loaded:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def try_mutant(mutant: Mutant, baseline: Baseline, most_seconds: float) -> Outcome:
    """Run the tests against a mutant, with its module loaded anew: PASSED means that it survived."""
    tests = baseline.reaching(mutant, most_seconds)
    if not tests:
        return Outcome.NOT_REACHED
    for some in (tests[:FIRST_TESTS], tests[FIRST_TESTS:]):
        seconds = sum(baseline.seconds[test] for test in some)
        if some:
            files = list(dict.fromkeys(test.partition("::")[0] for test in some))
            finder = _Finder({mutant.module: mutant.tree})
            run = partial(_run, finder, ["-x", *files], _InOrder(some))
            outcome = _in_child(run, SHORTEST_TIMEOUT_SECONDS + 6 * seconds)
            if outcome is not Outcome.PASSED:
                return outcome
    return Outcome.PASSED


def try_mutants(
    mutants: Sequence[Mutant], baseline: Baseline, *, jobs: int, most_seconds: float
) -> Iterator[tuple[Mutant, Outcome]]:
    """Try each mutant in a fork of a process that has loaded the tests; yield each as soon as it is known."""
    reading, writing = os.pipe()
    trials = _Trials(mutants, baseline, jobs, most_seconds, writing)
    files = sorted({test.partition("::")[0] for mutant in mutants for test in trials.tests_of(mutant)})
    left = dict(enumerate(mutants))
    child = _fork(partial(_run, None, ["-x", *files], trials)) if files else None
    os.close(writing)
    with os.fdopen(reading) as lines:
        for line in lines:
            number, outcome = line.split(" ", 1)
            yield left.pop(int(number)), Outcome(outcome.strip())
    if child is not None:
        os.waitpid(child, 0)
    for mutant in left.values():
        yield mutant, Outcome.NOT_TRIED if trials.tests_of(mutant) else Outcome.NOT_REACHED


class _Trials:
    """Tries mutants in place of running the tests that were collected."""

    def __init__(
        self, mutants: Sequence[Mutant], baseline: Baseline, jobs: int, most_seconds: float, report: int
    ) -> None:
        self._mutants, self._baseline, self._jobs, self._report = mutants, baseline, jobs, report
        self._most_seconds = most_seconds
        self._running: dict[int, tuple[int, float]] = {}
        """The number of the mutant that each process tries, and when it must have ended."""

    def tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that it meets."""
        return self._baseline.reaching(mutant, self._most_seconds)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Called by pytest when it has collected the tests."""
        items = {item.nodeid: item for item in session.items}
        functions = _functions_by_code()
        for number, mutant in enumerate(self._mutants):
            tests = [test for test in self.tests_of(mutant) if test in items]
            if not tests:
                continue
            while len(self._running) >= self._jobs:
                self._wait()
            seconds = SHORTEST_TIMEOUT_SECONDS + 6 * sum(self._baseline.seconds[test] for test in tests)
            session.items = [items[test] for test in tests]
            child = _fork(partial(_run_changed, mutant, functions, session), int(seconds))
            self._running[child] = number, time.monotonic() + WAITING_FACTOR * seconds
        while self._running:
            self._wait()
        return True

    def _wait(self) -> None:
        """Note which processes have ended."""
        time.sleep(0.01)
        for child, (number, deadline) in list(self._running.items()):
            if (outcome := _outcome_of(child, deadline)) is not None:
                del self._running[child]
                os.write(self._report, f"{number} {outcome.value}\n".encode())


class _NotChanged(Exception):  # Nothing went wrong.
    """No function that is loaded has the changed code."""


def _functions_by_code() -> dict[tuple[str, str, int], list[FunctionType]]:
    """All functions that are loaded, by file, name and line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = defaultdict(list)
    gc.unfreeze()
    for one in gc.get_objects():
        if type(one) is FunctionType:
            found[_place_of(one.__code__)].append(one)
    gc.freeze()
    return found


def _place_of(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _codes_in(one)


def _run_changed(
    mutant: Mutant, functions: Mapping[tuple[str, str, int], Sequence[FunctionType]], session: pytest.Session
) -> bool:
    """Change the functions of a mutant in this process, and run the session's tests."""
    is_changed = False
    for code in _codes_in(compile(mutant.tree, str(path_of(mutant.module)), "exec")):
        for function in functions.get(_place_of(code), ()):
            if function.__code__ != code:
                if len(function.__code__.co_freevars) != len(code.co_freevars):
                    raise _NotChanged
                function.__code__ = code
                is_changed = True
    if not is_changed:
        raise _NotChanged
    try:
        run_items(session)
    except session.Failed:
        return False
    finally:
        session._setupstate.teardown_exact(None)
    return session.testsfailed == 0


def _run(finder: _Finder | None, arguments: Sequence[str], plugin: object) -> bool:
    # A test file that was loaded before would test what it loaded then.
    loaded = [name for name in sys.modules if name.partition(".")[0] in ("standfast", "tests")]
    for name in loaded:
        if not name.startswith("tests.mutation"):
            del sys.modules[name]
    if finder is not None:
        sys.meta_path.insert(0, finder)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", LOADED_EARLY, *arguments]
    # No test is left if the tests have changed since they were measured.
    return pytest.main(options, plugins=[plugin]) in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def _in_child(run: Callable[[], bool], timeout_seconds: float) -> Outcome:
    child, deadline = _fork(run, int(timeout_seconds)), time.monotonic() + WAITING_FACTOR * timeout_seconds
    while (outcome := _outcome_of(child, deadline)) is None:
        time.sleep(0.02)
    return outcome


def _fork(run: Callable[[], bool], most_seconds: int | None = None) -> int:
    """Run something in a child without output that may take so much processor time; return its id."""
    child = os.fork()
    if child == 0:
        outcome = Outcome.FAILED
        try:
            os.setpgid(0, 0)
            if most_seconds is not None:
                resource.setrlimit(resource.RLIMIT_CPU, (most_seconds, most_seconds))
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            outcome = Outcome.PASSED if run() else Outcome.FAILED
        except _NotChanged:
            outcome = Outcome.NOT_TRIED
        finally:
            os._exit(_EXIT_CODES.index(outcome))
    return child


_EXIT_CODES: Final = (Outcome.PASSED, Outcome.FAILED, Outcome.NOT_TRIED)


def _outcome_of(child: int, deadline: float) -> Outcome | None:
    """How a child ended; None if it still runs and may."""
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        code = os.waitstatus_to_exitcode(status)
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            return Outcome.HUNG
        return _EXIT_CODES[code] if 0 <= code < len(_EXIT_CODES) else Outcome.FAILED
    if time.monotonic() < deadline:
        return None
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return Outcome.HUNG
