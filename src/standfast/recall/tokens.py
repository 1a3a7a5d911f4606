"""Token counters: a real tokeniser, or an estimate that is named as one."""

import threading
from typing import Any, Final, Protocol

from standfast.errors import InvalidValue, MissingExtra

BPE_NAMES: Final = ("o200k_base", "cl100k_base")
"""OpenAI's encodings. Their ranks are inside the wheel, so nothing is downloaded."""

BYTES_PER_TOKEN: Final = 4


class TokenCounter(Protocol):
    """Counts the tokens of a text: a pure function of it, which threads may share."""

    @property
    def name(self) -> str:
        """Which tokeniser or estimate it is, with its version if it has several. Shown with every count."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether a model with this tokeniser counts the same."""
        ...

    def count(self, text: str) -> int:
        """Count the tokens of the text."""
        ...


class BpeCounter:
    """Counts with one of OpenAI's encodings. It needs the extra ``tokens``."""

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
        """The name of the encoding."""
        return self._encoding

    @property
    def is_exact(self) -> bool:
        """True: models with this encoding count the same."""
        return True

    def count(self, text: str) -> int:
        """Count the tokens of the text."""
        with self._lock:
            return int(self._tokeniser.count(text))


class EstimatedCounter:
    """One token for every four bytes of UTF-8, rounded up: the contract's estimator, no tokeniser."""

    @property
    def name(self) -> str:
        """A name that says it is an estimate."""
        return f"estimate:bytes/{BYTES_PER_TOKEN}"

    @property
    def is_exact(self) -> bool:
        """False: no model counts like this."""
        return False

    def count(self, text: str) -> int:
        """A quarter of the bytes, rounded up."""
        return -(-len(text.encode()) // BYTES_PER_TOKEN)
