"""Folding: one form for texts that a reader takes for the same.

``fold`` removes differences of case, width, accents, lookalike letters and invisible characters. It is for comparing and
matching, never for storing.

``as_of_unicode_14`` makes texts read alike on every Python. Python 3.11 knows Unicode 14.0; later versions know more
characters, and would classify, case-fold or print them differently. Each later character is replaced by its number. A test
compares the table with the newest Unicode data.
"""

import re
import unicodedata
from typing import Final

# All code points assigned by versions 15.0 to 18.0.
_LATER_RANGES: Final = (
    "558 58B-58C 5C8-5C9 88F 897 B53-B54 C5C CDC CF3 ECE 1ACF-1AF0 1B4E-1B4F 1B7F 1C89-1C8A 208F 209D-209F "
    "20C1-20C4 2427-2429 2B96 2E60-2E63 2FFC-2FFF 31E4-31E5 31EF A7CB-A7CF A7D2 A7D4 A7DA-A7DD A7E2 A7F1 "
    "AB6C-AB6D FBC3-FBD2 FD90-FD91 FDC8-FDCE 105C0-105F3 107BB-107BF 10940-10959 10D40-10D65 10D69-10D85 "
    "10D8E-10D8F 10EC2-10EC7 10EC9-10EEE 10EF0-10EFF 1123F-11241 11380-11389 1138B 1138E 11390-113B5 113B7-113C0 "
    "113C2 113C5 113C7-113CA 113CC-113D5 113D7-113D8 113E1-113E2 116D0-116E3 11B00-11B0A 11B60-11B67 11BC0-11BE1 "
    "11BF0-11BF9 11DB0-11DDB 11DE0-11DE9 11DF0-11DF1 11F00-11F10 11F12-11F3A 11F3E-11F5A 1246F 12475-1247F "
    "12550-12686 1342F 13439-13455 13460-143FA 16100-16139 16D40-16D79 16EA0-16EB8 16EBB-16ED3 16FF2-16FF6 "
    "187F8-187FF 18CD6-18CDA 18CFF 18D09-18D20 18D80-18DF2 18E00-19191 191A0-191D2 1B123-1B128 1B132 1B155 1B168 "
    "1CC00-1CCFC 1CD00-1CEB3 1CEBA-1CED0 1CED2-1CED4 1CEDD-1CEFD 1D127-1D128 1D1EB-1D1FF 1D250-1D281 1D2C0-1D2D3 "
    "1D6A6 1DB00-1DB1C 1DF1F-1DF81 1DF90-1DF96 1DFCD-1DFFF 1E030-1E06D 1E08F 1E4D0-1E4F9 1E5D0-1E5FA 1E5FF "
    "1E6C0-1E6DE 1E6E0-1E6F5 1E6FE-1E6FF 1F1AE 1F6D8-1F6D9 1F6DC 1F774-1F77F 1F7D9-1F7DB 1F7F1-1F7FF 1F8B2-1F8BB "
    "1F8C0-1F8C1 1F8D0-1F8D8 1FA54-1FA57 1FA75-1FA77 1FA87-1FA8F 1FAAD-1FAAF 1FABB-1FABF 1FAC6 1FAC8 1FACC-1FACF "
    "1FADA-1FADD 1FADF 1FAE8-1FAEB 1FAEF 1FAF7-1FAFA 1FBCB-1FBEF 1FBFA 2B739-2B73F 2B81E 2CEA2-2CEAD 2EBF0-2EE5D "
    "31350-33479 3D000-3FC3F "
)


def _char_class(code_points: str) -> str:
    first, _, last = code_points.partition("-")
    return f"\\U{int(first, 16):08x}-\\U{int(last or first, 16):08x}"


LATER: Final = re.compile(f"[{''.join(map(_char_class, _LATER_RANGES.split()))}]")
# Combining marks, which ``fold`` removes. Later marks in these blocks are removed as well.
MARKS: Final = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_MARK: Final = re.compile(f"[{MARKS}]")


def as_of_unicode_14(text: str) -> str:
    """Replaces each character that is newer than Unicode 14.0 by its number, and drops newer combining marks."""
    if text.isascii() or not LATER.search(text):
        return text
    return LATER.sub(lambda later: "" if _MARK.match(later[0]) else f" \u25a1{ord(later[0]):x} ", text)


# Letters of other alphabets, after case folding, that readers take for Latin ones.
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

# Characters that take no room on a screen, and blanks that are not spaces.
_UNSEEN: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_INVISIBLE: Final = re.compile(f"[{_UNSEEN}]+")
# Points and accents of alphabets that can be read without them. Vowel signs of Indic scripts are letters.
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
# A word of lookalike letters only is taken for Latin if at least this share of the letters in the text is Latin.
_LATIN_SHARE: Final = 0.5
# Apostrophes, and letters in boxes and circles, which Unicode classifies as symbols.
_PLAIN: Final = str.maketrans("’ʼ＇", "'''") | {
    first + place: chr(ord("a") + place) for first in (0x1F150, 0x1F170, 0x1F1E6) for place in range(26)
}


def fold(text: str) -> str:
    """Folds a text: lower case, compatibility forms resolved, no accents or invisible characters, lookalikes as Latin."""
    if text.isascii():
        return text.lower()
    plain = _SURROGATES.sub("\ufffd", text).translate(_PLAIN)
    bare = _MARKS_AND_INVISIBLE.sub("", unicodedata.normalize("NFKD", plain)).casefold()
    folded = unicodedata.normalize("NFC", bare)
    return _without_lookalikes(folded) if _LOOKALIKE.search(folded) else folded


def plain(text: str) -> str:
    """Resolves compatibility forms, invisible characters and lookalikes in Latin words, but keeps the case."""
    if text.isascii():
        return text
    bare = unicodedata.normalize("NFKC", _INVISIBLE.sub("", _SURROGATES.sub("\ufffd", text)))
    if not _LOOKALIKE_BOTH.search(bare):
        return bare
    return _WORD.sub(
        lambda word: word[0].translate(_CONFUSABLE_BOTH) if _ASCII.search(word[0]) else word[0], bare
    )


def _without_lookalikes(folded: str) -> str:
    """Replaces lookalikes in words that also have Latin letters, and everywhere if the text is mostly Latin."""
    letters = sum(map(str.isalpha, folded))
    mostly_latin = len(_LATIN_LETTER.findall(folded)) >= letters * _LATIN_SHARE

    def latin(word: re.Match[str]) -> str:
        found = word[0]
        return found.translate(_CONFUSABLE) if mostly_latin or _LATIN_LETTER.search(found) else found

    return _LATIN_LOOKING_WORD.sub(latin, folded)
