"""Stores that earlier versions wrote, as bytes, are opened with everything that is in them."""

import gzip
from pathlib import Path

import msgspec
import pytest

from standfast.clock import ManualClock
from standfast.side_files import SideFiles
from standfast.store.opening import open_store
from standfast.store.sqlite.schema import MIGRATIONS
from standfast.traces.recall_log import RecallLog
from tests.ledger.builders import LOG_KEY
from tests.store.format_files import FOLDER, NOW, Known, fill, known_of, open_at, write_files, write_key

FILES = sorted(FOLDER.glob("*.db.gz"))


@pytest.fixture(params=FILES, ids=[file.name for file in FILES])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Known]:
    """A store as it was written, and what it held."""
    file: Path = request.param
    path = tmp_path / "agent.db"
    path.write_bytes(gzip.decompress(file.read_bytes()))
    files = file.with_name(file.name.replace(".db.gz", ".files.gz"))
    write_files(path, msgspec.json.decode(gzip.decompress(files.read_bytes()), type=dict[str, bytes]))
    known = msgspec.json.decode(file.with_name(file.name.replace(".db.gz", ".json")).read_bytes(), type=Known)
    return path, known


def test_there_is_a_store_of_the_present_format() -> None:
    """If this fails because the format changed: python -m tests.store.format_files, and keep the old
    files.
    """
    assert FOLDER / f"sqlite-{len(MIGRATIONS)}.db.gz" in FILES


def test_a_store_of_each_format_holds_what_it_held_and_can_be_written(kept: tuple[Path, Known]) -> None:
    path, known = kept
    with open_at(path) as memory:
        assert known_of(memory) == known
        assert list(memory.store.verify()) == []
        memory.remember("Returns are free.", subject="returns")
        assert known_of(memory).packages.items() >= known.packages.items()
        assert "Returns are free." in memory.recall("Are returns free?").text


def test_the_side_files_of_each_format_are_read(kept: tuple[Path, Known]) -> None:
    path, known = kept
    with open_at(path) as memory:
        found = memory.verification()
        assert (found.state, found.problems, found.notices) == ("sound", (), ())
        assert memory.ledger.notary is not None
        assert memory.ledger.notary.verifying_key == LOG_KEY.verifying_key
        assert memory.traces is not None
        assert [trace.workflow_id for _, trace in memory.traces.readable()] == ["triage"]
    log = RecallLog(SideFiles(Path(f"{path}-files")).recalls, ManualClock(NOW)).index("default")
    assert known.packages[known.head] in log.by_package
    assert len(log.commits) > 1


def test_a_store_of_each_format_is_copied_to_a_server(
    kept: tuple[Path, Known], postgres_store_url: str
) -> None:
    path, known = kept
    source, target = open_store(str(path), create=False), open_store(postgres_store_url, create=True)
    source.backup_to(target)

    assert target.head() == known.head
    assert list(target.verify()) == []
    source.close()
    target.close()


def test_the_present_format_is_what_is_written_now(tmp_path: Path) -> None:
    """The newest file is no stranger: the same calls still lead to what it says."""
    newest = msgspec.json.decode(
        max(FOLDER.glob("*.json"), key=lambda file: int(file.stem.partition("-")[2])).read_bytes(), type=Known
    )
    write_key(tmp_path / "agent.db")
    with open_at(tmp_path / "agent.db") as memory:
        fill(memory)
        assert known_of(memory) == newest
