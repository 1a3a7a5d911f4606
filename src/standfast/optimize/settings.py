"""The section ``[prompts]`` of the settings."""

from typing import Self

import msgspec

from standfast.settings import SettingsSection


class PromptSettings(SettingsSection, frozen=True, kw_only=True):
    """Where prompt overrides and the reports of optimizations are stored."""

    overrides: str = "overrides"
    """Where prompt overrides are stored: a folder, ``redis://…`` or ``s3://bucket/prefix``."""

    reports: str = "."
    """Folder whose ``optimization*.json`` files the console shows; ``standfast optimize run`` writes them."""

    grades: str = "grades.jsonl"
    """File with what people think of answers; the console and ``GradeBook`` write it."""

    def of_further_store(self, host: str) -> Self:  # noqa: ARG002  # Prompts belong to the main store.
        """None: prompts and their reports are those of the main store."""
        return msgspec.structs.replace(self, overrides="", reports="", grades="")
