"""One form for texts that a reader takes for the same: case, width, accents, lookalike letters, invisible characters.

``fold`` is for comparing and matching, never for storing. It is the same on every Python for texts as ``as_of_14``
leaves them.
"""

import re
import unicodedata
from typing import Final

from standfast.govern.judge.reading.ages import MARKS

# Letters of other alphabets that look like Latin ones, after case folding. Only those that a reader would not notice.
_LOOKALIKES: Final = {
    "Cyrillic": ("авсԁеѕіјкӏмнорԛгтуԝхһьԍќү", "abcdesijklmhopqrtywxhbgky"),
    "Greek": ("αβγεηικνορτυχωϲϳ", "abyenikvoptuxwcj"),
    "Armenian": ("օոսհցզ", "onuhgq"),
    "Latin": ("ıɑɡɩʀʏɴɪøłđħŧƨʟᴀᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢ", "iagirynioldhtslacdejkmoptuvwz"),
}
_CONFUSABLE: Final = {
    ord(other): latin
    for others, latins in _LOOKALIKES.values()
    for other, latin in zip(others, latins, strict=True)
}
_CONFUSABLE_CHARS: Final = "".join(sorted(map(chr, _CONFUSABLE)))

# What takes no room on a screen, and blanks that are no spaces.
_UNSEEN: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_INVISIBLE: Final = re.compile(f"[{_UNSEEN}]+")
# Points and accents of the alphabets whose readers read on without them; vowel signs of Indic scripts are letters.
_MARKS_AND_INVISIBLE: Final = re.compile(f"[{MARKS}\u0591-\u05c7\u064b-\u065f\u0670{_UNSEEN}]+")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_LOOKALIKE: Final = re.compile(f"[{_CONFUSABLE_CHARS}]")
_LATIN_LOOKING_WORD: Final = re.compile(f"[a-z0-9{_CONFUSABLE_CHARS}]+")
_LATIN_LETTER: Final = re.compile("[a-z]")
_CONFUSABLE_BOTH: Final = _CONFUSABLE | {
    ord(capital): latin.upper()
    for other, latin in _CONFUSABLE.items()
    if len(capital := chr(other).upper()) == 1 and not capital.isascii()
}
_LOOKALIKE_BOTH: Final = re.compile(f"[{''.join(sorted(map(chr, _CONFUSABLE_BOTH)))}]")
_WORD: Final = re.compile(r"\w+")
_ASCII: Final = re.compile("[A-Za-z]")
# A word whose every letter is of another alphabet, though of those that look Latin, is only a lookalike in Latin company.
_LATIN_SHARE: Final = 0.5
# Apostrophes, and letters in boxes and circles that Unicode takes for pictures.
_PLAIN: Final = str.maketrans("’ʼ＇", "'''") | {
    first + place: chr(ord("a") + place) for first in (0x1F150, 0x1F170, 0x1F1E6) for place in range(26)
}


def fold(text: str) -> str:
    """The text in lower case, compatibility forms resolved, accents and invisible characters gone, lookalikes Latin."""
    if text.isascii():
        return text.lower()
    plain = _SURROGATES.sub("\ufffd", text).translate(_PLAIN)
    bare = _MARKS_AND_INVISIBLE.sub("", unicodedata.normalize("NFKD", plain)).casefold()
    folded = unicodedata.normalize("NFC", bare)
    return _without_lookalikes(folded) if _LOOKALIKE.search(folded) else folded


def plain(text: str) -> str:
    """The text in its own case, compatibility forms resolved, invisible characters gone, lookalikes in Latin words Latin."""
    if text.isascii():
        return text
    bare = unicodedata.normalize("NFKC", _INVISIBLE.sub("", _SURROGATES.sub("\ufffd", text)))
    if not _LOOKALIKE_BOTH.search(bare):
        return bare
    return _WORD.sub(
        lambda word: word[0].translate(_CONFUSABLE_BOTH) if _ASCII.search(word[0]) else word[0], bare
    )


def _without_lookalikes(folded: str) -> str:
    """Lookalikes become Latin inside a word that has Latin letters too, and everywhere in a text that is mostly Latin."""
    letters = sum(map(str.isalpha, folded))
    mostly_latin = len(_LATIN_LETTER.findall(folded)) >= letters * _LATIN_SHARE

    def latin(word: re.Match[str]) -> str:
        found = word[0]
        return found.translate(_CONFUSABLE) if mostly_latin or _LATIN_LETTER.search(found) else found

    return _LATIN_LOOKING_WORD.sub(latin, folded)
