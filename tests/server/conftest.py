"""Fixtures: a gateway, its application in this process, and one server in another process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from standfast.server.app import build_app
from tests.server.harness import Harness, Served, make_gateway


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    """A fresh gateway."""
    gateway = make_gateway(tmp_path / "store.db")
    yield Harness(gateway)
    gateway.close()


@pytest.fixture
def http(harness: Harness) -> Iterator[TestClient]:
    """The app of the gateway, in this process."""
    with TestClient(build_app(harness.gateway), raise_server_exceptions=True) as client:
        yield client


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for all tests that do not end it."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "standfast.toml").write_text('embedder = "static"\ntraces = "off"\n')
    server = Served(folder, "--calls-per-second", "100000", has_mcp=True)
    server.start()
    yield server
    server.process.stop()
