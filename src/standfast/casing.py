"""Lower case as of Unicode 14.0, on every version of Python.

Versions of Python carry different versions of Unicode, so ``str.lower`` may give different results. A query must have one
hash on all of them, and a tag one form. ``lowered`` is ``str.lower``, except that code points which play a part in casing
only in later versions of Unicode are left alone.
"""

import re
from typing import Final

# Code points that came after Unicode 14.0 (to 18.0) and are cased or case-ignorable: in 14.0 they have no lower case,
# and a capital sigma next to one is next to nothing. A test compares this list with the Unicode data of its Python.
_LATER_RANGES: Final = (
    "558 58B-58C 5C8-5C9 897 B53-B54 ECE 1ACF-1AF0 1C89-1C8A 208F 209D-209F A7CB-A7CF A7D2 A7D4 A7DA-A7DD A7E2 "
    "A7F1 AB6C-AB6D 107BB-107BF 10D4E 10D50-10D65 10D69-10D6D 10D6F-10D85 10EC5 10EC9-10ECF 10EF0-10EFF 11241 "
    "113BB-113C0 113CE 113D0 113D2 113E1-113E2 11B60 11B62-11B64 11B66 11DD9 11DF0 11F00-11F01 11F36-11F3A 11F40 "
    "11F42 11F5A 13439-13440 13447-13455 1611E-16129 1612D-1612F 16D40-16D42 16D6B-16D6C 16EA0-16EB8 16EBB-16ED3 "
    "16FF2-16FF3 1D127-1D128 1D25B-1D25C 1D6A6 1DF1F-1DF7F 1DF90-1DF96 1DFCD-1DFFF 1E030-1E06D 1E08F 1E4EB-1E4EF "
    "1E5EE-1E5EF 1E6E3 1E6E6 1E6EE-1E6EF 1E6F5 1E6FF"
)
_LATER_SPANS: Final = tuple(
    (int(first, 16), int(last or first, 16))
    for first, _, last in (span.partition("-") for span in _LATER_RANGES.split())
)
_LATER: Final = re.compile(f"([{''.join(f'{chr(first)}-{chr(last)}' for first, last in _LATER_SPANS)}]+)")
# The same, and every code point beyond the first plane: a superset that is searched for many times faster.
_PERHAPS_LATER: Final = re.compile(
    f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _LATER_SPANS if last <= 0xFFFF)}\U00010000-\U0010ffff]"
)
_SIGMA: Final = "\u03a3"
# Two code points whose role in the rule of the final sigma changed after 14.0, and others that still have that role.
_STAND_INS: Final = str.maketrans({"\u0295": "\u0250", "\U0001171e": "\u0301"})


def lowered(text: str) -> str:
    """Return the text in lower case as of Unicode 14.0."""
    if text.isascii():
        return text.lower()
    if _is_latin(text) or _PERHAPS_LATER.search(text) is None or _LATER.search(text) is None:
        return _lowered_run(text)
    # Every second piece is a run of later code points, which stay as they are.
    return "".join(
        piece if number % 2 else _lowered_run(piece) for number, piece in enumerate(_LATER.split(text))
    )


def _is_latin(text: str) -> bool:
    """Whether a text has only the first 256 code points. Encoding it is the fastest way to know."""
    try:
        text.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _lowered_run(text: str) -> str:
    if _SIGMA not in text:
        return text.lower()
    stand_in = text.translate(_STAND_INS)
    if stand_in == text:
        return text.lower()
    # Only the form of a sigma depends on its neighbours, so only sigmas are taken from the text with the stand-ins.
    low, pieces, at = stand_in.lower(), [], 0
    for char in text:
        piece = low[at] if char == _SIGMA else char.lower()
        pieces.append(piece)
        at += len(piece)
    return "".join(pieces)
