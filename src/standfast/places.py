"""Where memory of a project and of a user is, unless somebody says otherwise."""

from pathlib import Path
from typing import Final

FOLDER: Final = ".standfast"
STORE: Final = "memory.db"


def repository_of(folder: Path) -> Path | None:
    """The folder of the Git repository that a folder is in; None if it is in none."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)


def memory_in(folder: Path) -> Path:
    """The memory of a project, by the folder of its repository, or of a user, by the home folder."""
    return folder / FOLDER / STORE
