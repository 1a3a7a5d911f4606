"""What this package brings to the command line, the settings and the judge."""

from typing import Final

from standfast.extensions import Command, Extension

EXTENSION: Final = Extension(
    commands={
        "optimize": Command(
            "Evaluation",
            "Shorten a prompt, prove that it is no worse, apply it.",
            "standfast.optimize.commands:command",
        ),
    },
    settings={"prompts": "standfast.optimize.settings:PromptSettings"},
    models={
        "openai": "standfast.optimize.opening:openai_guard",
        "anthropic": "standfast.optimize.opening:anthropic_guard",
        "scripted": "standfast.optimize.opening:scripted_guard",
    },
)
