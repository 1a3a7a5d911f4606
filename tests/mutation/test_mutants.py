from tests.mutation.mutants import mutants_of

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
        ("Gt -> GtE", "if number > limit and number != 7:"),
        ("NotEq -> Eq", "if number > limit and number != 7:"),
        ("7 -> 8", "if number > limit and number != 7:"),
        ("drop statement", "found.append(number)"),
        ("break -> continue", "break"),
        ("sorted() -> list()", "return sorted(found)"),
    ]
    assert all(mutant.name.startswith("example | keep | ") for mutant in mutants)


def test_a_mutant_runs_and_behaves_differently() -> None:
    mutant = next(one for one in mutants_of("example", SOURCE) if one.operator == "Gt -> GtE")
    names: dict[str, object] = {}
    exec(mutant.source, names)

    assert eval("keep([5, 2], 2)", names) == [2, 5]
