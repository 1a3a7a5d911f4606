"""The memory that the doors' tests stand before."""

from typing import Any

from standfast.memory import Memory
from standfast.store.store import Store


def memory_over(store: Store, namespace: str = "default", **options: Any) -> Memory:
    """The memory of a namespace."""
    return Memory(store, namespace=namespace, **options)
