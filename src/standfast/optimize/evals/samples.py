"""Samples and datasets that prompts are evaluated on; read from files of our form, promptfoo's and DSPy's."""

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from standfast.errors import MissingExtra, StandfastError
from standfast.optimize.errors import EvalError
from standfast.optimize.evals.evaluators import Assertions
from standfast.optimize.evals.exchanges import Grades, exchanges_of, expected_of
from standfast.records.canon import fingerprint, parse
from standfast.records.scopes import SHARED
from standfast.records.vocabulary import Value
from standfast.traces.artifact import Trace

InputT = TypeVar("InputT")
ExpectedT = TypeVar("ExpectedT")


class Sample(Value, Generic[InputT, ExpectedT], frozen=True, kw_only=True):
    """One input with the expected output.

    If the input is an object, its members are the prompt's parameters.

    Args:
        must_pass: A prompt that loses this sample is rejected, however well it does on the others.
        scope: The scope of memory that the sample's request reads, such as ``user/ada``.
    """

    id: str
    input: InputT
    expected: ExpectedT
    must_pass: bool = False
    scope: str | None = None

    def __post_init__(self) -> None:
        self._require_name("id", self.id)

    @property
    def params(self) -> dict[str, Any]:
        """The prompt's parameters: the input's members, or the input itself under the name ``input``."""
        return dict(self.input) if isinstance(self.input, dict) else {"input": self.input}

    @property
    def digest(self) -> str:
        """The hash of input, expected output and scope, without the id."""
        placed = [] if self.scope is None else [self.scope]
        return fingerprint(["sample/v1", self.input, self.expected, *placed])


class Dataset(Value, Generic[InputT, ExpectedT], frozen=True, kw_only=True):
    """Samples with unique ids."""

    samples: tuple[Sample[InputT, ExpectedT], ...]

    def __post_init__(self) -> None:
        ids = [sample.id for sample in self.samples]
        self._require(len(set(ids)) == len(ids), "two samples have the same id")

    @classmethod
    def of(cls, rows: "DatasetLike") -> "Dataset[Any, Any]":
        """Make a dataset of what is at hand.

        A row is a ``Sample``, a pair of input and expected output, or a mapping with ``expected``; its other
        members are the prompt's parameters, or ``input`` holds them. ``id``, ``must_pass`` and ``scope`` may
        be given as well. A mapping from inputs to expected outputs will do, too.

        Raises:
            EvalError: A row is something else. The message says which.
        """
        if isinstance(rows, Dataset):
            return rows
        pairs = list(rows.items()) if isinstance(rows, Mapping) else rows
        if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable):
            problem = f"pass a Dataset or a list of rows, not {rows!r:.60}; read_dataset reads a file"
            raise EvalError("invalid_dataset", dataset="given", problem=problem)
        return cls(samples=tuple(_sample_of(row, number) for number, row in enumerate(pairs, 1)))

    @classmethod
    def from_traces(cls, traces: Iterable[Trace], *, grades: Grades) -> "Dataset[Any, Any]":
        """Make samples of what an agent was really asked.

        A good answer is what is expected; a bad one needs a correction, and is left out without one; so does
        an answer that was cut off. Left out are also what nobody graded, and every evaluation. A sample has
        the request's scope, so that it recalls what the request could.

        Args:
            traces: Of the agent's runs, such as ``memory.traces.traces()``.
            grades: By run id, such as ``GradeBook(file).grades()``, or a function that grades an exchange.
        """
        graded = [(one, expected_of(one, grades)) for one in exchanges_of(traces)]
        return cls(
            samples=tuple(
                Sample(
                    id=one.run_id,
                    input=one.input,
                    expected=expected,
                    scope=None if one.scope == SHARED else one.scope,
                )
                for one, expected in graded
                if expected is not None
            )
        )

    def distinct(self) -> "Dataset[InputT, ExpectedT]":
        """Return the samples that differ in input, expected output or scope; the first of each.

        The same sample twice is one observation, not two. It must pass if one of its copies must.
        """
        must = {sample.digest for sample in self.samples if sample.must_pass}
        first: dict[str, Sample[InputT, ExpectedT]] = {}
        for sample in self.samples:
            first.setdefault(sample.digest, sample)
        if len(first) == len(self.samples):
            return self
        return Dataset(
            samples=tuple(
                msgspec.structs.replace(sample, must_pass=digest in must) for digest, sample in first.items()
            )
        )

    def __len__(self) -> int:
        return len(self.samples)

    def __iter__(self) -> Iterator[Sample[InputT, ExpectedT]]:
        return iter(self.samples)

    @property
    def digest(self) -> str:
        """The hash of all samples, independent of their order."""
        marked = sorted(self.must_pass)
        return fingerprint(
            [
                "dataset/v1",
                sorted([sample.id, sample.digest] for sample in self.samples),
                *([marked] if marked else []),
            ]
        )

    @property
    def must_pass(self) -> frozenset[str]:
        """The ids of the samples that must pass."""
        return frozenset(sample.id for sample in self.samples if sample.must_pass)

    def split(self, share: float) -> "tuple[Dataset[InputT, ExpectedT], Dataset[InputT, ExpectedT]]":
        """Split into a part to choose candidates by, and a held-out part of exactly this share.

        A hash of each sample's id decides, so the order of the samples does not matter, and few samples
        change sides when others are added.
        """
        ranked = sorted(
            (sample.id for sample in self.samples),
            key=lambda name: (fingerprint(["held-out/v1", name]), name),
        )
        held_out = set(ranked[: round(share * len(ranked))])
        return (
            Dataset(samples=tuple(sample for sample in self.samples if sample.id not in held_out)),
            Dataset(samples=tuple(sample for sample in self.samples if sample.id in held_out)),
        )


DatasetLike = Dataset[Any, Any] | Mapping[str, Any] | Iterable[Any]
"""A dataset, or rows that ``Dataset.of`` makes one of."""
_ABOUT_SAMPLE: Final = frozenset({"id", "expected", "must_pass", "scope"})


def _sample_of(row: Any, number: int) -> Sample[Any, Any]:
    """Return a row as a sample; without an id it is named by its number."""
    match row:
        case Sample():
            return row
        case Mapping() if "expected" in row:
            rest = {name: value for name, value in row.items() if name not in _ABOUT_SAMPLE}
            return Sample(
                id=str(row.get("id", f"row-{number}")),
                input=rest["input"] if rest.keys() == {"input"} else rest,
                expected=row["expected"],
                must_pass=row.get("must_pass", False),
                scope=row.get("scope"),
            )
        case (given, expected):
            return Sample(id=f"row-{number}", input=given, expected=expected)
    problem = f"row {number} must be a Sample, a pair, or a mapping with expected, not {row!r:.60}"
    raise EvalError("invalid_dataset", dataset="given", problem=problem)


_EXPECTED_COLUMN: Final = "__expected"


def read_dataset(file: str | os.PathLike[str], *, inputs: Sequence[str] = ()) -> Dataset[Any, Any]:
    """Read a dataset from a file; its form is recognised by its content.

    - Lines with ``id``, ``input`` and ``expected``: our own form.
    - promptfoo: a YAML or JSON file with ``tests``, or a CSV file with an ``__expected`` column. What is
      expected becomes a list of assertions: grade with ``Assertions()``. ``defaultTest`` is added to each.
    - Examples as DSPy uses them: rows of named fields. ``inputs`` names those that the prompt gets; the rest
      is expected.

    Raises:
        EvalError: The file can't be read, or something in it has no counterpart here; it says where.
    """
    path = Path(file)
    try:
        if path.suffix in (".yaml", ".yml"):
            return _promptfoo(_yaml(path))
        if path.suffix == ".csv":
            return _table(path, inputs)
        content = path.read_bytes()
        whole = _json(content)
        if isinstance(whole, dict) and "tests" in whole:
            return _promptfoo(whole)
        rows = _numbered(whole) if isinstance(whole, list) else list(_lines(content))
        return _rows(rows, inputs)
    except MissingExtra:
        raise
    except (OSError, UnicodeDecodeError, StandfastError, _Unreadable) as error:
        raise EvalError("invalid_dataset", dataset=os.fspath(file), problem=str(error)) from None


def is_graded_by_assertions(dataset: Dataset[Any, Any]) -> bool:
    """Whether the samples expect assertions, as those of promptfoo do."""
    return len(dataset) > 0 and all(Assertions.understands(sample.expected) for sample in dataset)


class _Unreadable(Exception):
    """Something in the file that has no counterpart here."""


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None  # Several lines, each an object, are no single JSON value.


def _lines(content: bytes) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(content.splitlines(), 1):
        if line.strip():
            try:
                yield f"line {number}", parse(line)
            except StandfastError as error:
                raise _Unreadable(f"line {number}: {error}") from None


def _numbered(rows: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(f"row {number}", row) for number, row in enumerate(rows, 1)]


def _yaml(path: Path) -> Any:
    try:
        import yaml  # noqa: PLC0415  # Part of an extra.
    except ImportError:
        raise MissingExtra(feature="Reading YAML", extra="bench") from None
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise _Unreadable(str(error)) from None


def _promptfoo(config: Any) -> Dataset[Any, Any]:
    tests = config.get("tests") if isinstance(config, dict) else config
    if not isinstance(tests, list):
        raise _Unreadable("tests must be a list in the same file; a path to another file is not followed")
    defaults = config.get("defaultTest") or {} if isinstance(config, dict) else {}
    samples = []
    for number, test in enumerate(tests, 1):
        if not isinstance(test, dict) or not isinstance(defaults, dict):
            raise _Unreadable(f"test {number} and defaultTest must be objects with vars and assert")
        checks = [*(defaults.get("assert") or ()), *(test.get("assert") or ())]
        samples.append(
            Sample(
                id=f"test-{number}",
                input={**(defaults.get("vars") or {}), **(test.get("vars") or {})},
                expected=[_assertion(check, f"test {number}") for check in checks],
            )
        )
    return Dataset(samples=tuple(samples))


def _assertion(check: Any, where: str) -> dict[str, Any]:
    kind = check.get("type") if isinstance(check, dict) else None
    assertion = {"type": kind, "value": check.get("value")} if isinstance(check, dict) else {}
    if not Assertions.understands([assertion]):
        known = ", ".join(Assertions.KINDS)
        raise _Unreadable(
            f"{where} has the assertion {kind!r:.60}, which can't be graded here; known are {known}"
        )
    return assertion


def _table(path: Path, inputs: Sequence[str]) -> Dataset[Any, Any]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    if not rows or not any(name.startswith(_EXPECTED_COLUMN) for name in rows[0]):
        return _rows(_numbered(rows), inputs)
    samples = []
    for number, row in enumerate(rows, 1):
        expected = [value for name, value in row.items() if name.startswith(_EXPECTED_COLUMN) and value]
        fields = {name: value for name, value in row.items() if not name.startswith("__")}
        checks = [_assertion(_from_column(text), f"row {number}") for text in expected]
        samples.append(Sample(id=f"test-{number}", input=fields, expected=checks))
    return Dataset(samples=tuple(samples))


def _from_column(text: str) -> dict[str, Any]:
    """Return the assertion that a CSV column writes as ``type: value``; a plain text must be equal."""
    kind, colon, value = text.partition(":")
    if not colon or not Assertions.understands([{"type": kind, "value": ""}]):
        return {"type": "equals", "value": text}
    value = value.strip()
    listed = kind.removeprefix("not-").endswith(("-all", "-any"))
    return {"type": kind, "value": [part.strip() for part in value.split(",")] if listed else value}


def _rows(rows: Sequence[tuple[str, Any]], inputs: Sequence[str]) -> Dataset[Any, Any]:
    samples: list[Sample[Any, Any]] = []
    for number, (where, row) in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise _Unreadable(f"{where} must be an object, not {row!r:.60}")
        try:
            samples.append(_example(row, inputs, where, number) if inputs else _own(row, where))
        except StandfastError as error:
            raise _Unreadable(f"{where}: {error}") from None
    return Dataset(samples=tuple(samples))


def _example(row: dict[str, Any], inputs: Sequence[str], where: str, number: int) -> Sample[Any, Any]:
    missing = [name for name in inputs if name not in row]
    if missing:
        raise _Unreadable(f"{where} has no field {', '.join(missing)}; it has {', '.join(row)}")
    rest = {name: value for name, value in row.items() if name not in inputs and name != "id"}
    if not rest:
        raise _Unreadable(f"{where} has no field besides the inputs, so nothing is expected")
    expected = next(iter(rest.values())) if len(rest) == 1 else rest
    sample_id = str(row.get("id", f"row-{number}"))
    return Sample(id=sample_id, input={name: row[name] for name in inputs}, expected=expected)


def _own(row: dict[str, Any], where: str) -> Sample[Any, Any]:
    if not {"id", "input", "expected"} <= row.keys() <= {"input", *_ABOUT_SAMPLE}:
        problem = (
            f"{where} has the fields {', '.join(row)}; it needs id, input and expected, or say which fields"
            " are inputs"
        )
        raise _Unreadable(problem)
    return Sample.from_json(row)
