"""Errors have facts, a stable code and a message, survive pickling, and are drawn as a tree in the docstring."""

import pickle
from string import Formatter

import pytest

from standfast import errors
from tests.project.error_reference import drawn_tree


def _all_kinds(
    kind: type[errors.StandfastError] = errors.StandfastError,
) -> list[type[errors.StandfastError]]:
    return [kind, *(deeper for child in kind.__subclasses__() for deeper in _all_kinds(child))]


def _example(kind: type[errors.StandfastError]) -> errors.StandfastError:
    names = {name for _, name, _, _ in Formatter().parse(kind.says) if name}
    if issubclass(kind, errors.NotCanonical):
        # These set their path themselves.
        names -= {"path"}
    return kind(**{name: f"<{name}>" for name in names})


@pytest.mark.parametrize("kind", _all_kinds(), ids=lambda kind: kind.__name__)
def test_the_message_tells_every_fact(kind: type[errors.StandfastError]) -> None:
    error = _example(kind)

    assert all(str(fact) in str(error) for fact in error.facts.values())
    assert error.as_json() == {"code": kind.code, "message": str(error), "facts": error.facts}


@pytest.mark.parametrize("kind", _all_kinds(), ids=lambda kind: kind.__name__)
def test_an_error_survives_pickling(kind: type[errors.StandfastError]) -> None:
    error = _example(kind)
    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), copy.facts, str(copy)) == (kind, error.facts, str(error))


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in _all_kinds()]

    assert len(codes) == len(set(codes))


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    classes = {
        kind.__name__: ((kind.__base__ or object).__name__, kind.code)
        for kind in _all_kinds()
        if kind is not errors.StandfastError
    }

    assert {name: (parent, code) for name, (parent, code, _) in drawn_tree().items()} == classes


def test_the_tree_explains_each_error_in_one_plain_line() -> None:
    for name, (_, _, sentence) in drawn_tree().items():
        assert 10 <= len(sentence) <= 80, name
        assert not sentence.endswith("."), name
