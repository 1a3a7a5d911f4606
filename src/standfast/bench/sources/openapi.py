"""Episodes from the history of an OpenAPI description: a list of versions, or a file's history in a git repository.

Reads OpenAPI 3 and Swagger 2, JSON and YAML. Of each operation it uses what a caller depends on: the names of query and cookie
parameters and of the top-level properties of the body, which of them are required, whether the operation is deprecated, and the
values of enumerated fields in the request and in the first successful response (there also one level inside a list). Path and
header parameters are ignored. A body with alternatives (``oneOf``, ``anyOf``) has the properties of all of them; required is what
every alternative requires, and a field is enumerated if it is in every alternative that has it.
"""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from standfast.bench.episodes import Episode
from standfast.bench.sources.labelling import DriftEvent, ReportSkipped, ignore_skipped, label_episode
from standfast.canon import fingerprint
from standfast.clock import seeded
from standfast.errors import BadFile, InvalidValue, MissingExtra
from standfast.limits import MAX_SOURCE_BYTES

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
IN_NAME: Final = frozenset(("query", "cookie", "formData"))
_PLACEHOLDER: Final = re.compile(r"\{[^}]*\}")
MAX_REF_HOPS: Final = 20
MAX_ENUM_FIELDS: Final = 6
MAX_ENUM_VALUES: Final = 8
BASELINE_SHARE: Final = 0.2
BROKEN_SHARE: Final = 0.6


class ApiOperation(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an operation that its callers depend on."""

    name: str
    params: frozenset[str]
    required: frozenset[str]
    deprecated: bool
    enums: dict[str, frozenset[str]]
    """Allowed values by field, in lower case; ``in.`` fields are of the request, ``out.`` fields of the response."""


def load_description(file: str) -> dict[str, Any]:
    """Read the description in a file."""
    path = Path(file)
    try:
        size = path.stat().st_size
        if size > MAX_SOURCE_BYTES:
            raise BadFile(file=file, problem=f"it is larger than {MAX_SOURCE_BYTES} bytes")
        return parse_description(path.read_bytes(), file)
    except OSError as error:
        raise BadFile(file=file, problem=str(error.strerror)) from None


def parse_description(content: bytes, name: str) -> dict[str, Any]:
    """Parse a description: JSON if it starts with a brace, otherwise YAML."""
    try:
        document = json.loads(content) if content.lstrip()[:1] == b"{" else _yaml(content)
    except (ValueError, RecursionError) as error:
        raise BadFile(file=name, problem=f"it can't be read: {error}") from None
    if not (isinstance(document, dict) and isinstance(document.get("paths"), dict)):
        raise BadFile(file=name, problem='it is not an OpenAPI description: it has no "paths"')
    return document


def operations(document: dict[str, Any], *, source: str, with_host: bool = False) -> dict[str, ApiOperation]:
    """Return all operations of a description by an identity that ignores the names of placeholders."""
    reader = _Reader(document)
    host = _host(document) if with_host else ""
    found = {}
    for path, item in document["paths"].items():
        shared = reader.resolve(item)
        for method in METHODS:
            operation = shared.get(method)
            if isinstance(operation, dict):
                name = f"{source}:{method.upper()} {host}{path}"
                found[_PLACEHOLDER.sub("{}", name)] = reader.operation(name, shared, operation)
    return found


def observation_of(operation: ApiOperation | None, name: str, version: str) -> dict[str, Any]:
    """Return the observation of an operation's state; None is an operation that was removed."""
    shown = operation or ApiOperation(
        name=name, params=frozenset(), required=frozenset(), deprecated=True, enums={}
    )
    fields = sorted(shown.enums)[:MAX_ENUM_FIELDS]
    return {
        "api": name,
        "params": sorted(shown.params),
        "required": sorted(shown.required),
        "deprecated": shown.deprecated,
        "enums": {field: _shortened(sorted(shown.enums[field])) for field in fields},
        "status": "active" if operation is not None else "removed",
        "version": version,
    }


def _shortened(values: list[str]) -> list[str]:
    return values if len(values) <= MAX_ENUM_VALUES else [*values[:6], f"+{len(values) - 6} more"]


def _host(document: dict[str, Any]) -> str:
    servers = document.get("servers")
    if isinstance(servers, list) and servers and isinstance(servers[0], dict):
        parts = urlsplit(str(servers[0].get("url", "")))
        return (parts.netloc + parts.path).rstrip("/")
    return f"{document.get('host', '')}{document.get('basePath', '')}".rstrip("/")


def _yaml(content: bytes) -> Any:
    try:
        import yaml  # noqa: PLC0415  # Only YAML descriptions need it.
    except ImportError:
        raise MissingExtra(feature="Reading YAML", extra="bench") from None
    try:
        return yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # Both are safe.
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


class _Fields(NamedTuple):
    """The fields of a body: their names, which are required, and the values of those that are enumerated."""

    params: set[str]
    required: set[str]
    enums: dict[str, frozenset[str]]

    def add(self, other: "_Fields") -> None:
        """Add the fields of another part of the same body."""
        self.params.update(other.params)
        self.required.update(other.required)
        self.enums.update(other.enums)


def _either(alternatives: Sequence[_Fields]) -> _Fields:
    """Return the fields of a body that is one of these."""
    params = set[str]().union(*(one.params for one in alternatives))
    required = alternatives[0].required.intersection(*(one.required for one in alternatives))
    enums = {}
    for field in sorted(params):
        having = [one for one in alternatives if field in one.params]
        if all(field in one.enums for one in having):
            enums[field] = frozenset[str]().union(*(one.enums[field] for one in having))
    return _Fields(params, required, enums)


class _Reader:
    """Reads a description and follows its references."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def resolve(self, node: Any) -> dict[str, Any]:
        """Return what a node refers to; an empty object if that is missing or circular."""
        for _ in range(MAX_REF_HOPS):
            if not isinstance(node, dict):
                return {}
            reference = node.get("$ref")
            if not isinstance(reference, str):
                return node
            node = self._target(reference)
        return {}

    def operation(self, name: str, shared: dict[str, Any], operation: dict[str, Any]) -> ApiOperation:
        params: set[str] = set()
        required: set[str] = set()
        enums: dict[str, frozenset[str]] = {}
        for entry in [*_list(shared.get("parameters")), *_list(operation.get("parameters"))]:
            parameter = self.resolve(entry)
            if parameter.get("in") == "body":
                self._body(self.resolve(parameter.get("schema")), params, required, enums)
            elif parameter.get("in") in IN_NAME and isinstance(parameter.get("name"), str):
                field = parameter["name"]
                params.add(field)
                if parameter.get("required") is True:
                    required.add(field)
                # Swagger 2 has the schema in the parameter itself.
                self._enum(f"in.{field}", self.resolve(parameter.get("schema", parameter)), enums)
        self._body(self._content(operation.get("requestBody")), params, required, enums)
        self._answer(operation, enums)
        return ApiOperation(
            name=name,
            params=frozenset(params),
            required=frozenset(required & params),
            deprecated=operation.get("deprecated") is True,
            enums=enums,
        )

    def _body(
        self, schema: dict[str, Any], params: set[str], required: set[str], enums: dict[str, frozenset[str]]
    ) -> None:
        fields = self._fields(schema)
        params |= fields.params
        required |= fields.required
        enums.update({f"in.{field}": values for field, values in fields.enums.items()})

    def _fields(self, schema: dict[str, Any], depth: int = 0) -> "_Fields":
        """Return the fields of a schema, of all parts of its ``allOf``, and of its alternatives."""
        found: dict[str, frozenset[str]] = {}
        properties = _dict(schema.get("properties"))
        for field, inner in properties.items():
            self._enum(field, self.resolve(inner), found)
        required = {field for field in _list(schema.get("required")) if isinstance(field, str)}
        fields = _Fields(set(properties), required, found)
        if depth < MAX_REF_HOPS:
            for part in _list(schema.get("allOf")):
                fields.add(self._fields(self.resolve(part), depth + 1))
            for name in ("oneOf", "anyOf"):
                alternatives = [self._fields(self.resolve(one), depth + 1) for one in _list(schema.get(name))]
                if alternatives:
                    fields.add(_either(alternatives))
        return fields

    def _answer(self, operation: dict[str, Any], enums: dict[str, frozenset[str]]) -> None:
        # YAML reads status codes as numbers.
        responses = {str(code): answer for code, answer in _dict(operation.get("responses")).items()}
        success = min((code for code in responses if code.startswith("2")), default=None)
        if success is None:
            return
        answer = self.resolve(responses[success])
        schema = self.resolve(answer["schema"]) if "schema" in answer else self._content(answer)
        for part in self._parts(schema):
            for field, schema_or_ref in _dict(part.get("properties")).items():
                inner = self.resolve(schema_or_ref)
                self._enum(f"out.{field}", inner, enums)
                for element in self._parts(self.resolve(inner.get("items"))):
                    for deeper, value in _dict(element.get("properties")).items():
                        self._enum(f"out.{field}[].{deeper}", self.resolve(value), enums)

    def _content(self, node: Any) -> dict[str, Any]:
        """Return the schema of the first content type, JSON before others."""
        content = _dict(self.resolve(node).get("content"))
        for kind in sorted(content, key=lambda kind: ("json" not in kind, kind)):
            return self.resolve(self.resolve(content[kind]).get("schema"))
        return {}

    def _parts(self, schema: dict[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
        """Yield a schema and all parts of its ``allOf``."""
        yield schema
        if depth < MAX_REF_HOPS:
            for part in _list(schema.get("allOf")):
                yield from self._parts(self.resolve(part), depth + 1)

    def _enum(self, field: str, schema: dict[str, Any], enums: dict[str, frozenset[str]]) -> None:
        values = schema.get("enum")
        if not isinstance(values, list):
            values = self.resolve(schema.get("items")).get("enum")
        if isinstance(values, list):
            enums[field] = frozenset(str(value).lower() for value in values)

    def _target(self, reference: str) -> Any:
        node: Any = self.document
        if not reference.startswith("#/"):
            return {}
        for part in reference[2:].split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            node = node.get(key) if isinstance(node, dict) else None
        return node


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def operation_changes(
    old: dict[str, ApiOperation], new: dict[str, ApiOperation]
) -> dict[str, tuple[str, ...]]:
    """Return the kinds of change by operation: existing operations by name, then removed ones."""
    found = {}
    for identity in sorted(new, key=lambda identity: new[identity].name):
        kinds = kinds_between(old[identity], new[identity]) if identity in old else ("endpoint_added",)
        if kinds:
            found[identity] = kinds
    removed = sorted(set(old) - set(new), key=lambda identity: old[identity].name)
    return found | dict.fromkeys(removed, ("endpoint_removed",))


def kinds_between(old: ApiOperation, new: ApiOperation) -> tuple[str, ...]:
    """Return what changed in one operation.

    params_removed          a parameter was removed
    required_param_added    a new parameter is required
    optional_params_added   a new parameter is optional
    param_made_required     an existing parameter became required
    required_relaxed        a required parameter became optional
    deprecated_on, _off     the flag was set or cleared
    request_enum_…          an enumerated field of the request lost or gained a value
    response_enum_…         the same in the response
    """
    both = old.params & new.params
    added = new.params - old.params
    found = {
        "params_removed": bool(old.params - new.params),
        "required_param_added": bool(added & new.required),
        "optional_params_added": bool(added - new.required),
        "param_made_required": bool(both & new.required - old.required),
        "required_relaxed": bool(both & old.required - new.required),
        "deprecated_on": new.deprecated and not old.deprecated,
        "deprecated_off": old.deprecated and not new.deprecated,
    }
    for side, name in (("in.", "request_enum"), ("out.", "response_enum")):
        fields = [field for field in old.enums if field in new.enums and field.startswith(side)]
        found[f"{name}_removed"] = any(old.enums[field] - new.enums[field] for field in fields)
        found[f"{name}_added"] = any(new.enums[field] - old.enums[field] for field in fields)
    return tuple(kind for kind, is_present in found.items() if is_present)


class SpecVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a description, and its label."""

    label: str
    document: dict[str, Any]


def openapi_episode(
    versions: Iterable[SpecVersion],
    *,
    source: str,
    with_host: bool = False,
    redundancy: float = 0.0,
    seed: int = 0,
    skipped: ReportSkipped = ignore_skipped,
) -> Episode:
    """Return what changed from version to version as one stream.

    Each changed operation is one step that shows its new state, not the difference. The stream starts with some unchanged
    operations of the first version, one for every five changes. A version with fewer than 60 % of the last one's operations
    is considered broken; it is skipped and reported.

    Args:
        versions: The versions, oldest first.
        source: The prefix of the endpoints' names.
        with_host: Whether the server's host is part of the names.
        redundancy: How many unchanged observations of earlier operations are added for each change.
        seed: For the choice of those.
        skipped: Receives the label of each version that is left out, and why.
    """
    stream = _Stream(source, skipped)
    for version in versions:
        stream.advance(version, operations(version.document, source=source, with_host=with_host))
    if not stream.events:
        raise InvalidValue(what="Episode", problem="nothing changed between these versions")
    events = stream.baselines() + list(_with_repetitions(stream.events, redundancy, seed))
    episode_id = fingerprint([source, seed])[:12]
    return label_episode(events, source=source, mode="openapi", episode_id=episode_id, halve_superseded=True)


class _Stream:
    """The versions so far: the last state of each operation, and all changes."""

    def __init__(self, source: str, skipped: ReportSkipped) -> None:
        self.source = source
        self._skipped = skipped
        self.events: list[DriftEvent] = []
        self._first: tuple[str, dict[str, ApiOperation]] | None = None
        self._last: dict[str, ApiOperation] = {}
        self._names: dict[str, str] = {}
        self._shown_at: dict[str, int] = {}
        self._number = 0

    def advance(self, version: SpecVersion, new: dict[str, ApiOperation]) -> None:
        if self._first is None:
            self._first, self._last = (version.label, new), new
            self._names = {identity: operation.name for identity, operation in new.items()}
            return
        if len(new) < BROKEN_SHARE * len(self._last):
            why = f"it has {len(new)} operations, the version before it {len(self._last)}; it is considered broken"
            self._skipped(version.label, why)
            return
        self._number += 1
        for identity, kinds in operation_changes(self._last, new).items():
            known = new.get(identity) or self._last[identity]
            # A path keeps its first name, even if its placeholders are renamed.
            name = self._names.setdefault(identity, known.name)
            distance = self._number - self._shown_at.get(identity, self._number)
            self._shown_at[identity] = self._number
            observation = observation_of(new.get(identity), name, version.label)
            self.events.append(
                DriftEvent(
                    observation=observation, kinds=kinds, version_distance=distance, date=version.label
                )
            )
        self._last = new

    def baselines(self) -> list[DriftEvent]:
        assert self._first is not None, "there are events, so there was a first version"
        label, first = self._first
        count = min(len(first), round(BASELINE_SHARE * len(self.events)))
        chosen = sorted(first, key=lambda identity: fingerprint([self.source, identity]))[:count]
        return [
            DriftEvent(
                observation=observation_of(first[identity], first[identity].name, label),
                kinds=("baseline",),
                date=label,
            )
            for identity in sorted(chosen)
        ]


def _with_repetitions(events: list[DriftEvent], redundancy: float, seed: int) -> Iterator[DriftEvent]:
    random = seeded(seed)
    shown: dict[str, dict[str, Any]] = {}
    due = 0.0
    for event in events:
        yield event
        shown[event.observation["api"]] = event.observation
        due += redundancy
        while due >= 1:
            due -= 1
            names = list(shown)
            again = shown[names[int(random.random() * len(names))]]
            yield DriftEvent(observation=again, kinds=("unchanged",), date=event.date)


def versions_from_git(
    repository: str, path: str, *, most: int = 10_000, skipped: ReportSkipped = ignore_skipped
) -> Iterator[SpecVersion]:
    """Yield the versions of a file along a repository's first parents: the last of each day, oldest first.

    Versions that can't be read are left out and reported to ``skipped``.
    """
    form = ("--date=format-local:%Y-%m-%d", "--format=%cd %H")
    log = _git(repository, "log", "--first-parent", "--reverse", *form, "--", path).decode("ascii", "replace")
    last_of_day = dict(line.split(" ", 1) for line in log.splitlines())
    if not last_of_day:
        raise BadFile(file=f"{repository}: {path}", problem="no commit touches this path")
    for day, commit in sorted(last_of_day.items())[:most]:
        try:
            content = _git(repository, "show", f"{commit}:{path}")
        except BadFile:
            skipped(f"{day} {commit[:12]}", "the commit deleted or moved the file")
            continue
        try:
            document = parse_description(content, f"{commit[:12]}:{path}")
        except BadFile as error:
            skipped(f"{day} {commit[:12]}", error.facts["problem"])
            continue
        yield SpecVersion(label=day, document=document)


def _git(repository: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603  # A list, no shell; the path comes after "--" or a commit.
            ["git", "-C", repository, *arguments],  # noqa: S607  # The user's own git, wherever it is.
            capture_output=True,
            check=False,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "TZ": "UTC", "LC_ALL": "C"},
        )
    except OSError as error:
        raise BadFile(file=repository, problem=f"git can't be run: {error}") from None
    if done.returncode:
        raise BadFile(file=repository, problem=done.stderr.decode("utf-8", "replace").strip())
    return done.stdout
