"""The page at ``/docs``: the OpenAPI document for people, and a form for each call.

It loads nothing, and its script calls this server only. The key stays in the field that it is typed into.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final

from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, Response

from standfast.html_pages import page_from
from standfast.server.access.permissions import ROLES_OF_PERMISSION, SCOPE_OF_PERMISSION, KeyRole, KeyScope
from standfast.server.http.endpoints import ENDPOINTS, Endpoint
from standfast.server.http.openapi import openapi_document

_COVERAGE: Final = {
    KeyScope.NAMESPACE: "a key for the namespace",
    KeyScope.STORE: "a key for all namespaces",
    KeyScope.ANY: "any key",
}
_BOUNDS: Final = {
    "minimum": "at least",
    "maximum": "at most",
    "maxLength": "at most",
    "pattern": "pattern",
}
_Row = tuple[str, str, bool, dict[str, Any], str]


def docs_response() -> Response:
    """The page as a response, which allows its own style and script only."""
    style, script = _part("docs.css"), _part("docs.js")
    policy = (
        f"default-src 'none'; style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'; "
        "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    )
    return HTMLResponse(docs_page(), headers={"Content-Security-Policy": policy})


@cache
def _part(name: str) -> str:
    return files("standfast.server.http").joinpath("templates", name).read_text(encoding="utf-8").strip()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def docs_page() -> str:
    """The page, generated from the table of endpoints and the OpenAPI document."""
    document = openapi_document()
    by_tag: dict[str, list[Endpoint]] = {}
    for one in ENDPOINTS:
        by_tag.setdefault(one.tag, []).append(one)
    return page_from(
        "standfast.server.http",
        "docs.html",
        extra="server",
        filters={
            "bounds": _bounds,
            "coverage": lambda one: _COVERAGE[SCOPE_OF_PERMISSION[one.permission]],
            "field_rows": _field_rows,
            "indented": lambda example: json.dumps(example, indent=2, ensure_ascii=False),
            "parameter_row": _parameter_row,
            "prose": _prose,
            "roles": lambda one: ", ".join(
                role for role in KeyRole if role in ROLES_OF_PERMISSION[one.permission]
            ),
        },
        by_tag=by_tag,
        paths=document["paths"],
        schemas=document["components"]["schemas"],
        info=document["info"],
        style=_part("docs.css"),
        script=_part("docs.js"),
    )


def _parameter_row(item: dict[str, Any]) -> _Row:
    return item["name"], item["in"], item["required"], item["schema"], item.get("description", "")


def _field_rows(schema: dict[str, Any]) -> Iterator[_Row]:
    required = set(schema.get("required", ()))
    for field, kind in schema["properties"].items():
        yield field, "", field in required, kind, kind.get("description", "")


def _prose(text: str) -> Markup:
    """Text whose names in backticks are shown as code."""
    return Markup(re.sub(r"(`{1,2})([^`]+)\1", r"<code>\2</code>", str(escape(text))))  # noqa: S704  # Escaped.


def _bounds(schema: dict[str, Any]) -> str:
    """What a value must be besides its type."""
    limits = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    unit = " characters" if "maxLength" in schema and "pattern" not in schema else ""
    return f" ({', '.join(limits)}{unit})" if limits else ""
