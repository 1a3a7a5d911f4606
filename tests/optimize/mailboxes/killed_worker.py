"""A worker that takes messages, writes down each one, acknowledges it, and does not expect to live long.

``python -m tests.optimize.mailboxes.killed_worker URL``; whoever started it kills it.
"""

import sys
from typing import Any

import redis

from standfast.optimize.mailboxes.redis import RedisMailbox

WORKED = "test:worked"
VISIBILITY_SECONDS = 0.5


def main(url: str) -> None:
    """Work until killed."""
    client: Any = redis.Redis.from_url(url)
    mailbox: RedisMailbox[int, None] = RedisMailbox(name="doomed", client=client, max_deliveries=1_000)
    sys.stdout.write("up\n")
    sys.stdout.flush()
    while True:
        for message in mailbox.receive(
            max_messages=3, visibility_timeout=VISIBILITY_SECONDS, wait_time_seconds=5
        ):
            client.rpush(WORKED, message.body)
            message.acknowledge()


if __name__ == "__main__":
    main(sys.argv[1])
