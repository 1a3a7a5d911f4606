"""Durable file operations: after they return, a power cut does not undo them."""

import os
from pathlib import Path


def write_new(path: Path, content: bytes, *, mode: int = 0o666, synced: bool = True) -> None:
    """Create a file, which must not exist, and sync its content. ``sync_folder`` makes its name durable."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        if synced:
            os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of the files in it are durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
