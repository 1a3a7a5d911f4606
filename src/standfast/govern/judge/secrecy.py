"""F5_Secrecy: secrets and personal data, how they are found, and how they are cut out of what is stored.

Secrets are found by ``secrets.py``. Card numbers, bank accounts, national ids, e-mail addresses and phone
numbers are found here, by their form. Reasons name the kind and never the value, because they are stored.
Published test numbers pass, and so does a number that its own text calls an order, a part or a tracking
number. Names, postal addresses, health data and birth dates are not recognised.

National ids are found by their form, their check digits and a word for them. ``python-stdnum`` knows the
check digits. It is imported when a number has the form of an id, which few texts have. Where it looks at the
clock (whether a birth date is past), the check digits are asked for alone, because judging must not depend on
the day. A number whose form other numbers share counts only next to a word for it.

``redacted`` returns a record without secrets and personal data: a refused secret is replaced by its kind
before anything of its record is stored. Evidence, ledger, notes and traces are made from that record, so that
neither the secret nor a fingerprint of it exists anywhere. What is found only in disguise can't be cut out;
then the whole field is replaced. ``redacted_text`` and ``redacted_json`` do the same for everything else that
is stored: reasons, arguments and results of tools, notes.
"""

import re
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from standfast.errors import InvalidValue
from standfast.govern.judge.claim import (
    CLEAN,
    NOTHING_KNOWN,
    OVERLONG,
    Claim,
    Finding,
    JudgingContext,
    NeedsReview,
)
from standfast.govern.judge.secrets import GENERIC_KIND, find_secret, is_secret_tag, secrets_in
from standfast.govern.judge.tables import WordTable
from standfast.govern.judge.text_reading import READ_CHARS, TextReading, plain, word_set
from standfast.limits import MAX_NAME_CHARS
from standfast.records.requests import RememberRequest
from standfast.records.scopes import SHARED
from standfast.records.vocabulary import Record, normal_tags

# Every long number matches this, however its digits are grouped.
LONG_NUMBER: Final = re.compile(r"\d[\d .-]{5}")


class _Form(NamedTuple):
    """A kind of national id: the words of which the text must have one (if any), the pattern, and the check
    digits.
    """

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


# The functions that ``data/national_ids.forms`` names. Any other name there is a module of ``stdnum``.
_CHECKS: Final[dict[str, Callable[[str], bool]]] = {
    "any": lambda _number: True,
    "belgian": _is_belgian,
    "finnish": _is_finnish,
    "luhn": is_luhn,
    "norwegian": _is_norwegian,
    "swedish": lambda digits: is_luhn(digits[-10:]),
}


def _form(line: str) -> _Form:
    kind, words, min_run_chars, check, expression = line.split(" ; ", 4)
    return _Form(
        kind=kind,
        words=frozenset() if words == "-" else word_set(words),
        min_run_chars=int(min_run_chars),
        pattern=re.compile(rf"(?<![\w.-]){expression}(?![\w-])"),
        is_valid=_CHECKS[check] if check in _CHECKS else _valid_by(*check.split()),
    )


_NO_PART: Final = re.compile(r"[\s./-]")
_FORMS: Final = tuple(map(_form, WordTable("national_ids.forms").lines("forms")))
ID_WORDS: Final = frozenset[str]().union(*(form.words for form in _FORMS))
# The start of the forms that need neither a word nor a long number.
_LETTERED: Final = re.compile(r"[A-Z]{4}(?:[A-Z]{2})?\d\d")


CONTACT_GROUPS: Final = ("emails", "phones")


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
    r"(?<![^\W\d_])(?:order|invoice|ticket|track|serial|imei|part|batch|lot|isbn|ean|sku|bestell|auftrag|"
    r"rechnung|commande|facture|"
    r"timestamp|epoch|version|build|id\b|number|nummer|num[eé]ro)|订单",
    re.IGNORECASE,
)
_NEAR_CHARS: Final = 40

_IBAN: Final = re.compile(
    r"[A-Z](?<![A-Za-z0-9][A-Z])[A-Z]\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])"
)
_LEAST_IBAN_CHARS: Final = 15
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
    r"(?:info|support|sales|help|helpdesk|contact|kontakt|hello|office|admin|press|jobs|careers|billing|"
    r"security|abuse|"
    r"noreply|no-reply|team|service|postmaster|webmaster|privacy|legal|marketing|orders|feedback|git|root)"
    r"(?:[.+_-]|$)",
    re.IGNORECASE,
)
_PHONE: Final = re.compile(r"(?<![\w.+-])(?:\+|00)\d{1,3}(?:[ ./()-]{0,3}\d){7,12}(?!\w)")
_NATIONAL_PHONE: Final = re.compile(
    r"(?<![\w.+/-])\(?0\d{2,4}\)?[ ./-]{1,3}\d{3,5}(?:[ ./-]?\d{2,4}){1,3}(?![\w-])"
)
_PHONE_AFTER_WORD: Final = re.compile(
    r"(?:phone|mobile|cell|call|tel|telefon|handy|mobil|t[eé]l[eé]phone|m[oó]vil|"
    r"whatsapp)[^\d\n]{0,20}\(?\d(?:["
    r" ./()-]{0,3}\d){6,13}",
    re.IGNORECASE,
)

# A text without a long number, an e-mail address, one of these words, or capitals before digits (as bank
# accounts and lettered ids begin) has no personal data.
_WORDS: Final = ID_WORDS | _SOCIAL_WORDS | _SOCIAL_SHORT_WORDS | _INSURANCE_WORDS | _SORT_CODE_WORDS
_CAPITALS: Final = re.compile(r"[A-Z][A-Z]\d\d")


class FoundData(NamedTuple):
    """Personal data in a text: its group (a setting of the floor), its kind, and the part of the text that
    has to go.
    """

    group: str
    kind: str
    part: str


def personal_data_in(reading: TextReading) -> Iterator[FoundData]:
    """Yields the personal data of a text, in a fixed order of kinds."""
    text = reading.text
    digits = sum(map(text.count, "0123456789"))
    if digits >= _LEAST_DIGITS:
        words, has_long_number = reading.vocabulary, LONG_NUMBER.search(text) is not None
        if not (has_long_number or "@" in text or not words.isdisjoint(_WORDS) or _CAPITALS.search(text)):
            return
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
    if digits in _TEST_CARDS or len(set(digits)) < 4 or not is_luhn(digits):
        return False
    if not any(prefix.match(digits) and len(digits) in lengths for prefix, lengths in _CARD_LENGTHS):
        return False
    before = text[max(0, found.start() - _NEAR_CHARS) : found.start()]
    if _CARD_WORDS.search(before):
        return True
    return not needs_card_word and not _OTHER_WORDS.search(before)


def _is_iban(account: str) -> bool:
    """Whether it begins with an account whose length and form are its country's, and whose ISO 7064 checksum
    is right.
    """
    is_valid = import_module("stdnum.iban").is_valid
    lengths = range(len(account), _LEAST_IBAN_CHARS - 1, -1)
    found = next((account[:n] for n in lengths if is_valid(account[:n], check_country=False)), None)
    return found is not None and found not in _TEST_IBANS


# The floor.

# Characters separated by spaces, which hides a key from a scanner.
_SPACED_OUT: Final = re.compile(r"(?<!\S)\S(?: \S){15,400}(?!\S)")
# A line end inside a quoted string, as JSON writes it: the letter of it must not hide where a key begins.
_ESCAPED_SPACE: Final = re.compile(r"\\+[nrt]")
_SINGLE_CHARS: Final = frozenset(string.ascii_lowercase + string.digits)
_MIN_SINGLE_CHARS: Final = 8


_TREATMENTS: Final = ("allow", "review", "refuse")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecrecyFloor:
    """Holds no keys, tokens, passwords, key blocks, and no personal data of the kinds that are not allowed.

    Every field is checked by itself, also with wide and lookalike letters folded and as a decoded URL. The
    reason names the kind and never the value. Placeholders from documentation pass. It does not recognise
    secrets without a known form that no word announces, secrets that are encoded, and personal data without a
    form: names, addresses, health. Each kind of personal data is ``"allow"``, ``"review"`` (a human decides)
    or ``"refuse"``.
    """

    name: str = "F5_Secrecy"
    threshold: float = 0.5
    hard: bool = True
    cards: str = "refuse"
    accounts: str = "refuse"
    national_ids: str = "refuse"
    emails: str = "allow"
    phones: str = "allow"

    def __post_init__(self) -> None:
        for group in ("cards", "accounts", "national_ids", "emails", "phones"):
            if (given := getattr(self, group)) not in _TREATMENTS:
                problem = f"option {group} must be one of {', '.join(_TREATMENTS)}, not {given!r:.80}"
                raise InvalidValue(what="SecrecyFloor", problem=problem)

    def check(self, claim: Claim, context: JudgingContext) -> Finding:  # noqa: ARG002  # The Floor protocol.
        """0 for a secret, 0.2 for personal data, 1 for neither."""
        if claim.is_overlong:
            return OVERLONG
        findings = [self.check_field(field) for field in claim.fields]
        if any(map(is_secret_tag, claim.record.tags)):
            return Finding(0.0, "contains a secret (random tag). Remove it")
        return min(findings, key=lambda finding: finding.score)

    def check_field(self, field: TextReading) -> Finding:
        """``check`` of one field."""
        for secret_kind, personal_data in field.once(_sensitive_data):
            if secret_kind is not None:
                return Finding(0.0, f"contains a secret ({secret_kind}). Remove it")
            if personal_data and (found := self._finding(personal_data)) is not CLEAN:
                return found
        return CLEAN

    def _finding(self, personal_data: Iterable[FoundData]) -> Finding:
        to_review = None
        for found in personal_data:
            match getattr(self, found.group):
                case "refuse":
                    return Finding(0.2, f"contains personal data ({found.kind}). Remove it")
                case "review":
                    to_review = to_review or NeedsReview(
                        0.2, f"contains personal data ({found.kind}). Remove it, or let a human accept it"
                    )
        return to_review or CLEAN


class _SensitiveData(NamedTuple):
    """What a text holds: the kind of its first secret, or all of its personal data if it has none."""

    secret_kind: str | None
    personal_data: tuple[FoundData, ...]


def _sensitive_data(whole: TextReading) -> list[_SensitiveData]:
    """What the text holds, in each way in which it can be read."""
    return list(map(_searched, _ways_to_read(whole)))


def _ways_to_read(whole: TextReading) -> Iterator[TextReading]:
    """The text as it is written, without wide and lookalike letters, as a decoded URL, as a decoded string of
    a program, and with spaced-out letters joined.
    """
    text = whole.text
    yield whole
    if (plain_text := plain(text)) != text:
        yield TextReading(plain_text)
    if "%" in text and (decoded := unquote(text)) != text:
        yield TextReading(decoded)
    if "\\" in text and (unescaped := _ESCAPED_SPACE.sub(" ", text)) != text:
        yield TextReading(unescaped)
    if len(whole.vocabulary & _SINGLE_CHARS) >= _MIN_SINGLE_CHARS and _SPACED_OUT.search(text):
        yield TextReading(_SPACED_OUT.sub(lambda run: run[0].replace(" ", ""), text))


def _searched(reading: TextReading) -> _SensitiveData:
    kind = find_secret(reading)
    return _SensitiveData(kind, tuple(personal_data_in(reading)) if kind is None else ())


# Redaction.

_FLOOR: Final = SecrecyFloor()
SECRECY_FLOOR: Final = _FLOOR.name
_MAX_PIECE_CHARS: Final = READ_CHARS // 2
_BEFORE_CHARS: Final = 80
_TOO_LONG: Final = f"longer than the {READ_CHARS} characters that can be checked"
_RANDOM_TAG: Final = "[redacted: random tag]"
_KIND: Final = re.compile(r"\((.*)\)")


def redacted(record: Record) -> Record:
    """The record with every secret replaced by its kind; the same object if it has none."""
    return redacted_claim(Claim(record=record))


def redacted_claim(claim: Claim) -> Record:
    """The record of a claim with every secret replaced by its kind; the same object if it has none."""
    return _rebuilt(claim) if _reason(claim) else claim.record


def redacted_text(text: str) -> str:
    """The text with every secret replaced by its kind; the same object if it has none.

    What is found only in disguise can't be cut out; then the whole text is replaced.
    """
    return _redacted_part(text, text)


def hides_secret(before: str, behind: str) -> bool:
    """Whether two texts hold a secret together that is found in neither of them."""
    whole, *parts = (
        {part for _, part in _parts(TextReading(one))} for one in (before + behind, before, behind)
    )
    return not whole <= set().union(*parts)


def require_no_secret(**names: str | None) -> None:
    """Refuse a name that is stored as it is, such as the id of a run, if it holds a secret.

    A random part after a prefix is how ids look, too, so that it counts only in the form of a known key.

    Args:
        names: The names by what they are, as the error calls them.

    Raises:
        InvalidValue: One of them holds a secret; its kind is named, and never the name itself.
    """
    for what, name in names.items():
        if isinstance(name, str) and (kind := _kind_of_secret_in(name)) is not None:
            problem = f"it holds a secret ({kind}); use a name without it"
            raise InvalidValue(what=what, problem=problem)


# The same few names come with every call.
@lru_cache(maxsize=1 << 10)
def _kind_of_secret_in(name: str) -> str | None:
    kinds = (found.kind for found in secrets_in(name, len(name)))
    return next((kind for kind in kinds if kind != GENERIC_KIND), None)


def redacted_json(value: Any) -> Any:
    """A JSON value with every secret in it replaced by its kind, in names as well as in members.

    A member is read together with its name, so that ``{"password": …}`` is found.
    """
    if isinstance(value, str):
        return "".join(map(redacted_text, _pieces(value)))
    if isinstance(value, dict):
        return {redacted_text(str(name)): _redacted_member(name, member) for name, member in value.items()}
    return list(_redacted_items(value)) if isinstance(value, list | tuple) else value


def _redacted_member(name: object, member: Any) -> Any:
    if name == "tag" and isinstance(member, str) and is_secret_tag(member):
        return _RANDOM_TAG
    if isinstance(member, str) and len(member) < _MAX_PIECE_CHARS:
        return _redacted_part(member, f"{name}: {member}")
    return redacted_json(member)


def _redacted_items(items: Iterable[Any]) -> Iterator[Any]:
    """The members of a list. A text is read after those before it, as the arguments of a command are."""
    before = ""
    for item in items:
        kept = redacted_json(item)
        if isinstance(kept, str) and before and len(kept) < _MAX_PIECE_CHARS:
            kept = _redacted_part(kept, f"{before} {kept}")
        before = f"{before} {kept}"[-_BEFORE_CHARS:] if isinstance(kept, str) else ""
        yield kept


def _pieces(text: str) -> Iterator[str]:
    """A long text in pieces that can be read, cut at spaces."""
    while len(text) > _MAX_PIECE_CHARS:
        end = text.rfind(" ", _MAX_PIECE_CHARS // 2, _MAX_PIECE_CHARS)
        end = _MAX_PIECE_CHARS if end < 0 else end
        yield text[:end]
        text = text[end:]
    yield text


def _redacted_part(part: str, whole: str) -> str:
    """A part of a text without the secrets of the whole."""
    if len(whole) > READ_CHARS:
        return f"[redacted: {_TOO_LONG}]"
    reading = TextReading(whole)
    reason = _FLOOR.check_field(reading).reason
    if not reason:
        return part
    parts = _parts(reading)
    cut = _cut(part, parts)
    if cut != part and not _FLOOR.check_field(TextReading(_cut(whole, parts))).reason:
        return cut
    kind = _KIND.search(reason)
    return f"[redacted: {kind[1] if kind else _TOO_LONG}]"


def claim_of(request: RememberRequest) -> Claim:
    """The claim of a request before it has an id and a time."""
    return Claim(record=request.record(), given_tags=request.tags)


def redacted_request(request: RememberRequest, claim: Claim | None = None) -> RememberRequest:
    """The request as a trace may record it; the same object if it has no secret.

    ``claim`` is its ``claim_of``, if it is there already.
    """
    claim = claim or claim_of(request)
    if request.hold is not None and (hold := redacted_text(request.hold)) != request.hold:
        request = msgspec.structs.replace(request, hold=hold)
    if not _reason(claim):
        return request
    without = redacted_claim(claim)
    return msgspec.structs.replace(
        request,
        text=without.text,
        subject=without.subject,
        source=without.source,
        refs=without.refs,
        tags=without.tags,
        scope=without.scope,
        metadata=without.metadata,
        session=without.session,
        speaker=without.speaker,
        supersedes=without.supersedes,
    )


def _reason(claim: Claim) -> str:
    return _FLOOR.check(claim, NOTHING_KNOWN).reason


def _rebuilt(claim: Claim) -> Record:
    """The record with every field redacted.

    Its id changes if the id was its subject and that one changed.
    """
    record, change = claim.record, redacted_text
    subject = None if record.subject is None else change(record.subject)
    return msgspec.structs.replace(
        record,
        memory_id=record.memory_id if subject == record.subject or subject is None else subject,
        text=change(record.text),
        subject=subject,
        tags=normal_tags(tuple(map(_redacted_tag, claim.tags))),
        source=redacted_json(record.source),
        scope=redacted_scope(record.scope),
        metadata=redacted_json(record.metadata),
        session=None if record.session is None else change(record.session)[:MAX_NAME_CHARS],
        speaker=None if record.speaker is None else change(record.speaker)[:MAX_NAME_CHARS],
        refs=tuple(redacted_json(ref) for ref in record.refs),
        supersedes=tuple(map(change, record.supersedes)),
    )


def _redacted_tag(tag: str) -> str:
    return _RANDOM_TAG if is_secret_tag(tag.lower()) else redacted_text(tag)


def _parts(whole: TextReading) -> list[tuple[str, str]]:
    """The secrets of a text, each as its kind and its characters, longest first."""
    parts = set()
    for reading in _ways_to_read(whole):
        parts |= {(found.kind, found.part) for found in secrets_in(reading.text, reading.longest_run_chars)}
        parts |= {
            (found.kind, found.part)
            for found in personal_data_in(reading)
            if found.group not in CONTACT_GROUPS
        }
    return sorted(parts, key=lambda found: (-len(found[1]), found))


def _cut(text: str, parts: list[tuple[str, str]]) -> str:
    """The text with each secret replaced, in any case, with the characters that are attached to it."""
    for kind, part in parts:
        text = re.sub(rf"\S*{re.escape(part)}\S*", f"[redacted: {kind}]", text, flags=re.IGNORECASE)
    return text


def redacted_scope(scope: str) -> str:
    """The scope; ``shared`` if the scope itself is a secret."""
    return scope if redacted_text(scope) == scope else SHARED
