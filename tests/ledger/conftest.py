"""The store that the tests of tampering and of the notary copy; it is filled once."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.kept import Kept, build
from tests.store.conftest import ram_folder

__all__ = ["ram_folder"]


@pytest.fixture(scope="session")
def kept() -> Iterator[Kept]:
    """A store of 1,000 ledger entries, to be copied and not to be touched."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="standfast-", dir=memory if memory.is_dir() else None))
    yield build(folder)
    shutil.rmtree(folder)
