"""The section ``[bench]`` of the settings."""

from typing import Self

import msgspec

from standfast.settings import SettingsSection


class BenchSettings(SettingsSection, frozen=True, kw_only=True):
    """Where the results of benchmarks are."""

    results: str = "bench-results"
    """Folder of benchmark results for the console and the API; ``standfast bench run`` writes it."""

    def of_further_store(self, host: str) -> Self:  # noqa: ARG002  # Results belong to the main store.
        """None: benchmark results are those of the main store."""
        return msgspec.structs.replace(self, results="")
