"""What this package brings to the command line and the settings."""

from typing import Final

from standfast.extensions import Command, Extension

EXTENSION: Final = Extension(
    commands={
        "export": Command(
            "Store",
            "Write accepted memory as JSON lines, for mem0 or LangGraph, or as a note.",
            "standfast.adapters.commands:export_command",
        ),
        "import": Command(
            "Store",
            "Judge and remember what a file of another system holds.",
            "standfast.adapters.commands:import_command",
        ),
    },
    settings={"extraction": "standfast.adapters.extraction_settings:ExtractionSettings"},
    extractor="standfast.adapters.extraction_settings:open_extractor",
)
