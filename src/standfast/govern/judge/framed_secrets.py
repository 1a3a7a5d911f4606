"""Secrets by the frame that they stand in.

A frame says what its content is, so that a value counts even without a form of its own: an XML element that
is called ``secret``, a list of variables with ``name`` and ``value``, the ``auth`` of a registry (a login in
base64), and the name of a service that issues keys (``data/services.words``) directly before a token.
"""

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from standfast.govern.judge.secret_values import (
    CODE_NAME,
    DATED,
    DIGIT_RUNS,
    HASH_OR_ID,
    LEAST_BITS,
    NO_VALUE,
    VARIABLE,
    bits,
    is_issued,
    is_name,
    is_placeholder,
)
from standfast.govern.judge.tables import WordTable

SERVICES: Final = WordTable("services.words").words("services")
"""Services that issue keys, in lower case and without spaces."""


class FoundSecret(NamedTuple):
    """A secret in a text: its kind, and the part of the text that has to go."""

    kind: str
    part: str


_NAME: Final = (
    r"[\w:.-]{0,40}?(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_.-]?key|(?:access|private|auth|account|client|"
    r"license|signing|encryption)[_.-]?key|credentials?)[\w.-]{0,20}"
)
_ELEMENT: Final = re.compile(
    rf"<(?P<name>{_NAME})(?:\s[^<>]{{0,80}})?>\s{{0,20}}(?:<!\[CDATA\[)?(?P<value>[^<>]{{4,400}})(?:\]\]>)?\s{{0,20}}</",
    re.IGNORECASE,
)
# A list of settings: {"name": "DB_PASSWORD", "value": "…"}, <add key="ApiKey" value="…"/>, and lines of YAML.
_PAIR: Final = re.compile(
    rf"(?<![\w-])(?:key|name|id)[\\\"']{{0,2}}\s{{0,2}}[=:]\s{{0,2}}[\\\"']{{0,2}}(?P<name>{_NAME})[\\\"']{{0,2}}[\s,]{{1,12}}"
    r"[\\\"']{0,2}value[\\\"']{0,2}\s{0,2}[=:]\s{0,2}[\\\"']{0,2}(?P<value>[^\s\"'<>,;\\]{4,400})",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(
    r"(?:(?<!\w)_?auth[\\\"']{0,4}\s{0,2}[=:]\s{0,2}[\\\"']{0,4}|(?<!\w)basic\s{1,3})"
    r"(?P<value>[A-Za-z0-9+/]{8,4000}={0,2})(?![\w+/=-])",
    re.IGNORECASE,
)
_TOKEN: Final = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9][A-Za-z0-9_+/.=-]{15,199}(?![\w+/=@])")
_BEFORE_CHARS: Final = 48
_LEAST_PART_CHARS: Final = 12
_LEAST_NAME_CHARS: Final = 24
"""A shorter name in the frame of a password may be one that somebody chose."""
# Between the name of a service and a token: signs, and words for a key.
_JOINT: Final = re.compile(
    r"(?P<service>[A-Za-z][A-Za-z0-9]{3,24})"
    r"(?:[\s_.\-\"'`=:>({\[,]{1,6}(?:api|access|auth|app|key|token|secret|private|pat|id|is|integration|user|account|"
    r"rest|client|v\d)){0,4}(?P<joint>[\s_\-\"'`=:>({\[,]{1,6})$",
    re.IGNORECASE,
)
_SERVICE_WORD: Final = re.compile(
    r"(?P<service>[a-z0-9]{4,24}?)(?:_?(?:api|access|auth|app|key|token|secret|private|pat|id|user|account))*"
)
_SPLIT: Final = re.compile(r"[\s{}()\[\]\"',;]+")


def framed_secrets_in(text: str, lowered: str) -> Iterator[FoundSecret]:
    """The secrets that their frame gives away, in a fixed order of kinds."""
    if "</" in text:
        for found in _ELEMENT.finditer(text):
            for value in _SPLIT.split(found["value"]):
                if _is_value(value, found["name"]):
                    yield FoundSecret("secret in an element", value)
    if "value" in lowered:
        for found in _PAIR.finditer(text):
            if _is_value(found["value"], found["name"]):
                yield FoundSecret("secret in a list of settings", found["value"])
    if "auth" in lowered or "basic" in lowered:
        for found in _LOGIN.finditer(text):
            if _is_login(found["value"]):
                yield FoundSecret("login in base64", found["value"])


def service_keys_in(text: str) -> Iterator[FoundSecret]:
    """Tokens directly after the name of a service that issues keys."""
    for found in _TOKEN.finditer(text):
        token = found[0].rstrip("._-=")
        if not _is_service_token(token):
            continue
        before = _JOINT.search(text, max(0, found.start() - _BEFORE_CHARS), found.start())
        if before is not None and _is_service(before["service"].lower()):
            yield FoundSecret("token after the name of a service", token)


def _is_service(word: str) -> bool:
    """Whether a word is the name of a service, or one with words for a key joined to it: ``asanatoken``."""
    named = _SERVICE_WORD.fullmatch(word)
    return word in SERVICES or (named is not None and named["service"] in SERVICES)


def _is_service_token(token: str) -> bool:
    """Whether a token is long and random enough to be a key: a digest or an id counts only in full length."""
    if not is_issued(token) or DATED.search(token) or NO_VALUE.match(token) or CODE_NAME.fullmatch(token):
        return False
    if HASH_OR_ID.fullmatch(token):
        return len(token) >= 32
    # Names of models and versions are short words and numbers, joined: ``claude-sonnet-4-5-20250929``.
    part = max(re.split(r"[-_./]", token), key=len)
    digits = len(DIGIT_RUNS.findall(token))
    return len(token) >= 20 and len(part) >= _LEAST_PART_CHARS and digits >= 3 and bits(token) >= LEAST_BITS


def _is_value(value: str, name: str) -> bool:
    """Whether the content of a frame is a password or a key, and not a word for one."""
    if (
        is_placeholder(value)
        or NO_VALUE.match(value)
        or VARIABLE.fullmatch(value)
        or CODE_NAME.fullmatch(value)
        or (len(value) >= _LEAST_NAME_CHARS and is_name(value))
    ):
        return False
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    if "pass" in name.lower() or "pwd" in name.lower():
        return (
            len(value) >= 6 and has_letter and (has_digit or any(char in "!@#$%^&*+?~=§" for char in value))
        )
    return len(value) >= 16 and has_letter and has_digit and len(DIGIT_RUNS.findall(value)) >= 2


def _is_login(value: str) -> bool:
    """Whether it is base64 of a user name and a password, or of a key."""
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    user, colon, password = plain.partition(":")
    return (
        bool(colon and user)
        and "".join(plain.split()).isprintable()
        and len(password) >= 4
        and not is_placeholder(password)
    )
