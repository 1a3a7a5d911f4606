"""A sample server for the tests that only read, and signed-in clients of it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from tests.server.console.sample_server import SampleServer, sample_server


class BrowserClient:
    """A client that keeps cookies and sends the form token of the last page, as a browser does."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.token = ""

    def get(self, address: str, **options: object) -> Response:
        """Get a page and remember its form token."""
        answer: Response = self.client.get(address, **options)  # type: ignore[arg-type]
        self._learn(answer)
        return answer

    def post(self, address: str, **fields: str) -> Response:
        """Send a form with the token of the last page."""
        answer: Response = self.client.post(address, data={"form_token": self.token, **fields})
        self._learn(answer)
        return answer

    def sign_in(self, key: str) -> Response:
        """Sign in with this key."""
        self.get("/console/login")
        return self.post("/console/login", key=key, to="/console/")

    def _learn(self, answer: Response) -> None:
        if found := re.search(r'name="form_token" value="(\w+)"', answer.text):
            self.token = found[1]


@contextmanager
def browser_client(
    harness: SampleServer, key: str | None = None, *, behind_tls: bool = False
) -> Iterator[BrowserClient]:
    """A client of a sample server, signed in if a key is given."""
    base = "https://testserver" if behind_tls else "http://testserver"
    with TestClient(harness.app(behind_tls=behind_tls), base_url=base, follow_redirects=False) as http:
        client = BrowserClient(http)
        if key is not None:
            assert client.sign_in(key).status_code == 303
        yield client


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleServer]:
    """One server for all tests that change nothing."""
    with sample_server(tmp_path_factory.mktemp("harness")) as built:
        yield built


@pytest.fixture(scope="session")
def operator(harness: SampleServer) -> Iterator[BrowserClient]:
    """An operator of all namespaces, signed in."""
    with browser_client(harness, harness.operator) as client:
        yield client


@pytest.fixture(scope="session")
def auditor(harness: SampleServer) -> Iterator[BrowserClient]:
    """An auditor of all namespaces, signed in."""
    with browser_client(harness, harness.auditor) as client:
        yield client


@pytest.fixture(scope="session")
def agent(harness: SampleServer) -> Iterator[BrowserClient]:
    """An agent with a key for one namespace, signed in."""
    with browser_client(harness, harness.agent) as client:
        yield client


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def words_of(answer: Response) -> str:
    """The text of a page, without markup."""
    page = _Words()
    page.feed(answer.text)
    return " ".join(" ".join(page.words).split())


def elements_of(answer: Response) -> list[tuple[str, dict[str, str | None]]]:
    """The elements of a page with their attributes."""
    page = _Words()
    page.feed(answer.text)
    return page.elements
