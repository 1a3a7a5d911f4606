"""The same mailbox over each backend: a test that asks for ``mailbox`` runs once for every one of them."""

from collections.abc import Iterator

import pytest

from tests.optimize.mailboxes.backends import Advance, AnyMailbox, in_memory, on_redis


@pytest.fixture(params=["in_memory", "redis"])
def mailbox_and_clock(request: pytest.FixtureRequest) -> Iterator[tuple[AnyMailbox, Advance]]:
    """A new mailbox and the hand of its clock. The server starts only for the tests that need it."""
    made = on_redis(request.getfixturevalue("redis_url")) if request.param == "redis" else in_memory()
    yield made
    made[0].close()
    if request.param == "redis":
        made[0]._client.close()  # type: ignore[union-attr]


@pytest.fixture
def mailbox(mailbox_and_clock: tuple[AnyMailbox, Advance]) -> AnyMailbox:
    """A new, empty mailbox."""
    return mailbox_and_clock[0]


@pytest.fixture
def advance(mailbox_and_clock: tuple[AnyMailbox, Advance]) -> Advance:
    """Lets that many seconds pass for the mailbox."""
    return mailbox_and_clock[1]
