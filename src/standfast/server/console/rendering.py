"""One request as the pages see it, the page that answers it, and the templates with their filters.

Everything is escaped, and no template turns that off.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.responses import RedirectResponse, Response

from standfast.errors import InvalidValue, StandfastError
from standfast.extensions import extensions
from standfast.govern.evidence import (
    CONTENT_FLOOR,
    HUMAN_ACCEPT_FLOOR,
    HUMAN_DECISION_FLOOR,
    HUMAN_SEAL_FLOOR,
)
from standfast.html_pages import word_pieces
from standfast.memory import Memory
from standfast.records.conversion import converted
from standfast.records.rows import SYSTEM_NAMESPACE
from standfast.records.scopes import name_in, prefix_in, scope_in
from standfast.records.vocabulary import Band, Evidence, Value, Verdict
from standfast.server.access.permissions import Caller, Permission, is_allowed
from standfast.server.access.scope_limits import own_scope
from standfast.server.console.charts import line_chart
from standfast.server.console.namespace_stats import StatsCache
from standfast.server.edge.problems import status_of
from standfast.server.operations.gateway import Gateway
from standfast.server.operations.telemetry import VERSION
from standfast.settings import Settings

ROOT: Final = "/console"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script';"
        " trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
}
OPERATION_LABELS: Final = {
    "vault_write": "new law",
    "amendment_sealing": "change of law",
    "hold_verdict": "held for review",
}
OPERATION_REASONS: Final = {
    "vault_write": "It was proposed as law, and law takes a person's signature.",
    "amendment_sealing": "It would change law, and that takes a person's signature.",
    "hold_verdict": "Somebody asked to hold it for a review.",
}
FLOOR_LABELS: Final = {
    "F1_Amanah": "named source",
    "F2_Truth": "no contradiction of law",
    "F3_Witness": "independent source",
    "F4_Clarity": "visible text",
    "F5_Secrecy": "no secrets",
    "F6_Injection": "no orders to the reader",
    "F7_Humility": "no false certainty",
    "F8_Novelty": "short, and not rejected before",
    "F9_Authority": "no claimed authority",
    CONTENT_FLOOR: "bound to its content",
    HUMAN_SEAL_FLOOR: "signed by a person",
    HUMAN_ACCEPT_FLOOR: "accepted by a person",
    HUMAN_DECISION_FLOOR: "decided by a person",
    "888_HOLD": "held for a review",
}
"""Plain words for the checks that ship; a check of the user's own is shown by its name."""
STATIC_TYPES: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
# Control characters except tab and line break, invisible characters, and those that change the direction of
# text.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
_NO_FLOORS: Final = (CONTENT_FLOOR, HUMAN_SEAL_FLOOR, HUMAN_ACCEPT_FLOOR, HUMAN_DECISION_FLOOR)
_MADE_ID: Final = re.compile("[ms]-[0-9a-f]{16,}(-[0-9]+)?")
_SHOWN_CHARS: Final = 160
_OWN_ENDING: Final = re.compile("~[0-9a-f]{12}$")
"""What tells the id of a record from that of another one of its subject: more trusted, or accepted."""
MAX_LISTED_NAMESPACES: Final = 200
_Query = TypeVar("_Query", bound=Value)


def render(template: str, context: dict[str, Any]) -> str:
    """Render a template."""
    return _environment().get_template(template).render(context)


def html(template: str, context: Mapping[str, Any], status: int = 200) -> Response:
    """Render a template as a response. Without a ``caller`` in the context the page has no menu."""
    layout = {
        "caller": None,
        "title": None,
        "current": None,
        "group": None,
        "version": VERSION,
        "namespace": None,
        "events_from": None,
    }
    return Response(render(template, {**layout, **context}), status, media_type="text/html", headers=HEADERS)


def redirect(to: str) -> Response:
    """Redirect to another page."""
    return RedirectResponse(to, 303, headers=HEADERS)


@cache
def static_file(name: str) -> bytes:
    """The content of a static file."""
    return files("standfast.server.console").joinpath("static", name).read_bytes()


@cache
def static_address(name: str) -> str:
    """The address of a static file. It contains a hash of the content, so browsers may cache it for ever."""
    return f"{ROOT}/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    packages = {page.at.rpartition(".")[0]: None for one in extensions() for page in one.pages}
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in ("standfast.server.console", *packages)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "key_name": name_in,
        "key_prefix": prefix_in,
        "key_scope": scope_in,
        "bytes": bytes_text,
        "timestamp": timestamp_text,
        "visible": visible,
        "short_id": short_id,
        "short_name": short_name,
        "source_words": source_words,
        "subject_name": subject_name,
        "json_text": json_text,
        "json_line": json_line,
        "source_text": source_text,
        "floors_passed": floors_passed,
        "verdict_label": lambda name: Verdict(name).label,
        "operation_label": lambda name: OPERATION_LABELS.get(name, name.replace("_", " ")),
        "operation_reason": lambda name: OPERATION_REASONS.get(name, "It needs a person's decision."),
        "floor_label": lambda name: FLOOR_LABELS.get(name, name),
        "state_label": lambda name: "waiting" if name == "pending" else name,
        "band_label": lambda name: Band(name).label,
    }
    environment.globals |= {
        "line_chart": line_chart,
        "link": link,
        "static": static_address,
        "word_pieces": word_pieces,
    }
    return environment


def link(page: str, namespace: str | None = None, /, **fields: object) -> str:
    """The address of a page with these query fields; None leaves one out."""
    values = {"in": namespace, **fields}
    query = urlencode({name: str(value) for name, value in values.items() if value is not None})
    return f"{ROOT}/{page}" + (f"?{query}" if query else "")


def bytes_text(count: float) -> str:
    """A size with a unit."""
    for limit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= limit:
            return f"{count / limit:.1f} {name}"
    return f"{count:.0f} B"


def timestamp_text(text: str | None) -> str:
    """A UTC timestamp without fractions of seconds; other text stays as it is."""
    if text and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", text):
        return f"{text[:10]} {text[11:19]} UTC"
    return text or "—"


def visible(text: object) -> str:
    """A stored text with its invisible characters spelled out as ``⟨U+202E⟩``."""
    return _INVISIBLE.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", str(text))


def short_id(text: str) -> str:
    """A digest or long id, shortened."""
    return text if len(text) <= 16 else f"{text[:12]}…"


def short_name(name: str) -> str:
    """The name of a record: a subject as it is, an id that was made for it shortened."""
    plain = _OWN_ENDING.sub("", name)
    return short_id(plain) if _MADE_ID.fullmatch(plain) else plain


def subject_name(name: str) -> str:
    """What a link to a record says: its subject, or "details" if it has only an id that was made for it."""
    plain = _OWN_ENDING.sub("", name)
    return "details" if _MADE_ID.fullmatch(plain) else plain


def shortened(text: str) -> str:
    """The beginning of a text, on one line."""
    plain = " ".join(text.split())
    return plain if len(plain) <= _SHOWN_CHARS else f"{plain[:_SHOWN_CHARS].rsplit(' ', 1)[0]} …"


def source_words(source: str) -> dict[str, str]:
    """What finds the texts of a source, written kind:id, among those that were rejected."""
    kind, _, name = source.partition(":")
    plain = name.replace('"', " ").strip()
    return {"source_kind": kind, "q": f'"{plain}"'} if plain else {"source_kind": kind}


def json_text(value: object) -> str:
    """A value as indented JSON."""
    return visible(json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True))


def json_line(value: object) -> str:
    """A value as JSON on one line."""
    return visible(json.dumps(value, ensure_ascii=False, sort_keys=True))


def source_text(source: Mapping[str, Any]) -> str:
    """A source as ``kind:id``, as the command line writes it; one of another form as JSON."""
    if {"kind", "id"} <= set(source):
        return visible(f"{source['kind']}:{source['id']}")
    return json_line(dict(source))


def floors_passed(evidence: Evidence) -> str:
    """How many floors a text passed. What binds evidence to content or to a decision is no floor."""
    floors = [check for check in evidence.floor_checks if check.floor not in _NO_FLOORS]
    passed = sum(check.passed for check in floors)
    return f"{passed} of {len(floors)} floor{'' if len(floors) == 1 else 's'} passed"


def listed(text: str) -> list[str]:
    """What a form's field holds, separated by commas or line breaks."""
    return [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request of a signed-in caller, in one namespace, with the fields of its query string and form."""

    gateway: Gateway
    caller: Caller
    namespace: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    settings: Settings
    stats: StatsCache

    @property
    def target(self) -> tuple[Gateway, Caller, str]:
        """The first arguments of every operation on a namespace."""
        return self.gateway, self.caller, self.namespace

    def parse_query(self, kind: type[_Query], **fields: Any) -> _Query:
        """The query string as a request value. Empty fields, as forms send them, count as missing."""
        known = {one.name for one in msgspec.structs.fields(kind)}
        texts = {name: text for name, text in self.query.items() if text and name in known}
        try:
            return converted(texts | fields, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidValue(what="address", problem=str(error)) from None

    def may(self, permission: Permission) -> bool:
        """Whether the caller has this permission in the namespace."""
        return is_allowed(self.caller, permission, self.namespace)

    def memory(self, permission: Permission) -> Memory:
        """The memory of the namespace. Raises ``Forbidden`` if the caller lacks the permission."""
        return self.gateway.authorize(self.caller, permission, self.namespace)

    def own_scope(self, permission: Permission, scope: str | None) -> str:
        """The scope to work in, by default that of the key.

        Raises ``Forbidden`` if the key is limited to others.
        """
        return own_scope(self.caller, permission, scope or None)

    @property
    def sees_whole_store(self) -> bool:
        """Whether the caller may see what belongs to no namespace: ledger, traces, benchmarks, prompts."""
        return is_allowed(self.caller, Permission.LEDGER, None)

    def whole_store(self) -> Memory:
        """The home memory, for what belongs to no namespace.

        Raises ``Forbidden`` without the ledger permission.
        """
        return self.gateway.authorize_store(self.caller, Permission.LEDGER)

    def namespaces(self) -> list[str]:
        """The namespaces the caller can choose from."""
        if not self.caller.covers_all:
            return sorted(self.caller.namespaces)
        known = {*self.gateway.store.namespaces(), self.gateway.home.namespace, self.namespace}
        return sorted(known - {SYSTEM_NAMESPACE})[:MAX_LISTED_NAMESPACES]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A template with its context; or a redirect; or a file to download, with the content ``context["text"]``
    or in ``pieces``. By default its status is that of ``context["problem"]``.
    """

    template: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    status: int = 0
    redirect_to: str | None = None
    file_name: str | None = None
    pieces: Iterator[bytes] | None = None

    def __post_init__(self) -> None:
        problem = self.context.get("problem")
        otherwise = status_of(problem) if isinstance(problem, StandfastError) else 200
        object.__setattr__(self, "status", self.status or otherwise)


PageHandler = Callable[[PageRequest], Page]
