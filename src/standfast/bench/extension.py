"""What this package brings to the command line, the settings and the console."""

from typing import Final

from standfast.extensions import Command, ConsolePage, Extension

EXTENSION: Final = Extension(
    commands={
        "bench": Command(
            "Evaluation",
            "Benchmark write policies under byte budgets.",
            "standfast.bench.commands:command",
        ),
        "eval": Command(
            "Evaluation",
            "Measure how much of the evidence recall finds.",
            "standfast.bench.eval_command:command",
        ),
    },
    settings={"bench": "standfast.bench.settings:BenchSettings"},
    pages=(ConsolePage("bench", "Benchmarks", "standfast.bench.pages:leaderboard_page"),),
)
