"""A server program as a child of the test process: started, awaited, stopped, killed, never left behind."""

import atexit
import functools
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.servers import guard

LOOPBACK = "127.0.0.1"
START_SECONDS = 30.0
STOP_SECONDS = 20.0
LOG_TAIL_LINES = 30


class ServerFailed(Exception):
    """A server did not start or stop as it should. The message ends with the last lines of its log."""

    def __init__(self, *, server: str, problem: str, log: Path) -> None:
        self.server = server
        self.log = log
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        tail = "\n".join(lines[-LOG_TAIL_LINES:]) or "(empty)"
        super().__init__(f"{server} {problem}. The end of {log}:\n{tail}")


class ReservedPort:
    """A TCP port of 127.0.0.1 that the system gives to nobody else while this object lives.

    The port is bound here but not listened on. Linux lets a server listen on it all the same, because both
    sides set SO_REUSEADDR, and hands it out to no one who asks for any free port. So two test workers never
    collide, and a server that was killed finds its port free when it starts again.
    """

    def __init__(self) -> None:
        with socket.socket() as holder:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((LOOPBACK, 0))
            self.number: int = holder.getsockname()[1]
            # A bare descriptor closes without a warning when a test lets its server go.
            weakref.finalize(self, os.close, holder.detach())


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What to run: the command, where its output goes, and the signal that asks it to end."""

    server: str
    command: Sequence[str]
    log: Path
    stop_signal: signal.Signals = signal.SIGTERM
    environment: Mapping[str, str] | None = None
    folder: Path | None = None


class ServerProcess:
    """A program that can be started and ended any number of times; at most one runs at a time."""

    def __init__(self, program: Program, *, answers: Callable[[], bool]) -> None:
        self.program = program
        self._answers = answers
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether the program runs now."""
        return self._child is not None and self._child.poll() is None

    @property
    def pids(self) -> tuple[int, ...]:
        """The program's own pid, then those of all its children. Empty when it does not run."""
        if self._child is None or self._child.poll() is not None:
            return ()
        return (self._child.pid, *guard.descendants(self._child.pid))

    def start(self) -> None:
        """Run the program and return once it answers. A program that runs already is left alone."""
        if self.running:
            return
        self._forget()
        with self.program.log.open("ab") as log:
            # The output goes to a file, for a pipe that nobody reads would stop the server when it is full. A
            # session of its own keeps the terminal's Ctrl-C from the server, so that a fixture can stop it in
            # good order.
            self._child = subprocess.Popen(
                self.program.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.program.environment,
                cwd=self.program.folder,
                start_new_session=True,
            )
        _guard().watch(self._child.pid, self.program.stop_signal)
        try:
            self._wait_for_answer(self._child)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ask the program to end and wait for it. One that takes too long is killed, and that is an error."""
        if self._child is None:
            return
        self._child.send_signal(self.program.stop_signal)
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise self._failed(f"did not stop within {STOP_SECONDS} s") from None
        self._forget()

    def kill(self) -> None:
        """End the program and all its children at once with SIGKILL, as a power cut would."""
        if self._child is None:
            return
        killed = guard.kill_tree(self._child.pid)
        self._child.wait(STOP_SECONDS)
        # A killed process holds its files and sockets for a moment longer, and a new start would meet them.
        if not guard.wait_until_gone(killed, within_seconds=STOP_SECONDS):
            raise self._failed(f"was killed but is still there after {STOP_SECONDS} s")
        self._forget()

    def _wait_for_answer(self, child: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if child.poll() is not None:
                raise self._failed(f"ended with code {child.returncode} instead of starting")
            if time.monotonic() > deadline:
                raise self._failed(f"did not answer within {START_SECONDS} s")
            time.sleep(guard.POLL_SECONDS)

    def _failed(self, problem: str) -> ServerFailed:
        return ServerFailed(server=self.program.server, problem=problem, log=self.program.log)

    def _forget(self) -> None:
        if self._child is not None:
            _guard().forget(self._child.pid)
            self._child = None


class _GuardLine:
    """The line to the guard process; it drops, and the guard acts, when this process ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, pid: int, stop_signal: signal.Signals) -> None:
        self._send(b"%s %d %d\n" % (guard.WATCH, pid, stop_signal))

    def forget(self, pid: int) -> None:
        self._send(b"%s %d\n" % (guard.FORGET, pid))

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(STOP_SECONDS)

    def _send(self, message: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(message)
        self._process.stdin.flush()


@functools.cache
def _guard() -> _GuardLine:
    line = _GuardLine()
    # Waiting for the guard at the exit means that a test run that has ended has left nothing behind.
    atexit.register(line.close)
    return line
