"""What all tests share: the servers, and Hypothesis profiles that make a failure repeat."""

import os
import signal
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

# Derandomised: the fast run tries the same examples everywhere, so that a red build is red on every machine.
settings.register_profile(
    "fast",
    derandomize=True,
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", parent=settings.get_profile("fast"), max_examples=5_000, derandomize=False)
settings.load_profile(os.environ.get("HOLDFAST_TEST_PROFILE", "fast"))
