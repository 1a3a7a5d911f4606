"""What a caller asks of memory: one request type for each verb, validated before anything else happens.

The fields of a verb, their defaults, limits and descriptions stand here and nowhere else. The library's
signatures, HTTP bodies, MCP tools, commands and their documentation are made from them.

    remember  RememberRequest   RememberFields
    add       AddRequest        AddFields
    recall    RecallRequest     RecallFields
    forget    ForgetRequest     ForgetFields

A request checks itself and brings what it was given into one form. Limits stand in ``Meta``: a decoder checks
them on the wire, and ``check_limits`` for everybody else. The ``TypedDict`` of a verb says what types a
caller may give; a method takes it over as ``**fields: Unpack[RememberFields]``.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Final, NoReturn, Self, TypedDict, TypeVar, Unpack

import msgspec
from msgspec import Meta
from msgspec.structs import force_setattr

from standfast.errors import EmptyQuery, InvalidValue, LoneSurrogate
from standfast.limits import (
    DEFAULT_MAX_ITEMS,
    DEFAULT_RECALL_TOKENS,
    MAX_ID_CHARS,
    MAX_MESSAGE_POSITION,
    MAX_NAME_CHARS,
    MAX_RECALL_ITEMS,
    MAX_RECALL_TOKENS,
    MAX_RUN_ITEMS,
    MAX_SCOPE_BYTES,
    MAX_SCOPE_SEGMENTS,
    MAX_SCOPES,
    MAX_SUPERSEDED,
    MAX_TAGS,
    MAX_TEXT_CHARS,
    SAFE_INTEGER,
)
from standfast.records.canon import fingerprint, normal_string
from standfast.records.conversion import built
from standfast.records.filters import NO_FILTER, Filter, Where
from standfast.records.origins import CITING_KINDS, Origin, kind_of
from standfast.records.request_limits import check_limits, check_looked_up, checked_reason, checked_source
from standfast.records.scopes import SHARED, checked_scope, recalled_scopes
from standfast.records.timestamps import MISSING, instant_text, instant_with_offset, offset_of, time_of
from standfast.records.vocabulary import Band, Budget, JsonScalar, Record, Value, normal_tags, shown

_F = TypeVar("_F", bound=Callable[..., Any])
_LISTS: Final = (list, tuple, set, frozenset)
_NO_DEFAULT: Final = inspect.Parameter.empty
DEFAULT_CONTROLLER: Final = "hybrid-v1"
"""What recall uses if the caller names no controller."""
RECALLED_BANDS: Final = (Band.VAULT, Band.LEDGER)
"""What recall reads unless told otherwise: law, and accepted memory. ACTIVE repeats LEDGER for a while,
PHOENIX is undecided, WITNESS is for the judge, and VOID is never recalled."""
RECORD_BANDS: Final = tuple(band for band in Band if band is not Band.PHOENIX)
"""The bands of records. PHOENIX holds proposals, which have operations of their own."""
RecordBand = Annotated[Band, Meta(extra_json_schema={"not": {"const": Band.PHOENIX.value}})]

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
MemoryId = Annotated[str, Meta(min_length=1, max_length=MAX_ID_CHARS)]
Tag = Annotated[str, Meta(max_length=MAX_NAME_CHARS)]
Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT_CHARS)]
SCOPE_PATTERN: Final = f"^([^/]+/){{0,{MAX_SCOPE_SEGMENTS - 1}}}[^/]+$"
"""What a path is, for JSON Schema; ``checked_scope`` refuses the rest in words.

That its characters must be printable and in NFC, JSON Schema has no word for.
"""
Scope = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_SCOPE_BYTES,
        extra_json_schema={"pattern": SCOPE_PATTERN, "not": {"pattern": r"(^|/)(\.{1,2}|\*)(/|$)"}},
    ),
]
LOCAL: Final = Meta(extra={"local": True})
"""Marks a field that a program sets for itself. Over a wire, the caller's key decides it."""
_Superseded = Annotated[tuple[MemoryId, ...], Meta(max_length=MAX_SUPERSEDED)]
_Tags = Annotated[tuple[Tag, ...], Meta(max_length=MAX_TAGS)]


MESSAGE_ID: Final = re.compile(r"s-[0-9a-f]{20}-[0-9]{9}(?:\.[0-9]{4})?(?:~.*)?")
"""The ids that ``add`` gives to messages."""


class RememberFields(TypedDict, total=False):
    """What can be said about a text to remember; see ``RememberRequest``."""

    subject: str | None
    several: bool
    source: Mapping[str, Any] | None
    tags: Sequence[str]
    refs: Sequence[Mapping[str, Any]]
    propose: bool
    role: str
    hold: str | None
    scope: str | None
    metadata: Mapping[str, JsonScalar] | None
    session: str | None
    position: int | None
    speaker: str | None
    valid_from: str | datetime | None
    valid_until: str | datetime | None
    supersedes: str | Sequence[str]
    pin: bool | None
    time: str | datetime | None


class RememberRequest(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A text to judge and remember, and what is said about it.

    Args:
        text: The text, one plain statement.
        subject: What the text is about, such as policy/eu-refunds. A subject has one current text and a
            history.
        several: Add a value to the subject, such as one more hobby, instead of replacing its text.
        source: Where the text comes from, such as {"kind": "doc", "id": "handbook#4"}. Without one it is the
            agent's own word, which is trusted less and does not become law.
        tags: Tags to find the text by.
        refs: Further sources that support it.
        propose: Propose it as law, which takes a person's signature.
        role: Who wants it remembered: agent or human.
        hold: Put it on hold until a person decides, with this reason.
        scope: Where it belongs, such as user/ada. Without one: the scope of the run or of the key, or shared.
        metadata: Fields of your own, to filter by.
        session: The conversation that it is part of.
        position: Its place in the conversation.
        speaker: Who said it.
        valid_from: When it begins to hold, in ISO 8601.
        valid_until: When it ends to hold, in ISO 8601.
        supersedes: The ids or subjects of records of the scope that it replaces; they end when it is
            accepted. What a trusted user said is ended by the user only.
        pin: Show it first in every recall of its scope, within a fifth of the budget. Only what a person or
            an operator said can be pinned. False takes a pin off. By default a subject stays as it is.
        time: When it was said, in ISO 8601; by default now. Words such as yesterday are meant in its offset.
    """

    text: Text
    subject: Name | None = None
    several: bool = False
    source: dict[str, Any] | None = None
    tags: _Tags = ()
    refs: Annotated[tuple[dict[str, Any], ...], Meta(max_length=MAX_TAGS)] = ()
    propose: bool = False
    role: Annotated[Name, LOCAL] = "agent"
    hold: Name | None = None
    scope: Scope | None = None
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    session: Name | None = None
    position: Annotated[int, Meta(ge=0, le=SAFE_INTEGER)] | None = None
    speaker: Name | None = None
    valid_from: Name | None = None
    valid_until: Name | None = None
    supersedes: _Superseded = ()
    pin: bool | None = None
    time: Name | None = None

    @classmethod
    def of(cls, text: str, **fields: Unpack[RememberFields]) -> Self:
        """Build a request from what a caller gave."""
        return built(cls, text=text, **fields)

    def __post_init__(self) -> None:
        text, hold, role = self.text, self.hold, self.role
        # A caller without types may have given anything.
        tags: Any = self.tags
        superseded: Any = self.supersedes
        if not (isinstance(text, str) and text.strip()):
            _refuse("text must be a non-empty string", text)
        if not (isinstance(role, str) and role):
            _refuse("role must be a non-empty string", role)
        for name in ("propose", "pin", "several"):
            if type(getattr(self, name)) is not bool and (name, self.pin) != ("pin", None):
                _refuse(f"{name} must be True or False", getattr(self, name))
        if hold is not None and not (isinstance(hold, str) and hold.strip()):
            _refuse("hold must be a reason", hold)
        if self.source is not None and not isinstance(self.source, Mapping):
            _refuse('source must be a mapping such as {"kind": "doc", "id": "x#4"}', self.source)
        if self.metadata is not None and not isinstance(self.metadata, Mapping):
            _refuse('metadata must be a mapping such as {"plan": "gold"}', self.metadata)
        if isinstance(tags, str):
            _refuse(f"tags must be a list of strings: pass [{tags!r:.80}]", tags)
        if not _is_list_of(tags, str):
            _refuse("tags must be a list of strings", tags)
        if not _is_list_of(self.refs, Mapping):
            _refuse("refs must be a list of mappings", self.refs)
        if self.several and self.subject is None:
            _refuse("several needs a subject, which holds the values", self.several)
        superseded = [superseded] if isinstance(superseded, str) else superseded
        if not _is_list_of(superseded, str):
            _refuse("supersedes must be an id, or a list of ids", superseded)
        if self.subject is not None:
            self._require_name("subject", self.subject)
            if MESSAGE_ID.fullmatch(self.subject):
                problem = "it is the id of a message, whose place only add can take; choose another subject"
                raise InvalidValue(what="subject", problem=problem)
        if self.scope is not None:
            checked_scope(self.scope)
        _check_cited(self.source or {}, *self.refs)
        force_setattr(self, "source", dict(self.source) if self.source else None)
        force_setattr(self, "metadata", dict(self.metadata or {}))
        force_setattr(self, "role", str(role))
        if tags != ():
            force_setattr(self, "tags", tuple(sorted(set(tags))))
        if self.refs != ():
            force_setattr(self, "refs", tuple([dict(ref) for ref in self.refs]))
        if superseded != ():
            others = tuple([one for one in dict.fromkeys(superseded) if one != self.subject or self.several])
            force_setattr(self, "supersedes", others)
        for field in ("valid_from", "valid_until", "time"):
            if (instant := getattr(self, field)) is not None:
                read = instant_with_offset if field == "time" else instant_text
                force_setattr(self, field, read(instant, what=field))
        check_limits(self)
        if _checked_by_record(self) != _NONE_OF_THEM:
            self.record()

    @property
    def place(self) -> str:
        """The scope that it belongs to."""
        return SHARED if self.scope is None else self.scope

    def within(self, scope: str) -> Self:
        """The same request, in this scope if it names none."""
        if self.scope is not None:
            return self
        return self.with_fields(scope=checked_scope(scope))

    def record(self) -> Record:
        """The record of the request before it has an id, an origin and, unless it was given, a time."""
        return Record(
            memory_id=self.id_or("request"),
            text=self.text,
            ts_utc=None if self.time is None else instant_text(self.time, what="time"),
            utc_offset=None if self.time is None else offset_of(self.time),
            tags=normal_tags(self.tags) if self.tags else (),
            refs=self.refs,
            subject=self.subject,
            source=self.source,
            scope=self.place,
            metadata=self.metadata,
            session=self.session,
            position=self.position,
            speaker=self.speaker,
            valid_from=self.valid_from,
            valid_until=self.valid_until,
            supersedes=self.supersedes,
            pinned=self.pin or None,
            several=self.several or None,
        )

    def id_or(self, memory_id: str) -> str:
        """The subject, of which a value among several is a part, or else the id."""
        if self.subject is None:
            return memory_id
        return f"{self.subject}~{fingerprint(memory_id)[:12]}" if self.several else self.subject

    def as_recorded(self) -> dict[str, Any]:
        """Only what is set, as a trace records it: always the role, no scope if it is shared."""
        plain = {**self.as_json(), "role": self.role}
        if self.scope == SHARED:
            del plain["scope"]
        return plain


# A record checks these fields when it takes them over.
_checked_by_record: Final = attrgetter(
    "tags", "metadata", "session", "position", "speaker", "valid_from", "valid_until", "supersedes"
)
_NONE_OF_THEM: Final[tuple[object, ...]] = ((), {}, None, None, None, None, None, ())


class AddFields(TypedDict, total=False):
    """What can be said about messages to add; see ``AddRequest``."""

    scope: str | None
    session: str | None
    position: int | None
    tags: Sequence[str]
    metadata: Mapping[str, JsonScalar] | None
    supersedes: str | Sequence[str]
    user: str | None


class AddRequest(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The messages of a conversation, and what is said about all of them.

    Args:
        messages: OpenAI- or Anthropic-style messages, such as {"role": "user", "content": "Hello"}. Besides
            role, content and tool calls, name is the speaker, time when it was said, and metadata has fields
            of the message's own.
        scope: Where they belong, such as user/ada. Without one: the scope of the key, or shared.
        session: The conversation; without one, a new one.
        position: The position of the first message. Without it, the messages go behind what the session has
            when they are stored. With 0 and all messages of a chat, only what is new is added.
        tags: Tags to find the messages by.
        metadata: Fields of your own, to filter by.
        supersedes: The ids or subjects of records of the scope that the messages replace; they end when a new
            message is accepted.
        user: The name of the trusted speaker, in a scope that several people share. What other people say
            (messages of the role user with another name) is trusted like a document then.
        extract: Let the model that the operator set find facts in the messages. Each is judged.
        background: Answer before the model does; an event tells when the facts are there.
    """

    messages: Annotated[tuple[dict[str, Any], ...], Meta(min_length=1, max_length=MAX_RUN_ITEMS)]
    scope: Scope | None = None
    session: Name | None = None
    position: Annotated[int, Meta(ge=0, le=MAX_MESSAGE_POSITION)] | None = None
    tags: _Tags = ()
    metadata: dict[str, JsonScalar] = msgspec.field(default_factory=dict)
    supersedes: _Superseded = ()
    user: Name | None = None
    extract: bool = False
    background: bool = False

    @classmethod
    def of(cls, messages: Iterable[Any], **fields: Unpack[AddFields]) -> Self:
        """Build a request from what a caller gave. Who adds the messages reads them."""
        return built(cls, messages=messages, **fields)

    def __post_init__(self) -> None:
        check_limits(self)
        named = ("scope", "session", "position", "tags", "metadata", "supersedes")
        common = RememberRequest(text="-", **{name: getattr(self, name) for name in named})
        for name in named:
            force_setattr(self, name, getattr(common, name))

    @property
    def place(self) -> str:
        """The scope that the messages belong to."""
        return SHARED if self.scope is None else self.scope


class RecallFields(TypedDict, total=False):
    """The options of a recall; see ``RecallRequest``."""

    tokens: int
    max_items: int
    scope: str | None
    scopes: Sequence[str] | None
    where: Filter | Where | None
    least_origin: Origin | str | None
    include_unreviewed: bool
    bands: Sequence[Band | str]
    now_utc: str | None
    controller: str


class RecallRequest(Value, frozen=True, kw_only=True, omit_defaults=True):
    """A question to memory, and the token budget of the answer.

    Args:
        query: The question.
        tokens: The token budget. It bounds the whole text; phase6-v1 bounds the excerpts with it.
        max_items: The most excerpts to return.
        scope: The scope to read, with all below it. Without one: that of the run or of the key, or shared.
        scopes: The scopes to read, each with all below it, if there are several.
        where: Which records may be chosen, such as {"tag": "billing"}.
        least_origin: The least origin of what may be chosen: trusted or ordinary. Untrusted records are left
            out unless nothing else matches, and never taken from scopes below the one that is named;
            untrusted includes them.
        include_unreviewed: Show records that are on hold or wait for a review, too.
        bands: The bands to read; by default law and accepted memory.
        now_utc: What time it is, in ISO 8601 and UTC: "yesterday" is meant by it. Ranks know no age.
        controller: The version of the controller that answers, such as phase6-v1.

    ``scope`` becomes one of ``scopes``, and ``least_origin`` part of ``where``.
    """

    query: Text
    tokens: Annotated[int, Meta(ge=1, le=MAX_RECALL_TOKENS)] = DEFAULT_RECALL_TOKENS
    max_items: Annotated[int, Meta(ge=1, le=MAX_RECALL_ITEMS)] = DEFAULT_MAX_ITEMS
    scope: Scope | None = None
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=MAX_SCOPES)] | None = None
    where: Filter = NO_FILTER
    least_origin: Origin | None = None
    include_unreviewed: bool = False
    bands: Annotated[tuple[RecordBand, ...], Meta(min_length=1)] = RECALLED_BANDS
    now_utc: Name | None = None
    controller: Name = DEFAULT_CONTROLLER

    @classmethod
    def of(cls, query: str, **fields: Unpack[RecallFields]) -> Self:
        """Build a request from what a caller gave."""
        return built(cls, query=query, **fields)

    def __post_init__(self) -> None:
        if not isinstance(self.query, str):
            raise InvalidValue(what="query", problem=f"it must be a text, not {self.query!r:.80}")
        if not self.query.strip():
            raise EmptyQuery
        try:
            normal_string(self.query)
        except LoneSurrogate as error:
            problem = (
                f"it has a lone surrogate at character {error.facts['index']}; decode the text it comes from"
            )
            raise InvalidValue(what="query", problem=problem) from None
        check_limits(self)
        if self.now_utc is not None and (not isinstance(self.now_utc, str) or self.now == MISSING):
            problem = (
                f"it must be an ISO 8601 time in UTC, such as 2026-01-15T10:30:00Z, not {self.now_utc!r:.80}"
            )
            raise InvalidValue(what="now_utc", problem=problem)
        if type(self.include_unreviewed) is not bool:
            raise InvalidValue(what="include_unreviewed", problem="it must be true or false")
        force_setattr(self, "bands", named_bands(self.bands))
        if self.scope is not None or self.scopes is not None:
            force_setattr(self, "scopes", recalled_scopes(self.scope, self.scopes))
            force_setattr(self, "scope", None)
        force_setattr(self, "where", Filter.of(self.where).at_least(self.least_origin))
        force_setattr(self, "least_origin", None)

    @property
    def budget(self) -> Budget:
        """The budget in the contract's form."""
        return Budget(max_excerpt_tokens=self.tokens, max_items=self.max_items)

    @property
    def now(self) -> int:
        """``now_utc`` in microseconds since the start of year 1; ``MISSING`` without it."""
        return MISSING if self.now_utc is None else time_of(self.now_utc)

    @property
    def places(self) -> tuple[str, ...]:
        """The scopes to read, each with all below it."""
        return (SHARED,) if self.scopes is None else self.scopes

    def within(self, scope: str) -> Self:
        """The same request, in this scope if it names none."""
        return self if self.scopes is not None else msgspec.structs.replace(self, scopes=(scope,))


class ForgetFields(TypedDict, total=False):
    """What to forget; see ``ForgetRequest``."""

    scope: str | None
    memory_id: str | None
    source: Mapping[str, str] | None


class ForgetRequest(Value, frozen=True, kw_only=True, omit_defaults=True):
    """What to forget: a subject or memory id of a scope, all from a source, or all of a scope and below it.

    Args:
        subject: A subject, or memory id, of one scope.
        reason: Why; recorded in the ledger. Only a rehearsal needs none.
        scope: The scope of the subject, by default shared. Alone: forget everything in it and below it.
        memory_id: A memory id, instead of a subject.
        source: Everything from a source such as {"kind": "doc", "id": "handbook"}, in the scope and below it,
            by default everywhere.
        rehearse: Only say what would be erased.
    """

    subject: MemoryId | None = None
    reason: Annotated[str, Meta(max_length=MAX_NAME_CHARS)] = ""
    scope: Scope | None = None
    memory_id: MemoryId | None = None
    source: dict[str, str] | None = None
    rehearse: bool = False

    @classmethod
    def of(
        cls,
        subject: str | None = None,
        *,
        reason: str = "",
        rehearse: bool = False,
        **fields: Unpack[ForgetFields],
    ) -> Self:
        """Build a request from what a caller gave."""
        return built(cls, subject=subject, reason=reason, rehearse=rehearse, **fields)

    def __post_init__(self) -> None:
        check_limits(self)
        force_setattr(self, "reason", checked_reason(self.reason, rehearse=self.rehearse))
        named = [one for one in (self.subject, self.memory_id, self.source) if one is not None]
        if len(named) > 1 or not (named or self.scope is not None):
            problem = "name one of subject, memory_id and source, or only a scope to forget all of it"
            raise InvalidValue(what="forget", problem=problem)
        if self.scope is not None:
            checked_scope(self.scope)
        if self.source is not None:
            force_setattr(self, "source", checked_source(self.source))
        elif named:
            check_looked_up("subject", named[0])

    def as_recorded(self) -> dict[str, Any]:
        """What a run keeps of it."""
        return self.as_json()

    @property
    def name(self) -> str:
        """The subject or memory id; empty if neither is named."""
        return self.subject or self.memory_id or ""

    @property
    def place(self) -> str:
        """The scope that the subject is in."""
        return SHARED if self.scope is None else self.scope


REQUESTS: Final[Mapping[type[Value], type]] = {
    RememberRequest: RememberFields,
    AddRequest: AddFields,
    RecallRequest: RecallFields,
    ForgetRequest: ForgetFields,
}
"""The requests, with the types of what a caller may give for their fields by name."""
for _request, _given in REQUESTS.items():
    assert set(_request.__struct_fields__) - set(_given.__annotations__) <= {
        *("text", "messages", "query", "subject", "reason", "rehearse", "extract", "background")
    }, f"a field of {_request.__name__} that no caller can give"


def takes_fields_of(request: type[Value], given: type | None = None) -> Callable[[_F], _F]:
    """Show the fields that a verb takes as ``**fields`` in its signature and its docstring.

    Type checkers know them from the ``TypedDict``; ``inspect``, ``help`` and the documentation from here.

    Args:
        given: The ``TypedDict``, for a request that is not one of ``REQUESTS``.
    """
    types = (given or REQUESTS[request]).__annotations__

    def shown_in(verb: _F) -> _F:
        own = inspect.signature(verb)
        named = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        fields = {
            name: inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=types[name],
            )
            for name, default in defaults_of(request).items()
            if name in types
        }
        parameters = sorted([*named, *fields.values()], key=lambda one: one.kind)
        vars(verb)["__signature__"] = own.replace(parameters=parameters)
        return verb

    return shown_in


def defaults_of(request: type[msgspec.Struct]) -> dict[str, Any]:
    """The default of each field; ``inspect.Parameter.empty`` for one that must be given."""
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(request):
        if field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = field.default_factory()
        else:
            found[field.name] = _NO_DEFAULT if field.default is msgspec.NODEFAULT else field.default
    return found


def local_fields(request: type[msgspec.Struct]) -> set[str]:
    """The fields that are marked as ``LOCAL``."""
    return {
        field.name
        for field in msgspec.structs.fields(request)
        if LOCAL in getattr(field.type, "__metadata__", ())
    }


def fields_of(request: Value) -> dict[str, Any]:
    """What a request was given, by the names under which the verb of the library takes it."""
    given = next(REQUESTS[kind] for kind in type(request).__mro__ if kind in REQUESTS)
    return {name: getattr(request, name) for name in given.__annotations__}


@cache
def descriptions_of(request: type) -> dict[str, str]:
    """What the docstring of a class, or of one that it is made from, says about each field."""
    found: dict[str, str] = {}
    for one in reversed(request.__mro__):
        _, _, listed = inspect.cleandoc(vars(one).get("__doc__") or "").partition("Args:\n")
        name = ""
        for line in listed.splitlines():
            if begun := re.match(r"    (\w+): (.*)", line):
                name = begun[1]
                found[name] = begun[2]
            elif name and line.startswith("        "):
                found[name] += f" {line.strip()}"
            else:
                break
    return {name: text.replace("``", "") for name, text in found.items()}


def named_bands(bands: object) -> tuple[Band, ...]:
    """Bands that may be given by name, each once; ``InvalidValue`` for anything else."""
    if not isinstance(bands, list | tuple) or not bands:
        raise InvalidValue(what="bands", problem='give a list of bands, for example ["LEDGER"]')
    for band in bands:
        if band not in Band.__members__:
            known = ", ".join(Band)
            raise InvalidValue(what="bands", problem=f"there is no band {band!r:.40}, only {known}")
    return tuple(dict.fromkeys(map(Band, bands)))


def require_no_proposals(bands: Sequence[Band]) -> None:
    """Refuse the band of proposals, which are no records and lie in no scope."""
    if Band.PHOENIX in bands:
        problem = (
            "PHOENIX holds proposals, not records; memory.approvals lists them (standfast approvals list)"
        )
        raise InvalidValue(what="bands", problem=problem)


def _check_cited(*sources: Mapping[str, Any]) -> None:
    """Refuse a source that cites a memory of a scope that can't be."""
    for cited in sources:
        if isinstance(cited.get("scope"), str) and kind_of(cited) in CITING_KINDS:
            checked_scope(cited["scope"])


def _is_list_of(given: object, kind: type[Any]) -> bool:
    return isinstance(given, _LISTS) and (not given or all(isinstance(one, kind) for one in given))


def _refuse(problem: str, given: object) -> NoReturn:
    """``problem`` begins with the name of the field."""
    field, _, wrong = problem.partition(" ")
    raise InvalidValue(what=field, problem=f"it {wrong}, not {shown(given)}")
