"""Makes mutants: copies of a module's source with one small change each.

A mutant is named by module, function, operator and the changed line rather than by line number, so that the
list of equivalent mutants survives edits elsewhere in the file.
"""

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_STRINGS: Final = {"ignore": "replace", "replace": "ignore"}
# A condition of a WHERE clause up to the next one, and all but the first column of an ORDER BY.
_SQL_CONDITION: Final = re.compile(
    r"(?<= AND )(?!\()[\w. ]+(?:=|<=|>=|<|>|IS NULL|IS NOT NULL)(?: [\w.?%:]+)?(?= AND | OR | ORDER |\)| LIMIT |$)"  # noqa: E501  # A pattern is read as a whole.
)
_SQL_ORDER: Final = re.compile(r"(?<=ORDER BY )(\w[\w. ]*(?:, \w[\w. ]*)*), \w+")

_Change = tuple[int, str, Callable[[], None]]
"""Line number, operator, and what applies the change to the tree."""
Signatures = Mapping[str, Sequence[tuple[str, str]]]
"""The parameters of functions and classes by name: the name and the annotation of each, in order."""


@dataclass(frozen=True, slots=True)
class Block:
    """Statements that run one after the other, unless one of them raises."""

    function: str
    """The function or class that it belongs to, with those around it; ``module`` outside of them."""
    place: str
    """Identifies the block in its module; empty for what runs while the module is imported."""
    statements: list[ast.stmt]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed copy of a module."""

    module: str
    function: str
    operator: str
    line_number: int
    line: str
    original: str
    signatures: Signatures
    place: str
    """The block in which it changes something."""
    position: int
    """Which of the places that can be changed this one is, counted from 0."""
    occurrence: int
    """Which of the equal changes of equal lines of the function it is, counted from 1."""

    @property
    def name(self) -> str:
        """Identifies the mutant; contains no line number."""
        which = "" if self.occurrence == 1 else f" [{self.occurrence}]"
        return f"{self.module} | {self.function} | {self.operator} | {self.line}{which}"

    @property
    def tree(self) -> ast.Module:
        """The changed copy, parsed; its other lines have the numbers that they had."""
        tree = ast.parse(self.original)
        _, (_, _, apply) = _changes(tree, self.signatures)[self.position]
        apply()
        return ast.fix_missing_locations(tree)

    @property
    def source(self) -> str:
        """The changed copy."""
        return ast.unparse(self.tree)


def mutants_of(module: str, source: str, signatures: Signatures | None = None) -> Iterator[Mutant]:
    """Yield every mutant of a module, in source order.

    Args:
        signatures: Of all functions that it may call; by default of its own.
    """
    lines = source.splitlines()
    seen: Counter[tuple[str, str, str]] = Counter()
    known = signatures_in([source]) if signatures is None else signatures
    for position, (block, (number, operator, _)) in enumerate(_changes(ast.parse(source), known)):
        same = block.function, operator, lines[number - 1].strip()
        seen[same] += 1
        yield Mutant(module, *same[:2], number, same[2], source, known, block.place, position, seen[same])


def signatures_in(sources: Sequence[str]) -> Signatures:
    """The parameters of functions and the fields of classes whose name means one thing in these sources."""
    found: dict[str, list[tuple[str, str]]] = {}
    clashing: set[str] = set()
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
                    listed = [*args.posonlyargs, *args.args, *args.kwonlyargs]
                    pairs = [(one.arg, ast.unparse(one.annotation)) for one in listed if one.annotation]
                case ast.ClassDef(name=name, body=body):
                    fields = [one for one in body if isinstance(one, ast.AnnAssign)]
                    pairs = [(ast.unparse(one.target), ast.unparse(one.annotation)) for one in fields]
                case _:
                    continue
            if found.setdefault(name, pairs) != pairs:
                clashing.add(name)
    return {name: pairs for name, pairs in found.items() if name not in clashing}


def blocks_of(tree: ast.Module) -> Iterator[Block]:
    """Yield the blocks of a module, each before those inside it."""
    yield from _blocks_in(tree.body, "module", Counter(), is_imported=True)


def _blocks_in(
    statements: list[ast.stmt], function: str, numbers: Counter[str], *, is_imported: bool
) -> Iterator[Block]:
    place = "" if is_imported else f"{function}#{numbers[function]}"
    numbers[function] += 1
    yield Block(function, place, statements)
    for statement in list(statements):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = statement.name if function == "module" else f"{function}.{statement.name}"
            if statement.name != "__repr__":
                is_class = isinstance(statement, ast.ClassDef)
                yield from _blocks_in(statement.body, inner, numbers, is_imported=is_imported and is_class)
            continue
        for block in _inner_blocks(statement):
            yield from _blocks_in(block, function, numbers, is_imported=is_imported)


def _changes(tree: ast.Module, signatures: Signatures) -> list[tuple[Block, _Change]]:
    found = [(block, change) for block in blocks_of(tree) for change in _in_block(block, signatures)]
    return sorted(found, key=lambda pair: pair[1][0])


def _in_block(block: Block, signatures: Signatures) -> Iterator[_Change]:
    for position, statement in enumerate(block.statements):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if block.function == "module" or isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom):
            # Module-level tables are data, apart from SQL; asserts state what callers must not do.
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                for node in ast.walk(statement):
                    yield from _in_sql(node)
            continue
        if _can_be_dropped(statement):
            yield statement.lineno, "drop statement", _replace(block.statements, position, ast.Pass())
        if isinstance(statement, ast.Break):
            yield statement.lineno, "break -> continue", _replace(block.statements, position, ast.Continue())
        for child in _own_expressions(statement):
            for node in _walk(child):
                yield from _in_expression(node)
                yield from _in_operands(node)
                yield from _in_call(node, signatures)
                yield from _in_sql(node)


def _walk(child: ast.expr) -> Iterator[ast.AST]:
    """The nodes of an expression, without ``strict=True`` of ``zip``, which is an assert."""
    strict = {
        node.value for node in ast.walk(child) if isinstance(node, ast.keyword) and node.arg == "strict"
    }
    return (node for node in ast.walk(child) if node not in strict)


def _in_expression(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            changed = _COMPARISONS[type(operator)]()
            yield node.lineno, _named(operator, changed), _set(node, "ops", [changed])
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC:
            other = _ARITHMETIC[type(operator)]()
            yield node.lineno, _named(operator, other), _set(node, "op", other)
        case ast.BoolOp(op=ast.And()):
            yield node.lineno, "and -> or", _set(node, "op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield node.lineno, "or -> and", _set(node, "op", ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield node.lineno, "not x -> bool(x)", _set(node, "op", ast.UAdd())
        case ast.IfExp(test=test):
            negated = ast.UnaryOp(ast.Not(), test)
            yield node.lineno, "negate condition", _set(node, "test", negated)
        case ast.Constant(value=bool(value)):
            yield node.lineno, f"{value} -> {not value}", _set(node, "value", not value)
        case ast.Constant(value=int(value)) if -1 <= value <= 100:
            yield node.lineno, f"{value} -> {value + 1}", _set(node, "value", value + 1)
        case ast.Constant(value=str(value)) if value in _STRINGS:
            yield node.lineno, f"{value} -> {_STRINGS[value]}", _set(node, "value", _STRINGS[value])
        case ast.Call(func=ast.Name(id=name) as called) if name in _CALLS:
            yield node.lineno, f"{name}() -> {_CALLS[name]}()", _set(called, "id", _CALLS[name])


def _in_operands(node: ast.AST) -> Iterator[_Change]:
    """Drop one of several: an operand, a filter of a comprehension, a part of a key that orders."""
    match node:
        case ast.BoolOp(values=values):
            for number, operand in enumerate(values):
                rest = values[:number] + values[number + 1 :]
                yield operand.lineno, f"drop operand {number + 1}", _set(node, "values", rest)
        case ast.comprehension(ifs=filters):
            for number, one in enumerate(filters):
                rest = filters[:number] + filters[number + 1 :]
                yield one.lineno, f"drop filter {number + 1}", _set(node, "ifs", rest)
        case ast.keyword(arg="key", value=ast.Lambda(body=ast.Tuple(elts=parts) as key)) if len(parts) > 1:
            for number, part in enumerate(parts):
                rest = parts[:number] + parts[number + 1 :]
                yield part.lineno, f"drop part {number + 1} of the key", _set(key, "elts", rest)
        case ast.Compare(ops=[ast.Lt() | ast.Gt() | ast.LtE() | ast.GtE()]) if _are_keys(node):
            left, right = node.left, node.comparators[0]
            assert isinstance(left, ast.Tuple)
            assert isinstance(right, ast.Tuple)
            for number in range(len(left.elts)):
                yield node.lineno, f"drop part {number + 1} of the key", _without(left, right, number)


def _are_keys(node: ast.Compare) -> bool:
    """Whether two tuples of the same length are compared."""
    sides = [node.left, *node.comparators]
    lengths = {len(side.elts) if isinstance(side, ast.Tuple) else 0 for side in sides}
    return len(lengths) == 1 and min(lengths) > 1


def _in_call(node: ast.AST, signatures: Signatures) -> Iterator[_Change]:
    """Swap two arguments whose parameters have one type; use the first operand for ``min`` and ``max``."""
    if not isinstance(node, ast.Call):
        return
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in ("min", "max") and len(node.args) > 1 and not isinstance(node.args[0], ast.Starred):
        yield node.lineno, f"{called}() -> its first operand", _become(node, node.args[0])
    parameters = list(signatures.get(called, ()))
    types = dict(parameters)
    given: list[tuple[ast.AST, str, str]] = [
        (node, str(number), parameters[number][1])
        for number, argument in enumerate(node.args[: len(parameters)])
        if not isinstance(argument, ast.Starred)
    ]
    given += [
        (one, "value", types[one.arg]) for one in node.keywords if one.arg is not None and one.arg in types
    ]
    for first, second in pairwise(given):
        if first[2] == second[2] and ast.dump(_argument(*first[:2])) != ast.dump(_argument(*second[:2])):
            yield node.lineno, "swap two arguments", _swapped(first[:2], second[:2])


def _in_sql(node: ast.AST) -> Iterator[_Change]:
    """Let a condition of a query always hold; drop the last part of an order."""
    if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        return
    text = node.value
    for found in _SQL_CONDITION.finditer(text):
        changed = f"{text[: found.start()]}({found[0]} OR 1=1){text[found.end() :]}"
        yield node.lineno, f"drop condition {found[0].strip()}", _set(node, "value", changed)
    for found in _SQL_ORDER.finditer(text):
        changed = text[: found.end(1)] + text[found.end() :]
        yield node.lineno, f"drop the last part of {found[0].strip()}", _set(node, "value", changed)


def _named(old: ast.AST, new: ast.AST) -> str:
    return f"{type(old).__name__} -> {type(new).__name__}"


def _can_be_dropped(statement: ast.stmt) -> bool:
    """Whether removing the statement leaves a program that runs: calls, changes of existing state, guards."""
    match statement:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.If(body=[*_, ast.Raise() | ast.Return() | ast.Continue() | ast.Break()], orelse=[]):
            return True
        case _:
            return False


def _own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself: not of its blocks, annotations or error messages."""
    match statement:
        case ast.Raise():
            return
        case ast.AnnAssign(value=value):
            if value is not None:
                yield value
        case ast.Expr(value=ast.Constant()):
            return
        case _:
            yield from (child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr))
            for item in getattr(statement, "items", []):
                yield item.context_expr
            for case in getattr(statement, "cases", []):
                if case.guard is not None:
                    yield case.guard


def _inner_blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    named = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    handlers = [handler.body for handler in getattr(statement, "handlers", [])]
    cases = [case.body for case in getattr(statement, "cases", [])]
    yield from (block for block in [*named, *handlers, *cases] if block)


def _set(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def _replace(block: list[ast.stmt], position: int, statement: ast.stmt) -> Callable[[], None]:
    return lambda: block.__setitem__(position, ast.copy_location(statement, block[position]))


def _without(left: ast.Tuple, right: ast.Tuple, number: int) -> Callable[[], None]:
    def apply() -> None:
        del left.elts[number], right.elts[number]

    return apply


def _become(call: ast.Call, value: ast.expr) -> Callable[[], None]:
    """Replace a call by a value, without knowing what holds the call: the identity of one argument."""

    def apply() -> None:
        call.func = ast.Lambda(
            args=ast.arguments(
                posonlyargs=[], args=[ast.arg("given")], kwonlyargs=[], kw_defaults=[], defaults=[]
            ),
            body=ast.Name("given", ast.Load()),
        )
        call.args, call.keywords = [value], []

    return apply


def _argument(holder: ast.AST, which: str) -> ast.expr:
    if isinstance(holder, ast.Call):
        return holder.args[int(which)]
    assert isinstance(holder, ast.keyword)
    return holder.value


def _put(holder: ast.AST, which: str, value: ast.expr) -> None:
    if isinstance(holder, ast.Call):
        holder.args[int(which)] = value
    else:
        assert isinstance(holder, ast.keyword)
        holder.value = value


def _swapped(first: tuple[ast.AST, str], second: tuple[ast.AST, str]) -> Callable[[], None]:
    def apply() -> None:
        one, other = _argument(*first), _argument(*second)
        _put(*first, other)
        _put(*second, one)

    return apply
