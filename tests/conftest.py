"""What all tests share: the servers, and Hypothesis profiles that make a failure repeat."""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.servers.fixtures", "tests.figures")

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
