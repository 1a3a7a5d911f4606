"""Numbers by which a state knows a person, where the number's own form or checksum tells.

A form that many other numbers share counts only beside a word for it. Each check is the published one.
"""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from standfast.govern.judge.reading.lexicon import word_set
from standfast.govern.judge.reading.words import TextReading


class _Form(NamedTuple):
    """A kind of number: words of which one must stand in the text, the pattern, and the law that its characters keep."""

    kind: str
    beside: frozenset[str]
    least_run_chars: int
    pattern: re.Pattern[str]
    holds: Callable[[str], bool]


# What every long number has, however its digits are grouped: no text without it holds one.
LONG_NUMBER: Final = re.compile(r"\d[\d .-]{5}")


def national_id_in(reading: TextReading, *, has_long_number: bool = True) -> str | None:
    """The kind of the first number of a person, in a fixed order of kinds; None if there is none.

    Who has looked for ``LONG_NUMBER`` already can say that there is none.
    """
    longest, words = reading.longest_run_chars, reading.vocabulary
    if not has_long_number and words.isdisjoint(WORDS_BESIDE) and not _ITALIAN.search(reading.text):
        return None
    for form in _FORMS:
        if form.least_run_chars <= longest and not (form.beside and words.isdisjoint(form.beside)):
            for found in form.pattern.finditer(reading.text):
                if form.holds(_NO_PART.sub("", found[0]).upper()):
                    return form.kind
    return None


def luhn_holds(digits: str) -> bool:
    """Luhn's law, as card numbers and many others keep it."""
    total = sum(map(int, digits[-1::-2])) + sum(sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return total % 10 == 0


def _weighed(digits: str, weights: tuple[int, ...]) -> int:
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=False))


def _is_brazilian(digits: str) -> bool:
    if len(set(digits)) == 1:
        return False
    first = _weighed(digits, tuple(range(10, 1, -1))) * 10 % 11 % 10
    second = _weighed(digits, tuple(range(11, 1, -1))) * 10 % 11 % 10
    return digits[9:] == f"{first}{second}"


def _is_swiss(digits: str) -> bool:
    """The check digit of an EAN of thirteen digits."""
    return _weighed(digits, (1, 3) * 6 + (1,)) % 10 == 0


def _is_spanish(characters: str) -> bool:
    number = int(characters[:-1].translate(str.maketrans("XYZ", "012")))
    return characters[-1] == "TRWAGMYFPDXBNJZSQVHLCKE"[number % 23]


# What a character is worth at an odd place of an Italian code; at an even place it is worth its rank.
_ITALIAN_ODD: Final = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    )
)  # fmt: skip


def _is_italian(code: str) -> bool:
    total = sum(_ITALIAN_ODD[char] for char in code[:15:2])
    total += sum(int(char) if char.isdigit() else ord(char) - ord("A") for char in code[1:15:2])
    return code[15] == chr(ord("A") + total % 26)


def _is_chinese(characters: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return characters[17] == "10X98765432"[_weighed(characters[:17], weights) % 11]


def _is_french(digits: str) -> bool:
    return (int(digits[:13]) + int(digits[13:])) % 97 == 0


def _is_polish(digits: str) -> bool:
    return _weighed(digits, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def _is_dutch(digits: str) -> bool:
    return len(set(digits)) > 1 and _weighed(digits, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def _dihedral(first: int, second: int) -> int:
    """The product in the group of the pentagon's symmetries, which Verhoeff's law is computed in."""
    if first < 5:
        return (first + second) % 5 if second < 5 else 5 + (first + second) % 5
    return 5 + (first - second) % 5 if second < 5 else (first - second) % 5


def _is_indian(digits: str) -> bool:
    """Verhoeff's law: each place's digit is permuted once more than its right neighbour's."""
    permuted, check = list(range(10)), 0
    for digit in reversed(digits):
        check = _dihedral(check, permuted[int(digit)])
        permuted = [permuted[(1, 5, 7, 6, 2, 8, 3, 0, 9, 4)[place]] for place in range(10)]
    return check == 0


def _always(_characters: str) -> bool:
    return True


def _form(
    kind: str, beside: str, least_run_chars: int, pattern: str, holds: Callable[[str], bool] = _always
) -> _Form:
    return _Form(
        kind, word_set(beside), least_run_chars, re.compile(rf"(?<![\w.-]){pattern}(?![\w-])"), holds
    )


_NO_PART: Final = re.compile(r"[\s./-]")
_BORN: Final = r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_PASSPORT: Final = (
    r"(?i:passport|reisepass|passeport|pasaporte)(?i:[ -]?(?:no|nr|num(?:mer|ber|ero)?|id|is))?[ :.#-]{0,4}"
    r"(?=[A-Z0-9]{0,8}\d{2})[A-Z][A-Z0-9]{6,8}"
)
_FORMS: Final = (
    _form("Chinese identity number", "", 18, rf"[1-8]\d{{5}}{_BORN}\d{{3}}[\dXx]", _is_chinese),
    _form("Italian tax code", "", 16, r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", _is_italian),
    _form(
        "French social security number",
        "",
        2,
        r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}",
        _is_french,
    ),
    _form("Brazilian taxpayer number", "", 14, r"\d{3}\.\d{3}\.\d{3}-\d{2}", _is_brazilian),
    _form("Swiss social security number", "", 13, r"756(?:\.\d{4}\.\d{4}\.\d{2}|\d{10})", _is_swiss),
    _form("Brazilian taxpayer number", "cpf", 11, r"\d{11}", _is_brazilian),
    _form(
        "Spanish identity number",
        "dni nie nif identidad",
        9,
        r"(?:\d{8}|[XYZ]-?\d{7})-?[A-HJ-NP-TV-Z]",
        _is_spanish,
    ),
    _form(
        "Indian identity number",
        "aadhaar aadhar adhaar uidai",
        4,
        r"[2-9]\d{3}[ -]?\d{4}[ -]?\d{4}",
        _is_indian,
    ),
    _form("Indian tax number", "pan", 10, r"[A-Z]{3}[PCHFATBLJG][A-Z]\d{4}[A-Z]"),
    _form("Polish identity number", "pesel", 11, r"\d{11}", _is_polish),
    _form("Dutch citizen number", "bsn burgerservicenummer sofinummer", 9, r"\d{9}", _is_dutch),
    _form(
        "Swedish identity number",
        "personnummer",
        4,
        r"(?:\d{2})?\d{6}[-+ ]?\d{4}",
        lambda digits: luhn_holds(digits[-10:]),
    ),
    _form("Canadian social insurance number", "sin insurance", 3, r"\d{3}[ -]?\d{3}[ -]?\d{3}", luhn_holds),
    _form("German tax number", "steuer steuerid idnr identifikationsnummer", 2, r"[1-9]\d(?: ?\d{3}){3}"),
    _form("passport number", "passport reisepass passeport pasaporte", 7, _PASSPORT),
)
WORDS_BESIDE: Final = frozenset[str]().union(*(form.beside for form in _FORMS))
# The one form that needs neither a word beside it nor a long number begins so.
_ITALIAN: Final = re.compile(r"[A-Z][A-Z]{5}\d\d")
