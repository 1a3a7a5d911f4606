"""Errors have facts, a stable code and a message, survive pickling, and are drawn as a tree in the docstring."""

import pickle
import re
from string import Formatter

import pytest

from standfast import errors


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


def _drawn_tree() -> dict[str, tuple[str, str, str]]:
    """Of each class that the docstring draws: its parent, its code and its sentence."""
    drawn: dict[str, tuple[str, str, str]] = {}
    path = ["StandfastError"]
    for line in (errors.__doc__ or "").splitlines():
        if found := re.fullmatch(r"    ((?:│   |    )*)[├└]── (\w+) +(\w+) +(\S.*)", line):
            depth = len(found[1]) // 4 + 1
            del path[depth:]
            assert found[2] not in drawn, f"{found[2]} is drawn twice"
            drawn[found[2]] = (path[-1], found[3], found[4])
            path.append(found[2])
    return drawn


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in _all_kinds()]

    assert len(codes) == len(set(codes))


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    classes = {
        kind.__name__: ((kind.__base__ or object).__name__, kind.code)
        for kind in _all_kinds()
        if kind is not errors.StandfastError
    }

    assert {name: (parent, code) for name, (parent, code, _) in _drawn_tree().items()} == classes


def test_the_tree_explains_each_error_in_one_plain_line() -> None:
    for name, (_, _, sentence) in _drawn_tree().items():
        assert 10 <= len(sentence) <= 80, name
        assert not sentence.endswith("."), name
