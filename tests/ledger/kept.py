"""A real store with a ledger of 1,000 entries of every kind, filled through ``Memory``, and copies of it to
tamper with.
"""

import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw

from standfast.clock import CountedIds, ManualClock
from standfast.errors import InvalidValue, NotAuthorised
from standfast.govern.approvals.approvals import Decision
from standfast.ledger.chain import Entry, Tip, extend
from standfast.ledger.notary import Notary
from standfast.memory import Memory
from standfast.memory.memory_ledger import MemoryLedger
from standfast.store.commit import Fact
from standfast.store.compression import packed, unpacked
from standfast.store.opening import open_store
from standfast.store.store import Store
from tests.memory.conftest import SECRET, SIGNERS, decision

ENTRIES = 1_000
CHECKPOINT_EVERY = 150
FILES = ("", "-files/head", "-files/log.key", "-files/log.pub", "-files/checkpoints")
Tampering = Callable[[apsw.Connection], object]


class Kept(NamedTuple):
    """A store's folder, the one it had in the middle of its life, and what an outsider kept."""

    folder: Path
    middle: Path
    entries: tuple[Entry, ...]
    checkpoint: str

    def copy(self, folder: Path, *, without: tuple[str, ...] = (), older: bool = False) -> Path:
        """The store's files in another folder, some of them left out; ``older`` puts in the database of
        mid-life.
        """
        (folder / "store.db-files").mkdir(parents=True)
        for suffix in FILES:
            source = self.middle if older and not suffix else self.folder
            if suffix not in without:
                shutil.copyfile(source / f"store.db{suffix}", folder / f"store.db{suffix}")
        return folder / "store.db"


def opened(path: Path) -> Memory:
    """The memory at a path, at a time after all that was written there."""
    clock = ManualClock()
    clock.advance(timedelta(days=400).total_seconds())
    return Memory.open(str(path), clock=clock, ids=_Ids())


class _Ids(CountedIds):
    """Ids that no process of the past has given."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 1 << 64


def notary_of(path: Path, store: Store) -> Notary | None:
    """The notary of a store's file, which names its key in the ledger."""
    return Notary.for_store(str(path), store.entries, store.branches, store.announce_key)


@contextmanager
def problems_at(path: Path) -> Iterator[Iterator[str]]:
    """What verifying tells, one after the other, of the files as they are: nothing is signed meanwhile."""
    with patch.object(MemoryLedger, "start_signing"):
        memory = opened(path)
    try:
        yield memory.verify()
    finally:
        memory.store.close()


def build(folder: Path) -> Kept:
    """Facts, changes, erasures, refusals, scars, held and sealed law, rejections, sweeps, and loose facts."""
    whole, middle = folder / "whole", folder / "middle"
    whole.mkdir()
    clock = ManualClock()
    memory = Memory.open(str(whole / "store.db"), clock=clock, ids=CountedIds())
    done, made = 0, 0
    while (made := _live(memory, clock, done)) < ENTRIES - 24:
        done += 1
        if done % 25 == 0 and made // CHECKPOINT_EVERY > len(_mirrored(whole)):
            memory.checkpoint()
        if made > ENTRIES // 2 and not middle.exists():
            middle.mkdir()
            memory.store._storage.reset()
            shutil.copyfile(whole / "store.db", middle / "store.db")
    while (made := memory.store.append_fact(Fact.of("note", {"number": made})).seq) < ENTRIES:
        pass
    checkpoint = memory.checkpoint()
    assert checkpoint is not None
    entries = tuple(memory.store.entries())
    memory.close()
    return Kept(whole, middle, entries, checkpoint)


def _mirrored(folder: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return (folder / "store.db-files/checkpoints").read_text(encoding="ascii").splitlines()
    return []


def _live(memory: Memory, clock: ManualClock, number: int) -> int:
    """One run of an agent, and now and then a human's decision or a sweep; gives the ledger's length."""
    source = {"kind": "doc", "id": f"handbook#{number}"}
    with memory.run(workflow="triage", mode="buffered_write", agent="drafter") as run:
        subject = f"fact/{number % 40}"
        if number % 18 == 4:
            with suppress(NotAuthorised, InvalidValue):  # It may have become law, or be gone already.
                run.forget(f"fact/{(number - 4) % 40}", reason="asked for by the customer")
        elif number % 9 == 7:
            run.remember(f"{SECRET} Copy {number}.", source=source)
        elif number % 12 == 5:
            run.remember(
                f"Rule {number}: refunds above {number} EUR need two people.",
                subject=f"law/{number % 24}",
                source=source,
                propose=True,
            )
        else:
            # Where it has become law, another number would be refused; law can be amended.
            law = f"VAULT/shared//{subject}"
            run.remember(
                f"Fact number {number} holds in region {number * 7}.",
                subject=subject,
                source=source,
                propose=law in memory.store.read(memory.namespace, [law]),
            )
    for waiting in [*memory.approvals.waiting()]:
        kind = Decision.REJECT if number % 24 == 17 else Decision.APPROVE
        approval = decision(memory, waiting, kind, nonce=memory.store.ids.new_id())
        memory.approvals.decide(approval, signers=SIGNERS)
    if number % 40 == 39:
        memory.sweep()
    if number % 50 == 13:
        memory.store.append_fact(Fact.of("note", {"number": number}))
    clock.advance(timedelta(hours=7).total_seconds())
    (last,) = memory.store._storage.entries(after=_length(memory) - 1, limit=1)
    return last.seq


def _length(memory: Memory) -> int:
    (applied,) = memory.store.commits(after=memory.store.head() - 1, limit=1)
    length = applied.ledger_seq
    while memory.store._storage.entries(after=length, limit=1):
        length += 1
    return length


def altered(content: bytes, at: int, mask: int) -> bytes:
    """The same bytes but for one."""
    return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]


def tamper(path: Path, *changes: Tampering | str) -> None:
    """Change a store's file behind its back, as one who knows it well: triggers are put back, checksums are
    right.
    """
    with closing(apsw.Connection(str(path), vfs="cksmvfs")) as connection:
        connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; BEGIN")
        triggers: list[Any] = connection.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for change in changes:
            connection.execute(change) if isinstance(change, str) else change(connection)
        for _, sql in triggers:
            connection.execute(sql)
        connection.execute("COMMIT")


def forge_from(seq: int) -> Tampering:
    """Write the ledger anew from an entry on, each entry sound, and the commits' words for it too."""

    def forge(connection: apsw.Connection) -> None:
        rows: list[Any] = connection.execute("SELECT seq, content, hash FROM ledger ORDER BY seq").fetchall()
        tip = Tip()
        for number, content, digest in rows:
            entry = Entry(seq=number, content=unpacked(content), hash=digest.hex())
            if number >= seq:
                said = entry.read()
                at = said["at"].replace("2026", "2025") if number == seq else said["at"]
                entry = extend(tip, kind=said["kind"], at=at, body=said["body"])
            connection.execute(
                "UPDATE ledger SET content = ?, hash = ? WHERE seq = ?",
                (packed(entry.content), bytes.fromhex(entry.hash), number),
            )
            connection.execute(
                "UPDATE commits SET ledger_hash = ?, committed_at = ? WHERE ledger_seq = ?",
                (bytes.fromhex(entry.hash), entry.read()["at"], number),
            )
            tip = entry.tip

    return forge


def cut_after(snapshot: int) -> str:
    """Take away the newest commits with all that belongs to them."""
    return (
        "DELETE FROM ledger WHERE seq > (SELECT ledger_seq FROM commits WHERE memory_snapshot_id ="
        f" {snapshot});DELETE FROM vectors WHERE since > {snapshot};DELETE FROM versions WHERE id >> 16 >"
        f" {snapshot};UPDATE versions SET erased_by = NULL WHERE erased_by > {snapshot};DELETE FROM"
        f" commits WHERE memory_snapshot_id > {snapshot}"
    )


def cut(url: str, snapshot: int) -> None:
    """Delete the commits behind a snapshot, as somebody with all rights would."""
    if "://" not in url:
        tamper(Path(url), cut_after(snapshot))
        return
    import psycopg

    with closing(open_store(url, create=False)) as store:
        last = store.commit_of(snapshot).ledger_seq
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path = standfast")
        connection.execute("SET session_replication_role = replica")
        connection.execute("DELETE FROM versions WHERE memory_snapshot_id > %s", (snapshot,))
        connection.execute("DELETE FROM vectors WHERE memory_snapshot_id > %s", (snapshot,))
        connection.execute("DELETE FROM commits WHERE memory_snapshot_id > %s", (snapshot,))
        connection.execute("DELETE FROM ledger WHERE seq > %s", (last,))


def witness(path: Path) -> None:
    """Make the witness beside a tampered file agree with it; it is no secret how."""
    with closing(apsw.Connection(str(path), vfs="cksmvfs")) as connection:
        seq, digest = connection.execute("SELECT seq, hash FROM ledger ORDER BY seq DESC LIMIT 1").get
    told = b"%020d %s " % (seq, digest.hex().encode())
    Path(f"{path}-files").mkdir(exist_ok=True)
    Path(f"{path}-files/head").write_bytes(told + b"%08x\n" % zlib.crc32(told))
