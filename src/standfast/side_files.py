"""The folder of what belongs to a store and is kept outside its database: ``agent.db-files`` next to the file
``agent.db``, and ``standfast-files/<server>-<database>`` in the working directory for a database on a server.

    head              the end of the ledger as last acknowledged by a process that uses this folder
    log.key, log.pub  the key that signs the ledger's checkpoints, and its public half
    checkpoints       every signed checkpoint
    checkpoints.cosigned  those that a witness has cosigned, if there is one
    checkpoints.edge  a shortcut for signing, which may be removed
    traces/           the traces of runs
    recalls/          the recall log: which package was handed to whom

``docs/verify.md`` says who should keep which of them.
"""

import re
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

SERVER_FILES: Final = "standfast-files"
"""Where the folders of databases on a server are, if nobody says otherwise."""
_NOT_IN_A_FILE_NAME: Final = re.compile("[^A-Za-z0-9._-]+")


class SideFiles:
    """The paths in the folder of one store. Nothing is created before it is needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.head = folder / "head"
        self.key = folder / "log.key"
        self.public_key = folder / "log.pub"
        self.checkpoints = folder / "checkpoints"
        self.cosigned = folder / "checkpoints.cosigned"
        self.traces = folder / "traces"
        self.recalls = folder / "recalls"

    @classmethod
    def of(cls, url: str) -> Self | None:
        """The files of the store at a path or URL. A store in memory has none."""
        if url == ":memory:":
            return None
        if "://" not in url:
            return cls(Path(f"{url}-files"))
        return cls(Path(SERVER_FILES) / database_name(url))


def database_name(url: str) -> str:
    """The server and database of a URL, in characters that a file can have. It holds no password."""
    parts = urlsplit(url)
    place = f"{parts.netloc.rpartition('@')[2]}-{parts.path.strip('/')}"
    return _NOT_IN_A_FILE_NAME.sub("-", place).strip("-.") or "database"
