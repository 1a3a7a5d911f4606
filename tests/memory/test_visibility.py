"""The settings say which mode runs have that name none, and what memory may be used for at all."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from standfast.cli import main
from standfast.errors import InvalidSettings, InvalidValue, NoSuchSnapshot, NotAllowed
from standfast.memory import Memory
from standfast.records.vocabulary import VisibilityMode
from standfast.settings import Settings
from standfast.store.store import Store
from standfast.wiring import memory_in
from tests.memory.conftest import HANDBOOK
from tests.raising import raises_code

READS: dict[str, Callable[[Memory], object]] = {
    "recall": lambda memory: memory.recall("refunds"),
    "recall of a snapshot": lambda memory: memory.at(1).recall("refunds"),
    "explain": lambda memory: memory.at(1).explain("refunds"),
    "sources": lambda memory: memory.at(1).sources(),
    "records": lambda memory: list(memory.records()),
    "records of a snapshot": lambda memory: list(memory.at(1).records()),
    "session": lambda memory: memory.session("monday"),
    "session of a snapshot": lambda memory: list(memory.at(1).session("monday")),
    "sessions": lambda memory: memory.sessions(),
    "sessions of a snapshot": lambda memory: list(memory.at(1).sessions()),
    "history": lambda memory: memory.history("eu"),
    "history up to a snapshot": lambda memory: memory.at(1).history("eu"),
    "diff": lambda memory: memory.diff(0),
    "run": lambda memory: memory.run(workflow="w", mode="read_only"),
}
WRITES: dict[str, Callable[[Memory], object]] = {
    "remember": lambda memory: memory.remember("UK refunds take 28 days.", source=HANDBOOK),
    "forget": lambda memory: memory.forget("eu", reason="asked for"),
    "run": lambda memory: memory.run(workflow="w", mode="buffered_write"),
    "live run": lambda memory: memory.run(workflow="w", mode="live_read_write"),
}


def bounded(store: Store, ceiling: str) -> Memory:
    Memory(store).remember("EU refunds take 14 days.", subject="eu", source=HANDBOOK)
    return Memory(store, ceiling=ceiling, allow_live=True)


@pytest.mark.parametrize("verb", READS)
def test_off_refuses_reads(store: Store, verb: str) -> None:
    memory = bounded(store, "off")
    with raises_code("above_ceiling", match=r"Memory is off in this deployment.* visibility_ceiling"):
        READS[verb](memory)

    READS[verb](Memory(store, ceiling="read_only"))


@pytest.mark.parametrize("ceiling", ["off", "read_only"])
@pytest.mark.parametrize("verb", WRITES)
def test_off_and_read_only_refuse_writes(store: Store, verb: str, ceiling: str) -> None:
    memory = bounded(store, ceiling)
    with raises_code("above_ceiling"):
        WRITES[verb](memory)

    assert store.head() == 1
    WRITES[verb](Memory(store, ceiling="buffered_write", allow_live=True))


@pytest.mark.parametrize(
    ("mode", "ceiling", "expected"),
    [
        ("read_only", "buffered_write", "read_only"),
        ("buffered_write", "buffered_write", "buffered_write"),
        ("off", "buffered_write", "off"),
        ("live_read_write", "buffered_write", "live_read_write"),
        ("buffered_write", "read_only", "read_only"),
        ("live_read_write", "read_only", "read_only"),
        ("off", "read_only", "off"),
        ("read_only", "off", "off"),
        ("buffered_write", "off", "off"),
    ],
)
def test_a_run_that_names_no_mode_has_that_of_the_settings(mode: str, ceiling: str, expected: str) -> None:
    """It is lowered to the ceiling."""
    settings = Settings.load(
        {
            "STANDFAST_VISIBILITY_MODE": mode,
            "STANDFAST_VISIBILITY_CEILING": ceiling,
            "STANDFAST_ALLOW_LIVE_READ_WRITE": "true",
        }
    )
    memory = memory_in(settings, Memory.open(":memory:").store, "default")

    assert memory.run(workflow="w").identity.visibility_mode == expected
    assert memory.ceiling == ceiling


def test_a_run_in_mode_off_can_still_be_opened_and_reads_nothing() -> None:
    run = Memory.open(":memory:", ceiling="off").run(workflow="w")
    with pytest.raises(NotAllowed):
        run.recall("refunds")

    assert run.identity.visibility_mode is VisibilityMode.OFF


def test_without_settings_runs_only_read_and_may_write_if_they_ask() -> None:
    memory = Memory.open(":memory:")

    assert memory.run(workflow="w").identity.visibility_mode is VisibilityMode.READ_ONLY
    assert memory.remember("EU refunds take 14 days.", source=HANDBOOK).receipt is not None


def test_checking_is_never_bounded(store: Store) -> None:
    assert list(bounded(store, "off").verify()) == []


def test_a_ceiling_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="allow_live_read_write"):
        Settings(visibility_ceiling=VisibilityMode.LIVE_READ_WRITE)
    with pytest.raises(InvalidValue, match="allow_live=True"):
        Memory.open(str(tmp_path / "a.db"), ceiling="live_read_write")
    with pytest.raises(InvalidValue, match="off, read_only"):
        Memory.open(str(tmp_path / "a.db"), mode="write")

    assert not (tmp_path / "a.db").exists()


def test_the_ceiling_holds_on_the_command_line_by_file_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = CliRunner()
    words = ["remember", "EU refunds take 14 days.", "--subject", "eu", "--source", "doc:handbook"]
    assert call.invoke(main, words).exit_code == 0
    Path("standfast.toml").write_text('visibility_ceiling = "read_only"\n')
    written, read = call.invoke(main, words), call.invoke(main, ["history", "eu"])
    monkeypatch.setenv("STANDFAST_VISIBILITY_CEILING", "off")
    unread = call.invoke(main, ["history", "eu"])

    assert (written.exit_code, read.exit_code, unread.exit_code) == (2, 0, 2)
    assert "[above_ceiling]" in written.stderr
    assert "[above_ceiling]" in unread.stderr


def test_a_run_that_only_reads_may_read_an_earlier_snapshot() -> None:
    memory = Memory.open(":memory:")
    memory.remember("The limit is 10.", subject="limit")
    memory.remember("The limit is 20.", subject="limit")
    with memory.run(workflow="w", mode="read_only", snapshot=1) as run:
        then = run.recall("limit")

    assert run.identity.memory_snapshot_id == 1
    assert then.package_hash == memory.at(1).recall("limit").package_hash
    with pytest.raises(InvalidValue, match="works on the newest"):
        memory.run(workflow="w", mode="buffered_write", snapshot=1)
    with pytest.raises(NoSuchSnapshot):
        memory.run(workflow="w", mode="read_only", snapshot=9)
