"""Values of secrets: whether a word looks issued, random or chosen, or stands in the place of one.

A placeholder from documentation, the name of a variable and a digest are no secrets by themselves.
"""

import re
from collections import Counter
from math import log2
from typing import Final
from urllib.parse import unquote

# Paths, pages, files of keys, calls and references; rules of forms; names of algorithms and formats; words
# joined by hyphens; dates, counters, and the address of a server.
NO_VALUE: Final = re.compile(
    r"arn:[a-z]|[a-z]{2}-[a-z]{4,9}-\d:\d{12}:|\d{4}-\d\d-\d\d(?:[T ]|$)|[a-z_]{2,30}=\d{1,9}$|"
    r"[a-z]{2,30}(?:[._][a-z]{2,30}){1,4}=|"
    r"\*{1,3}[^\W\d]+\*{0,3}$|"
    r"[a-z_][\w-]{0,31}:[x*!]:\d|aws4-|"
    r"[\w.-]{1,80}:\d{2,5}/|[/~@#]|!\[|!(?:(?:secret|vault|env|ref|sub|include|getatt)(?![\w-])|[a-z_]{2,20}$)|[\w.-]{1,80}\.(?:html?|mdx?|rst|php|aspx?)(?:[#?]|$)|"
    r"id_(?:rsa|dsa|ecdsa|ed25519)|(?:ed25519|rsa\d{0,4}|nistp\d{3}|cv25519)/|(?:min|max|size|digits|between):\d|[a-z]{2,20}\|[a-z]|\$?[a-z_]\w{0,60}(?:::|->)\$?[a-z_]|\.{1,2}/|https?:|--|\w{1,20}\(|.*\($|(?:sha|md5|bcrypt|argon|pbkdf|base|aes|utf|rot|rfc|scrypt|oauth|hmac|"
    r"jwt|2fa)[\w-]{0,40}\$*$|"
    r"[a-z]{2,20}(?:[._/-][a-z]{2,20}){1,2}$",
    re.IGNORECASE,
)
# A name in a program: `self.sesv2_backend.list_pools`, `keep_old_secret_for_24_hours`.
CODE_NAME: Final = re.compile(
    r"[a-z_]\w{0,40}(?:\.(?:[a-z_]\w{0,60}|(?:[A-Z][a-z]{2,20}){2,6})){1,6}|(?:[a-z]{2,20}|\d{1,4})(?:_(?:[a-z]{2,20}|\d{1,4})){3,9}"
)
VARIABLE: Final = re.compile(
    r"[A-Z][A-Z0-9]{1,20}(?:_[A-Z0-9]{1,20}){0,5}_(?:KEY|TOKEN|SECRET|PASSWORD|PASS|PWD)"
)
LEAST_BITS: Final = 3.5
LEAST_VARIETY: Final = 8

_PLACEHOLDER: Final = re.compile(
    r"^postgres$|^guest$|x{4}|(?<![A-Za-z])x{3}(?![A-Za-z])|\*{3}|\.{3}|…|•{3}|(.)\1{7}|example|sample|placeholder|your[_-]|"
    r"change_?me|redacte|^abcdef\d{0,6}$|dummy|insert|replace|fake|"
    r"(?<![a-z])(?:my|secure|secret|actual|real|test|new|old|some|other|strong|super)[_-](?:(?:api|access|auth)[_-]?)?(?:secret|pass(?:word)?|token|key)|"
    r"[_-]here$|^private(?:key)?$|^[$%<\[]|[>\]]$|^[a-z]{2,20}[_-](?:password|passwd|secret|token)$|\{\{?|\$\(|os\.environ|process\.env|getenv|secrets\.|vault:|"
    r"^(?:true|false|null|none|nil|undefined|required|optional|string|password|passwd|secret|token|pass|"
    r"user|hunter2?)\W*$",
    re.IGNORECASE,
)
# No random generator makes such a key, but a person may choose such a password.
_NOT_RANDOM: Final = re.compile(r"0{8}|1234567|abcdefg", re.IGNORECASE)
# What was left out at the end of a value.
_CUT_OFF: Final = re.compile(r"\.{3}|…")
# A part of a name: a word, with a number in it or at its end, or a number.
_PART_OF_A_NAME: Final = re.compile(
    r"[A-Z]?[a-z]{1,20}\d{0,3}[a-z]{0,12}\d{0,2}|[A-Z]{1,12}\d{0,3}|\d{1,20}|\d{1,4}[A-Za-z]{1,2}|(?:[A-Z]{0,4}[a-z]{2,14}){1,8}\d{0,3}"
)
WORDS_IN_CASE: Final = re.compile(r"[A-Za-z][a-z]{1,20}(?:[A-Z][a-z]{2,20}){0,6}")
"""Words that are joined by their capitals: ``RotateRootCredentials``."""
_WORD: Final = re.compile(r"(?=[a-z]{0,13}[aeiouy])[a-z]{3,14}", re.IGNORECASE)
_SEVERAL_WORDS: Final = re.compile(r"[A-Z]{0,3}[A-Za-z][a-z]{2,14}(?:[A-Z][a-z]{2,14}){1,6}\d{0,3}")
_WORDS_AROUND_A_NUMBER: Final = re.compile(r"[a-z]{3,12}\d{1,2}[a-z]{3,12}")
_SEPARATORS: Final = re.compile(r"[-_./:+]+")
_NO_LETTER: Final = re.compile(r"[\W\d_]")
_CONSTANT: Final = re.compile(r"[A-Z]{3,20}(?:_[A-Z]{2,20}){0,4}")
_LOWER_CASE: Final = re.compile(r"[a-z]+")
_WORD_FOR_A_PASSWORD: Final = re.compile(
    r"pass|pwd|pw$|secret|token|key$|change|contrase|senha|motde|пароль", re.IGNORECASE
)
_NO_DOMAIN: Final = re.compile(r"127\.|0\.0\.0\.0|\[|[\w-]{1,60}(?=[^\w.!@#$%&*+=-]|$)")
# The name of an id, before its value.
_NAME_OF_AN_ID: Final = re.compile(
    r"(?:(?<![A-Za-z])|_)ids?[\"'`]{0,2}\s{0,3}(?:[:=|]|is)\s{0,3}[\"'`]{0,2}$", re.IGNORECASE
)
_BEFORE_ID_CHARS: Final = 16
DIGIT_RUNS: Final = re.compile(r"\d+")
DATED: Final = re.compile(r"(?:19|20)\d\d-[01]\d|\d\.\d")
HASH_OR_ID: Final = re.compile(
    r"(?:0x)?(?:[0-9a-f]{7,128}|[0-9A-F]{7,128})|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)


def mixes_digits_in(body: str) -> bool:
    """Whether digits are spread among the letters, and do not just end a chosen name."""
    return len(DIGIT_RUNS.findall(body)) >= 3


def is_issued(body: str) -> bool:
    """Whether a random generator may have made a value: no placeholder, and no run of an alphabet."""
    return not is_placeholder(body) and _NOT_RANDOM.search(body) is None


def is_name(value: str) -> bool:
    """Whether a value is a name that somebody chose for a thing: words and numbers, joined.

    ``webhook1-certificate``, ``previous-hmac-secret-1`` and ``test_schema_2`` are. A part of letters and
    digits in any other order is random, and so is a value with hardly a word in it.
    """
    parts = _SEPARATORS.split(value.strip("-_./:"))
    if len(parts) < 2:
        return (_SEVERAL_WORDS.fullmatch(value) or _WORDS_AROUND_A_NUMBER.fullmatch(value)) is not None
    if not all(map(_PART_OF_A_NAME.fullmatch, parts)):
        return False
    words = sum((_WORD.fullmatch(part) or _SEVERAL_WORDS.fullmatch(part)) is not None for part in parts)
    is_unmixed = all(part.isalpha() or part.isdigit() for part in parts)
    return words * 2 >= len(parts) or words >= 3 or (words > 0 and is_unmixed)


def is_example(found: re.Match[str]) -> bool:
    """Whether a login (``-u user:password``, ``postgres://user:password@host``) stands for one.

    The password is the user's name, a word for a password, or the name of a variable. Or, in an address, it
    is letters in lower case, and the server is this machine or one without a domain, as in examples.
    """
    password = unquote(found[1])
    if f"{found[1]}:{found[1]}" in found[0] or _CONSTANT.fullmatch(password):
        return True
    if "://" not in found[0]:
        return False
    letters = _NO_LETTER.sub("", password)
    if not any(map(str.isdigit, password)) and _WORD_FOR_A_PASSWORD.search(letters):
        return True
    return _LOWER_CASE.fullmatch(password) is not None and (
        _NO_DOMAIN.match(found.string, found.end() - 1) is not None
    )


def is_placeholder(value: str) -> bool:
    """Whether a value is one that documentation prints in place of a secret."""
    if _CUT_OFF.search(value):
        return True
    value = value.strip("`.\"'") or value
    return _PLACEHOLDER.search(value) is not None or len(set(value)) <= max(2, min(4, len(value) // 10))


def is_called_an_id(text: str, token: str) -> bool:
    """Whether a token is called an id where it first stands."""
    start = text.find(token)
    return _NAME_OF_AN_ID.search(text, max(0, start - _BEFORE_ID_CHARS), max(0, start)) is not None


def is_random(token: str) -> bool:
    """Whether upper case, lower case and digits are mixed with enough entropy."""
    if not is_issued(token) or not any(map(str.isdigit, token)):
        return False
    if not (any(map(str.isupper, token)) and any(map(str.islower, token))):
        return False
    return bits(token) >= LEAST_BITS


def bits(token: str) -> float:
    """The entropy of a token, in bits for each character."""
    counts, length = Counter(token), len(token)
    return sum(-count / length * log2(count / length) for count in counts.values())
