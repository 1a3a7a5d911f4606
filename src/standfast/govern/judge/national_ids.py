"""National ids: finds numbers that states give to people, by their form, their check digits and a word for them.

``python-stdnum`` knows the check digits. It is imported when a number has the form of an id, which few texts have. Where it looks at the
clock (whether a birth date is past), the check digits are asked for alone, because judging must not depend on the day. A number whose
form other numbers share counts only next to a word for it.
"""

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final, NamedTuple

from standfast.govern.judge.lexicon import word_set
from standfast.govern.judge.text_reading import TextReading

# Every long number matches this, however its digits are grouped.
LONG_NUMBER: Final = re.compile(r"\d[\d .-]{5}")


class _Form(NamedTuple):
    """A kind of national id: the words of which the text must have one (if any), the pattern, and the check digits."""

    kind: str
    words: frozenset[str]
    min_run_chars: int
    pattern: re.Pattern[str]
    is_valid: Callable[[str], bool]


def national_ids_in(reading: TextReading, *, has_long_number: bool = True) -> Iterator[tuple[str, str]]:
    """Yields kind and text of each national id, in a fixed order of kinds.

    Pass ``has_long_number=False`` if the text has no match of ``LONG_NUMBER``.
    """
    longest, words = reading.longest_run_chars, reading.vocabulary
    if not has_long_number and words.isdisjoint(ID_WORDS) and not _LETTERED.search(reading.text):
        return
    for form in _FORMS:
        if form.min_run_chars <= longest and not (form.words and words.isdisjoint(form.words)):
            for found in form.pattern.finditer(reading.text):
                if form.is_valid(_NO_PART.sub("", found[0]).upper()):
                    yield form.kind, found[0]


def _valid_by(*modules: str) -> Callable[[str], bool]:
    """Whether a module of ``stdnum`` takes a number for a valid one. Its form is fixed by the pattern."""

    def is_valid(number: str) -> bool:
        return any(import_module(f"stdnum.{module}").is_valid(number) for module in modules)

    return is_valid


def is_luhn(digits: str) -> bool:
    """Whether the Luhn check digit, which card numbers end with, is right."""
    return bool(import_module("stdnum.luhn").is_valid(digits))


def _is_norwegian(digits: str) -> bool:
    norwegian = import_module("stdnum.no.fodselsnummer")
    return digits[9:] == f"{norwegian.calc_check_digit1(digits)}{norwegian.calc_check_digit2(digits)}"


def _is_finnish(number: str) -> bool:
    """The sign in the middle says the century. A hyphen, which was taken out, is for the twentieth."""
    whole = f"{number[:6]}-{number[6:]}" if len(number) == 10 else number
    return bool(import_module("stdnum.fi.hetu").is_valid(whole))


def _is_belgian(digits: str) -> bool:
    """Those who are born since 2000 have a 2 before their number."""
    number, check = digits[:9], int(digits[9:])
    return check in (97 - int(number) % 97, 97 - int(f"2{number}") % 97)


def _any(_number: str) -> bool:
    return True


def _form(kind: str, words: str, min_run_chars: int, pattern: str, is_valid: Callable[[str], bool]) -> _Form:
    return _Form(
        kind, word_set(words), min_run_chars, re.compile(rf"(?<![\w.-]){pattern}(?![\w-])"), is_valid
    )


_NO_PART: Final = re.compile(r"[\s./-]")
_MONTH: Final = r"(?:0[1-9]|1[0-2])"
_DAY: Final = r"(?:0[1-9]|[12]\d|3[01])"
_BORN: Final = rf"(?:19|20)\d{{2}}{_MONTH}{_DAY}"
_PASSPORT: Final = (
    r"(?i:passport|reisepass|passeport|pasaporte)(?i:[ -]?(?:no|nr|num(?:mer|ber|ero)?|id|is))?[ :.#-]{0,4}"
    r"(?=[A-Z0-9]{0,8}\d{2})[A-Z][A-Z0-9]{6,8}"
)
# Kind, words of which the text must have one, length of its longest run at least, pattern, check digits.
_FORMS: Final = tuple(
    _form(*row)
    for row in (
        ("Chinese identity number", "", 18, rf"[1-8]\d{{5}}{_BORN}\d{{3}}[\dXx]", _valid_by("cn.ric")),
        ("Italian tax code", "", 16, r"[A-Z]{6}\d{2}[A-EHLMPRST]\d{2}[A-Z]\d{3}[A-Z]", _valid_by("it.codicefiscale")),
        ("Mexican identity number", "", 18, rf"[A-Z]{{4}}\d\d{_MONTH}{_DAY}[HM][A-Z]{{5}}[A-Z0-9]\d", _valid_by("mx.curp")),
        ("French social security number", "", 2, r"[12] ?\d{2} ?(?:0[1-9]|1[0-2]) ?\d{2} ?\d{3} ?\d{3} ?\d{2}", _valid_by("fr.nir")),
        ("Brazilian taxpayer number", "", 14, r"\d{3}\.\d{3}\.\d{3}-\d{2}", _valid_by("br.cpf")),
        ("Swiss social security number", "", 13, r"756(?:\.\d{4}\.\d{4}\.\d{2}|\d{10})", _valid_by("ch.ssn")),
        ("Korean resident number", "", 14, rf"\d\d{_MONTH}{_DAY}-[1-8]\d{{6}}", _valid_by("kr.rrn")),
        ("Thai identity number", "", 17, r"[1-8]-\d{4}-\d{5}-\d{2}-\d", _valid_by("th.pin")),
        ("Finnish identity number", "", 11, rf"{_DAY}{_MONTH}\d\d[-+A-FU-Y]\d{{3}}[0-9A-FHJ-NPR-Y]", _is_finnish),
        ("Brazilian taxpayer number", "cpf", 11, r"\d{11}", _valid_by("br.cpf")),
        ("Spanish identity number", "dni nie nif identidad", 9, r"(?:\d{8}|[XYZ]-?\d{7})-?[A-HJ-NP-TV-Z]", _valid_by("es.dni", "es.nie")),
        ("Indian identity number", "aadhaar aadhar adhaar uidai", 4, r"[2-9]\d{3}[ -]?\d{4}[ -]?\d{4}", _valid_by("in_.aadhaar")),
        ("Indian tax number", "pan", 10, r"[A-Z]{3}[PCHFATBLJG][A-Z]\d{4}[A-Z]", _any),
        ("Polish identity number", "pesel", 11, r"\d{11}", _valid_by("pl.pesel")),
        ("Dutch citizen number", "bsn burgerservicenummer sofinummer", 9, r"\d{9}", _valid_by("nl.bsn")),
        ("Swedish identity number", "personnummer", 4, r"(?:\d{2})?\d{6}[-+ ]?\d{4}", lambda digits: is_luhn(digits[-10:])),
        ("Canadian social insurance number", "sin insurance", 3, r"\d{3}[ -]?\d{3}[ -]?\d{3}", is_luhn),
        ("German tax number", "steuer steuerid idnr identifikationsnummer steueridentifikationsnummer", 2, r"[1-9]\d(?: ?\d{3}){3}", _valid_by("de.idnr")),
        ("Austrian social insurance number", "svnr sozialversicherungsnummer vsnr", 4, rf"\d{{4}} ?{_DAY}{_MONTH}\d\d", _valid_by("at.vnr")),
        ("Belgian national number", "rijksregisternummer rijksregister insz niss", 2, r"\d\d[. ]?\d\d[. ]?\d\d[- ]?\d{3}[. ]?\d\d", _is_belgian),
        ("Bulgarian identity number", "egn егн", 10, r"\d{10}", _valid_by("bg.egn")),
        ("Croatian identity number", "oib", 11, r"\d{11}", _valid_by("hr.oib")),
        ("Czech or Slovak birth number", "rodne rc", 9, r"\d{6}/?\d{3,4}", _valid_by("cz.rc")),
        ("Danish identity number", "cpr", 4, rf"{_DAY}{_MONTH}\d\d[- ]?\d{{4}}", _any),
        ("Estonian identity number", "isikukood", 11, r"\d{11}", _valid_by("ee.ik")),
        ("Lithuanian identity number", "asmens", 11, r"\d{11}", _valid_by("lt.asmens")),
        ("Greek social security number", "amka αμκα", 11, r"\d{11}", _valid_by("gr.amka")),
        ("Irish personal number", "pps ppsn", 8, r"\d{7}[A-W][A-IW]?", _valid_by("ie.pps")),
        ("Norwegian identity number", "fodselsnummer personnummer", 5, r"\d{6} ?\d{5}", _is_norwegian),
        ("Portuguese tax number", "nif contribuinte", 3, r"[1-3]\d{2} ?\d{3} ?\d{3}", _valid_by("pt.nif")),
        ("Romanian identity number", "cnp", 13, r"[1-8]\d{12}", _valid_by("ro.cnp")),
        ("Slovenian identity number", "emso", 13, r"\d{13}", _valid_by("si.emso")),
        ("Turkish identity number", "kimlik tckn", 11, r"[1-9]\d{10}", _valid_by("tr.tckimlik")),
        ("British health service number", "nhs", 3, r"\d{3}[ -]?\d{3}[ -]?\d{4}", _valid_by("gb.nhs")),
        ("Argentinian tax number", "cuit cuil", 11, r"(?:20|23|24|27)-?\d{8}-?\d", _valid_by("ar.cuit")),
        ("Chilean identity number", "rut run", 8, r"\d{1,2}\.?\d{3}\.?\d{3}-?[\dkK]", _valid_by("cl.rut")),
        ("Ecuadorian identity number", "cedula", 10, r"\d{9}-?\d", _valid_by("ec.ci")),
        ("Israeli identity number", "zehut", 8, r"\d{8}-?\d", _valid_by("il.idnr")),
        ("Australian tax number", "tfn", 3, r"\d{3} ?\d{3} ?\d{2,3}", _valid_by("au.tfn")),
        ("New Zealand tax number", "ird", 2, r"\d{2,3}-?\d{3}-?\d{3}", _valid_by("nz.ird")),
        ("Malaysian identity number", "nric mykad", 12, rf"\d\d{_MONTH}{_DAY}-?\d\d-?\d{{4}}", _valid_by("my.nric")),
        ("South African identity number", "identity rsa", 13, rf"\d\d{_MONTH}{_DAY}\d{{4}}[01]\d\d", is_luhn),
        ("passport number", "passport reisepass passeport pasaporte", 7, _PASSPORT, _any),
    )
)  # fmt: skip
ID_WORDS: Final = frozenset[str]().union(*(form.words for form in _FORMS))
# The start of the forms that need neither a word nor a long number.
_LETTERED: Final = re.compile(r"[A-Z]{4}(?:[A-Z]{2})?\d\d")
