"""Errors carry facts, a stable code and a way out, and survive a trip between processes."""

import pickle
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
        # They know it themselves.
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


def test_codes_are_unique_and_drawn_in_the_tree() -> None:
    codes = [kind.code for kind in _all_kinds()]

    assert len(codes) == len(set(codes))
    for kind in _all_kinds():
        assert kind.__name__ in (errors.__doc__ or "")
        assert kind is errors.StandfastError or f" {kind.code} " in (errors.__doc__ or "")
