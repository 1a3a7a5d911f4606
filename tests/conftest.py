"""Shared by all tests: servers, temporary folders in memory, and Hypothesis profiles."""

import gc
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.servers.fixtures", "tests.figures")

# A test run started in the background ignores SIGINT, and child processes inherit that. Tests that interrupt
# a process would then wait for ever.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Temporary folders live in memory if there is room, because a sync costs nothing there. The tests kill
# processes, never the machine, so they find the same files as on a disk; other tests count the syncs and
# replay images of crashes.
MEMORY, ROOM_BYTES = "/dev/shm", 2 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY

# A worker imports some 5,000 modules that are never garbage, so collecting while they load is wasted time.
gc.disable()


# The tests that `make test-all` alone runs, beside those that say so themselves.
LONG_TESTS = frozenset(Path(__file__).with_name("long_tests.txt").read_text(encoding="utf-8").splitlines())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the list as slow before pytest chooses by marks."""
    for item in items:
        if item.nodeid in LONG_TESTS:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, but do not scan what is loaded already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


# Derandomised: the fast run tries the same examples everywhere, so a failure repeats on every machine.
settings.register_profile(
    "fast",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("whole", parent=settings.get_profile("fast"), max_examples=200)
settings.register_profile("long", parent=settings.get_profile("fast"), max_examples=5_000, derandomize=False)
settings.load_profile(os.environ.get("STANDFAST_TEST_PROFILE", "fast"))


@pytest.fixture(params=["UTC0", "EAST-14", "WEST+11:30"])
def any_time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs a test with the machine in several time zones; none of them may show in a result."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def plain_contents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores contents and traces uncompressed, for tests that look for a text in the bytes of a file."""
    monkeypatch.setattr("standfast.store.compression._SHORT_BYTES", 1 << 30)
    monkeypatch.setattr("standfast.traces.folder._compressed", bytes)
