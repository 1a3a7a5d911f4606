"""What this package brings to the command line, the settings, the console and the judge."""

from typing import Final

from standfast.extensions import Command, ConsolePage, Extension

EXTENSION: Final = Extension(
    commands={
        "optimize": Command(
            "Evaluation",
            "Shorten a prompt, prove that it is no worse, apply it.",
            "standfast.optimize.commands:command",
        ),
    },
    settings={"prompts": "standfast.optimize.settings:PromptSettings"},
    pages=(
        ConsolePage("prompts", "Prompts", "standfast.optimize.pages:prompts_page"),
        ConsolePage("report", "Report", "standfast.optimize.pages:report_page", under="prompts"),
        ConsolePage(
            "grades",
            "Grades",
            "standfast.optimize.grades_page:grades_page",
            under="prompts",
            form_at="standfast.optimize.grades_page:take_grade",
        ),
    ),
    models={
        "openai": "standfast.optimize.opening:openai_guard",
        "anthropic": "standfast.optimize.opening:anthropic_guard",
        "scripted": "standfast.optimize.opening:scripted_guard",
    },
)
