"""Types of a GraphQL schema, and messages and services of protobuf files.

GraphQL: each object, interface, input, enum and union is one operation of the interface, its parameters are
its fields, values or members; a field with arguments is one of its own. Protobuf: each message and enum is
one, and each method of a service. Types are compared without an outer ``!``; an input's non-null field
without a default is required, and so is proto2's ``required``.

GraphQL is read by graphql-core, in the extra ``bench``. Protobuf files are read here: protoc needs every file
that they import, which a history may not have, and the parsers on the package index read invalid files
without an error.
"""

import re
from importlib import import_module
from typing import Any, Final

from standfast.bench.sources.interfaces import ApiOperation
from standfast.errors import BadFile, MissingExtra

_PROTO_TOKEN: Final = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[.]?[_A-Za-z][\w.]*|-?[0-9][\w.+-]*|\S',
    re.DOTALL,
)
_OPEN: Final = {"{": "}", "(": ")", "[": "]", "<": ">"}
_PROTO_LABELS: Final = frozenset(("optional", "required", "repeated"))
_DEPRECATED: Final = "deprecated"


class _Tokens:
    """A list of tokens with a place in it."""

    def __init__(self, tokens: list[str], name: str) -> None:
        self.words = tokens
        self._name = name
        self.at = 0

    @property
    def next(self) -> str:
        """The next token; empty at the end."""
        return self.words[self.at] if self.at < len(self.words) else ""

    def take(self, expected: str = "") -> str:
        """Return the next token and move on."""
        token = self.next
        if not token or (expected and token != expected):
            wanted = repr(expected) if expected else "more"
            problem = (
                f"it can't be read: {wanted} expected at"
                f" {' '.join(self.words[self.at - 5 : self.at + 1])!r:.80}"
            )
            raise BadFile(file=self._name, problem=problem)
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Move on if this is the next token."""
        if self.next == token:
            self.at += 1
            return True
        return False

    def skip_group(self) -> list[str]:
        """Return what is between the bracket that is next and its end, and move behind it."""
        start = self.at + 1
        closing = [_OPEN[self.take()]]
        while closing:
            token = self.take()
            if token == closing[-1]:
                closing.pop()
            elif token in _OPEN:
                closing.append(_OPEN[token])
        return self.words[start : self.at - 1]


class _Fields:
    """The fields of one type, while they are read."""

    def __init__(self) -> None:
        self.types: dict[str, str] = {}
        self.required: set[str] = set()
        self.deprecated: set[str] = set()
        self.whole_deprecated = False

    def extend(self, known: ApiOperation) -> None:
        """Add the fields of the same type from another place of the file."""
        self.types = {field: known.types.get(field, "") for field in sorted(known.params)} | self.types
        self.required |= known.required
        self.deprecated |= known.deprecated_params
        self.whole_deprecated |= known.deprecated

    def operation(self, name: str) -> ApiOperation:
        """Return the type that was read."""
        return ApiOperation(
            name=name,
            params=frozenset(self.types),
            required=frozenset(self.required),
            deprecated=self.whole_deprecated,
            enums={},
            types={field: said for field, said in self.types.items() if said},
            deprecated_params=frozenset(self.deprecated),
        )


def read_graphql(content: bytes, path: str, prefix: str) -> dict[str, ApiOperation]:
    """Return the types of a GraphQL schema in its definition language."""
    try:
        graphql: Any = import_module("graphql")
    except ImportError:
        raise MissingExtra(feature="Reading GraphQL", extra="bench") from None
    try:
        document = graphql.parse(content.decode("utf-8", "replace").lstrip("\ufeff"), no_location=True)
    except (graphql.GraphQLError, RecursionError) as error:
        problem = str(getattr(error, "message", error))
        raise BadFile(file=path, problem=f"it can't be read: {problem}") from None
    found: dict[str, ApiOperation] = {}
    for definition in document.definitions:
        # ``object_type_extension`` and the like add to a type.
        kind = definition.kind.removesuffix("_definition").removesuffix("_extension").removesuffix("_type")
        if kind not in ("object", "interface", "input_object", "enum", "union"):
            continue
        name = f"{prefix}:{definition.name.value}"
        one = _graphql_type(definition, kind, name, found)
        if name in found:
            one.extend(found[name])
        found[name] = one.operation(name)
    if not found:
        raise BadFile(file=path, problem="it is not a GraphQL schema: it defines no type")
    return found


def _graphql_type(definition: Any, kind: str, name: str, found: dict[str, ApiOperation]) -> _Fields:
    fields = _Fields()
    fields.whole_deprecated = _is_deprecated(definition)
    if kind == "union":
        fields.types = {member.name.value: "" for member in definition.types or ()}
        return fields
    if kind == "enum":
        for value in definition.values or ():
            fields.types[value.name.value] = ""
            if _is_deprecated(value):
                fields.deprecated.add(value.name.value)
        return fields
    for field in definition.fields or ():
        if getattr(field, "arguments", None):
            arguments = _Fields()
            for argument in field.arguments:
                _graphql_field(argument, arguments, is_input=True)
            found[f"{name}.{field.name.value}"] = arguments.operation(f"{name}.{field.name.value}")
        _graphql_field(field, fields, is_input=kind == "input_object")
    return fields


def _graphql_field(field: Any, fields: _Fields, *, is_input: bool) -> None:
    name = field.name.value
    said = _graphql_type_name(field.type)
    fields.types[name] = said.removesuffix("!")
    if is_input and said.endswith("!") and field.default_value is None:
        fields.required.add(name)
    if _is_deprecated(field):
        fields.deprecated.add(name)


def _graphql_type_name(said: Any) -> str:
    match said.kind:
        case "non_null_type":
            return f"{_graphql_type_name(said.type)}!"
        case "list_type":
            return f"[{_graphql_type_name(said.type)}]"
        case _:
            return str(said.name.value)


def _is_deprecated(node: Any) -> bool:
    return any(directive.name.value == _DEPRECATED for directive in node.directives or ())


def read_protobuf(content: bytes, path: str, prefix: str) -> dict[str, ApiOperation]:
    """Return the messages, enums and methods of a protobuf file, by their full names."""
    words = _PROTO_TOKEN.findall(content.decode("utf-8", "replace"))
    tokens = _Tokens([word for word in words if not word.startswith(("//", "/*"))], path)
    found: dict[str, ApiOperation] = {}
    package = ""
    while tokens.next:
        kind = tokens.take()
        if kind == "package":
            package = tokens.take() + "."
        elif kind in ("message", "enum", "service"):
            _proto_block(tokens, kind, f"{prefix}:{package}{tokens.take()}", found)
        elif kind == "extend":
            tokens.take()
            tokens.skip_group()
        elif kind in ("syntax", "edition", "import", "option"):
            _skip_statement(tokens)
        elif kind != ";":
            raise BadFile(file=path, problem=f"it is not a protobuf file: {kind!r:.40} is unknown")
    return found


def _proto_block(tokens: _Tokens, kind: str, name: str, found: dict[str, ApiOperation]) -> None:
    fields = _Fields()
    tokens.take("{")
    while not tokens.accept("}"):
        word = tokens.take()
        if word in ("message", "enum") and _is_name(tokens.next):
            _proto_block(tokens, word, f"{name}.{tokens.take()}", found)
        elif word == "rpc":
            method = f"{name}/{tokens.take()}"
            found[method] = _proto_method(tokens).operation(method)
        elif word == "oneof":
            # Its fields are fields of the message.
            tokens.take()
            tokens.take("{")
            while not tokens.accept("}"):
                _proto_field(tokens, fields, tokens.take(), kind)
        elif word == "option" and tokens.next != "=":
            fields.whole_deprecated |= _skip_statement(tokens)[:3] == [_DEPRECATED, "=", "true"]
        elif word in ("reserved", "extensions", "extend") and tokens.next != "=":
            _skip_statement(tokens)
        elif word != ";":
            _proto_field(tokens, fields, word, kind)
    if kind != "service":
        found[name] = fields.operation(name)


def _proto_field(tokens: _Tokens, fields: _Fields, word: str, kind: str) -> None:
    """Read a field of a message, or a value of an enum, whose first word was taken."""
    if word == "option":
        _skip_statement(tokens)
        return
    said = []
    is_required = word == "required"
    while word != "=":
        if word == "<":
            tokens.at -= 1
            said.append(f"<{''.join(tokens.skip_group())}>")
        elif word not in _PROTO_LABELS or word == "repeated":
            said.append(word)
        word = tokens.take()
    name = said.pop() if said else ""
    number = tokens.take()
    fields.types[name] = f"{' '.join(said)} = {number}" if kind == "message" else number
    if is_required:
        fields.required.add(name)
    rest = _skip_statement(tokens)
    if any(rest[at : at + 3] == [_DEPRECATED, "=", "true"] for at in range(len(rest))):
        fields.deprecated.add(name)


def _proto_method(tokens: _Tokens) -> _Fields:
    fields = _Fields()
    fields.types["request"] = " ".join(tokens.skip_group())
    tokens.take("returns")
    fields.types["response"] = " ".join(tokens.skip_group())
    rest = tokens.skip_group() if tokens.next == "{" else _skip_statement(tokens)
    fields.whole_deprecated = any(rest[at : at + 3] == [_DEPRECATED, "=", "true"] for at in range(len(rest)))
    return fields


def _is_name(token: str) -> bool:
    return token[:1].isalpha() or token[:1] == "_"


def _skip_statement(tokens: _Tokens) -> list[str]:
    """Return what is left of a statement, and move behind its end."""
    start = tokens.at
    while tokens.next not in (";", ""):
        if tokens.next in ("{", "("):
            tokens.skip_group()
            if tokens.next != ";" and tokens.words[tokens.at - 1] == "}":
                break
        else:
            tokens.take()
    skipped = tokens.words[start : tokens.at]
    tokens.accept(";")
    return skipped
