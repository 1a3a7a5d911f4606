"""Personal data by its looks, where looks are enough: card numbers, bank accounts, national ids, a person's contacts.

``personal_in`` names the kind and never the value; ``national_ids.py`` has the numbers that states give. Checksums are computed, published test numbers are let through, and
a number that its own text calls an order, a part or a tracking number is taken for one. Names, postal addresses,
health and birth dates are not recognised at all.
"""

import re
from typing import Final

from standfast.govern.judge.reading.lexicon import word_set
from standfast.govern.judge.reading.words import TextReading
from standfast.govern.judge.signs.national_ids import LONG_NUMBER, WORDS_BESIDE, luhn_holds, national_id_in

# Nothing here has fewer.
_LEAST_DIGITS: Final = 7
_LEAST_CARD_DIGITS: Final = 13
# A look behind comes after what it looks behind from: a pattern that begins with a digit is only tried at digits.
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
    r"order|invoice|ticket|track|serial|imei|part|batch|lot|isbn|ean|sku|bestell|auftrag|rechnung|commande|facture|"
    r"timestamp|epoch|version|build|id\b|number|nummer|num[eé]ro|订单",
    re.IGNORECASE,
)
_NEAR_CHARS: Final = 40

_IBAN: Final = re.compile(
    r"[A-Z](?<![A-Za-z0-9][A-Z])[A-Z]\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
)
_IBAN_LENGTHS: Final = {
    pair[:2]: int(pair[2:])
    for pair in word_set(
        "AD24 AE23 AT20 BE16 BG22 CH21 CY28 CZ24 DE22 DK18 EE20 ES24 FI18 FR27 GB22 GR27 HR21 HU28 IE22 IL23 IS26 IT27 LI21 "
        "LT20 LU20 LV21 MC27 MT31 NL18 NO15 PL28 PT25 RO24 RS22 SA24 SE24 SI19 SK24 SM27 TR26 UA29"
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
_SOCIAL_ALONE: Final = word_set("ssn social")
_SOCIAL_UNGROUPED: Final = re.compile(
    r"(?i:ssn|social(?: security)?(?: (?:number|no|num))?)\W{0,3}(?i:(?:is|was|number|no)\W{1,3})?"
    r"(?!000|666|9\d\d|123456789|111223333|078051120)\d{3}(?!00)\d{2}(?!0000)\d{4}(?![\w-])"
)
_INSURANCE: Final = re.compile(
    r"(?<!\w)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d{2} ?\d{2} ?\d{2} ?[A-D](?!\w)"
)
_INSURANCE_WORDS: Final = word_set("insurance nino ni")

_EMAIL: Final = re.compile(r"(?<![\w.+-])([A-Za-z0-9][\w.+-]{0,63})@[A-Za-z0-9][A-Za-z0-9-]{0,62}\.[A-Za-z]")
_MAILBOX_OF_AN_OFFICE: Final = re.compile(
    r"(?:info|support|sales|help|helpdesk|contact|kontakt|hello|office|admin|press|jobs|careers|billing|security|abuse|"
    r"noreply|no-reply|team|service|postmaster|webmaster|privacy|legal|marketing|orders|feedback|git|root)(?:[.+_-]|$)",
    re.IGNORECASE,
)
_PHONE: Final = re.compile(r"(?<![\w.+-])(?:\+|00)\d{1,3}(?:[ ./()-]{0,3}\d){7,12}(?!\w)")
_PHONE_AT_HOME: Final = re.compile(
    r"(?<![\w.+/-])\(?0\d{2,4}\)?[ ./-]{1,3}\d{3,5}(?:[ ./-]?\d{2,4}){1,3}(?![\w-])"
)
_PHONE_BESIDE_WORD: Final = re.compile(
    r"(?:phone|mobile|cell|call|tel|telefon|handy|mobil|t[eé]l[eé]phone|m[oó]vil|whatsapp)[^\d\n]{0,20}\(?\d(?:[ ./()-]{0,3}\d){6,13}",
    re.IGNORECASE,
)

# A text without a long number, an address and any of these has none of all this: words that stand beside numbers of
# persons, and capitals before digits, as bank accounts and Italian codes begin.
_WORDS: Final = WORDS_BESIDE | _SOCIAL_WORDS | _SOCIAL_ALONE | _INSURANCE_WORDS | _SORT_CODE_WORDS
_CAPITALS: Final = re.compile(r"[A-Z][A-Z]\d\d")


def personal_in(reading: TextReading) -> str | None:
    """The kind of the first personal data that shows, in a fixed order of kinds; None if there is none."""
    text = reading.text
    words = reading.vocabulary
    has_long_number = LONG_NUMBER.search(text) is not None
    if not (has_long_number or "@" in text or not words.isdisjoint(_WORDS) or _CAPITALS.search(text)):
        return None
    digits = sum(map(text.count, "0123456789"))
    if digits < _LEAST_DIGITS:
        return None
    if (
        has_long_number
        and digits >= _LEAST_CARD_DIGITS
        and any(_is_card(text, f) for f in _DIGITS.finditer(text))
    ):
        return "payment card number"
    if has_long_number and any(_is_card(text, f, only_beside_a_word=True) for f in _DOTTED.finditer(text)):
        return "payment card number"
    if any(_is_iban(found[0].replace(" ", "")) for found in _IBAN.finditer(text)):
        return "bank account number"
    is_social = not words.isdisjoint(_SOCIAL_WORDS) or words >= _SOCIAL_SECURITY
    if is_social and any(one not in _TEST_SOCIALS for one in _SOCIAL.findall(text)):
        return "social security number"
    if words >= _SORT_CODE_WORDS and _SORT_CODE.search(text) and _BRITISH_ACCOUNT.search(text):
        return "bank account number"
    if not words.isdisjoint(_SOCIAL_ALONE) and _SOCIAL_UNGROUPED.search(text):
        return "social security number"
    if not words.isdisjoint(_INSURANCE_WORDS) and _INSURANCE.search(text):
        return "national insurance number"
    if (kind := national_id_in(reading, has_long_number=has_long_number)) is not None:
        return kind
    if (
        "@" in text
        and _has_personal_address(text)
        and any(phone.search(text) for phone in (_PHONE, _PHONE_AT_HOME, _PHONE_BESIDE_WORD))
    ):
        return "a person's e-mail address with a phone number"
    return None


def _is_card(text: str, found: re.Match[str], *, only_beside_a_word: bool = False) -> bool:
    digits = re.sub(r"\D", "", found[0])
    if digits in _TEST_CARDS or len(set(digits)) < 4 or not luhn_holds(digits):
        return False
    if not any(prefix.match(digits) and len(digits) in lengths for prefix, lengths in _CARD_LENGTHS):
        return False
    before = text[max(0, found.start() - _NEAR_CHARS) : found.start()]
    if _CARD_WORDS.search(before):
        return True
    return not only_beside_a_word and not _OTHER_WORDS.search(before)


def _is_iban(account: str) -> bool:
    """The country's length and ISO 7064's remainder, both right; what follows the account may have been read with it."""
    account = account[: _IBAN_LENGTHS.get(account[:2], 0)]
    if account in _TEST_IBANS or len(account) != _IBAN_LENGTHS.get(account[:2]):
        return False
    return int("".join(str(int(char, 36)) for char in account[4:] + account[:4])) % 97 == 1


def _has_personal_address(text: str) -> bool:
    return any(not _MAILBOX_OF_AN_OFFICE.match(found[1]) for found in _EMAIL.finditer(text))
