"""The servers as pytest fixtures: each starts when a test first asks for it and stops when the session ends.

With pytest-xdist every worker is a session and has servers of its own. A server that is not installed is an
error with the way out in its message; no test is skipped for it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from standfast.side_files import SideFiles
from tests.servers.model import ModelServer
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.s3 import MotoServer, S3Server

AnyServer = TypeVar("AnyServer", RedisServer, S3Server, MotoServer, ModelServer)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """PostgreSQL. A test that only needs a database asks for `postgres_url`."""
    server = PostgresServer(tmp_path_factory.mktemp("postgres"))
    server.start()
    yield server
    # Its data goes away now, and an orderly stop would first sync every file of every test's database.
    server.kill()
    _remove(server.data)


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, empty database. A server that an earlier test killed and left so is started again."""
    postgres_server.start()
    url = postgres_server.new_database()
    yield from _without_side_files(url)
    postgres_server.drop_database(url)


def _without_side_files(url: str) -> Iterator[str]:
    """The URL; what its processes keep in the working directory goes with the database.

    Another server may have had its port, and a database of its name.
    """
    files = SideFiles.of(url)
    assert files is not None, "a database has side files"
    folder = files.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    yield url
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _empty_store(postgres_server: PostgresServer) -> str:
    from tests.store.builders import postgres_store

    url = postgres_server.new_database()
    postgres_store(url).close()
    return url


@pytest.fixture
def postgres_store_url(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with an empty store: a copy, because making the tables takes longer than most tests."""
    postgres_server.start()
    url = postgres_server.new_database(request.getfixturevalue("_empty_store"))
    yield from _without_side_files(url)
    postgres_server.drop_database(url)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """Redis, durable: a test may kill it and start it again."""
    yield from _running(RedisServer(tmp_path_factory.mktemp("redis")))


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The server's address, with nothing in it. A server that an earlier test killed is started again."""
    redis_server.start()
    redis_server.flush()
    return redis_server.url


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """S3 as strict as the real one. It takes 2 s to start."""
    yield from _running(S3Server(tmp_path_factory.mktemp("s3")))


@pytest.fixture(scope="session")
def moto_server() -> Iterator[MotoServer]:
    """S3 for quick tests, in this process."""
    yield from _running(MotoServer())


@pytest.fixture(scope="session")
def model_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelServer]:
    """A real language model, for tests marked slow: its packages are installed by `make test-all` only."""
    yield from _running(ModelServer(tmp_path_factory.mktemp("model")))


def _running(server: AnyServer) -> Iterator[AnyServer]:
    server.start()
    yield server
    server.stop()
    if isinstance(server, RedisServer | S3Server):
        _remove(server.data)


def _remove(data: Path) -> None:
    """Free the disk: pytest keeps the folders of three sessions, and a database takes 8 MB. The log stays."""
    shutil.rmtree(data, ignore_errors=True)
