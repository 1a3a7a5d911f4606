"""The entry point of the ``standfast`` command and of ``python -m standfast``.

It handles Ctrl-C before anything else is imported: one line on stderr and exit code 130, never a traceback.
An interrupted commit either happened in full or not at all; everything acknowledged is stored.
"""

import os
import signal
import sys
from types import FrameType
from typing import Final

INTERRUPTED: Final = 130


def main() -> None:
    """Run the command line with the process's arguments."""
    # A shell starts background commands with Ctrl-C ignored; that stays so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _on_interrupt)
    from standfast.cli import main as command_line  # noqa: PLC0415  # After the handler is in place.

    try:
        command_line(prog_name="standfast")
    finally:
        # The command is over; an interrupt must not disturb the interpreter's shutdown.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _flush()


def _on_interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  # The signature of signal handlers.
    # Not through the buffered stream: the interrupted code may be in the middle of using it.
    os.write(2, b"Interrupted.\n")
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            # Unwinding a library while it is imported may crash the process. Exiting at once loses nothing.
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise SystemExit(INTERRUPTED)


def _flush() -> None:
    """Flush stdout. A reader that closed the pipe early, as ``head`` does, is not an error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
