"""Turns settings into working parts."""

from holdfast.store.opening import open_store

__all__ = ["open_store"]
