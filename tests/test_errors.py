"""Errors have facts, a stable code and a message, survive pickling, and are drawn as a tree in the
docstring.
"""

import ast
import pickle
from pathlib import Path
from string import Formatter

import pytest

from standfast import errors
from tests.project.error_reference import drawn_tree


def _all_kinds(
    kind: type[errors.StandfastError] = errors.StandfastError,
) -> list[type[errors.StandfastError]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in _all_kinds(child))]


def error_examples() -> list[errors.StandfastError]:
    """One error of each class and of each of its cases."""
    made = []
    for kind in _all_kinds():
        for case, says in ((None, kind.says), *kind.cases.items()):
            names = {name for _, name, _, _ in Formatter().parse(says) if name}
            if issubclass(kind, errors.NotCanonical):
                # These set their path themselves.
                names -= {"path"}
            made.append(kind(case, **{name: f"<{name}>" for name in names}))
    return made


@pytest.mark.parametrize("error", error_examples(), ids=lambda error: error.code)
def test_the_message_tells_every_fact(error: errors.StandfastError) -> None:
    assert all(str(fact) in str(error) for fact in error.facts.values())
    assert error.as_json() == {"code": error.code, "message": str(error), "facts": error.facts}


@pytest.mark.parametrize("error", error_examples(), ids=lambda error: error.code)
def test_an_error_survives_pickling(error: errors.StandfastError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), copy.code, copy.facts, str(copy)) == (
        type(error),
        error.code,
        error.facts,
        str(error),
    )


def test_codes_are_unique() -> None:
    codes = [code for kind in _all_kinds() for code in (kind.code, *kind.cases)]

    assert len(codes) == len(set(codes))


def test_every_case_that_is_raised_is_one_of_its_class_with_the_facts_of_its_message() -> None:
    kinds = {kind.__name__: kind for kind in _all_kinds()}
    raised = set()
    for file in (Path(errors.__file__).parents[1]).rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in kinds):
                continue
            kind = kinds[call.func.id]
            case = [one.value for one in call.args if isinstance(one, ast.Constant)]
            assert all(one in kind.cases for one in case), f"{file}:{call.lineno}"
            raised |= set(case)
            if any(one.arg is None for one in call.keywords):
                continue
            says = kind.cases[str(case[0])] if case else kind.says
            needed = {name for _, name, _, _ in Formatter().parse(says) if name} - {"path"}
            assert needed <= {one.arg for one in call.keywords} | {"path"}, f"{file}:{call.lineno}"

    assert raised == {case for kind in kinds.values() for case in kind.cases}


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    classes = {
        kind.__name__: (kind.__base__ or object).__name__
        for kind in _all_kinds()
        if kind is not errors.StandfastError
    }

    assert {name: parent for name, (parent, _) in drawn_tree().items()} == classes


def test_the_tree_explains_each_error_in_one_plain_line() -> None:
    for name, (_, sentence) in drawn_tree().items():
        assert 10 <= len(sentence) <= 80, name
        assert not sentence.endswith("."), name
