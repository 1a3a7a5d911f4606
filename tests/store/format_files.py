"""Stores of each format, as bytes: ``python -m tests.store.format_files`` writes the one of the present
format.

A file that was released is never written again. When the format changes, its version is in the name of a new
file, and the old one stays: from then on a test shows that it is still opened, with everything that is in it.
"""

import gzip
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from standfast.clock import CountedIds, ManualClock
from standfast.govern.approvals.approvals import Decision, Statement
from standfast.memory import Memory
from standfast.side_files import SideFiles
from standfast.store.sqlite.schema import MIGRATIONS
from tests.govern.seals import SIGNERS, signed
from tests.ledger.builders import LOG_KEY

FOLDER = Path(__file__).parent / "formats"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
QUERY = "How long do refunds take?"
HANDBOOK = {"kind": "doc", "id": "handbook"}


class Known(msgspec.Struct, frozen=True):
    """What a store held when its file was made."""

    head: int
    texts: list[str]
    law: list[str]
    session: list[str]
    waiting: list[str]
    packages: dict[int, str]


def fill(memory: Memory) -> None:
    """Use memory in every way that leaves rows: facts, versions, messages, law, proposals, refusals, and
    something forgotten.
    """
    memory.remember("EU refunds take 14 days.", subject="refunds/eu", source=HANDBOOK, tags=["refunds"])
    memory.remember("EU refunds take 30 days.", subject="refunds/eu", source=HANDBOOK, tags=["refunds"])
    memory.remember("Ada prefers answers in German.", scope="user/ada", metadata={"plan": "gold"})
    memory.remember("Ben lives in Cork.", subject="home", scope="user/ben")
    memory.forget("home", scope="user/ben", reason="asked for")
    memory.add(
        [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello, Ada."}],
        scope="user/ada",
        session="monday",
    )
    with memory.run(workflow="triage", mode="buffered_write") as run:
        run.recall(QUERY)
        run.remember("Refunds are asked for on Mondays.", subject="refunds/day", source=HANDBOOK)
    memory.remember("The password of the admin is hunter2hunter2.", source=HANDBOOK)
    for subject, text in (
        ("law/refunds", "Refunds need a receipt."),
        ("law/gifts", "Gifts are not refunded."),
    ):
        memory.remember(text, subject=subject, source=HANDBOOK, propose=True, agent="triage-agent")
    queue = memory.approvals
    chosen = next(
        one.proposal for one in queue.waiting() if (one.proposal.summary or "").startswith("Refunds")
    )
    statement = Statement.about(
        chosen,
        decision=Decision.APPROVE,
        expires_at=memory.store.clock.now() + timedelta(minutes=10),
        nonce=memory.store.ids.new_id(),
    )
    queue.decide(signed(statement), signers=SIGNERS)


def known_of(memory: Memory) -> Known:
    """What a store holds."""
    head = memory.store.head()
    return Known(
        head=head,
        texts=sorted(record.text for record in memory.records(scope="*")),
        law=sorted(record.text for record in memory.records(scope="*") if record.band == "VAULT"),
        session=[message.text or "" for message in memory.session("monday", scope="user/ada")],
        waiting=sorted(one.proposal.summary or "" for one in memory.approvals.waiting()),
        packages={
            at: memory.at(at).recall(QUERY, scopes=["shared"]).package_hash for at in range(1, head + 1)
        },
    )


def open_at(path: Path) -> Memory:
    """Open a store with a fixed clock and ids, and with all its side files."""
    return Memory.open(str(path), clock=ManualClock(NOW), ids=CountedIds(), recall_log=True)


def write_key(path: Path) -> None:
    """Give a store that is to be made the key of the tests."""
    files = SideFiles(Path(f"{path}-files"))
    files.folder.mkdir()
    files.key.write_text(f"{LOG_KEY.secret_text}\n", encoding="ascii")
    files.key.chmod(0o600)


def files_of(path: Path) -> dict[str, bytes]:
    """The content of a store's side files, by name."""
    folder = Path(f"{path}-files")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def write_files(path: Path, files: dict[str, bytes]) -> None:
    """Put side files next to a store."""
    for name, content in files.items():
        file = Path(f"{path}-files") / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o600)


def main() -> None:
    """Write the store of the present format."""
    version = len(MIGRATIONS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "agent.db"
        write_key(path)
        with open_at(path) as memory:
            fill(memory)
            known = known_of(memory)
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"sqlite-{version}.db.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        files = msgspec.json.encode(files_of(path))
        (FOLDER / f"sqlite-{version}.files.gz").write_bytes(gzip.compress(files, 9, mtime=0))
        (FOLDER / f"sqlite-{version}.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(known)) + b"\n"
        )
    sys.stdout.write(f"sqlite-{version}.db.gz\n")


if __name__ == "__main__":
    main()
