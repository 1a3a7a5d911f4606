"""Observations that can't be modified.

A stream's steps are shared by the policies that are graded on it, and by the store that prices them. A policy that modified one
would change what the others see and what its own items cost. Frozen values are dicts and lists in every other respect: they
compare, print and encode as such, and ``copy`` returns ordinary ones.
"""

from typing import Any, Final, NoReturn

_REFUSAL: Final = "steps are frozen; work on a copy, for example copy.deepcopy(step.observation)"


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError(_REFUSAL)


class FrozenDict(dict[str, Any]):
    """A dict whose methods can't modify it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as an ordinary dict."""
        return dict, (dict(self),)


class FrozenList(list[Any]):
    """A list whose methods can't modify it."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as an ordinary list."""
        return list, (list(self),)


def frozen(value: Any) -> Any:
    """Return an equal JSON value in which every dict and list is frozen. What is frozen already is returned as it is."""
    kind = type(value)
    if kind is dict:
        return FrozenDict({key: frozen(inner) for key, inner in value.items()})
    if kind is list:
        return FrozenList([frozen(inner) for inner in value])
    return value
