"""A store of a format that this version does not know yet is refused in words and not touched."""

from pathlib import Path

import pytest

from standfast.errors import CannotOpen
from standfast.records.rows import RowKind
from standfast.records.scopes import SHARED, scoped_key
from standfast.store.opening import open_store
from standfast.store.postgres.server import MIGRATIONS as POSTGRES_MIGRATIONS
from standfast.store.sqlite.schema import MIGRATIONS as SQLITE_MIGRATIONS
from tests.store.builders import commit, contents, expire, write

TO_A_NEWER_FORMAT = "INSERT INTO migrations SELECT 99, applied_at FROM migrations LIMIT 1;"
A, B, C = (scoped_key(RowKind.TTL, SHARED, name) for name in "abc")


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is to be."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    place: str = request.getfixturevalue("postgres_store_url")
    return place


def _change(url: str, sql: str, version: int) -> None:
    if "://" in url:
        import psycopg

        with psycopg.connect(url) as connection:
            connection.execute("SET search_path = standfast")
            connection.execute(sql)
        return
    import apsw

    file = apsw.Connection(url, vfs="cksmvfs")
    file.execute(sql)
    file.execute(f"PRAGMA user_version = {version}")
    file.close()


def _fill(url: str) -> None:
    store = open_store(url, create=True)
    store.commit(commit("r1", write(A, "first"), write(B, "second")))
    store.commit(commit("r2", expire(B, erases="asked to"), at=1))
    store.stage(commit("r3", write(C, "third"), at=2), waits_for="an approval")
    store.close()


def test_a_newer_store_is_refused_in_words_and_not_touched(url: str) -> None:
    _fill(url)
    _change(url, TO_A_NEWER_FORMAT, 99)
    with pytest.raises(CannotOpen, match=r"version 99, .* upgrade Standfast"):
        open_store(url, create=False)

    _change(url, "DELETE FROM migrations WHERE version = 99", len(SQLITE_MIGRATIONS))
    store = open_store(url, create=False)
    assert contents(store) == {A: '"first"'}
    store.close()


def test_both_backends_have_the_same_format_version() -> None:
    assert len(SQLITE_MIGRATIONS) == len(POSTGRES_MIGRATIONS)
