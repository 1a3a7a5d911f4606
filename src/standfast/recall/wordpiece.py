"""WordPiece: splits a text into the tokens of a BERT vocabulary, as uncased models read it.

Unicode is that of version 14.0, as everywhere: characters that came later are left out.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from standfast.errors import InvalidValue
from standfast.recall.analysis import LATER

UNKNOWN: Final = "[UNK]"
FIRST: Final = "[CLS]"
LAST: Final = "[SEP]"
MAX_WORD_CHARS: Final = 100
"""A longer word is one unknown token."""
_WORDS_KEPT: Final = 1 << 16


class WordPiece:
    """The tokens of texts, by their numbers in a vocabulary. Threads may share it.

    Args:
        tokens: The vocabulary in order; a token that continues a word begins with ``##``.
    """

    def __init__(self, tokens: Iterable[str]) -> None:
        self._numbers = {token: number for number, token in enumerate(tokens)}
        missing = [token for token in (UNKNOWN, FIRST, LAST) if token not in self._numbers]
        if missing:
            problem = f"it lacks {', '.join(missing)}; give the vocab.txt of an uncased BERT model"
            raise InvalidValue(what="vocabulary", problem=problem)
        self.unknown, self.first, self.last = (self._numbers[token] for token in (UNKNOWN, FIRST, LAST))
        self._of_word = lru_cache(maxsize=_WORDS_KEPT)(self._uncached)

    def __len__(self) -> int:
        return len(self._numbers)

    def ids_of(self, text: str) -> list[int]:
        """The numbers of the tokens of a text, without the marks of its beginning and end."""
        return [number for word in _words(text) for number in self._of_word(word)]

    def _uncached(self, word: str) -> tuple[int, ...]:
        """The longest token that begins the word, then the longest that continues it, and so on."""
        if len(word) > MAX_WORD_CHARS:
            return (self.unknown,)
        found: list[int] = []
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(prefix + word[start:end])
                if number is not None:
                    found.append(number)
                    start = end
                    break
            else:
                return (self.unknown,)
        return tuple(found)


class _Separated(dict[int, str]):
    """What each code point becomes: nothing if it is a control or a mark, itself between spaces if it stands alone."""

    def __missing__(self, code_point: int) -> str:
        char = chr(code_point)
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            found = " "
        elif category in ("Cc", "Cf", "Cn", "Co", "Mn") or char == "\ufffd":
            found = ""
        elif _is_alone(code_point) or category[0] == "P":
            found = f" {char} "
        else:
            found = char
        self[code_point] = found
        return found


def _is_alone(code_point: int) -> bool:
    """Whether it is one of ASCII's signs, or a Chinese character, which is a word of its own."""
    return (
        33 <= code_point <= 47
        or 58 <= code_point <= 64
        or 91 <= code_point <= 96
        or 123 <= code_point <= 126
        or 0x4E00 <= code_point <= 0x9FFF
        or 0x3400 <= code_point <= 0x4DBF
        or 0xF900 <= code_point <= 0xFAFF
        or 0x20000 <= code_point <= 0x2A6DF
        or 0x2A700 <= code_point <= 0x2CEAF
        or 0x2F800 <= code_point <= 0x2FA1F
    )


_separated: Final = _Separated()


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = unicodedata.normalize("NFD", LATER.sub("", text))
    return text.lower().translate(_separated).split()
