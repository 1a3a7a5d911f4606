"""The top package exports exactly the names in ``__all__``."""

import ast
import subprocess
import sys
import types
from pathlib import Path

import standfast


def test_every_public_name_is_exported_on_purpose() -> None:
    """The imports for the type checker and ``__all__`` name the same things."""
    tree = ast.parse(Path(standfast.__file__).read_text(encoding="utf-8"))
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("standfast.")
        for alias in node.names
    }

    assert imported | {"__version__"} == set(standfast.__all__) == set(dir(standfast))


def test_every_exported_name_exists_and_no_other() -> None:
    assert [name for name in standfast.__all__ if not hasattr(standfast, name)] == []
    assert not hasattr(standfast, "msgspec")
    assert not hasattr(standfast, "Value")


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = (
        "import sys, standfast; print(*sorted(name for name in sys.modules if name.startswith('standfast')))"
    )
    result = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["standfast"]


def test_exported_names_are_in_order_and_have_a_docstring() -> None:
    public = [
        name for name in standfast.__all__ if isinstance(getattr(standfast, name), type | types.FunctionType)
    ]

    assert standfast.__all__ == sorted(standfast.__all__, key=_isort_order)
    assert [name for name in public if not getattr(standfast, name).__doc__] == []


def _isort_order(name: str) -> tuple[int, str]:
    if name.isupper():
        return 0, name
    return (1, name) if name[0].isupper() else (2, name)
