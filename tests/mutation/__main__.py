"""``make mutants``: changes the core modules in small ways and reports each change that no test notices.

    python -m tests.mutation                          a sample from every core module
    python -m tests.mutation recall.selection --all   every mutant of one module
    python -m tests.mutation --only "Run._apply"      the mutants whose name contains this
    python -m tests.mutation --list                   the modules and how many mutants each has

A mutant is killed if a test fails, or if the tests hang. A survivor that changes behaviour asks for a test;
one that does not is listed in ``equivalent.txt`` with the reason, as ``name  # reason``.
"""

import argparse
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from standfast.clock import seeded
from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.trial import Outcome, measure, try_mutant

HERE: Final = Path(__file__).parent
SOURCE: Final = HERE.parents[1] / "src" / "standfast"
DEFAULT_SAMPLE: Final = 12


def core_modules() -> dict[str, list[str]]:
    """The modules under mutation, each with the tests that must notice."""
    table: dict[str, list[str]] = tomllib.loads((HERE / "core_modules.toml").read_text(encoding="utf-8"))
    return table


def equivalent_mutants() -> set[str]:
    """The names of mutants that are known to change nothing."""
    lines = (HERE / "equivalent.txt").read_text(encoding="utf-8").splitlines()
    return {line.rsplit("  # ", 1)[0] for line in lines if line.strip() and not line.startswith("#")}


def source_of(module: str) -> str:
    """The text of a core module."""
    return (SOURCE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")


def chosen_mutants(mutants: Sequence[Mutant], options: argparse.Namespace) -> list[Mutant]:
    """The mutants that the command line asks for.

    A sample stays the same when one of them is listed as equivalent.
    """
    if options.list:
        return []
    if options.only:
        return [mutant for mutant in mutants if any(text in mutant.name for text in options.only)]
    if options.all or len(mutants) <= options.sample:
        return list(mutants)
    return seeded(options.seed).sample(mutants, options.sample)


def check_module(module: str, tests: Sequence[str], options: argparse.Namespace) -> tuple[int, int]:
    """Tests a module's mutants and prints its row and its survivors.

    Returns how many were tried and how many survived.
    """
    found, known = list(mutants_of(module, source_of(module))), equivalent_mutants()
    for name in sorted(known - {mutant.name for mutant in found}):
        if name.startswith(f"{module} | "):
            print(f"  equivalent.txt lists what is no mutant: {name}", flush=True)
    chosen = chosen_mutants(found, options)
    differing = [mutant for mutant in chosen if mutant.name not in known]
    outcomes: list[Outcome] = []
    if differing:
        baseline = measure(module, source_of(module), tests)
        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = list(pool.map(partial(try_mutant, tests=tests, baseline=baseline), differing))
    survivors = [
        mutant for mutant, outcome in zip(differing, outcomes, strict=True) if outcome is Outcome.PASSED
    ]
    equivalent, killed = len(chosen) - len(differing), len(differing) - len(survivors)
    counts = len(found), len(chosen), equivalent, killed, len(survivors)
    print(f"{module:<34}" + "".join(f"{count:>11}" for count in counts), flush=True)
    for mutant in survivors:
        print(f"  line {mutant.line_number}: {mutant.name}", flush=True)
    return len(chosen), len(survivors)


def main() -> int:
    """Parses the arguments, tests the mutants and prints a table. Exit code 1 if any mutant survived."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", help="modules below standfast; by default all core modules")
    parser.add_argument("--all", action="store_true", help="test every mutant instead of a sample")
    parser.add_argument("--sample", type=int, default=DEFAULT_SAMPLE, help="mutants a module")
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample")
    parser.add_argument(
        "--only", action="append", help="test the mutants whose name contains this text; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the modules and count their mutants")
    options = parser.parse_args()
    table = core_modules()
    columns = ("mutants", "tried", "equivalent", "killed", "survived")
    print(f"{'module':<34}" + "".join(f"{column:>11}" for column in columns))
    results = [check_module(module, table[module], options) for module in options.modules or table]
    tried, survived = (sum(column) for column in zip(*results, strict=True))
    print(f"\n{tried} mutants tried, {survived} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
