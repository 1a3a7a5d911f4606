"""Values of secrets: whether a word looks issued, random or chosen, or stands in the place of one.

A placeholder from documentation, the name of a variable and a digest are no secrets by themselves.
"""

import re
from collections import Counter
from math import log2
from typing import Final

# Paths, pages, files of keys, calls and references; rules of forms; names of algorithms and formats; words
# joined by hyphens.
NO_VALUE: Final = re.compile(
    r"[/~@#]|!\[|!(?:secret|vault|env|ref|sub|include|getatt)(?![\w-])|[\w.-]{1,80}\.(?:html?|mdx?|rst|php|aspx?)(?:[#?]|$)|"
    r"id_(?:rsa|dsa|ecdsa|ed25519)|(?:ed25519|rsa\d{0,4}|nistp\d{3}|cv25519)/|(?:min|max|size|digits|between):\d|[a-z]{2,20}\|[a-z]|\$?[a-z_]\w{0,60}(?:::|->)\$?[a-z_]|\.{1,2}/|https?:|--|.*\($|(?:sha|md5|bcrypt|argon|pbkdf|base|aes|utf|rot|rfc|scrypt|oauth|hmac|"
    r"jwt|2fa)[\w-]{0,40}$|"
    r"[a-z]{2,20}(?:[._/-][a-z]{2,20}){1,2}$",
    re.IGNORECASE,
)
# A name in a program: `self.sesv2_backend.list_pools`, `keep_old_secret_for_24_hours`.
CODE_NAME: Final = re.compile(
    r"[a-z_]\w{0,40}(?:\.[a-z_]\w{0,60}){1,6}|(?:[a-z]{2,20}|\d{1,4})(?:_(?:[a-z]{2,20}|\d{1,4})){3,9}"
)
VARIABLE: Final = re.compile(
    r"[A-Z][A-Z0-9]{1,20}(?:_[A-Z0-9]{1,20}){0,5}_(?:KEY|TOKEN|SECRET|PASSWORD|PASS|PWD)"
)
LEAST_BITS: Final = 3.5
LEAST_VARIETY: Final = 8

_PLACEHOLDER: Final = re.compile(
    r"^postgres$|^guest$|x{4}|(?<![A-Za-z])x{3}(?![A-Za-z])|\*{3}|\.{3}|…|•{3}|(.)\1{7}|example|sample|placeholder|your[_-]|"
    r"change_?me|redacted|dummy|insert|replace|fake|"
    r"(?<![a-z])(?:my|secure|secret|actual|real|test|new|old|some|other|strong|super)[_-](?:secret|pass(?:word)?|token|key)|"
    r"^[$%<\[]|[>\]]$|^[a-z]{2,20}[_-](?:password|passwd|secret|token)$|\{\{?|\$\(|os\.environ|process\.env|getenv|secrets\.|vault:|"
    r"^(?:true|false|null|none|nil|undefined|required|optional|string|password|passwd|secret|token|pass|"
    r"user|hunter2?)\W*$",
    re.IGNORECASE,
)
# No random generator makes such a key, but a person may choose such a password.
_NOT_RANDOM: Final = re.compile(r"0{8}|1234567|abcdefg", re.IGNORECASE)
DIGIT_RUNS: Final = re.compile(r"\d+")
DATED: Final = re.compile(r"(?:19|20)\d\d-[01]\d|\d\.\d")
HASH_OR_ID: Final = re.compile(
    r"(?:0x)?[0-9a-f]{7,128}|[0-9A-F]{7,128}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)


def mixes_digits_in(body: str) -> bool:
    """Whether digits are spread among the letters, and do not just end a chosen name."""
    return len(DIGIT_RUNS.findall(body)) >= 3


def is_issued(body: str) -> bool:
    """Whether a random generator may have made a value: no placeholder, and no run of an alphabet."""
    return not is_placeholder(body) and _NOT_RANDOM.search(body) is None


def is_placeholder(value: str) -> bool:
    """Whether a value is one that documentation prints in place of a secret."""
    value = value.strip("`.\"'") or value
    return _PLACEHOLDER.search(value) is not None or len(set(value)) <= max(2, min(4, len(value) // 10))


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
