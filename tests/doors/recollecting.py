"""A memory whose recall is a plain search, for as long as the real one is not in the house; after that, the real one."""

from typing import Any

from holdfast.canon import fingerprint
from holdfast.memory import Memory, Run
from holdfast.store.store import Store
from holdfast.vocabulary import Band


class _Package:
    def __init__(self, items: list[dict[str, Any]]) -> None:
        self._items = items
        self.package_hash = fingerprint(items)

    @property
    def text(self) -> str:
        return "\n".join(item["excerpt"] for item in self._items)

    def as_json(self) -> dict[str, Any]:
        return {"selection": {"selected": self._items, "dropped": {}}, "package_hash": self.package_hash}


def _searched(memory: Memory, query: str, max_items: int, at: int | None) -> _Package:
    words = query.lower().split()
    found = [
        {"memory_id": record.memory_id, "excerpt": record.text, "score": 1.0}
        for record in memory.records(band=Band.LEDGER, at=at)
        if any(word in record.text.lower() for word in words)
    ]
    return _Package(found[:max_items])


class _SearchingRun(Run):
    def recall(self, query: str, *, tokens: int, max_items: int = 50) -> _Package:  # noqa: ARG002  # The real one's shape.
        return _searched(self.memory, query, max_items, self.identity.memory_snapshot_id)


class _SearchingMemory(Memory):
    def recall(  # As above.
        self,
        query: str,
        *,
        tokens: int,  # noqa: ARG002  # As above.
        max_items: int = 50,
        at: int | None = None,
    ) -> _Package:
        return _searched(self, query, max_items, at)

    def run(self, **options: Any) -> Run:
        run = super().run(**options)
        return _SearchingRun(self, run.identity, run.agent)


CAN_RECALL = hasattr(Memory, "recall")


def memory_over(store: Store, namespace: str = "default", **options: Any) -> Memory:
    """The memory of a namespace, able to recall."""
    return (Memory if CAN_RECALL else _SearchingMemory)(store, namespace=namespace, **options)
