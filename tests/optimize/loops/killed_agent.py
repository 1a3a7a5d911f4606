"""An agent over a memory in a file that kills itself when its answer is committed and nobody has been told
yet.

``python -m tests.optimize.loops.killed_agent URL FILE``
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

import redis

from standfast.memory import Memory
from standfast.optimize.loops.agent import ToRemember
from standfast.optimize.loops.main import MainLoop, MainLoopRequest, MainLoopResult
from standfast.optimize.mailboxes.redis import RedisMailbox, RedisMailboxResolver
from standfast.optimize.prompts.template import PromptTemplate, Section
from standfast.optimize.providers.adapter import ScriptedProvider

TEMPLATE = PromptTemplate(
    ns="agent", key="notes", sections=(Section(key="task", title="Task", body="Note: ${note}"),)
)
LEASE_SECONDS = 0.5


class Notes(MainLoop[dict[str, str]]):
    """Remembers every note that it is given."""

    def to_remember(self, request: dict[str, str], output: str) -> Sequence[ToRemember]:
        """The note, and what was said to it."""
        return (ToRemember(text=f"{request['note']} {output}", tags=("note",)),)


class DoomedNotes(Notes):
    """Dies after the commit."""

    def handle(self, request: MainLoopRequest[dict[str, str]]) -> MainLoopResult:
        """All but the reply."""
        super().handle(request)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it is dead")


def notes(memory: Memory, requests: Any, kind: type[Notes] = Notes) -> Notes:
    """The agent over a memory and a mailbox."""
    adapter = ScriptedProvider(lambda _: "It is noted.")
    return kind(adapter=adapter, template=TEMPLATE, memory=memory, requests=requests, workflow="notes")


def on_redis(url: str) -> "RedisMailbox[Any, Any]":
    """The agent's mailbox."""
    client = redis.Redis.from_url(url)
    return RedisMailbox(name="notes", client=client, reply_resolver=RedisMailboxResolver(client=client))


if __name__ == "__main__":
    doomed = notes(Memory.open(sys.argv[2]), on_redis(sys.argv[1]), DoomedNotes)
    doomed.run(max_iterations=1, visibility_timeout=LEASE_SECONDS, wait_time_seconds=20)
