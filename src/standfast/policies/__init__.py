"""Write policies: what to keep when bytes run out, the same in production and in the benchmark."""

from standfast.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
