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
_HOOK_SECONDS: Final = 0.85
"""A coding agent waits for its hook, so that the command gives up: a second after the start at the latest."""


def main() -> None:
    """Run the command line with the process's arguments."""
    # A shell starts background commands with Ctrl-C ignored; that stays so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _on_interrupt)
    is_hook = sys.argv[1:2] == ["hook"] and "--capture" not in sys.argv
    if is_hook:
        _give_up_in_time()
    from standfast.cli import main as command_line  # noqa: PLC0415  # After the handler is in place.

    try:
        command_line(prog_name="standfast")
    finally:
        # The command is over; an interrupt must not disturb the interpreter's shutdown.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _flush()
        if is_hook and "--help" not in sys.argv:
            # It only read, and printed what it had to say. Taking everything down would cost more time.
            os._exit(0)


def _give_up_in_time() -> None:
    """End the process, as if it had nothing to say, when the time is over."""
    import threading  # noqa: PLC0415  # Other commands start without it.

    try:
        seconds = float(os.environ.get("STANDFAST_HOOK_SECONDS", ""))
    except ValueError:
        seconds = _HOOK_SECONDS
    clock = threading.Timer(max(0.0, seconds - _seconds_since_start()), os._exit, [0])
    clock.daemon = True
    clock.start()


def _seconds_since_start() -> float:
    """How long the process has been running, which is longer than this program on a busy machine.

    Where the system does not say it, what Python takes to start.
    """
    import time  # noqa: PLC0415  # Other commands start without it.

    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123  # pathlib would take longer to load.
            began = int(file.read().rpartition(b")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - began)
    except (OSError, ValueError, AttributeError):
        return 0.1


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
    """Flush stdout, if there is one. A reader that closed the pipe early, like ``head``, is no error."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
