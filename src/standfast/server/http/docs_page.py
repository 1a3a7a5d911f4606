"""The page at ``/docs``: the OpenAPI document for people, and a form for each call.

It loads nothing, and its script calls this server only. The key stays in the field that it is typed into.
"""

import base64
import hashlib
import json
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
form { margin: 1rem 0; } label { display: block; } input, textarea { font: inherit; width: 100%; box-sizing: border-box; }
textarea { font-family: ui-monospace, monospace; min-height: 7rem; } output { display: block; white-space: pre-wrap; font-family: ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0; border-bottom: 1px solid; }
@media (max-width: 40rem) {
  tr { display: block; border-bottom: 1px solid; padding: .3rem 0; }
  th, td { display: block; border: 0; padding: 0; }
}
""".strip()  # noqa: E501  # A style sheet.
_SCRIPT: Final = """
const key = document.getElementById("the-key");
for (const form of document.forms) form.addEventListener("submit", async event => {
  event.preventDefault();
  const shown = form.querySelector("output"), data = new FormData(form), query = new URLSearchParams();
  let path = form.dataset.path;
  const headers = {"Authorization": "Bearer " + key.value};
  for (const field of form.querySelectorAll("input")) {
    const value = data.get(field.name);
    if (field.dataset.in === "path") path = path.replace("{" + field.name + "}", encodeURIComponent(value));
    else if (value && field.dataset.in === "query") query.append(field.name, value);
    else if (value) headers[field.name] = value;
  }
  const options = {method: form.dataset.method, headers, credentials: "omit"};
  if (data.has("body")) { options.body = data.get("body"); headers["Content-Type"] = "application/json"; }
  shown.textContent = "…";
  try {
    const answer = await fetch(path + (query.size ? "?" + query : ""), options), text = await answer.text();
    let body = text;
    try { body = JSON.stringify(JSON.parse(text), null, 2); } catch {}
    shown.textContent = answer.status + " " + answer.statusText + "\\n" + body;
  } catch (error) { shown.textContent = String(error); }
});
""".strip()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_digest(_STYLE)}'; script-src 'sha256-{_digest(_SCRIPT)}'; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
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
    operations = "\n".join(
        f"<h3>{escape(tag)}</h3>\n"
        + "\n".join(_operation(one, document) for one in ENDPOINTS if one.tag == tag)
        for tag in dict.fromkeys(one.tag for one in ENDPOINTS)
    )
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
<p><label for="the-key">Key, to try calls from this page; it is not stored</label>
<input id="the-key" type="password" autocomplete="off"></p>
<section>
<h2>Operations</h2>
{operations}
</section>
<section>
<h2>Schemas</h2>
{schemas}
</section>
</main>
<script>{_SCRIPT}</script>
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
        _form(one, operation),
    ]
    title = f"<code>{one.method} {escape(one.path)}</code> {_prose(one.summary)}"
    return f'<details id="{one.name}"><summary>{title}</summary>\n{"".join(parts)}\n</details>'


def _form(one: Endpoint, operation: dict[str, Any]) -> str:
    """The fields of a call, and a button that makes it."""
    fields = []
    for item in operation["parameters"]:
        name = escape(item["name"])
        given = ' value="default"' if item["name"] == "namespace" else ""
        required = " required" if item["required"] else ""
        fields.append(f'<label>{name} <input name="{name}" data-in="{item["in"]}"{given}{required}></label>')
    if one.has_body:
        example = escape(json.dumps(one.example, indent=2, ensure_ascii=False))
        fields.append(f'<label>body <textarea name="body">{example}</textarea></label>')
    return (
        f'<form data-method="{one.method}" data-path="{escape(one.path)}">{"".join(fields)}'
        f"<button>Call {one.name.replace('_', ' ')}</button><output></output></form>"
    )


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
