"""A property that is computed when it is first asked for, and kept."""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Kept = TypeVar("Kept")


class once(Generic[Kept]):  # noqa: N801  # Used as a decorator, and named as one.
    """A property that is computed when it is first asked for, and kept in the instance's own dictionary.

    ``functools.cached_property`` takes a lock on Python 3.11, which costs more than most of what is computed here. Two
    threads that ask at once may both compute; the value is a pure function of the instance, so nobody can tell.
    """

    def __init__(self, compute: Callable[[Any], Kept]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Kept: ...
    def __get__(self, instance: object | None, owner: type) -> Self | Kept:
        """The value, computed now; the next look finds it in the instance and does not come here."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
