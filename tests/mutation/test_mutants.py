"""The changes that ``make mutants`` makes, and the modules that it changes."""

from pathlib import Path

import pytest

from tests.mutation.__main__ import core_modules, equivalent_mutants
from tests.mutation.mutants import mutants_of
from tests.mutation.trial import (
    Baseline,
    Outcome,
    marked,
    measure,
    path_of,
    read_baseline,
    try_mutant,
    try_mutants,
)

SOURCE = '''
LIMIT = 3


def keep(numbers, limit):
    """Docstrings are not changed."""
    assert limit > 0
    found = []
    for number in numbers:
        if number > limit and number != 7:
            found.append(number)
        else:
            break
    return sorted(found)
'''


def test_each_mutant_has_one_change_and_a_name_without_line_numbers() -> None:
    mutants = list(mutants_of("example", SOURCE))

    assert [(mutant.operator, mutant.line) for mutant in mutants] == [
        ("and -> or", "if number > limit and number != 7:"),
        ("drop operand 1", "if number > limit and number != 7:"),
        ("drop operand 2", "if number > limit and number != 7:"),
        ("Gt -> GtE", "if number > limit and number != 7:"),
        ("NotEq -> Eq", "if number > limit and number != 7:"),
        ("7 -> 8", "if number > limit and number != 7:"),
        ("drop statement", "found.append(number)"),
        ("break -> continue", "break"),
        ("sorted() -> list()", "return sorted(found)"),
    ]
    assert all(mutant.name.startswith("example | keep | ") for mutant in mutants)


def _results(source: str, operator: str, call: str) -> list[object]:
    """What a call gives with each of the changes of that kind."""
    results = []
    for mutant in mutants_of("example", source):
        if mutant.operator.startswith(operator):
            names: dict[str, object] = {}
            exec(mutant.source, names)
            results.append(eval(call, names))
    return results


def test_a_mutant_runs_and_behaves_differently() -> None:
    assert _results(SOURCE, "Gt -> GtE", "keep([5, 2], 2)") == [[2, 5]]


@pytest.mark.parametrize(
    ("body", "operator", "results"),
    [
        ("a > 1 and b > 1 and c > 1", "drop operand", [True, False, False]),
        ("[x for x in (a, b, c) if x > 1 if x < 3]", "drop filter", [[1, 2], [2, 3]]),
        ("sorted([(b, c), (a, c), (a, b)], key=lambda x: (x[1], x[0]))[0]", "drop part", [(1, 3), (1, 2)]),
        ("(a, b) < (a, c)", "drop part", [True, False]),
        ("max(a, b)", "max() -> its first operand", [1]),
        ("min(c, b, a)", "min() -> its first operand", [3]),
        ("near(a, b, far=c)", "swap two arguments", [(2, 1, 3), (1, 3, 2)]),
        ("'WHERE x = ? AND y = ? ORDER BY x, y, z'", "drop condition", [
            "WHERE x = ? AND (y = ? OR 1=1) ORDER BY x, y, z"
        ]),
        ("'WHERE x = ? ORDER BY x, y'", "drop the last part", ["WHERE x = ? ORDER BY x"]),
    ],
)  # fmt: skip
def test_operators_drop_what_guards_and_orders(body: str, operator: str, results: list[object]) -> None:
    near = "def near(first: int, second: int, *, far: int, name: str = ''):\n    return first, second, far\n"
    source = f"{near}\ndef f(a, b, c):\n    return {body}\n"

    assert _results(source, operator, "f(1, 2, 3)") == results


def test_guards_are_dropped_whole_and_asserts_are_not() -> None:
    guard = "def f(a):\n    if a:\n        b = 1\n        raise ValueError(b)\n    assert a is not None\n"

    assert [mutant.operator for mutant in mutants_of("example", guard)] == ["drop statement", "1 -> 2"]


def test_every_module_of_the_core_is_changed() -> None:
    source = path_of("records.canon").parents[1]
    packages = [source / name for name in ("govern", "ledger", "memory", "recall", "records", "store")]
    files = {file for package in packages for file in package.rglob("*.py")}

    assert files <= {path_of(module) for module in core_modules()}
    assert all(path_of(module).is_file() for module in core_modules())


def test_the_block_of_every_mutant_is_marked_so_that_its_tests_are_known() -> None:
    places: list[str] = []
    marked("records.scopes", places)
    mutants = list(mutants_of("records.scopes", path_of("records.scopes").read_text(encoding="utf-8")))

    assert {f"records.scopes:{mutant.place}" for mutant in mutants if mutant.place} <= set(places)
    assert len(places) == len(set(places))


def test_a_mutant_meets_the_tests_that_reach_its_block_quickest_first() -> None:
    mutant = next(mutants_of("example", SOURCE))
    seconds = {"slow": 2.0, "quick": 1.0, "on[postgres]": 0.1, "elsewhere": 0.1}
    reached = {
        f"example:{mutant.place}": ["slow", "quick", "on[postgres]", "failed"],
        "example:other": ["elsewhere"],
    }

    assert Baseline(seconds, reached).reaching(mutant) == ["quick", "slow"]
    assert Baseline(seconds, {"example:other": ["elsewhere"]}).reaching(mutant) == ["elsewhere"]


def test_a_mutant_meets_as_many_of_the_quickest_tests_as_fit_into_a_time() -> None:
    mutant = next(mutants_of("example", SOURCE))
    baseline = Baseline({"a": 1.0, "b": 2.0, "c": 3.0}, {f"example:{mutant.place}": ["c", "b", "a"]})

    assert [baseline.reaching(mutant, seconds) for seconds in (0.5, 3, 5.9, 6)] == [
        [],
        ["a", "b"],
        ["a", "b"],
        ["a", "b", "c"],
    ]


def test_files_of_tests_that_are_measured_again_replace_what_was_measured() -> None:
    before = Baseline({"x.py::old": 1.0, "y.py::kept": 2.0}, {"m:f#0": ["x.py::old", "y.py::kept"]}, ["json"])
    after = Baseline({"x.py::new": 3.0}, {"m:f#0": ["x.py::new"], "m:f#1": []}, ["abc"])
    joined = before.with_tests(after)

    assert joined.seconds == {"y.py::kept": 2.0, "x.py::new": 3.0}
    assert joined.tests_of_place == {"m:f#0": ["y.py::kept", "x.py::new"], "m:f#1": []}
    assert joined.loaded == ["abc", "json"]


@pytest.mark.slow
def test_changes_of_a_function_are_noticed_by_the_tests_that_reach_it(
    tmp_path: Path,
) -> None:
    measure(["records.scopes"], ["tests/test_scopes.py"], tmp_path / "measured")
    source = path_of("records.scopes").read_text(encoding="utf-8")
    tried = [mutant for mutant in mutants_of("records.scopes", source) if mutant.function == "is_within"]
    baseline = read_baseline(tmp_path / "measured")
    outcomes = {
        mutant.name: outcome for mutant, outcome in try_mutants(tried, baseline, jobs=2, most_seconds=9)
    }

    assert set(outcomes.values()) == {Outcome.FAILED}
    assert try_mutant(tried[0], baseline, 9) is Outcome.FAILED


def test_equivalent_mutants_are_of_core_modules() -> None:
    assert {name.partition(" | ")[0] for name in equivalent_mutants()} <= set(core_modules())
