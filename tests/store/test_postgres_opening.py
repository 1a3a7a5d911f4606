"""A server is trusted only after its settings were read back; whatever is wrong is told in words, never with
a password.
"""

import importlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from standfast.errors import CannotOpen, MissingExtra
from standfast.store.postgres import PostgresStorage, server
from standfast.store.store import Store
from tests.servers import postgres as servers
from tests.servers.postgres import PostgresServer
from tests.servers.process import ReservedPort
from tests.store.builders import postgres_store


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection beside the store's, whose search path is the store's schema."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=standfast") as connection:
        yield connection


def _shown(store: Store, setting: str) -> set[str]:
    """What the writer's and a reader's connection have."""
    assert isinstance(store._storage, PostgresStorage)
    storage, sql = store._storage, f"SHOW {setting}"
    ((row,),) = storage._writer.execute([(sql, ())])
    return {row[0], storage._rows(sql)[0][0]}


def test_a_missing_driver_names_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("standfast.store.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(MissingExtra, match=r"pip install 'standfast\[postgres\]'"):
        importlib.import_module("standfast.store.postgres")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://anna:s3cret@127.0.0.1:{port}/memory",
        "postgresql://anna:s3cret/x@127.0.0.1:{port}/memory",
        "postgresql://anna:x@s3cret:y@127.0.0.1:{port}/memory",
        "postgresql://anna:%s3cret@127.0.0.1:{port}/memory",
        "host=127.0.0.1 port={port} password=s3cret dbname=memory",
        "host=127.0.0.1 s3cret",
    ],
)
def test_a_url_that_leads_nowhere_is_told_without_its_password(url: str) -> None:
    with pytest.raises(CannotOpen) as refusal:
        postgres_store(url.format(port=ReservedPort().number))

    assert "s3cret" not in f"{refusal.value} {refusal.value!r} {refusal.value.as_json()}"
    assert "check that a server runs there" in str(refusal.value) or "percent-encode" in str(refusal.value)


def test_an_unknown_database_and_an_unknown_user_are_told(postgres_url: str) -> None:
    for wrong in (postgres_url + "x", postgres_url.replace("standfast@", "nobody@")):
        with pytest.raises(CannotOpen, match="does not exist; check"):
            postgres_store(wrong)


def test_a_user_who_may_not_make_the_schema_is_told(
    postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    admin.execute("DROP ROLE IF EXISTS guest")
    admin.execute("CREATE ROLE guest LOGIN")

    with pytest.raises(CannotOpen, match=r"permission denied .* the schema standfast"):
        postgres_store(postgres_url.replace("standfast@", "guest@"))


def test_synchronous_commit_is_forced_on(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    for value in ("off", "local", "remote_write"):
        admin.execute(
            f"ALTER ROLE standfast IN DATABASE {admin.info.dbname} SET synchronous_commit = {value}"
        )
        store = postgres_store(postgres_url)
        assert _shown(store, "synchronous_commit") == {"on"}
        store.close()


def test_synchronous_commit_may_be_stronger(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute(f"ALTER DATABASE {admin.info.dbname} SET synchronous_commit = remote_apply")
    store = postgres_store(postgres_url)
    shown = _shown(store, "synchronous_commit")
    store.close()

    assert shown == {"remote_apply"}


def test_a_server_that_does_not_sync_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for setting in ("fsync", "full_page_writes"):
        monkeypatch.setattr(servers, "SETTINGS", servers.SETTINGS | {setting: "off"})
        careless = PostgresServer(tmp_path)
        careless.start()
        with pytest.raises(CannotOpen) as refusal:
            postgres_store(careless.url)
        told.append(str(refusal.value))
        careless.kill()
        monkeypatch.undo()

    assert "fsync = off; set fsync = on" in told[0]
    assert "full_page_writes = off; set full_page_writes = on" in told[1]


def test_another_encoding_is_refused(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    other = f"{admin.info.dbname}_latin"
    admin.execute(f"CREATE DATABASE {other} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")

    with pytest.raises(CannotOpen, match="server_encoding = LATIN1; create a database"):
        postgres_store(postgres_url.replace(admin.info.dbname, other))


def test_an_old_server_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "OLDEST_SERVER", 99)

    with pytest.raises(CannotOpen, match="upgrade it to 99"):
        postgres_store(postgres_url)


def test_a_newer_schema_is_refused(admin: psycopg.Connection[Any], postgres_url: str) -> None:
    postgres_store(postgres_url).close()
    admin.execute("INSERT INTO migrations VALUES (99, now())")

    with pytest.raises(CannotOpen, match=r"version 99, .* upgrade Standfast"):
        postgres_store(postgres_url)


def test_a_migration_that_fails_leaves_nothing(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = (*server.MIGRATIONS, "CREATE TABLE half (x int); SELECT 1 / 0")
    monkeypatch.setattr(server, "MIGRATIONS", broken)
    with pytest.raises(CannotOpen, match="division by zero"):
        postgres_store(postgres_url)

    assert admin.execute("SELECT to_regnamespace('standfast')").fetchone() == (None,)


def test_many_may_open_a_new_database_at_once(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    stores: list[Store] = []
    threads = [threading.Thread(target=lambda: stores.append(postgres_store(postgres_url))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()

    assert len(stores) == 8
    versions = admin.execute("SELECT version FROM migrations ORDER BY version").fetchall()
    assert versions == [(number,) for number in range(1, len(server.MIGRATIONS) + 1)]
