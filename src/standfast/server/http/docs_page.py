"""The page at ``/docs``: the OpenAPI document for people. It has no script and loads nothing."""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import Any, Final

from starlette.responses import HTMLResponse, Response

from standfast.server.access.permissions import ROLES_OF_PERMISSION, SCOPE_OF_PERMISSION, KeyRole, KeyScope
from standfast.server.http.endpoints import ENDPOINTS, Endpoint
from standfast.server.http.openapi import openapi_document

_REF: Final = "#/components/schemas/"
_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1rem; overflow-wrap: anywhere; }
code, pre { font: .9rem/1.4 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .5rem; border: 1px solid; }
summary { cursor: pointer; padding: .4rem 0; }
section { margin: 1.5rem 0; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid; }
@media (max-width: 40rem) {
  tr { display: block; border-bottom: 1px solid; padding: .3rem 0; }
  th, td { display: block; border: 0; padding: 0; }
}
""".strip()  # noqa: E501  # A style sheet.
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'"
)
_COVERAGE: Final = {
    KeyScope.NAMESPACE: "a key for the namespace",
    KeyScope.STORE: "a key for all namespaces",
    KeyScope.ANY: "any key",
}


def docs_response() -> Response:
    """The page as a response."""
    return HTMLResponse(docs_page(), headers={"Content-Security-Policy": _POLICY})


@cache
def docs_page() -> str:
    """The page, generated from the table of endpoints and the OpenAPI document."""
    document = openapi_document()
    operations = "\n".join(_operation(one, document) for one in ENDPOINTS)
    schemas = "\n".join(_schema(name, one) for name, one in sorted(document["components"]["schemas"].items()))
    info = document["info"]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(info["title"])} API</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{escape(info["title"])} API {escape(info["version"])}</h1>
<p>{_prose(info["description"])} Send your key as <code>Authorization: Bearer sf_…</code>.
Programs read <a href="/openapi.json">/openapi.json</a>.</p>
<section>
<h2>Operations</h2>
{operations}
</section>
<section>
<h2>Schemas</h2>
{schemas}
</section>
</main>
</body>
</html>
"""


def _operation(one: Endpoint, document: dict[str, Any]) -> str:
    operation = document["paths"][one.path][one.method.lower()]
    roles = ", ".join(role for role in KeyRole if role in ROLES_OF_PERMISSION[one.permission])
    coverage = _COVERAGE[SCOPE_OF_PERMISSION[one.permission]]
    parts = [f"<p>Needs {coverage}, of role {roles}.</p>"]
    if operation["parameters"]:
        rows = [
            (item["name"], item["in"], item["required"], item["schema"], item.get("description", ""))
            for item in operation["parameters"]
        ]
        parts.append(_table(rows))
    if one.has_body:
        parts.append(f"<p>Body: {_link(one.request.__name__)}</p>")
    parts += [
        f"<p>Response {one.status}: {_link(one.response.__name__)}</p>",
        f"<pre>{escape(_curl(one))}</pre>",
    ]
    title = f"<code>{one.method} {escape(one.path)}</code> {_prose(one.summary)}"
    return f'<details id="{one.name}"><summary>{title}</summary>\n{"".join(parts)}\n</details>'


def _curl(one: Endpoint) -> str:
    lines = [f"curl -X {one.method} -H 'Authorization: Bearer '$STANDFAST_API_KEY"]
    if one.takes_version:
        lines.append("-H 'If-Match: \"0\"'")
    if one.has_body:
        lines.append("-H 'Content-Type: application/json' -d @body.json")
    return " \\\n  ".join([*lines, f"'http://127.0.0.1:8765{one.path}'"])


def _schema(name: str, schema: dict[str, Any]) -> str:
    required = set(schema.get("required", ()))
    rows = [
        (field, None, field in required, kind, kind.get("description", ""))
        for field, kind in schema.get("properties", {}).items()
    ]
    described = _prose(schema.get("description", ""))
    body = _table(rows) if rows else f"<p>{_type(schema)}</p>"
    return (
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code>'
        f" {described}</summary>\n{body}\n</details>"
    )


def _table(rows: Sequence[tuple[str, str | None, bool, dict[str, Any], str]]) -> str:
    lines = [
        f'<tr><th scope="row"><code>{escape(name)}</code></th><td>{escape(where or "")}</td>'
        f"<td>{'required' if required else 'optional'}</td><td>{_type(schema)}</td><td>{_prose(description)}</td></tr>"  # noqa: E501  # A row of a table.
        for name, where, required, schema, description in rows
    ]
    return f"<table><tbody>{''.join(lines)}</tbody></table>"


def _prose(text: str) -> str:
    """Text whose names in backticks are shown as code."""
    return re.sub(r"(`{1,2})([^`]+)\1", r"<code>\2</code>", escape(text))


def _type(schema: dict[str, Any]) -> str:
    """The type of a value in a few words, with links to other schemas."""
    if "$ref" in schema:
        return _link(schema["$ref"].removeprefix(_REF))
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if "items" in schema and isinstance(schema["items"], dict):
        return f"array of {_type(schema['items'])}"
    limits = [
        f"{word} {schema[key]}"
        for key, word in (
            ("minimum", "at least"),
            ("maximum", "at most"),
            ("maxLength", "at most"),
            ("pattern", "pattern"),
        )
        if key in schema
    ]
    unit = " characters" if "maxLength" in schema and "pattern" not in schema else ""
    name = schema.get("type", "any value")
    return escape(name + (f" ({', '.join(limits)}{unit})" if limits else ""))


def _link(name: str) -> str:
    return f'<a href="#{escape(name)}"><code>{escape(name)}</code></a>'
