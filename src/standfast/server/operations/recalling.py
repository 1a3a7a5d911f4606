"""The one place where the doors meet recall."""

from typing import Any

from standfast.memory import Memory, Run
from standfast.recall.package import ContextPackage
from standfast.server.operations.shapes import Recall, Recalled


def recalled(memory: Memory, asked: Recall) -> Recalled:
    """What is known, at the snapshot that was asked for, or the newest."""
    at = memory.store.head() if asked.at is None else asked.at
    package = memory.at(at).recall(asked.query, tokens=asked.tokens, max_items=asked.max_items)
    return _answer(package, at)


def recalled_in(run: Run, asked: Recall) -> Recalled:
    """What the run's snapshot knows."""
    package = run.recall(asked.query, tokens=asked.tokens, max_items=asked.max_items)
    return _answer(package, run.identity.memory_snapshot_id)


def items_of(answer: Recalled) -> list[dict[str, Any]]:
    """What was selected, in rank order."""
    selected: list[dict[str, Any]] = answer.package["selection"]["selected"]
    return selected


def _answer(package: ContextPackage, at: int) -> Recalled:
    return Recalled(
        memory_snapshot_id=at,
        package_hash=package.package_hash,
        text=package.text,
        package=package.as_json(),
    )
