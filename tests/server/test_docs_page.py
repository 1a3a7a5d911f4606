"""The page at /docs: everything that the OpenAPI document has, and nothing from elsewhere."""

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from standfast.server.app import build_full_app
from standfast.server.http.docs_page import docs_page
from standfast.server.http.endpoints import ENDPOINTS
from standfast.server.http.examples import BODIES
from standfast.server.http.openapi import openapi_document
from tests.server.console.browser import browser, chromium, serving_app
from tests.server.harness import Harness, make_gateway


class _Page(HTMLParser):
    """The ids and links of a page, and whatever would load or run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.open_tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to."""
        fields = dict(attrs)
        if tag not in {"meta", "input"}:
            self.open_tags.append(tag)
        if "id" in fields:
            self.ids.append(fields["id"] or "")
        if tag == "a":
            self.links.append(fields["href"] or "")
        elif tag in {"link", "img", "iframe"} or {"src", "style"} & set(fields):
            self.loads.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that tags are nested."""
        assert self.open_tags.pop() == tag


def test_the_page_has_every_operation_and_every_schema() -> None:
    page = _Page(docs_page())
    expected = [one.name for one in ENDPOINTS] + sorted(openapi_document()["components"]["schemas"])

    assert sorted(page.ids) == sorted(["the-key", *expected])
    assert len(set(page.ids)) == len(page.ids)
    assert page.open_tags == []


def test_every_link_leads_somewhere_and_nothing_is_loaded() -> None:
    page = _Page(docs_page())

    assert page.loads == []
    assert {link for link in page.links if link.removeprefix("#") not in page.ids} == {"/openapi.json"}
    assert "`" not in docs_page()
    assert "//" not in re.sub(r"http://127\.0\.0\.1:8765|scope//id", "", docs_page())


def test_every_example_is_a_body_that_its_operation_takes() -> None:
    by_name = {one.name: one for one in ENDPOINTS}

    assert len(BODIES) > 10
    for name, example in BODIES.items():
        assert by_name[name].request.from_json(example)


@pytest.mark.skipif(chromium() is None, reason="no Chromium here")
def test_a_call_can_be_made_from_the_page(tmp_path: Path) -> None:
    harness = Harness(make_gateway(tmp_path / "log"))
    app, _ = build_full_app(harness.gateway)
    with serving_app(app) as address, browser() as opened:
        page = opened.new_page()
        page.goto(f"{address}/docs")
        page.fill("#the-key", harness.token("operator", "*"))
        for name in ("remember", "recall"):
            page.click(f"#{name} summary")
            page.click(f"#{name} button")
            page.locator(f"#{name} output", has_text="200").wait_for()
        shown = page.text_content("#recall output") or ""

    assert "answers in German" in shown


def test_a_browser_that_asks_for_no_path_is_sent_to_the_console_or_here(
    http: TestClient, tmp_path: Path
) -> None:
    app, _ = build_full_app(make_gateway(tmp_path / "log"))
    with_console = TestClient(app, base_url="http://localhost")

    assert http.get("/", follow_redirects=False).headers["location"] == "/docs"
    assert with_console.get("/", follow_redirects=False).headers["location"] == "/console"


def test_the_page_needs_no_key_and_allows_only_its_own_style(http: TestClient) -> None:
    answer = http.get("/docs")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    own = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith(
        f"default-src 'none'; style-src 'sha256-{digest}'"
    )
    assert f"script-src 'sha256-{own}'; connect-src 'self';" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
