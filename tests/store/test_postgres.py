"""What only PostgreSQL can do wrong: locks, plans, conflicts, and servers that come and go."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from standfast.clock import ManualClock
from standfast.errors import (
    OutcomeUnknown,
    StandfastError,
    StoreBusy,
    StoreError,
    StoreFailed,
)
from standfast.limits import MAX_POOLED_CONNECTIONS, MAX_RECONNECT_SECONDS
from standfast.records.vocabulary import Receipt
from standfast.store.pipeline import Submission, decide_commits, query_for
from standfast.store.postgres import server
from standfast.store.postgres.storage import PostgresStorage
from standfast.store.protocol import StateQuery
from standfast.store.store import Store
from tests.servers.postgres import PostgresServer
from tests.store.builders import NAMESPACE, commit, contents, expire, merge, postgres_store, write

LOCK = server.BEGIN_LOCKED[1]


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    store = postgres_store(postgres_url)
    yield store
    store.close()


@pytest.fixture
def admin(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection beside the store's, whose search path is the store's schema."""
    with psycopg.connect(postgres_url, autocommit=True, options="-c search_path=standfast") as connection:
        yield connection


def _storage(store: Store) -> PostgresStorage:
    assert isinstance(store._storage, PostgresStorage)
    return store._storage


# Reading and writing.


def test_many_readers_share_few_connections(store: Store) -> None:
    """A server has about a hundred for everybody."""
    readers = _storage(store)._readers
    everybody = threading.Barrier(3 * MAX_POOLED_CONNECTIONS)

    def reader(_: int) -> int:
        everybody.wait()
        pid: int = readers.execute(("SELECT pg_backend_pid() FROM pg_sleep(0.02)", ()))[0][0]
        return pid

    with ThreadPoolExecutor(everybody.parties) as pool:
        pids = set(pool.map(reader, range(everybody.parties)))

    assert len(pids) <= MAX_POOLED_CONNECTIONS
    assert len(readers._idle) == len(pids)


@pytest.mark.parametrize(
    ("table", "column"), [("ledger", "hash"), ("commits", "run_id"), ("versions", "content")]
)
def test_truth_is_append_only(table: str, column: str, store: Store, admin: psycopg.Connection[Any]) -> None:
    store.commit(commit("r1", write("a")))

    for change in (
        f"UPDATE {table} SET {column} = NULL",
        f"DELETE FROM {table}",
        f"TRUNCATE {table} CASCADE",
    ):
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            admin.execute(change)


def test_a_version_can_only_be_erased_once_by_a_later_commit_and_in_nothing_else_changed(
    store: Store, admin: psycopg.Connection[Any]
) -> None:
    store.commit(commit("r1", write("a")))
    store.commit(commit("r2", write("b"), at=1))
    fields = {"content": "NULL", "erased_by": "2"}
    others: tuple[dict[str, str], ...] = (
        {"memory_snapshot_id": "2"},
        {"namespace": "'x'"},
        {"key": "'x'"},
        {"fingerprint": "NULL"},
        {"erased_by": "1"},
        {"erased_by": "NULL"},
        {"content": "'\\x02'"},
        {"content": "'\\x0301'"},
    )

    def erase(**changes: str) -> None:
        named = ", ".join(f"{name} = {value}" for name, value in {**fields, **changes}.items())
        admin.execute(f"UPDATE versions SET {named} WHERE key = 'a'")

    for change in others:
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            erase(**change)
    erase()

    for change in ({}, {"content": "'\\x02'", "erased_by": "NULL"}):
        with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            erase(**change)


def test_a_reader_can_not_write(store: Store) -> None:
    with pytest.raises(StoreFailed, match="read-only transaction"):
        _storage(store)._rows("DELETE FROM buffers")


def test_every_statement_uses_an_index(
    store: Store, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the server knows that the tables are small, for its plans live longer than that."""
    statements: dict[str, Any] = {}
    ask = server.ServerConnection.execute

    def recorded(line: server.ServerConnection, asked: Any) -> Any:
        statements.update(asked)
        return ask(line, asked)

    monkeypatch.setattr(server.ServerConnection, "execute", recorded)
    store.commit(commit("r1", write("a"), write("b")))
    store.stage(commit("r2", write("c"), at=1))
    store.recover()
    store.read(NAMESPACE, ["a", "b"])
    store.history(NAMESPACE, "a")
    store.namespaces()
    assert list(store.scan(NAMESPACE))
    assert not [problem for problem in store.verify() if problem]
    admin.execute("ANALYZE versions, buffers, commits, ledger")
    looks = {sql: values for sql, values in statements.items() if "versions" in sql or "buffers" in sql}
    plans = {
        sql: "\n".join(line for (line,) in _storage(store)._rows(f"EXPLAIN {sql}", *values))
        for sql, values in looks.items()
        if sql.startswith(("SELECT", "WITH"))
    }

    assert len(plans) >= 8
    assert [sql for sql, plan in plans.items() if "Seq Scan" in plan] == []
    assert [sql for sql, plan in plans.items() if "DISTINCT" in sql and "Sort" in plan] == []


def test_a_reader_sees_its_snapshot_while_writers_go_on(postgres_url: str) -> None:
    """Every commit writes two records, so snapshot N shows 2 N of them, all pairs, however often it is
    read.
    """
    stores = [postgres_store(postgres_url) for _ in range(2)]
    over = threading.Event()
    problems: list[str] = []
    reads = [0]

    def write_on(name: str, store: Store) -> None:
        for number in range(40):
            key = f"{name}-{number}"
            store.commit(commit(key, write(f"{key}/left", number), write(f"{key}/right", number)))

    def read_on(store: Store) -> None:
        while not over.is_set():
            at = store.head()
            first, again = contents(store, at), contents(store, at)
            pairs = {key.rpartition("/")[0] for key in first}
            if first != again or len(first) != 2 * at or len(pairs) != at:
                problems.append(f"snapshot {at} shows {len(first)} records, then {len(again)}")
            reads[0] += 1

    readers = [threading.Thread(target=read_on, args=(store,)) for store in stores]
    writers = [
        threading.Thread(target=write_on, args=(f"{side}{number}", store))
        for side, store in enumerate(stores)
        for number in range(3)
    ]
    for reader in readers:
        reader.start()
    _run(writers)
    over.set()
    for reader in readers:
        reader.join()
    head, verified = stores[0].head(), list(stores[1].verify())
    for store in stores:
        store.close()

    assert problems == []
    assert reads[0] > 4
    assert (head, verified) == (240, [])


# Locks and conflicts.


def test_waiting_for_other_writers_has_a_bound(
    postgres_url: str, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(server.SESSION, "lock_timeout", "100ms")
    store = postgres_store(postgres_url)
    with admin.transaction():
        admin.execute(*LOCK)
        with pytest.raises(StoreBusy):
            store.commit(commit("r1", write("a")))
    receipt = store.commit(commit("r1", write("a")))
    store.close()

    assert (receipt.memory_snapshot_id, receipt.replayed) == (1, False)


def test_a_writer_that_stops_in_mid_transaction_is_overtaken(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(server.SESSION, "idle_in_transaction_session_timeout", "100ms")
    stopped, other = postgres_store(postgres_url), postgres_store(postgres_url)
    late = commit("late", write("a", "late"))
    overtaking: list[Receipt] = []

    def dawdle() -> None:
        with stopped._storage.transaction() as transaction:
            changes, _ = decide_commits(transaction.load(query_for([Submission(late)])), [Submission(late)])
            overtaking.append(other.commit(commit("other", write("a", "other"))))
            transaction.append(changes)

    with pytest.raises(OutcomeUnknown):
        dawdle()
    with pytest.raises(StoreError, match="another record"):
        stopped.commit(late)
    shown = contents(stopped)
    stopped.close()
    other.close()

    assert [receipt.memory_snapshot_id for receipt in overtaking] == [1]
    assert shown == {"a": '"other"'}


CONFLICT = """
    CREATE SEQUENCE tries;
    CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF nextval('standfast.tries') <= {times} THEN RAISE EXCEPTION 'a conflict' USING ERRCODE = '{code}'; END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER conflict BEFORE {event} ON {table} EXECUTE FUNCTION conflict();
"""  # noqa: E501  # A text as a whole.


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_conflicts_are_tried_again(code: str, store: Store, admin: psycopg.Connection[Any]) -> None:
    admin.execute(CONFLICT.format(times=3, code=code, event="INSERT", table="versions"))
    receipt = store.commit(commit("r1", write("a")))

    assert (receipt.memory_snapshot_id, receipt.replayed) == (1, False)
    assert admin.execute("SELECT last_value FROM tries").fetchone() == (4,)
    assert list(store.verify()) == []


def test_conflicts_without_end_change_nothing(store: Store, admin: psycopg.Connection[Any]) -> None:
    admin.execute(CONFLICT.format(times=1_000, code="40001", event="INSERT", table="versions"))
    with pytest.raises(StoreFailed, match="a conflict"):
        store.commit(commit("r1", write("a")))

    assert store.status(commit("r1", write("a")).commit_id) is None


def test_what_was_decided_on_another_state_is_not_sent_again(
    store: Store, admin: psycopg.Connection[Any], postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = postgres_store(postgres_url)
    admin.execute(CONFLICT.format(times=1, code="40001", event="INSERT", table="versions"))
    mine = commit("mine", write("a", "mine"))

    def overtaken(line: server.ServerConnection, asked: Any) -> Any:
        """Another store commits between the conflict and the next look."""
        monkeypatch.undo()
        other.commit(commit("theirs", write("b", "theirs")))
        return line.execute_with_retry(asked)

    def conflict() -> None:
        with store._storage.transaction() as transaction:
            changes, _ = decide_commits(transaction.load(query_for([Submission(mine)])), [Submission(mine)])
            transaction.append(changes)
            monkeypatch.setattr(server.ServerConnection, "execute_with_retry", overtaken)

    with pytest.raises(StoreFailed, match="a conflict"):
        conflict()
    other.close()

    assert contents(store) == {"b": '"theirs"'}


def test_a_commit_that_the_server_refuses_fails_alone(store: Store, admin: psycopg.Connection[Any]) -> None:
    admin.execute("ALTER TABLE versions ADD CHECK (key <> 'bad')")
    answers: dict[str, Receipt | StandfastError] = {}

    def submit(key: str) -> None:
        try:
            answers[key] = store.commit(commit(key, write(key)))
        except StandfastError as error:
            answers[key] = error

    with admin.transaction():
        admin.execute(*LOCK)  # Until all of them wait, so that they share a batch.
        threads = [threading.Thread(target=submit, args=(key,)) for key in ("first", "bad", "good", "fine")]
        for thread in threads:
            thread.start()
        threading.Event().wait(0.1)
    for thread in threads:
        thread.join()

    assert isinstance(answers.pop("bad"), StoreFailed)
    assert all(isinstance(answer, Receipt) for answer in answers.values())
    assert sorted(contents(store)) == ["fine", "first", "good"]


# Damage, and servers that come and go.


def test_an_invalid_index_is_told_and_rebuilt(store: Store, admin: psycopg.Connection[Any]) -> None:
    store.commit(commit("r1", write("a")))
    admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'versions_by_place'::regclass")
    told = list(store.verify())
    told_after = list(store.verify(rebuild_indexes=True))

    assert told == ["the index versions_by_place is invalid"]
    assert told_after == []


def test_a_sound_store_has_nothing_to_tell(store: Store, admin: psycopg.Connection[Any]) -> None:
    """Not even to amcheck, where the server has it."""
    if admin.execute("SELECT FROM pg_available_extensions WHERE name = 'amcheck'").fetchall():
        admin.execute("CREATE EXTENSION amcheck SCHEMA public")
    store.commit(commit("r1", write("a"), write("b")))
    store.commit(commit("r2", expire("a"), at=1))

    assert list(store.verify()) == []


def test_a_changed_byte_is_told(store: Store, admin: psycopg.Connection[Any]) -> None:
    store.commit(commit("r1", write("a", "true")))
    admin.execute("ALTER TABLE versions DISABLE TRIGGER ALL")
    admin.execute("UPDATE versions SET content = '\\x00'::bytea || convert_to('\"tRue\"', 'UTF8')")

    with pytest.raises(StandfastError, match=f"{NAMESPACE}/a in snapshot 1"):
        store.read(NAMESPACE, ["a"])
    assert [problem for problem in store.verify() if f"{NAMESPACE}/a" in problem]


def test_dead_connections_are_replaced_silently(store: Store, admin: psycopg.Connection[Any]) -> None:
    store.commit(commit("r1", write("a")))
    store.read(NAMESPACE, ["a"])
    ended = admin.execute(
        "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity"
        " WHERE application_name = 'standfast' AND datname = current_database()"
    ).fetchall()
    receipt = store.commit(commit("r2", merge("a", "y"), at=1))

    assert ended == [(True,), (True,)]
    assert (receipt.memory_snapshot_id, receipt.replayed) == (2, False)
    assert contents(store) == {"a": '"y"'}


def test_a_server_that_is_down_is_told_and_found_again(
    store: Store, postgres_server: PostgresServer, postgres_url: str
) -> None:
    store.commit(commit("r1", write("a")))
    postgres_server.kill()
    for attempt in (lambda: store.commit(commit("r2", expire("a"), at=1)), store.head):
        with pytest.raises(StoreFailed, match="check that a server runs there"):
            attempt()
    postgres_server.start()

    assert contents(store) == {"a": '"x"'}
    assert store.commit(commit("r2", expire("a"), at=1)).memory_snapshot_id == 2


def test_a_reset_drops_every_connection(store: Store, admin: psycopg.Connection[Any]) -> None:
    """What was sent over one of them may still be under way."""
    store.commit(commit("r1", write("a")))
    assert store.head() == 1
    others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    before = {pid for (pid,) in admin.execute(others)}
    _storage(store).reset()
    for _ in range(200):
        left = before & {pid for (pid,) in admin.execute(others)}
        if not left:
            break
        admin.execute("SELECT pg_sleep(0.05)")

    assert len(before) >= 2
    assert left == set()
    assert contents(store) == {"a": '"x"'}


def test_who_waits_for_a_server_asks_at_least_about_once_a_second() -> None:
    clock, pauses = ManualClock(), list[float]()
    sleep = clock.sleep

    def noted(seconds: float) -> None:
        pauses.append(seconds)
        sleep(seconds)

    clock.sleep = noted  # type: ignore[method-assign]
    lost = server.Server("postgresql://nobody@127.0.0.1:1/nowhere", clock, new_id="1")
    with pytest.raises(StoreFailed, match="check that a server runs there"):
        lost.reconnect(read_only=True)

    assert max(pauses) <= 1.25
    assert MAX_RECONNECT_SECONDS <= sum(pauses) <= MAX_RECONNECT_SECONDS + 1.25


def test_leases_run_by_the_servers_clock(store: Store, admin: psycopg.Connection[Any]) -> None:
    """The machine's own clock stands in another year."""
    with store._storage.transaction() as transaction:
        seen = transaction.load(StateQuery()).now
    ((now,),) = admin.execute("SELECT extract(epoch FROM now())::float8").fetchall()

    assert abs(now - seen) < 10
    assert abs(store.clock.now().timestamp() - seen) > 1_000


def _run(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
