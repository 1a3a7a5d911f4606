"""Memory behind the interfaces of agent frameworks. Each has one file and is an optional dependency."""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
