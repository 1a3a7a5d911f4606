"""Make the picture of ``standfast demo`` in the README: its real output, drawn as an SVG by rich.

    .venv/bin/python tools/demo_svg.py docs/demo.svg

The demo is run anew. The picture has its first parts and its last line; which parts, ``SHOWN_PARTS`` says.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

SHOWN_PARTS: Final = ("1", "2", "4")
_COLUMNS: Final = 100
_PART: Final = re.compile(r"^(\d)\. ", re.MULTILINE)


def output_of_demo() -> Text:
    """What the demo prints, with its colours."""
    program = [sys.executable, "-m", "standfast", "demo"]
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(_COLUMNS)}
    printed = subprocess.run(program, env=environment, capture_output=True, text=True, check=True).stdout  # noqa: S603  # Our own command.
    return Text.from_ansi(printed)


def shown(printed: Text) -> Text:
    """The parts that the picture has, and the line that counts the claims."""
    starts = [(found[1], found.start()) for found in _PART.finditer(printed.plain)]
    end = printed.plain.index("claims, ")
    end = printed.plain.rindex("\n", 0, end) + 1
    pieces = Text("$ standfast demo\n\n", style="bold")
    for (number, start), (_, stop) in zip(starts, [*starts[1:], ("", end)], strict=True):
        if number in SHOWN_PARTS:
            pieces += printed[start:stop]
    summary = printed[end:]
    stop = summary.plain.index(".") + 1
    return pieces + summary[:stop]


def main(place: str) -> None:
    """Draw the picture."""
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=_COLUMNS, file=nowhere, force_terminal=True)
        console.print(shown(output_of_demo()))
    drawn = console.export_svg(title="standfast demo", unique_id="standfast-demo")
    # The fonts would be fetched from elsewhere; the machine's own do.
    drawn = re.sub(r"@font-face \{.*?\}", "", drawn, flags=re.DOTALL)
    lines = [line.rstrip() for line in drawn.splitlines() if line.strip()]
    Path(place).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
