"""What a text costs in tokens, counted by a real tokeniser, or estimated and called an estimate."""

import threading
from typing import Any, Final, Protocol

from standfast.errors import InvalidValue, MissingExtra

BPE_NAMES: Final = ("o200k_base", "cl100k_base")
"""OpenAI's encodings, whose ranks are inside the wheel: nothing is downloaded."""

_ESTIMATE_CHARS: Final = 4


class TokenCounter(Protocol):
    """Counts tokens. ``name`` stands beside every number that it gives."""

    @property
    def name(self) -> str:
        """Which tokeniser, or which estimate."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether a model with this tokeniser would count the same."""
        ...

    def count(self, text: str) -> int:
        """How many tokens the text has."""
        ...


class BpeCounter:
    """Counts with one of OpenAI's encodings. Its extra is ``tokens``."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        if encoding not in BPE_NAMES:
            problem = f"there is no encoding {encoding!r:.40}, only {', '.join(BPE_NAMES)}"
            raise InvalidValue(what="BpeCounter", problem=problem)
        try:
            from rs_bpe.bpe import openai  # noqa: PLC0415  # Only its users pay for the ranks.
        except ImportError:
            raise MissingExtra(feature="A real tokeniser", extra="tokens") from None
        self._encoding = encoding
        self._tokeniser: Any = getattr(openai, encoding)()
        # The library does not say that it may be called from several threads at once.
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The encoding's own name."""
        return self._encoding

    @property
    def is_exact(self) -> bool:
        """It is what the models of that encoding count."""
        return True

    def count(self, text: str) -> int:
        """How many tokens the text has."""
        with self._lock:
            return int(self._tokeniser.count(text))


class EstimatedCounter:
    """A token for every four characters: an estimate for where no tokeniser is installed, and labelled as one."""

    @property
    def name(self) -> str:
        """It says that it is an estimate."""
        return "estimate:chars/4"

    @property
    def is_exact(self) -> bool:
        """No model counts like this."""
        return False

    def count(self, text: str) -> int:
        """A quarter of the characters, rounded up."""
        return -(-len(text) // _ESTIMATE_CHARS)
