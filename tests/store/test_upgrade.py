"""A store of a format that this version does not know, older or newer, is refused in words and not touched."""

from pathlib import Path

import pytest

from standfast.errors import CannotOpen
from standfast.records.rows import RowKind
from standfast.records.scopes import SHARED, scoped_key
from standfast.store.postgres.server import FIRST_VERSION as POSTGRES_FIRST_VERSION
from standfast.store.postgres.server import MIGRATIONS as POSTGRES_MIGRATIONS
from standfast.store.sqlite.schema import FIRST_VERSION
from standfast.store.sqlite.schema import MIGRATIONS as SQLITE_MIGRATIONS
from standfast.store.store import open_store
from tests.store.builders import commit, contents, expire, write

TO_AN_OLDER_FORMAT = f"UPDATE migrations SET version = {FIRST_VERSION - 1};"
TO_THE_PRESENT_FORMAT = f"UPDATE migrations SET version = {FIRST_VERSION};"
TO_THE_FIRST_FORMAT = f"""
DROP TABLE segment_parts;
DROP TABLE segments;
DROP TABLE segment_erasures;
DROP TABLE vectors;
DROP TABLE temporary;
DELETE FROM migrations WHERE version > {FIRST_VERSION};
"""
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


def test_an_older_store_is_upgraded_with_all_that_is_in_it(url: str) -> None:
    _fill(url)
    _change(url, TO_THE_FIRST_FORMAT, FIRST_VERSION)
    store = open_store(url, create=False)
    identity = store.identity
    waiting = store.status(commit("r3", write(C, "third"), at=2).commit_id)

    assert contents(store) == {A: '"first"'}
    assert list(store.verify()) == []
    assert waiting is not None
    store.close()
    again = open_store(url, create=False)
    assert again.identity == identity
    again.close()


def test_a_store_of_a_format_before_the_first_is_refused_in_words_and_not_touched(url: str) -> None:
    _fill(url)
    _change(url, TO_THE_FIRST_FORMAT + TO_AN_OLDER_FORMAT, FIRST_VERSION - 1)
    with pytest.raises(CannotOpen, match=r"version 9, .* reads 10 and newer; export it"):
        open_store(url, create=False)

    _change(url, TO_THE_PRESENT_FORMAT, FIRST_VERSION)
    store = open_store(url, create=False)
    assert contents(store) == {A: '"first"'}
    assert list(store.verify()) == []
    store.close()


def test_a_newer_store_is_refused_in_words_and_not_touched(url: str) -> None:
    _fill(url)
    _change(url, TO_A_NEWER_FORMAT, 99)
    with pytest.raises(CannotOpen, match=r"version 99, .* upgrade Standfast"):
        open_store(url, create=False)

    _change(url, "DELETE FROM migrations WHERE version = 99", FIRST_VERSION + len(SQLITE_MIGRATIONS) - 1)
    store = open_store(url, create=False)
    assert contents(store) == {A: '"first"'}
    store.close()


def test_both_backends_have_the_same_format_version() -> None:
    assert len(SQLITE_MIGRATIONS) == len(POSTGRES_MIGRATIONS)
    assert POSTGRES_FIRST_VERSION == FIRST_VERSION
