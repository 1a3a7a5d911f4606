"""Files that a power cut leaves whole: written and synced before they get their name, and the name synced too."""

import os
from pathlib import Path


def write_new(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file that was not there, and return when it is on the disk; its name may not be, see ``sync_folder``."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder as durable as what the files hold, whoever created them."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
