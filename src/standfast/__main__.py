"""The ``standfast`` command, and ``python -m standfast``: Ctrl-C is answered in words from the first moment to the last.

Nothing is imported before that is arranged. An interrupt unwinds whatever is under way, as an exit would: a commit that was not
acknowledged happened in full or not at all, and all that was acknowledged is there.
"""

import os
import signal
import sys
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Run the command line on the process's own words."""
    # A command in the background of a shell ignores Ctrl-C, and goes on doing so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupted)
    from standfast.cli import main as command_line  # noqa: PLC0415  # Only now an interrupt is answered in words.

    try:
        command_line(prog_name="standfast")
    finally:
        # The answer is given or never will be; what is left is Python's own tidying up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _flush()


def _interrupted(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # The signature of signal handlers.
    # Written past the buffers, which the interrupted code may be in the middle of.
    os.write(2, b"Interrupted.\n")
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            # A library that is unwound while it loads may crash the process. What a kill leaves is whole, too.
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise SystemExit(INTERRUPTED)


def _flush() -> None:
    """Hand the answer over. A reader that went away, as ``head`` does, has what it wanted."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
