"""Types of a GraphQL schema, and messages and services of protobuf files.

GraphQL: each object, interface, input, enum and union is one operation of the interface, its parameters are
its fields, values or members; a field with arguments is one of its own. Protobuf: each message and enum is
one, and each method of a service. Types are compared without an outer ``!``; an input's non-null field
without a default is required, and so is proto2's ``required``.
"""

import re
from typing import Final

from standfast.bench.sources.interfaces import ApiOperation
from standfast.errors import BadFile

_GRAPHQL_TOKEN: Final = re.compile(
    r'"""(?:\\"""|[^\\]|\\(?!"""))*?"""|"(?:\\.|[^"\\\n])*"|#[^\n]*|[_A-Za-z]\w*|-?[0-9][\w.+-]*|\.\.\.|[^\s,\ufeff]',
    re.DOTALL,
)
_PROTO_TOKEN: Final = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|[.]?[_A-Za-z][\w.]*|-?[0-9][\w.+-]*|\S',
    re.DOTALL,
)
_OPEN: Final = {"{": "}", "(": ")", "[": "]", "<": ">"}
_GRAPHQL_TYPES: Final = frozenset(("type", "interface", "input"))
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
    words = _GRAPHQL_TOKEN.findall(content.decode("utf-8", "replace"))
    kept: list[str] = []
    for word in words:
        # A text is a description, unless it is a value.
        if word[0] not in '#"' or (word[0] == '"' and kept and kept[-1] in "=:"):
            kept.append(word)
    tokens = _Tokens(kept, path)
    found: dict[str, ApiOperation] = {}
    while tokens.next:
        tokens.accept("extend")
        kind = tokens.take()
        if kind in _GRAPHQL_TYPES or kind in ("enum", "union"):
            name = f"{prefix}:{tokens.take()}"
            one = _graphql_type(tokens, kind, name, found)
            if name in found:
                one.extend(found[name])
            found[name] = one.operation(name)
        # Scalars, directives and the schema's roots have no fields; their words are passed over one by one.
        elif kind in _OPEN:
            tokens.at -= 1
            tokens.skip_group()
    if not found:
        raise BadFile(file=path, problem="it is not a GraphQL schema: it defines no type")
    return found


def _graphql_type(tokens: _Tokens, kind: str, name: str, found: dict[str, ApiOperation]) -> _Fields:
    fields = _Fields()
    if tokens.accept("implements"):
        while tokens.next not in ("{", "@", ""):
            tokens.take()
    fields.whole_deprecated = _directives(tokens)
    if kind == "union":
        if tokens.accept("="):
            tokens.accept("|")
            fields.types[tokens.take()] = ""
            while tokens.accept("|"):
                fields.types[tokens.take()] = ""
        return fields
    if not tokens.accept("{"):
        return fields
    while not tokens.accept("}"):
        field = tokens.take()
        if kind == "enum":
            fields.types[field] = ""
        else:
            if tokens.accept("("):
                found[f"{name}.{field}"] = _graphql_arguments(tokens).operation(f"{name}.{field}")
            _graphql_field(tokens, fields, field, is_input=kind == "input")
        if _directives(tokens):
            fields.deprecated.add(field)
    return fields


def _graphql_arguments(tokens: _Tokens) -> _Fields:
    fields = _Fields()
    while not tokens.accept(")"):
        name = tokens.take()
        _graphql_field(tokens, fields, name, is_input=True)
        if _directives(tokens):
            fields.deprecated.add(name)
    return fields


def _graphql_field(tokens: _Tokens, fields: _Fields, name: str, *, is_input: bool) -> None:
    """Read the type of a field, and its default."""
    tokens.take(":")
    said = f"[{''.join(tokens.skip_group())}]" if tokens.next == "[" else tokens.take()
    fields.types[name] = said
    non_null = tokens.accept("!")
    if tokens.accept("="):
        if tokens.next in _OPEN:
            tokens.skip_group()
        else:
            tokens.take()
    elif non_null and is_input:
        fields.required.add(name)


def _directives(tokens: _Tokens) -> bool:
    """Skip directives. Return whether one says that it is deprecated."""
    deprecated = False
    while tokens.accept("@"):
        deprecated |= tokens.take() == _DEPRECATED
        if tokens.next == "(":
            tokens.skip_group()
    return deprecated


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
