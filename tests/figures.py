"""The figures of the proofs, printed at the end of a test run: added up over the chunks and the workers of a proof."""

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import pytest


class Figures(Protocol):
    """Tells what a part of a proof has covered."""

    def __call__(self, proof: str, counted: Mapping[str, int] | None = None, /, **counts: int) -> None:
        """Add these counts to those that the other parts of the proof tell."""
        ...


@pytest.fixture
def figures(record_property: object) -> Figures:
    """Where a proof tells its figures."""
    assert callable(record_property)

    def tell(proof: str, counted: Mapping[str, int] | None = None, /, **counts: int) -> None:
        record_property("figures", (proof, dict(counted or {}) | counts))

    return tell


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line a proof."""
    totals: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, told in report.user_properties:
                if name == "figures":
                    totals.setdefault(told[0], Counter()).update(told[1])
    for proof, counts in sorted(totals.items()):
        told = ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in counts.items())
        terminalreporter.write_line(f"{proof}: {told}")
