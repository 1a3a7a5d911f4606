"""Files of episodes: those that a user names, and those that are made where none is named."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from standfast.bench.files import write_jsonl
from standfast.bench.sources.synthetic import DriftSettings, Regime, generate
from standfast.errors import BadFile

LENGTHS: Final = {"short": 100, "medium": 1_000, "long": 10_000}
EPISODES: Final = {"short": 10, "medium": 3, "long": 1}
assert set(LENGTHS) == set(EPISODES)


def episode_files(sources: Sequence[str]) -> list[str]:
    """The files that were named, and the ``.jsonl`` files in folders that were, by name; each once."""
    found: list[str] = []
    for source in sources:
        if Path(source).is_dir():
            inside = sorted(os.fspath(path) for path in Path(source).glob("*.jsonl"))
            if not inside:
                raise BadFile(file=source, problem="there is no .jsonl file in it")
            found += inside
        else:
            found.append(source)
    return list(dict.fromkeys(found))


def synthetic_name(settings: DriftSettings, episodes: int, against: str | None = None) -> str:
    """A file name that says all that the file is made from."""
    target = f"__against={against}" if against is not None else ""
    return f"synthetic__regime={settings.regime}__seed={settings.seed}__steps={settings.steps}__n={episodes}{target}.jsonl"


def default_files(out: str, *, seed: int = 0) -> list[str]:
    """Synthetic episodes of three lengths in four regimes, made below a folder if they are not there yet."""
    files = []
    for regime in Regime:
        if regime is Regime.ADVERSARIAL:
            continue
        for length, steps in LENGTHS.items():
            settings = DriftSettings(steps=steps, regime=regime, seed=seed)
            file = Path(out) / "episodes" / synthetic_name(settings, EPISODES[length])
            if not file.exists():
                write_jsonl(file, (generate(settings, number) for number in range(EPISODES[length])))
            files.append(os.fspath(file))
    return files
