"""``records/conversion.py``: threads that convert to a type for the first time do not disturb each other."""

import ast
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from standfast.errors import InvalidValue
from standfast.records.conversion import converted, decoded
from standfast.records.vocabulary import Value

SOURCE = Path(__file__).parents[1] / "src" / "standfast"
MANY_TYPES = """
import sys, threading
import msgspec
from standfast.records.conversion import converted, decoded

sys.setswitchinterval(1e-6)
for number in range(150):
    part = msgspec.defstruct("Part", [(f"field_{place}", "int | str | None", None) for place in range(30)])
    whole = msgspec.defstruct("Whole", [("parts", list[part]), ("more", dict[str, part])])
    together = threading.Barrier(4)

    def convert() -> None:
        together.wait()
        assert converted({"parts": [{}], "more": {}}, whole).parts
        assert decoded(b'{"parts": [{}], "more": {}}', whole).parts

    threads = [threading.Thread(target=convert) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("done")
"""


class Point(msgspec.Struct):
    """A place."""

    x: int


class Asked(Value, frozen=True, kw_only=True):
    """A request."""

    query: str
    tokens: int = 0
    where: Point | None = None


def test_values_are_converted_and_wrong_ones_refused() -> None:
    assert converted({"x": 1}, Point) == decoded(b'{"x": 1}', Point) == Point(1)
    assert converted({"x": "1"}, Point, strict=False) == Point(1)
    with pytest.raises(msgspec.ValidationError):
        converted({"x": "1"}, Point)


def test_a_field_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    for plain, problem in (
        ({"quary": "a"}, "Asked is invalid: there is no field quary; did you mean query?"),
        ({"text": "a"}, "Asked is invalid: there is no field text; there are query, tokens, where"),
    ):
        with pytest.raises(InvalidValue) as refused:
            Asked.from_json(plain)
        assert str(refused.value) == problem


def test_threads_that_convert_to_a_new_type_at_once_do_not_crash() -> None:
    """By itself, msgspec ends the program here with a segmentation fault."""
    ran = subprocess.run([sys.executable, "-c", MANY_TYPES], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout.strip()) == (0, "done"), ran.stderr[-2_000:]


def test_nothing_else_decodes_into_types_when_it_is_called() -> None:
    """Lint bans ``msgspec.convert``; this finds ``msgspec.json.decode(…, type=…)`` with types of ours."""
    found = [
        f"{file.relative_to(SOURCE)}:{node.lineno}"
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "msgspec.json.decode"
        and any(word.arg == "type" and "float" not in ast.unparse(word.value) for word in node.keywords)
    ]

    assert [one for one in found if not one.startswith("records/conversion.py")] == []
