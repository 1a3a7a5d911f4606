"""Personal data: finds card numbers, bank accounts, national ids, e-mail addresses and phone numbers, by their form.

``find_personal_data`` returns the kind and never the value, because the answer is stored. Checksums are computed as they are
published. Published test numbers pass, and so does a number that its own text calls an order, a part or a tracking number. A
national id whose form other numbers share counts only next to a word for it. Names, postal addresses, health data and birth
dates are not recognised.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from standfast.govern.judge.lexicon import word_set
from standfast.govern.judge.text_reading import TextReading

CONTACT_GROUPS: Final = ("emails", "phones")


class _Form(NamedTuple):
    """A kind of national id: the words of which the text must have one (if any), the pattern, and the checksum."""

    kind: str
    words: frozenset[str]
    min_run_chars: int
    pattern: re.Pattern[str]
    is_valid: Callable[[str], bool]


# Every long number matches this, however its digits are grouped.
_LONG_NUMBER: Final = re.compile(r"\d[\d .-]{5}")


def find_national_id(reading: TextReading) -> str | None:
    """The kind of the first national id found, in a fixed order of kinds, or None."""
    return next((kind for kind, _ in national_ids_in(reading)), None)


def national_ids_in(reading: TextReading, *, has_long_number: bool = True) -> Iterator[tuple[str, str]]:
    """Yields kind and text of each national id, in a fixed order of kinds.

    Pass ``has_long_number=False`` if the text has no match of ``_LONG_NUMBER``.
    """
    longest, words = reading.longest_run_chars, reading.vocabulary
    if not has_long_number and words.isdisjoint(_ID_WORDS) and not _ITALIAN.search(reading.text):
        return
    for form in _FORMS:
        if form.min_run_chars <= longest and not (form.words and words.isdisjoint(form.words)):
            for found in form.pattern.finditer(reading.text):
                if form.is_valid(_NO_PART.sub("", found[0]).upper()):
                    yield form.kind, found[0]


def _is_luhn(digits: str) -> bool:
    """Whether the Luhn checksum of card numbers is right."""
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
    """The check digit of EAN-13."""
    return _weighed(digits, (1, 3) * 6 + (1,)) % 10 == 0


def _is_spanish(characters: str) -> bool:
    number = int(characters[:-1].translate(str.maketrans("XYZ", "012")))
    return characters[-1] == "TRWAGMYFPDXBNJZSQVHLCKE"[number % 23]


# The value of a character at an odd place of an Italian code; at an even place it is its rank.
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
    """The product in the dihedral group of order ten, in which the Verhoeff checksum is computed."""
    if first < 5:
        return (first + second) % 5 if second < 5 else 5 + (first + second) % 5
    return 5 + (first - second) % 5 if second < 5 else (first - second) % 5


def _is_indian(digits: str) -> bool:
    """The Verhoeff checksum: each digit is permuted once more than its right neighbour."""
    permuted, check = list(range(10)), 0
    for digit in reversed(digits):
        check = _dihedral(check, permuted[int(digit)])
        permuted = [permuted[(1, 5, 7, 6, 2, 8, 3, 0, 9, 4)[place]] for place in range(10)]
    return check == 0


def _always(_characters: str) -> bool:
    return True


def _form(
    kind: str, words: str, min_run_chars: int, pattern: str, is_valid: Callable[[str], bool] = _always
) -> _Form:
    return _Form(
        kind, word_set(words), min_run_chars, re.compile(rf"(?<![\w.-]){pattern}(?![\w-])"), is_valid
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
        lambda digits: _is_luhn(digits[-10:]),
    ),
    _form("Canadian social insurance number", "sin insurance", 3, r"\d{3}[ -]?\d{3}[ -]?\d{3}", _is_luhn),
    _form("German tax number", "steuer steuerid idnr identifikationsnummer", 2, r"[1-9]\d(?: ?\d{3}){3}"),
    _form("passport number", "passport reisepass passeport pasaporte", 7, _PASSPORT),
)
_ID_WORDS: Final = frozenset[str]().union(*(form.words for form in _FORMS))
# The start of the one form that needs neither a word nor a long number.
_ITALIAN: Final = re.compile(r"[A-Z][A-Z]{5}\d\d")

# Nothing that is searched here has fewer digits.
_LEAST_DIGITS: Final = 6
_LEAST_CARD_DIGITS: Final = 13
# The look-behind stands after the first digit, so that the pattern is only tried at digits.
_DIGITS: Final = re.compile(r"\d(?<![\w.+-]\d)(?:[ -]?\d){12,18}(?![\w-])")
_DOTTED: Final = re.compile(r"\d(?<![\w.+-]\d)\d{3}\.(?:\d{4}\.\d{4}\.\d{4}|\d{6}\.\d{5})(?![\w-])")
_CARD_LENGTHS: Final = (
    (re.compile(r"4"), (13, 16, 19)),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    (re.compile(r"3[47]"), (15,)),
    (re.compile(r"6011|64[4-9]|65|35[2-8]|62"), (16, 19)),
    (re.compile(r"30[0-5]|36|38"), (14, 16)),
)
_TEST_CARDS: Final = word_set(
    "4242424242424242 4111111111111111 4012888888881881 5555555555554444 5105105105105100 378282246310005 "
    "371449635398431 6011111111111117 3530111333300000 30569309025904 4000056655665556"
)
_CARD_WORDS: Final = re.compile(r"card|visa|master|amex|karte|carte|tarjeta|cvv|cvc|卡", re.IGNORECASE)
_OTHER_WORDS: Final = re.compile(
    r"(?<![^\W\d_])(?:order|invoice|ticket|track|serial|imei|part|batch|lot|isbn|ean|sku|bestell|auftrag|rechnung|commande|facture|"
    r"timestamp|epoch|version|build|id\b|number|nummer|num[eé]ro)|订单",
    re.IGNORECASE,
)
_NEAR_CHARS: Final = 40

_IBAN: Final = re.compile(
    r"[A-Z](?<![A-Za-z0-9][A-Z])[A-Z]\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
)
_IBAN_LENGTHS: Final = {
    pair[:2]: int(pair[2:])
    for pair in word_set(
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 ES24 FI18 "
        "FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 "
        "LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 "
        "SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"
    )
}
_TEST_IBANS: Final = frozenset(
    (
        "DE89370400440532013000",
        "GB82WEST12345698765432",
        "GB29NWBK60161331926819",
        "FR1420041010050500013M02606",
    )
)

_SOCIAL: Final = re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}[- ](?!00)\d{2}[- ](?!0000)\d{4}(?![\w-])")
_TEST_SOCIALS: Final = ("111-22-3333", "123-45-6789", "078-05-1120")
_SOCIAL_WORDS: Final = word_set("ssn taxpayer itin")
_SOCIAL_SECURITY: Final = word_set("social security")
_SORT_CODE_WORDS: Final = word_set("sort code")
_SORT_CODE: Final = re.compile(r"\d(?<![\w-]\d)\d-\d\d-\d\d(?![\w-])")
_BRITISH_ACCOUNT: Final = re.compile(r"\d(?<![\w-]\d)\d{7}(?![\w-])")
_SOCIAL_SHORT_WORDS: Final = word_set("ssn social")
_SOCIAL_UNGROUPED: Final = re.compile(
    r"(?i:ssn|social(?: security)?(?: (?:number|no|num))?)\W{0,3}(?i:(?:is|was|number|no)\W{1,3})?"
    r"(?!000|666|9\d\d|123456789|111223333|078051120)\d{3}(?!00)\d{2}(?!0000)\d{4}(?![\w-])"
)
_INSURANCE: Final = re.compile(
    r"(?<!\w)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)"
)
_INSURANCE_WORDS: Final = word_set("insurance nino ni")

_EMAIL: Final = re.compile(r"(?<![\w.+-])([A-Za-z0-9][\w.+-]{0,63})@[A-Za-z0-9][A-Za-z0-9-]{0,62}\.[A-Za-z]")
_OFFICE_MAILBOX: Final = re.compile(
    r"(?:info|support|sales|help|helpdesk|contact|kontakt|hello|office|admin|press|jobs|careers|billing|security|abuse|"
    r"noreply|no-reply|team|service|postmaster|webmaster|privacy|legal|marketing|orders|feedback|git|root)(?:[.+_-]|$)",
    re.IGNORECASE,
)
_PHONE: Final = re.compile(r"(?<![\w.+-])(?:\+|00)\d{1,3}(?:[ ./()-]{0,3}\d){7,12}(?!\w)")
_NATIONAL_PHONE: Final = re.compile(
    r"(?<![\w.+/-])\(?0\d{2,4}\)?[ ./-]{1,3}\d{3,5}(?:[ ./-]?\d{2,4}){1,3}(?![\w-])"
)
_PHONE_AFTER_WORD: Final = re.compile(
    r"(?:phone|mobile|cell|call|tel|telefon|handy|mobil|t[eé]l[eé]phone|m[oó]vil|whatsapp)[^\d\n]{0,20}\(?\d(?:[ ./()-]{0,3}\d){6,13}",
    re.IGNORECASE,
)

# A text without a long number, an e-mail address, one of these words, or capitals before digits (as bank accounts and
# Italian codes begin) has no personal data.
_WORDS: Final = _ID_WORDS | _SOCIAL_WORDS | _SOCIAL_SHORT_WORDS | _INSURANCE_WORDS | _SORT_CODE_WORDS
_CAPITALS: Final = re.compile(r"[A-Z][A-Z]\d\d")


class FoundData(NamedTuple):
    """Personal data in a text: its group (a setting of the floor), its kind, and the part of the text that has to go."""

    group: str
    kind: str
    part: str


def find_personal_data(reading: TextReading) -> str | None:
    """The kind of the first personal data found, in a fixed order of kinds, or None. Contact data is left out."""
    found = (one.kind for one in personal_data_in(reading) if one.group not in CONTACT_GROUPS)
    return next(found, None)


def personal_data_in(reading: TextReading) -> Iterator[FoundData]:
    """Yields the personal data of a text, in a fixed order of kinds."""
    text = reading.text
    words = reading.vocabulary
    has_long_number = _LONG_NUMBER.search(text) is not None
    if not (has_long_number or "@" in text or not words.isdisjoint(_WORDS) or _CAPITALS.search(text)):
        return
    digits = sum(map(text.count, "0123456789"))
    if digits >= _LEAST_DIGITS:
        if has_long_number and digits >= _LEAST_CARD_DIGITS:
            yield from _cards_in(text)
        yield from _accounts_in(text, words)
        yield from _ids_in(reading, has_long_number)
        for pattern in (_PHONE, _NATIONAL_PHONE, _PHONE_AFTER_WORD):
            yield from (FoundData("phones", "phone number", found[0]) for found in pattern.finditer(text))
    if "@" in text:
        for found in _EMAIL.finditer(text):
            if not _OFFICE_MAILBOX.match(found[1]):
                yield FoundData("emails", "e-mail address", found[0])


def _cards_in(text: str) -> Iterator[FoundData]:
    for pattern, needs_card_word in ((_DIGITS, False), (_DOTTED, True)):
        for found in pattern.finditer(text):
            if _is_card(text, found, needs_card_word=needs_card_word):
                yield FoundData("cards", "payment card number", found[0])


def _accounts_in(text: str, words: frozenset[str]) -> Iterator[FoundData]:
    for found in _IBAN.finditer(text):
        if _is_iban(found[0].replace(" ", "")):
            yield FoundData("accounts", "bank account number", found[0])
    if words >= _SORT_CODE_WORDS and _SORT_CODE.search(text):
        for found in _BRITISH_ACCOUNT.finditer(text):
            yield FoundData("accounts", "bank account number", found[0])


def _ids_in(reading: TextReading, has_long_number: bool) -> Iterator[FoundData]:
    text, words = reading.text, reading.vocabulary
    if not words.isdisjoint(_SOCIAL_WORDS) or words >= _SOCIAL_SECURITY:
        for found in _SOCIAL.finditer(text):
            if found[0] not in _TEST_SOCIALS:
                yield FoundData("national_ids", "social security number", found[0])
    if not words.isdisjoint(_SOCIAL_SHORT_WORDS):
        for found in _SOCIAL_UNGROUPED.finditer(text):
            yield FoundData("national_ids", "social security number", found[0])
    if not words.isdisjoint(_INSURANCE_WORDS):
        for found in _INSURANCE.finditer(text):
            yield FoundData("national_ids", "national insurance number", found[0])
    for kind, part in national_ids_in(reading, has_long_number=has_long_number):
        yield FoundData("national_ids", kind, part)


def _is_card(text: str, found: re.Match[str], *, needs_card_word: bool = False) -> bool:
    digits = re.sub(r"\D", "", found[0])
    if digits in _TEST_CARDS or len(set(digits)) < 4 or not _is_luhn(digits):
        return False
    if not any(prefix.match(digits) and len(digits) in lengths for prefix, lengths in _CARD_LENGTHS):
        return False
    before = text[max(0, found.start() - _NEAR_CHARS) : found.start()]
    if _CARD_WORDS.search(before):
        return True
    return not needs_card_word and not _OTHER_WORDS.search(before)


def _is_iban(account: str) -> bool:
    """Whether the length is the country's and the ISO 7064 checksum is right. Text after the account may be included."""
    account = account[: _IBAN_LENGTHS.get(account[:2], 0)]
    if account in _TEST_IBANS or len(account) != _IBAN_LENGTHS.get(account[:2]):
        return False
    return int("".join(str(int(char, 36)) for char in account[4:] + account[:4])) % 97 == 1
