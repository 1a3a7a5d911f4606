"""The servers keep their own promises: loopback only, durable where they say so, gone when they should be."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.servers import guard
from tests.servers.model import MODEL_NAME, ModelServer
from tests.servers.postgres import PostgresServer
from tests.servers.process import LOOPBACK, ReservedPort
from tests.servers.redis import RedisServer
from tests.servers.s3 import MotoServer, S3Server, connect
from tests.servers.wheels import MissingServer

ROOT = Path(__file__).parents[1]
GONE_SECONDS = 10.0
OwnServer = PostgresServer | RedisServer | S3Server
LOOPBACK_ONLY = {"0100007F"}


def _listening(pids: Iterable[int]) -> set[str]:
    """The addresses that these processes listen on, in the kernel's own spelling."""
    sockets = {target for pid in pids for target in _open_files(pid)}
    rows = [
        row.split()
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for row in Path(table).read_text().splitlines()[1:]
    ]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def _open_files(pid: int) -> Iterator[str]:
    # A process may end meanwhile, as the backend of a closed connection does, and so may a file be closed.
    with suppress(FileNotFoundError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                yield str(link.readlink())


def _are_gone(pids: Collection[int]) -> bool:
    return guard.wait_until_gone(pids, within_seconds=GONE_SECONDS)


@pytest.mark.parametrize("name", ["postgres_server", "redis_server", "s3_server"])
def test_a_server_listens_on_loopback_only_and_stops_without_a_trace_and_starts_again(
    name: str, request: pytest.FixtureRequest
) -> None:
    server: OwnServer = request.getfixturevalue(name)
    pids = server.process.pids
    addresses = _listening(pids)
    server.stop()
    stopped = _are_gone(pids) and not server.process.running
    server.start()

    assert addresses == LOOPBACK_ONLY
    assert stopped
    assert server.process.running


def test_starting_a_server_that_runs_changes_nothing(redis_server: RedisServer) -> None:
    before = redis_server.process.pids
    redis_server.start()

    assert redis_server.process.pids == before


def test_every_test_gets_an_empty_database_of_its_own(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    import psycopg

    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE mine (x int)")
    with psycopg.connect(postgres_server.new_database()) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()

    assert tables == (0,)


@pytest.mark.parametrize(
    ("setting", "value"), [("fsync", "on"), ("synchronous_commit", "on"), ("max_connections", "200")]
)
def test_postgres_is_as_durable_as_in_production(
    postgres_server: PostgresServer, setting: str, value: str
) -> None:
    import psycopg

    with psycopg.connect(postgres_server.url) as connection:
        shown = connection.execute("SELECT current_setting(%s)", [setting]).fetchone()

    assert shown == (value,)


def test_postgres_keeps_what_was_committed_when_all_its_processes_are_killed(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    import psycopg

    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE kept (x int)")
        connection.execute("INSERT INTO kept VALUES (7)")
    open_backend = psycopg.connect(postgres_url)
    pids = postgres_server.process.pids
    postgres_server.kill()
    survivors = [pid for pid in pids if guard.is_alive(pid)]
    open_backend.close()
    postgres_server.start()
    with psycopg.connect(postgres_url) as connection:
        kept = connection.execute("SELECT x FROM kept").fetchall()

    assert len(pids) > 2, "a postmaster, its workers and one backend"
    assert survivors == []
    assert kept == [(7,)]


@pytest.mark.parametrize("end", [RedisServer.kill, RedisServer.stop])
def test_redis_keeps_what_it_replied_to(
    end: Callable[[RedisServer], None], redis_server: RedisServer, redis_url: str
) -> None:
    import redis

    with redis.Redis.from_url(redis_url) as client:
        client.set("kept", "7")
    end(redis_server)
    redis_server.start()
    with redis.Redis.from_url(redis_url) as client:
        kept = client.get("kept")

    assert kept == b"7"


def test_redis_without_its_log_forgets_and_flush_forgets_too(tmp_path: Path) -> None:
    import redis

    server = RedisServer(tmp_path, appendonly=False)
    server.start()
    with redis.Redis.from_url(server.url) as client:
        client.set("lost", "7")
        server.flush()
        after_flush = client.dbsize()
        client.set("lost", "7")
    server.restart()
    with redis.Redis.from_url(server.url) as client:
        after_restart = client.dbsize()
    server.stop()

    assert (after_flush, after_restart) == (0, 0)


@pytest.fixture(params=["s3_server", "moto_server"])
def any_s3(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def _status(call: Callable[[], object]) -> int:
    from botocore.exceptions import ClientError

    try:
        call()
    except ClientError as error:
        return int(error.response["ResponseMetadata"]["HTTPStatusCode"])
    return 200


def test_a_key_is_created_once(any_s3: S3Server | MotoServer) -> None:
    client, bucket = any_s3.client(), any_s3.new_bucket()
    client.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")
    again = _status(lambda: client.put_object(Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*"))
    body = client.get_object(Bucket=bucket, Key="k")["Body"].read()

    assert again == 412
    assert body == b"1"


def test_a_write_over_a_stale_version_is_refused(any_s3: S3Server | MotoServer) -> None:
    client, bucket = any_s3.client(), any_s3.new_bucket()
    first = client.put_object(Bucket=bucket, Key="k", Body=b"1")["ETag"]
    client.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch=first)
    stale = _status(lambda: client.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=first))
    body = client.get_object(Bucket=bucket, Key="k")["Body"].read()

    assert stale == 412
    assert body == b"2"


def test_one_of_several_racing_writers_creates_the_key(s3_server: S3Server) -> None:
    client, bucket, statuses = s3_server.client(), s3_server.new_bucket(), []

    def write(body: bytes) -> None:
        statuses.append(
            _status(lambda: client.put_object(Bucket=bucket, Key="k", Body=body, IfNoneMatch="*"))
        )

    threads = [threading.Thread(target=write, args=(b"%d" % number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [200, 412, 412]


@pytest.mark.parametrize("wrong", ["access_key", "secret_key"])
def test_wrong_credentials_are_refused(s3_server: S3Server, wrong: str) -> None:
    keys = {"access_key": s3_server.access_key, "secret_key": s3_server.secret_key, wrong: "guessed"}
    stranger = connect(s3_server.endpoint_url, **keys)

    assert _status(stranger.list_buckets) == 403
    assert _status(lambda: stranger.put_object(Bucket=s3_server.new_bucket(), Key="k", Body=b"")) == 403


def test_a_body_that_is_not_what_its_checksum_says_is_refused(s3_server: S3Server) -> None:
    client, bucket = s3_server.client(), s3_server.new_bucket()
    wrong = _status(lambda: client.put_object(Bucket=bucket, Key="k", Body=b"1", ChecksumCRC32="AAAAAA=="))

    assert wrong == 400


def test_a_bucket_that_nobody_made_takes_no_writes(any_s3: S3Server | MotoServer) -> None:
    assert _status(lambda: any_s3.client().put_object(Bucket="nobody-made-me", Key="k", Body=b"")) == 404


def test_moto_listens_on_loopback_only_and_stops_listening() -> None:
    server = MotoServer()
    server.start()
    port = urlsplit(server.endpoint_url).port or 0
    bucket = server.new_bucket()
    addresses = _listening([os.getpid()])
    server.stop()

    assert bucket
    assert addresses == LOOPBACK_ONLY
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))


START_AND_WAIT = """
import importlib, json, pathlib, signal, sys
folder, module, name = sys.argv[1:]
server = getattr(importlib.import_module(module), name)(pathlib.Path(folder))
server.start()
print(json.dumps(server.process.pids), flush=True)
signal.pause()
"""


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        (RedisServer, signal.SIGINT),
        (RedisServer, signal.SIGTERM),
        (RedisServer, signal.SIGKILL),
        (PostgresServer, signal.SIGKILL),
    ],
)
def test_no_server_outlives_a_test_process_that_was_ended(
    kind: type[OwnServer], number: signal.Signals, tmp_path: Path
) -> None:
    script = [sys.executable, "-c", START_AND_WAIT, str(tmp_path), kind.__module__, kind.__name__]
    with subprocess.Popen(script, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tests:
        assert tests.stdout is not None
        pids = json.loads(tests.stdout.readline())
        ran = guard.is_alive(pids[0])
        tests.send_signal(number)

    assert ran
    assert _are_gone(pids)


def _complete(base_url: str, question: str) -> str:
    """One chat completion at temperature 0, over a plain connection."""
    address = urlsplit(base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    messages = [{"role": "user", "content": question}]
    body = {"model": MODEL_NAME, "messages": messages, "temperature": 0, "max_tokens": 64}
    connection.request(
        "POST", f"{address.path}/chat/completions", json.dumps(body), {"Content-Type": "application/json"}
    )
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return str(answer["choices"][0]["message"]["content"])


@pytest.mark.slow
def test_the_model_says_the_same_twice_whatever_was_asked_between(model_server: ModelServer) -> None:
    first = _complete(model_server.base_url, "Name three colours.")
    _complete(model_server.base_url, "Name three rivers.")
    second = _complete(model_server.base_url, "Name three colours.")

    assert first
    assert first == second


@pytest.mark.slow
def test_the_model_says_the_same_after_a_restart_and_stops_without_a_trace(
    model_server: ModelServer, tmp_path: Path
) -> None:
    server = ModelServer(tmp_path)
    server.start()
    assert server.process is not None
    pids = server.process.pids
    addresses = _listening(pids)
    answer = _complete(server.base_url, "Name three colours.")
    server.stop()

    assert addresses == LOOPBACK_ONLY
    assert _are_gone(pids)
    assert answer == _complete(model_server.base_url, "Name three colours.")


@pytest.mark.slow
def test_a_model_that_runs_already_is_used_and_left_running(
    model_server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDFAST_TEST_MODEL_URL", model_server.base_url)
    server = ModelServer(tmp_path)
    server.start()
    server.stop()

    assert server.base_url == model_server.base_url
    assert _complete(server.base_url, "Name three colours.")


def test_a_model_that_should_run_but_does_not_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port = ReservedPort()
    monkeypatch.setenv("STANDFAST_TEST_MODEL_URL", f"http://{LOOPBACK}:{port.number}/v1")

    with pytest.raises(MissingServer, match="STANDFAST_TEST_MODEL_URL"):
        ModelServer(tmp_path).start()
