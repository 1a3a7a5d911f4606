"""What the packages export: each name is listed once, in the package's ``__init__.pyi``."""

import subprocess
import sys
import types
from importlib import import_module

import pytest

import standfast
from standfast.lazy_names import modules_of_names

MOST_NAMES = 90
PACKAGES = (
    "standfast",
    *("standfast.adapters", "standfast.bench", "standfast.client", "standfast.govern", "standfast.ledger"),
    "standfast.memory",
    *("standfast.optimize", "standfast.policies", "standfast.recall", "standfast.store", "standfast.traces"),
)


def test_the_top_package_exports_few_names_and_all_of_them_are_of_the_core() -> None:
    outside = ("adapters", "bench", "client", "optimize", "server")
    modules = modules_of_names(standfast.__file__)

    assert len(modules) <= MOST_NAMES
    assert [name for name, module in modules.items() if module.split(".")[1] in outside] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_exists_and_has_a_docstring(package: str) -> None:
    module = import_module(package)
    values = {name: getattr(module, name) for name in dir(module)}

    assert {name for name in values if name.startswith("_")} == set()
    public = {name: one for name, one in values.items() if isinstance(one, type | types.FunctionType)}
    assert [name for name, one in public.items() if not one.__doc__] == []


def test_other_names_are_not_exported() -> None:
    assert not hasattr(standfast, "msgspec")
    assert not hasattr(standfast, "Value")
    assert standfast.__version__.count(".") == 2


def test_a_star_import_brings_the_listed_names() -> None:
    brought: dict[str, object] = {}
    exec("from standfast import *", brought)

    assert sorted(set(brought) - {"__builtins__"}) == dir(standfast)


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = (
        "import sys, standfast; print(*sorted(name for name in sys.modules if name.startswith('standfast')))"
    )
    result = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)

    assert result.stdout.split() == ["standfast", "standfast.lazy_names"]
