"""What all tests share: the servers, folders that cost little, and Hypothesis profiles that make a failure repeat."""

import gc
import os
import shutil
import signal
import tempfile
import threading

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.servers.fixtures", "tests.figures")

# A run that was started in the background ignores SIGINT, and so would all its children. Tests that interrupt a process
# would wait for it in vain.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Folders in memory, where there is room: a sync costs nothing there. What the tests kill are processes, never the machine,
# so they find the same files as on a disk; what must be synced, and when, is proved by counting and by images of crashes.
MEMORY, ROOM_BYTES = "/dev/shm", 2 << 30
if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= ROOM_BYTES:
    os.environ["TMPDIR"] = tempfile.tempdir = MEMORY

# A worker imports some 5,000 modules, and nothing of them is ever garbage: no need to look through them, now or later.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, but not in what is there already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)
    gc.enable()


# Derandomised: the fast run tries the same examples everywhere, so that a red build is red on every machine.
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
