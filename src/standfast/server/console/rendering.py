"""The templates, and how values read in them. Everything is escaped; no template says that something need not be."""

import difflib
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import RedirectResponse, Response

from standfast.limits import MAX_COMPARED_WORDS
from standfast.server.operations.gateway import VERSION

ROOT: Final = "/console"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
}
STATIC_TYPES: Final = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
# Controls but tab and line break, and what can't be seen or turns a text around: shown by its code, in whatever is stored.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)
_WORDS: Final = re.compile(r"\s+|\w+|[^\w\s]")


def render(template: str, facts: dict[str, Any]) -> str:
    """A template with facts in it."""
    return _environment().get_template(template).render(facts)


def html(template: str, facts: Mapping[str, Any], status: int = 200) -> Response:
    """The page as an answer; what stands around pages is nothing, unless the facts say otherwise."""
    around = {"caller": None, "title": None, "here": None, "version": VERSION, "namespace": None}
    return Response(render(template, {**around, **facts}), status, media_type="text/html", headers=HEADERS)


def onward(to: str) -> Response:
    """Go to another page."""
    return RedirectResponse(to, 303, headers=HEADERS)


@cache
def static_file(name: str) -> bytes:
    """A file that pages use."""
    return files("standfast.server.console").joinpath("static", name).read_bytes()


@cache
def static_address(name: str) -> str:
    """Where a file is; another content has another address, so that browsers may keep it."""
    return f"{ROOT}/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("standfast.server.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "bytes": bytes_text,
        "instant": instant_text,
        "seen": seen,
        "short_id": short_id,
        "json_text": json_text,
        "json_line": json_line,
    }
    environment.globals |= {"link": link, "static": static_address, "word_pieces": word_pieces}
    return environment


def link(page: str, namespace: str | None = None, /, **words: object) -> str:
    """The address of a page, with what was given and is not None."""
    told = {"in": namespace, **{name.rstrip("_"): word for name, word in words.items()}}
    query = urlencode({name: str(word) for name, word in told.items() if word is not None})
    return f"{ROOT}/{page}" + (f"?{query}" if query else "")


def bytes_text(count: float) -> str:
    """A size as people say it."""
    for limit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= limit:
            return f"{count / limit:.1f} {name}"
    return f"{count:.0f} B"


def instant_text(text: str | None) -> str:
    """A UTC instant without the digits that nobody reads; whatever is none stays as it is."""
    if text and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", text):
        return f"{text[:10]} {text[11:19]} UTC"
    return text or "—"


def seen(text: object) -> str:
    """A stored text with everything in it that can't be seen spelled out."""
    return _UNSEEN.sub(lambda unseen: f"⟨U+{ord(unseen[0]):04X}⟩", str(text))


def short_id(text: str) -> str:
    """The beginning of a digest or a long id."""
    return text if len(text) <= 16 else f"{text[:12]}…"


def json_text(value: object) -> str:
    """A value as JSON that people can read."""
    return seen(json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True))


def json_line(value: object) -> str:
    """A small value as JSON on one line."""
    return seen(json.dumps(value, ensure_ascii=False, sort_keys=True))


def word_pieces(before: str, after: str) -> list[tuple[str, str]]:
    """Two texts as one: pieces that are the "same", "gone" or "come". Texts that are too long go and come as a whole."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > MAX_COMPARED_WORDS:
        old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    if len(old) + len(new) > MAX_COMPARED_WORDS:
        old, new = [before], [after]
    pieces = list[tuple[str, str]]()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for what, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        gone, come = "".join(old[old_from:old_to]), "".join(new[new_from:new_to])
        if what == "equal":
            pieces.append(("same", gone))
            continue
        pieces += [(kind, text) for kind, text in (("gone", gone), ("come", come)) if text]
    return pieces
