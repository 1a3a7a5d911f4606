"""``make mutants``: changes the core modules in small ways and reports each change that no test notices.

    python -m tests.mutation                          a sample from every core module
    python -m tests.mutation recall.selection --all        every mutant of one module
    python -m tests.mutation --list                   the modules and how many mutants each has

A mutant is killed if a test fails, or if the tests hang. A survivor that changes behaviour asks for a test; one that does not is
listed in ``equivalent.txt`` with the reason, as ``name  # reason``.
"""

import argparse
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from standfast.clock import seeded
from tests.mutation.mutants import Mutant, mutants_of

HERE: Final = Path(__file__).parent
SOURCE: Final = HERE.parents[1] / "src" / "standfast"
DEFAULT_SAMPLE: Final = 12
TIMEOUT_SECONDS: Final = 240


class _MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the mutated source in place of the module's own."""

    def __init__(self, mutant: Mutant) -> None:
        self._name = f"standfast.{mutant.module}"
        self._source = mutant.source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answers for the mutated module only."""
        del path, target
        return importlib.util.spec_from_loader(fullname, self) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        """Runs the mutated source."""
        exec(compile(self._source, f"<mutant of {self._name}>", "exec"), module.__dict__)


def core_modules() -> dict[str, list[str]]:
    """The modules under mutation, each with the tests that must notice."""
    table: dict[str, list[str]] = tomllib.loads((HERE / "core_modules.toml").read_text(encoding="utf-8"))
    return table


def equivalent_mutants() -> set[str]:
    """The names of mutants that are known to change nothing."""
    lines = (HERE / "equivalent.txt").read_text(encoding="utf-8").splitlines()
    return {line.rsplit("  # ", 1)[0] for line in lines if line.strip() and not line.startswith("#")}


def all_mutants(module: str) -> list[Mutant]:
    """Every mutant of a core module that is not known to be equivalent."""
    path = SOURCE / (module.replace(".", "/") + ".py")
    known = equivalent_mutants()
    found = mutants_of(module, path.read_text(encoding="utf-8"))
    return [mutant for mutant in found if mutant.name not in known]


def is_killed(mutant: Mutant, tests: Sequence[str]) -> bool:
    """Runs the tests against a mutant in a forked process; True if one fails or they hang."""
    child = os.fork()
    if child == 0:
        _run_and_exit(mutant, tests)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _run_and_exit(mutant: Mutant, tests: Sequence[str]) -> None:
    os.setpgid(0, 0)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    for name in [name for name in sys.modules if name.partition(".")[0] == "standfast" or name == "tests"]:
        del sys.modules[name]
    sys.meta_path.insert(0, _MutantFinder(mutant))
    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests])
    os._exit(0 if code == pytest.ExitCode.OK else 1)


def main() -> int:
    """Parses the arguments, tests the mutants and prints a table. Exit code 1 if any mutant survived."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", help="modules below standfast; by default all core modules")
    parser.add_argument("--all", action="store_true", help="test every mutant instead of a sample")
    parser.add_argument("--sample", type=int, default=DEFAULT_SAMPLE, help="mutants a module")
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the modules and count their mutants")
    options = parser.parse_args()
    table = core_modules()
    tested = survived = 0
    print(f"{'module':<34} {'mutants':>8} {'tested':>7} {'killed':>7}")
    for module in options.modules or table:
        mutants = all_mutants(module)
        chosen = mutants
        if not options.all and len(mutants) > options.sample:
            chosen = seeded(options.seed).sample(mutants, options.sample)
        if options.list:
            chosen = []
        with ThreadPoolExecutor(options.jobs) as pool:
            killed = list(pool.map(partial(is_killed, tests=table[module]), chosen))
        tested += len(chosen)
        print(f"{module:<34} {len(mutants):>8} {len(chosen):>7} {sum(killed):>7}", flush=True)
        for mutant in (mutant for mutant, dead in zip(chosen, killed, strict=True) if not dead):
            print(f"  line {mutant.line_number}: {mutant.name}", flush=True)
            survived += 1
    print(f"\n{tested} mutants tested, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
