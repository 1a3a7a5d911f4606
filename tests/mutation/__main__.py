"""``make mutants``: changes the core modules in small ways and reports each change that no test notices.

    python -m tests.mutation                          a sample from every core module
    python -m tests.mutation recall.selection --all   every mutant of one module
    python -m tests.mutation store --draw 100         100 mutants of one package, each as likely as any other
    python -m tests.mutation --only "Run._apply"      the mutants whose name contains this
    python -m tests.mutation --list                   the modules and how many mutants each has

The tests run unchanged first, which takes some minutes; ``--keep`` uses what the last run measured. A mutant
is killed if a test fails, or if the tests hang. A survivor that changes behaviour asks for a test; one that
does not is listed in ``equivalent.txt`` with the reason, as ``name  # reason``.
"""

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from standfast.clock import seeded
from tests.mutation.mutants import Mutant, mutants_of, signatures_in
from tests.mutation.trial import (
    BASELINE_TIMEOUT_SECONDS,
    SOURCE,
    Baseline,
    Outcome,
    measure,
    path_of,
    preload,
    read_baseline,
    try_mutant,
    try_mutants,
)

HERE: Final = Path(__file__).parent
MEASURED: Final = HERE.parents[1] / ".mutants.json"
DEFAULT_SAMPLE: Final = 12


def _configured() -> dict[str, Any]:
    return tomllib.loads((HERE / "core_modules.toml").read_text(encoding="utf-8"))


def core_modules() -> list[str]:
    """The modules under mutation: all of some packages, and some of others."""
    table = _configured()
    files = [file for package in table["packages"] for file in (SOURCE / package).rglob("*.py")]
    names = [".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in files]
    return sorted([*(name.removesuffix(".__init__") for name in names), *table["modules"]])


def equivalent_mutants() -> set[str]:
    """The names of mutants that are known to change nothing."""
    lines = (HERE / "equivalent.txt").read_text(encoding="utf-8").splitlines()
    return {line.rsplit("  # ", 1)[0] for line in lines if line.strip() and not line.startswith("#")}


def all_mutants(modules: Sequence[str]) -> dict[str, list[Mutant]]:
    """The mutants of each module."""
    sources = [file.read_text(encoding="utf-8") for file in sorted(SOURCE.rglob("*.py"))]
    signatures = signatures_in(sources)
    return {
        module: list(mutants_of(module, path_of(module).read_text(encoding="utf-8"), signatures))
        for module in modules
    }


def chosen_mutants(mutants: dict[str, list[Mutant]], options: argparse.Namespace) -> list[Mutant]:
    """The mutants that the command line asks for, by module.

    A sample stays the same when one of them is listed as equivalent.
    """
    every = [mutant for some in mutants.values() for mutant in some]
    if options.list:
        return []
    if options.only:
        return [mutant for mutant in every if any(text in mutant.name for text in options.only)]
    if options.all:
        return every
    if options.draw:
        drawn = seeded(options.seed).sample(range(len(every)), min(options.draw, len(every)))
        return [every[place] for place in sorted(drawn)]
    return [
        mutant
        for some in mutants.values()
        for mutant in (
            some if len(some) <= options.sample else seeded(options.seed).sample(some, options.sample)
        )
    ]


def _in_packages(modules: Sequence[str], named: Sequence[str]) -> list[str]:
    chosen = [one for one in modules if not named or any(f"{one}.".startswith(f"{name}.") for name in named)]
    if not chosen:
        sys.exit(f"no core module is in {', '.join(named)}; --list shows them")
    return chosen


def main() -> int:
    """Parses the arguments, tests the mutants and prints a table. Exit code 1 if any mutant survived."""
    parser = argparse.ArgumentParser(
        prog="make mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", help="modules or packages below standfast; by default all")
    parser.add_argument("--all", action="store_true", help="test every mutant instead of a sample")
    parser.add_argument("--sample", type=int, default=DEFAULT_SAMPLE, help="mutants a module")
    parser.add_argument("--draw", type=int, help="mutants over all modules, instead of a sample of each")
    parser.add_argument("--seed", type=int, default=0, help="chooses the sample")
    parser.add_argument(
        "--only", action="append", help="test the mutants whose name contains this text; may be repeated"
    )
    parser.add_argument("--keep", action="store_true", help="use what the last run measured")
    parser.add_argument(
        "--measure", action="append", help="use what the last run measured, but measure this test file again"
    )
    parser.add_argument(
        "--seconds", type=float, default=BASELINE_TIMEOUT_SECONDS, help="of tests that a mutant meets"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print the modules and count their mutants")
    options = parser.parse_args()
    modules, known = _in_packages(core_modules(), options.modules), equivalent_mutants()
    mutants = all_mutants(modules)
    names = {mutant.name for some in mutants.values() for mutant in some}
    for name in sorted(known - names):
        if name.partition(" | ")[0] in modules:
            print(f"equivalent.txt lists what is no mutant: {name}", flush=True)
    chosen = chosen_mutants(mutants, options)
    differing = [mutant for mutant in chosen if mutant.name not in known]
    if options.measure and MEASURED.exists():
        _measure_again(options.measure)
    elif differing and not (options.keep and MEASURED.exists()):
        measure(core_modules(), _configured()["tests"], MEASURED)
    survived = _tried(differing, options.jobs, options.seconds) if differing else []
    _print_table(mutants, chosen, known, survived)
    return 1 if survived else 0


def _measure_again(tests: Sequence[str]) -> None:
    earlier, report = read_baseline(MEASURED), MEASURED.with_suffix(".new")
    measure(core_modules(), tests, report)
    MEASURED.write_text(earlier.with_tests(read_baseline(report)).as_json(), encoding="utf-8")
    report.unlink()


def _tried(mutants: Sequence[Mutant], jobs: int, most_seconds: float) -> list[Mutant]:
    """The mutants that survive, printed as soon as they are known."""
    survived = []
    for mutant, outcome in _outcomes(mutants, read_baseline(MEASURED), jobs, most_seconds):
        if outcome is Outcome.FAILED:
            continue
        if outcome is not Outcome.HUNG:
            survived.append(mutant)
        print(f"{outcome.value}, line {mutant.line_number}: {mutant.name}", flush=True)
    return survived


def _outcomes(
    mutants: Sequence[Mutant], baseline: Baseline, jobs: int, most_seconds: float
) -> Iterator[tuple[Mutant, Outcome]]:
    later = []
    for mutant, outcome in try_mutants(mutants, baseline, jobs=jobs, most_seconds=most_seconds):
        is_perhaps_unchanged = outcome is Outcome.PASSED and baseline.runs_at_import(mutant)
        if outcome is Outcome.NOT_TRIED or is_perhaps_unchanged:
            later.append(mutant)
        else:
            yield mutant, outcome
    if later:
        preload(baseline)
    for mutant in later:
        yield mutant, try_mutant(mutant, baseline, most_seconds)


def _print_table(
    mutants: dict[str, list[Mutant]], chosen: list[Mutant], known: set[str], survived: list[Mutant]
) -> None:
    tried = Counter(mutant.module for mutant in chosen)
    equivalent = Counter(mutant.module for mutant in chosen if mutant.name in known)
    left = Counter(mutant.module for mutant in survived)
    columns = ("mutants", "tried", "equivalent", "killed", "survived")
    print(f"{'module':<34}" + "".join(f"{column:>11}" for column in columns))
    for module, some in mutants.items():
        killed = tried[module] - equivalent[module] - left[module]
        counts = len(some), tried[module], equivalent[module], killed, left[module]
        print(f"{module:<34}" + "".join(f"{count:>11}" for count in counts))
    print(f"\n{len(chosen)} mutants tried, {len(survived)} survived")


if __name__ == "__main__":
    sys.exit(main())
