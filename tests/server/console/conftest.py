"""A furnished harness for all tests that only look, and visitors who are signed in to it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from tests.server.console.furnished import Furnished, furnished


class Visitor:
    """Somebody with a browser's manners: keeps cookies, and fills in forms that it was shown."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.token = ""

    def get(self, address: str, **options: object) -> Response:
        """Look at a page, and keep its form token."""
        answer: Response = self.client.get(address, **options)  # type: ignore[arg-type]
        self._learn(answer)
        return answer

    def post(self, address: str, **fields: str) -> Response:
        """Send a form, with the token of the page that was looked at last."""
        answer: Response = self.client.post(address, data={"form_token": self.token, **fields})
        self._learn(answer)
        return answer

    def sign_in(self, key: str) -> Response:
        """Sign in as whoever has this key."""
        self.get("/console/login")
        return self.post("/console/login", key=key, to="/console/")

    def _learn(self, answer: Response) -> None:
        if found := re.search(r'name="form_token" value="(\w+)"', answer.text):
            self.token = found[1]


@contextmanager
def visiting(harness: Furnished, key: str | None = None, *, behind_tls: bool = False) -> Iterator[Visitor]:
    """A visitor of a harness, signed in if there is a key."""
    base = "https://testserver" if behind_tls else "http://testserver"
    with TestClient(harness.app(behind_tls=behind_tls), base_url=base, follow_redirects=False) as client:
        visitor = Visitor(client)
        if key is not None:
            assert visitor.sign_in(key).status_code == 303
        yield visitor


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furnished]:
    """One for all tests that change nothing in it."""
    with furnished(tmp_path_factory.mktemp("harness")) as built:
        yield built


@pytest.fixture(scope="session")
def operator(harness: Furnished) -> Iterator[Visitor]:
    """An operator of all namespaces, signed in."""
    with visiting(harness, harness.operator) as visitor:
        yield visitor


@pytest.fixture(scope="session")
def auditor(harness: Furnished) -> Iterator[Visitor]:
    """An auditor of all namespaces, signed in."""
    with visiting(harness, harness.auditor) as visitor:
        yield visitor


@pytest.fixture(scope="session")
def agent(harness: Furnished) -> Iterator[Visitor]:
    """An agent with a key for one namespace, signed in."""
    with visiting(harness, harness.agent) as visitor:
        yield visitor


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
    """What a page says, without its elements."""
    page = _Words()
    page.feed(answer.text)
    return " ".join(" ".join(page.words).split())


def elements_of(answer: Response) -> list[tuple[str, dict[str, str | None]]]:
    """The elements of a page with their attributes."""
    page = _Words()
    page.feed(answer.text)
    return page.elements
