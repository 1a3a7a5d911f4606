"""``raises_code``: as ``pytest.raises``, for an error that is known by its code."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from standfast.errors import StandfastError


@contextmanager
def raises_code(code: str, *, match: str | None = None) -> Iterator[pytest.ExceptionInfo[StandfastError]]:
    """Expect an error with this code, and a message in which ``match`` is found."""
    with pytest.raises(StandfastError, match=match) as raised:
        yield raised
    assert raised.value.code == code
