"""Makes mutants: copies of a module's source with one small change each.

A mutant is named by module, function, operator and the changed line rather than by line number, so that the
list of equivalent mutants survives edits elsewhere in the file.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}
_STRINGS: Final = {"ignore": "replace", "replace": "ignore"}

_Site = tuple[str, int, str, Callable[[], None]]
"""Qualified function name, line number, operator, and what applies the change to the tree."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed copy of a module."""

    module: str
    function: str
    operator: str
    line_number: int
    line: str
    original: str
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
    def source(self) -> str:
        """The changed copy."""
        tree = ast.parse(self.original)
        *_, apply = list(_sites(tree))[self.position]
        apply()
        return ast.unparse(ast.fix_missing_locations(tree))


def mutants_of(module: str, source: str) -> Iterator[Mutant]:
    """Yields every mutant of a module, in source order."""
    lines = source.splitlines()
    seen: Counter[tuple[str, str, str]] = Counter()
    for position, (function, number, operator, _) in enumerate(_sites(ast.parse(source))):
        same = function, operator, lines[number - 1].strip()
        seen[same] += 1
        yield Mutant(module, *same[:2], number, same[2], source, position, seen[same])


def _sites(tree: ast.Module) -> Iterator[_Site]:
    yield from _in_block(tree.body, "module")


def _in_block(block: list[ast.stmt], function: str) -> Iterator[_Site]:
    for position, statement in enumerate(block):
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = statement.name if function == "module" else f"{function}.{statement.name}"
            if statement.name != "__repr__":
                yield from _in_block(statement.body, inner)
            continue
        if function == "module" or isinstance(statement, ast.Assert | ast.Import | ast.ImportFrom):
            # Module-level tables are data; asserts state what callers must not do.
            continue
        if _can_be_dropped(statement):
            yield function, statement.lineno, "drop statement", _replace(block, position, ast.Pass())
        if isinstance(statement, ast.Break):
            yield function, statement.lineno, "break -> continue", _replace(block, position, ast.Continue())
        for child in _own_expressions(statement):
            for node in ast.walk(child):
                yield from _in_expression(node, function)
        for inner_block in _blocks(statement):
            yield from _in_block(inner_block, function)


def _in_expression(node: ast.AST, function: str) -> Iterator[_Site]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARISONS:
            changed = _COMPARISONS[type(operator)]()
            yield _site(node, function, operator, changed, _set(node, "ops", [changed]))
        case ast.BinOp(op=operator) if type(operator) in _ARITHMETIC:
            other = _ARITHMETIC[type(operator)]()
            yield _site(node, function, operator, other, _set(node, "op", other))
        case ast.BoolOp(op=ast.And()):
            yield function, node.lineno, "and -> or", _set(node, "op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield function, node.lineno, "or -> and", _set(node, "op", ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield function, node.lineno, "not x -> bool(x)", _set(node, "op", ast.UAdd())
        case ast.IfExp(test=test):
            negated = ast.UnaryOp(ast.Not(), test)
            yield function, node.lineno, "negate condition", _set(node, "test", negated)
        case ast.Constant(value=bool(value)):
            yield function, node.lineno, f"{value} -> {not value}", _set(node, "value", not value)
        case ast.Constant(value=int(value)) if -1 <= value <= 100:
            yield function, node.lineno, f"{value} -> {value + 1}", _set(node, "value", value + 1)
        case ast.Constant(value=str(value)) if value in _STRINGS:
            yield function, node.lineno, f"{value} -> {_STRINGS[value]}", _set(node, "value", _STRINGS[value])
        case ast.Call(func=ast.Name(id=name) as called) if name in _CALLS:
            yield function, node.lineno, f"{name}() -> {_CALLS[name]}()", _set(called, "id", _CALLS[name])


def _site(node: ast.expr, function: str, old: ast.AST, new: ast.AST, apply: Callable[[], None]) -> _Site:
    return function, node.lineno, f"{type(old).__name__} -> {type(new).__name__}", apply


def _can_be_dropped(statement: ast.stmt) -> bool:
    """Whether removing the statement leaves a program that runs: calls, and changes of existing state."""
    match statement:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
        case ast.If(body=[ast.Raise() | ast.Return()], orelse=[]):
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


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for handler in getattr(statement, "handlers", []):
        yield handler.body
    for case in getattr(statement, "cases", []):
        yield case.body


def _set(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, field, value)


def _replace(block: list[ast.stmt], position: int, statement: ast.stmt) -> Callable[[], None]:
    return lambda: block.__setitem__(position, ast.copy_location(statement, block[position]))
