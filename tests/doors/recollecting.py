"""The memory that the doors' tests stand before."""

from typing import Any

from holdfast.memory import Memory
from holdfast.store.store import Store


def memory_over(store: Store, namespace: str = "default", **options: Any) -> Memory:
    """The memory of a namespace."""
    return Memory(store, namespace=namespace, **options)
