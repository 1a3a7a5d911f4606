"""Packages whose names are imported when they are first used.

Such a package lists its names once, in its ``__init__.pyi``: ``from standfast.memory import Memory as
Memory``.
Type checkers and editors read that file, and so does the package itself when a name is first asked for.
"""

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

_ONLY_AST: Final = 0x400  # ast.PyCF_ONLY_AST. Importing ast would cost every start a few milliseconds.


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package, from the ``__init__.pyi`` next to it.

    Args:
        package: The package's ``__name__``.
        file: The package's ``__file__``.
    """

    def load(name: str) -> Any:
        if name == "__all__":
            return names()
        module = None if name.startswith("__") else modules_of_names(file).get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(modules_of_names(file))

    return load, names


@cache
def modules_of_names(file: str) -> dict[str, str]:
    """The module of each name that the package with this ``__file__`` exports."""
    with open(f"{file}i", encoding="utf-8") as stub:  # noqa: PTH123  # Importing pathlib costs 6 ms.
        tree: Any = compile(stub.read(), stub.name, "exec", _ONLY_AST)
    return {
        alias.asname: node.module
        for node in tree.body
        if type(node).__name__ == "ImportFrom"
        for alias in node.names
        if alias.asname
    }
