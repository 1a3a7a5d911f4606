"""What can be imported from ``standfast.optimize``."""

import subprocess
import sys

import pytest

import standfast.optimize


@pytest.mark.parametrize("name", dir(standfast.optimize))
def test_every_public_name_can_be_imported(name: str) -> None:
    value = getattr(standfast.optimize, name)

    assert value.__name__ == name or callable(value)
    assert value.__module__.startswith("standfast.optimize.")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        standfast.optimize.no_such_name  # type: ignore[attr-defined]  # noqa: B018  # Reading it is the test.


def test_importing_the_package_loads_no_backend() -> None:
    code = (
        "import sys, standfast.optimize; print([m for m in ('redis', 'boto3', 'openai', 'msgspec') if m in"
        " sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
