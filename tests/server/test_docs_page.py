"""The page at /docs: everything that the OpenAPI document has, and nothing from elsewhere."""

import base64
import hashlib
import re
from html.parser import HTMLParser

from starlette.testclient import TestClient

from standfast.server.http.docs_page import docs_page
from standfast.server.http.endpoints import ENDPOINTS
from standfast.server.http.openapi import openapi_document


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
        if tag != "meta":
            self.open_tags.append(tag)
        if "id" in fields:
            self.ids.append(fields["id"] or "")
        if tag == "a":
            self.links.append(fields["href"] or "")
        elif tag in {"script", "link", "img", "iframe"} or {"src", "style"} & set(fields):
            self.loads.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that tags are nested."""
        assert self.open_tags.pop() == tag


def test_the_page_has_every_operation_and_every_schema() -> None:
    page = _Page(docs_page())
    expected = [one.name for one in ENDPOINTS] + sorted(openapi_document()["components"]["schemas"])

    assert page.ids == expected
    assert len(set(page.ids)) == len(page.ids)
    assert page.open_tags == []


def test_every_link_leads_somewhere_and_nothing_is_loaded() -> None:
    page = _Page(docs_page())

    assert page.loads == []
    assert {link for link in page.links if link.removeprefix("#") not in page.ids} == {"/openapi.json"}
    assert "`" not in docs_page()
    assert "//" not in re.sub(r"http://127\.0\.0\.1:8765", "", docs_page())


def test_the_page_needs_no_key_and_allows_only_its_own_style(http: TestClient) -> None:
    answer = http.get("/docs")
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith(
        f"default-src 'none'; style-src 'sha256-{digest}'"
    )
    assert "unsafe" not in answer.headers["content-security-policy"]
