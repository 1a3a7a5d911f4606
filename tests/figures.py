"""Counts that long tests report (runs, crashes, records), summed over workers and printed after the test
run.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import pytest


class Figures(Protocol):
    """Reports what a part of a test has covered."""

    def __call__(self, name: str, counted: Mapping[str, int] | None = None, /, **counts: int) -> None:
        """Add these counts to the totals printed under this name."""
        ...


@pytest.fixture
def figures(record_property: object) -> Figures:
    """The function with which a test reports its counts."""
    assert callable(record_property)

    def report(name: str, counted: Mapping[str, int] | None = None, /, **counts: int) -> None:
        record_property("figures", (name, dict(counted or {}) | counts))

    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line for each name."""
    totals: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed"):
        for result in terminalreporter.getreports(outcome):
            for key, value in result.user_properties:
                if key == "figures":
                    name, counts = value
                    totals.setdefault(name, Counter()).update(counts)
    for name, total in sorted(totals.items()):
        line = ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in total.items())
        terminalreporter.write_line(f"{name}: {line}")
