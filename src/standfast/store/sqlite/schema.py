"""The tables of a SQLite store: migrations, the statements that read and write them, and rows."""

from collections.abc import Iterator, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import apsw

from standfast.ledger.chain import Branch
from standfast.limits import MAX_COMMIT_WRITES
from standfast.store import compression
from standfast.store.compression import (
    ACTION_NUMBERS,
    DICTIONARY,
    REFERENCE,
    borrowed_by,
    digest_of,
    packed_contents,
    second_key,
    unpacked,
)
from standfast.store.protocol import (
    BEHIND_ALL_KEYS,
    AppliedCommit,
    Buffer,
    VectorQuery,
    Version,
    VersionQuery,
)

# Step n leads to version n. A step that was released never changes. SQLite keeps its text in each store, with
# the spaces in it.
MIGRATIONS: Final = (
    Path(__file__).with_name("version-1.sql").read_text("utf-8").replace("{DICTIONARY}", DICTIONARY.hex()),
)

# A version's id is the snapshot that its commit made, shifted by this, and its number in the commit.
_SNAPSHOT_SHIFT: Final = 16
assert 1 << _SNAPSHOT_SHIFT > MAX_COMMIT_WRITES, "a version's number in its commit fits into its id"
_LAST_SNAPSHOT: Final = (1 << 63 - _SNAPSHOT_SHIFT) - 2

_APPLIED: Final = ", ".join(AppliedCommit.__struct_fields__)
_BUFFER: Final = ", ".join(Buffer.__struct_fields__)
# The content of a reference is that of its base, marked as borrowed.
_VERSION: Final = (
    "namespace, key, id, action, fingerprint, CASE WHEN content = x'02' THEN (SELECT CAST(x'03' ||"
    " base.content AS BLOB) FROM versions AS base WHERE base.namespace = versions.namespace AND base.key ="
    " 'LEDGER' || substr(versions.key, 7) AND base.id BETWEEN versions.id & ~65535 AND versions.id | 65535)"
    " ELSE content END, erased_by"
)
_VERSION_WITHOUT_CONTENT: Final = "namespace, key, id, action, fingerprint, NULL, erased_by"
# A vector names its version by id, and its embedder by number.
_VECTOR: Final = "namespace, key, version >> 16, identity, since, vectors.content, ended"

INSERT_ENTRY: Final = "INSERT INTO ledger (seq, content, hash) VALUES (?, ?, ?)"
INSERT_APPLIED: Final = f"INSERT INTO commits ({_APPLIED}) VALUES (?, ?, ?, ?, ?, ?, ?)"
INSERT_VERSION: Final = (
    "INSERT INTO versions (id, namespace, key, action, fingerprint, content, erased_by) VALUES (?, ?, ?, ?,"
    " ?, ?, ?)"
)
# Whoever refers to a content takes it over before it is erased.
TAKE_OVER: Final = (
    "UPDATE versions SET content = (SELECT CAST(x'03' || base.content AS BLOB) FROM versions AS base"
    "  WHERE base.namespace = ?1 AND base.key = ?2"
    "  AND base.id BETWEEN versions.id & ~65535 AND versions.id | 65535)"
    " WHERE namespace = ?1 AND key = ?3 AND id < ?4 AND content = x'02'"
)
ERASE: Final = (
    "UPDATE versions SET content = NULL, erased_by = ?4"
    " WHERE namespace = ?1 AND key = ?2 AND id < ?3 AND content IS NOT NULL"
)
# A base that is stored after the row that could have referred to it, as in a copy that is made in portions.
REFER: Final = (
    "UPDATE versions SET content = x'02' WHERE namespace = ? AND key = ? AND id BETWEEN ? AND ? AND"
    " content = ?"
)
LAST_NUMBER: Final = "SELECT max(id) FROM versions WHERE id BETWEEN ? AND ?"
EMBEDDER_NUMBER: Final = "SELECT number FROM embedders WHERE identity = ?"
ADD_EMBEDDER: Final = "INSERT INTO embedders (identity) VALUES (?)"
INSERT_VECTOR: Final = "INSERT INTO vectors VALUES (?, ?, ?, ?, ?)"
INSERT_VECTOR_OF_KEY: Final = (
    "INSERT INTO vectors SELECT id, ?, ?, ?, ? FROM versions"
    " WHERE namespace = ? AND key = ? AND id BETWEEN ? AND ?"
)
_OLDER_VERSIONS: Final = "(SELECT id FROM versions WHERE namespace = ?1 AND key = ?2 AND id >> 16 < {end})"
END_VECTORS: Final = (
    f"UPDATE vectors SET ended = ?3 WHERE version IN {_OLDER_VERSIONS.format(end='?3')} AND ended IS NULL"
)
ERASE_VECTORS: Final = f"DELETE FROM vectors WHERE version IN {_OLDER_VERSIONS.format(end='?4 + 1')}"
PUT_BUFFER: Final = f"REPLACE INTO buffers ({_BUFFER}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
PUT_BRANCH: Final = f"REPLACE INTO branches ({', '.join(Branch.__struct_fields__)}) VALUES (?, ?, ?, ?, ?)"
DROP_BUFFER: Final = "DELETE FROM buffers WHERE commit_id = ?"

APPLIED_BY_ID: Final = f"SELECT {_APPLIED} FROM commits WHERE commit_id = ?"
APPLIED_AFTER: Final = (
    f"SELECT {_APPLIED} FROM commits WHERE memory_snapshot_id > ? ORDER BY memory_snapshot_id LIMIT ?"
)
APPLIED_OF_RUNS: Final = (
    f"SELECT {_APPLIED} FROM commits WHERE memory_snapshot_id > ? AND ("
    "run_id IN (SELECT value FROM json_each(?))"
    " OR substr(run_id, 1, instr(run_id, '#') - 1) IN (SELECT value FROM json_each(?))"
    " OR substr(run_id, 1, instr(run_id, '~') - 1) IN (SELECT value FROM json_each(?))"
    ") ORDER BY memory_snapshot_id LIMIT ?"
)
ENTRIES_AFTER: Final = "SELECT seq, content, hash FROM ledger WHERE seq > ? ORDER BY seq LIMIT ?"
BRANCHES: Final = f"SELECT {', '.join(Branch.__struct_fields__)} FROM branches ORDER BY number"
BUFFER_BY_ID: Final = f"SELECT {_BUFFER} FROM buffers WHERE commit_id = ?"
ABANDONED: Final = (
    f"SELECT {_BUFFER} FROM buffers WHERE content IS NOT NULL AND waits_for IS NULL"
    " AND (lease_until <= ? OR lease_until > ?) ORDER BY lease_until, commit_id LIMIT ?"
)
ENDED: Final = (
    f"SELECT {_BUFFER} FROM buffers WHERE content IS NULL AND lease_until <= ? ORDER BY lease_until,"
    " commit_id LIMIT ?"
)
HEAD: Final = "SELECT coalesce(max(memory_snapshot_id), 0) FROM commits"
HEAD_COLUMN: Final = f"({HEAD})"
_IS_UNDER: Final = "EXISTS (SELECT 1 FROM versions WHERE namespace = ? AND key >= ? AND key < ?)"
ENDS: Final = (
    "SELECT coalesce((SELECT max(memory_snapshot_id) FROM commits), 0), coalesce((SELECT max(seq) FROM"
    " ledger), 0), (SELECT hash FROM ledger ORDER BY seq DESC LIMIT 1), EXISTS (SELECT 1 FROM buffers)"
)
LATEST: Final = (
    "SELECT namespace, key, id, action, fingerprint, NULL, erased_by FROM versions"
    " WHERE namespace = ? AND key = ? ORDER BY id DESC LIMIT 1"
)
WITHOUT_COMMIT: Final = (
    "SELECT DISTINCT id >> 16 AS snapshot FROM versions"
    " WHERE snapshot NOT IN (SELECT memory_snapshot_id FROM commits) ORDER BY snapshot"
)
_OF_SNAPSHOT: Final = (
    "SELECT namespace, key, id, action, fingerprint, content, erased_by FROM versions WHERE id BETWEEN ? AND"
    " ? ORDER BY id"
)
_MANY_KEYS: Final = 8
_OF_KEY: Final = "SELECT {columns} FROM versions WHERE namespace = ? AND key = ? AND id < ? ORDER BY id{end}"


def ids_of(snapshot: int) -> tuple[int, int]:
    """The first and the last id that a version of a snapshot can have."""
    first = max(0, min(snapshot, _LAST_SNAPSHOT)) << _SNAPSHOT_SHIFT
    return first, first + (1 << _SNAPSHOT_SHIFT) - 1


def snapshot_of(version: int) -> int:
    """The snapshot of the version with an id."""
    return version >> _SNAPSHOT_SHIFT


def versions_of_keys(connection: apsw.Connection, query: VersionQuery, keys: Sequence[str]) -> list[Version]:
    """The versions of the keys that a query names, one look-up in the index for each."""
    columns = _VERSION if query.with_content else _VERSION_WITHOUT_CONTENT
    sql = _OF_KEY.format(columns=columns, end=" DESC LIMIT 1" if query.newest else "")
    before = ids_of(_LAST_SNAPSHOT if query.at is None else query.at)[1] + 1
    places = [(query.namespace, key, before) for key in sorted(set(keys))]
    if len(places) < _MANY_KEYS:
        return [version_of(row) for row in connection.executemany(sql, places)]
    # Outside of a transaction each look-up would lock the file by itself.
    connection.execute("BEGIN")
    found = [version_of(row) for row in connection.executemany(sql, places)]
    connection.execute("COMMIT")
    return found


def presence(connection: apsw.Connection, namespace: str, prefixes: Sequence[str]) -> tuple[int, list[bool]]:
    """The newest snapshot, and whether there are keys with these prefixes."""
    places = [bound for one in prefixes for bound in (namespace, one, one + BEHIND_ALL_KEYS)]
    head, *found = connection.execute(_presence_of(len(prefixes)), places).get
    return head, list(map(bool, found))


@cache
def _presence_of(prefixes: int) -> str:
    return "SELECT " + ", ".join([HEAD_COLUMN, *[_IS_UNDER] * prefixes])


def is_written(connection: apsw.Connection, namespace: str, prefix: str, after: int) -> bool:
    """Whether commits after a snapshot wrote under a prefix of keys."""
    sql = _IS_UNDER.replace("key < ?", "key < ? AND id >> 16 > ?")
    return bool(connection.execute(f"SELECT {sql}", (namespace, prefix, prefix + BEHIND_ALL_KEYS, after)).get)


def versions_of_snapshot(connection: apsw.Connection, snapshot: int) -> list[Version]:
    """All versions that a commit wrote, by namespace and key. References are resolved among them."""
    rows: list[Any] = connection.execute(_OF_SNAPSHOT, ids_of(snapshot)).fetchall()
    # Nearly always they were written in this order.
    rows.sort(key=itemgetter(0, 1))
    contents = [None if row[5] in (None, REFERENCE) else unpacked(row[5], row[1]) for row in rows]
    bases = {(row[0], second_key(row[1])): content for row, content in zip(rows, contents, strict=True)}
    for place, row in enumerate(rows):
        if row[5] == REFERENCE and (base := bases.get((row[0], row[1]))) is not None:
            contents[place] = borrowed_by(base) or b""
    return [_version_with(row, content) for row, content in zip(rows, contents, strict=True)]


def versions_in_range(query: VersionQuery) -> tuple[str, list[str | int]]:
    """The statement and the parameters of a query that names no keys."""
    condition, parameters = query.as_sql("?", snapshot="id >> 16")
    order = "namespace, key, id"
    if query.snapshot is not None or query.since is not None:
        # By their ids, whatever else is asked for; without the signs SQLite might choose the index of places.
        condition = f"{condition.replace('namespace', '+namespace')} AND id BETWEEN ? AND ?"
        order = "+namespace, +key, id"
        if query.snapshot is not None:
            parameters += ids_of(query.snapshot)
        else:
            last = _LAST_SNAPSHOT if query.at is None else query.at
            parameters += (ids_of((query.since or 0) + 1)[0], ids_of(last)[1])
    parameters.append(-1 if query.limit is None else query.limit)
    columns = _VERSION if query.with_content else _VERSION_WITHOUT_CONTENT
    if not query.newest:
        return f"SELECT {columns} FROM versions WHERE {condition} ORDER BY {order} LIMIT ?", parameters
    newest = (
        f"SELECT max(id) AS newest FROM versions WHERE {condition} GROUP BY namespace, key"
        " ORDER BY namespace, key LIMIT ?"
    )
    sql = f"SELECT {_VERSION} FROM ({newest}) JOIN versions ON id = newest ORDER BY namespace, key"
    return sql, parameters


def vectors_in_range(query: VectorQuery) -> tuple[str, list[str | int]]:
    """The statement and the parameters of a query for vectors."""
    condition, parameters = query.as_sql("?")
    for column, expression in (("memory_snapshot_id", "version >> 16"), ("embedder", "identity")):
        condition = condition.replace(column, expression)
    tables = "versions CROSS JOIN vectors ON version = id"
    if query.since is not None:
        # Nearly all vectors came with their versions, and are found by their ids.
        last = query.since if query.until is None else query.until
        tables = (
            "(SELECT * FROM vectors WHERE version BETWEEN ? AND ? AND since = version >> 16 UNION ALL"
            " SELECT * FROM vectors WHERE since BETWEEN ? AND ? AND since <> version >> 16) AS vectors"
            " CROSS JOIN versions ON id = version"
        )
        bounds = (ids_of(query.since)[0], ids_of(last)[1], query.since, last)
        parameters = [*bounds, *parameters]
    sql = (
        f"SELECT {_VECTOR} FROM {tables} CROSS JOIN embedders ON number = embedder WHERE {condition}"
        " ORDER BY namespace, key, id, identity LIMIT ?"
    )
    return sql, [*parameters, -1 if query.limit is None else query.limit]


def version_of(row: Any) -> Version:
    """The version in a row of its columns."""
    return _version_with(row, None if row[5] is None else unpacked(row[5], row[1]))


def _version_with(row: Any, content: bytes | None) -> Version:
    return compression.version_of(row, row[2] >> _SNAPSHOT_SHIFT, content)


def rows_of_versions(versions: Sequence[Version], next_ids: dict[int, int]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of versions. ``next_ids`` has each snapshot's next id, and is advanced."""
    for version, content in zip(versions, packed_contents(versions), strict=True):
        number = next_ids[version.memory_snapshot_id]
        next_ids[version.memory_snapshot_id] = number + 1
        yield (
            number,
            version.namespace,
            version.key,
            ACTION_NUMBERS[version.action],
            digest_of(version),
            content,
            version.erased_by,
        )


def problems_of_schema(connection: apsw.Connection) -> Iterator[str]:
    """Yield what is missing from the schema, was changed or is foreign. A trigger could rewrite rows."""
    found, expected = _schema_of(connection), _expected_schema()
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            yield f"the schema's {name} is missing"
        elif found[name] != expected.get(name):
            yield f"the schema's {name} is not Standfast's"
    if connection.execute("SELECT * FROM dictionaries").fetchall() != [(1, DICTIONARY)]:
        yield "the dictionary of contents is not Standfast's"


def _schema_of(connection: apsw.Connection) -> dict[str, str]:
    sql = "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    return {name: " ".join(text.split()) for name, text in connection.execute(sql)}


@cache
def _expected_schema() -> dict[str, str]:
    """The schema of a new store."""
    connection = apsw.Connection(":memory:")
    try:
        for step in MIGRATIONS:
            connection.execute(step)
        return _schema_of(connection)
    finally:
        connection.close()
