"""Codes and phrases that people are told: PINs, codes of doors, passwords of networks, recovery words.

They have no form of their own, so that the words around them decide.
"""

import re
from collections.abc import Iterator
from typing import Final

from standfast.govern.judge.framed_secrets import FoundSecret
from standfast.govern.judge.secret_values import LEAST_VARIETY, is_called_an_id, is_placeholder
from standfast.govern.judge.tables import WordTable
from standfast.govern.judge.text_reading import SMALL_WORDS

_TABLE: Final = WordTable("secrets.words")
# Substrings, in lower case, of which a text has one before the patterns for them are tried.
_NETWORK_WORDS: Final = _TABLE.words("network")
_PIN_WORDS: Final = _TABLE.words("pin")
_CODE_WORDS: Final = _TABLE.words("code")
_PAIR_WORDS: Final = _TABLE.words("pair")
_OTP_WORDS: Final = _TABLE.words("one-time password")
_SEED_WORDS: Final = _TABLE.words("seed")
_ROW_WORDS: Final = _TABLE.words("wallet")
CODE_WORDS: Final = frozenset[str]().union(
    _NETWORK_WORDS, _PIN_WORDS, _CODE_WORDS, _PAIR_WORDS, _OTP_WORDS, _SEED_WORDS, _ROW_WORDS
)
"""A text without any of these, in lower case, holds none of the codes."""
_AROUND_SEED_CHARS: Final = 60
_BEFORE_ROW_CHARS: Final = 200

# A network's password is said aloud and is often a plain word; what follows in other sentences says how it
# is.
_NETWORK_PASSWORD: Final = re.compile(
    r"(?<!\w)(?:wi-?fi|wlan|hotspot|guest"
    r" network|router)(?:'s)?\s(?:password|passphrase|passcode|passwort|kennwort|key|pw)\s?(?:is|:|=|ist|"
    r"lautet)\s{1,3}"
    r"[\"'`]?(?!(?:the|a|an|not|on|in|at|for|same|required|needed|wrong|correct|incorrect|unknown|changed|"
    r"stored|printed|written|expired|"
    r"different|reset|shared|missing|invalid|secret|hidden|listed|posted|provided|protected|available|"
    r"empty|too|very|always|never|now|also|"
    r"nicht|falsch|auf|im|am|das|der|die|ein|weak|strong|long|short|safe|public|visible|taped)"
    r"(?!\w))([^\s\"'`,;]{4,64})[\"'`]?(?=[.,;!)]|\s{0,3}$)",
    re.IGNORECASE | re.MULTILINE,
)
_PIN: Final = re.compile(
    r"(?<!\w)(?:pin(?:[ -]?code)?|passcode|cvv|cvc)\s{0,3}(?:is|:|=|ist)\s{0,3}(\d{3,8})(?!\w)", re.IGNORECASE
)
# Codes that open doors, and pairs of a user name and a password.
_DOOR_CODE: Final = re.compile(
    r"(?<!\w)(?:(?:alarm|door|gate|entry|safe|lock(?:er|box)?|garage|key["
    r" -]?(?:box|safe)|building|keypad|unlock|t[uü]r|alarmanlage)[ -]?code|"
    r"(?:combination|code) (?:of|for|to) (?:the|my|our|his|her) (?:\w{1,20}"
    r" )?(?:safe|lock|door|gate|alarm|vault|locker))"
    r"(?:\s[^\s:=]{1,20}){0,6}?\s{0,2}(?:is|:|=|ist|lautet|are)\s{1,3}['\"]?("
    r"(?=[\w#*-]{0,9}\d[\w#*-]{0,9}\d[\w#*-]{0,9}\d)[A-Z0-9#*-]{4,12})(?![\w%])",
    re.IGNORECASE,
)
_CARD_PIN: Final = re.compile(
    r"(?<!\w)PIN(?:["
    r" -]?[Cc]ode)?(?:\s[^\s:=]{1,20}){0,5}?\s{0,2}(?:is|:|=|ist|est|es)\s{1,3}(\d{4,8})(?![\w.,%]\d|\w)"
)
_BEFORE_PIN_CHARS: Final = 20
_PAIR: Final = re.compile(
    r"(?<![\w/-])(?:log[ -]?in(?! with)|creds?|credentials|access"
    r" data|zugangsdaten|zugang|identifiants|credenciales|accesso)(?!\w)[^\n/]{0,60}?[\w.@-]{2,40}\s?/\s?"
    r"((?=\S{0,60}\d)(?=\S{0,60}[A-Za-z])(?=\S{0,60}[!@#$%^&*+?~=§]|\S{0,60}[a-z]\S{0,60}[A-Z]|"
    r"\S{0,60}[A-Z]\S{0,60}[a-z])[^\s/]{6,60})(?!\S)",
    re.IGNORECASE,
)
_RECOVERY_CODES: Final = re.compile(
    r"(?:recovery|backup|rescue|scratch|emergency)["
    r" -]codes?\W{1,4}(?:\S{1,20}\s){0,5}?(?:[0-9a-z]{4,6}-[0-9a-z]{4,6}|\d{8})(?:[\s,;]{1,3}"
    r"(?:[0-9a-z]{4,6}-[0-9a-z]{4,6}|\d{8})){1,20}",
    re.IGNORECASE,
)
_OTP_SEED: Final = re.compile(r"(?<![\w/])(?=[A-Z2-7]{0,62}[2-7][A-Z2-7]{0,62}[2-7])[A-Z2-7]{16,64}(?!\w)")
_SEED: Final = re.compile(
    r"(?:seed|recovery|mnemonic|backup|secret)["
    r" -](?:phrase|words)\W{1,4}(?:[a-z]{2,8}\W{1,4}){0,3}?(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}",
    re.IGNORECASE,
)
# Twelve or more words in a row, none of them a small word, in a text with a word for wallets.
_WORD_ROW: Final = re.compile(
    r"(?<![\w-])(?:\d{1,2}[.)] ?)?[a-z]{3,8}(?:[ ,]{1,2}(?:\d{1,2}[.)] ?)?[a-z]{3,8}){11,23}(?![\w-])"
)


def codes_in(text: str, lowered: str) -> Iterator[FoundSecret]:
    """Network passwords, PINs, door codes, recovery codes, and logins with their passwords."""
    if any(map(lowered.__contains__, _NETWORK_WORDS)):
        for found in _NETWORK_PASSWORD.finditer(text):
            if not is_placeholder(found[1]):
                yield FoundSecret("network password", found[1])
    if any(map(lowered.__contains__, _PIN_WORDS)):
        yield from (FoundSecret("PIN or card code", found[1]) for found in _PIN.finditer(text))
    if any(map(lowered.__contains__, _CODE_WORDS)):
        yield from (FoundSecret("code that opens a door", found[1]) for found in _DOOR_CODE.finditer(text))
        yield from (FoundSecret("recovery codes", found[0]) for found in _RECOVERY_CODES.finditer(text))
    if "PIN" in text:
        for found in _CARD_PIN.finditer(text):
            if "default" not in lowered[max(0, found.start() - _BEFORE_PIN_CHARS) : found.start()]:
                yield FoundSecret("PIN or card code", found[1])
    if "/" in text and any(map(lowered.__contains__, _PAIR_WORDS)):
        for found in _PAIR.finditer(text):
            if not is_placeholder(found[1]):
                yield FoundSecret("login with its password", found[1])


def phrases_in(text: str, lowered: str) -> Iterator[FoundSecret]:
    """Seeds of one-time passwords, and the words that recover a wallet."""
    if any(map(lowered.__contains__, _OTP_WORDS)):
        for found in _OTP_SEED.finditer(text):
            if _is_otp_seed(text, found):
                yield FoundSecret("seed of one-time passwords", found[0])
    if any(map(lowered.__contains__, _SEED_WORDS)):
        yield from (FoundSecret("wallet recovery phrase", found[0]) for found in _SEED.finditer(text))
    if any(map(lowered.__contains__, _ROW_WORDS)):
        for found in _WORD_ROW.finditer(text):
            before = lowered[max(0, found.start() - _BEFORE_ROW_CHARS) : found.end() + _BEFORE_ROW_CHARS]
            if any(map(before.__contains__, _ROW_WORDS)) and _is_recovery_phrase(found[0]):
                yield FoundSecret("wallet recovery phrase", found[0])


def _is_otp_seed(text: str, found: re.Match[str]) -> bool:
    if len(set(found[0])) < LEAST_VARIETY or is_placeholder(found[0]):
        return False
    around = text[max(0, found.start() - _AROUND_SEED_CHARS) : found.end() + _AROUND_SEED_CHARS].lower()
    return any(map(around.__contains__, _OTP_WORDS)) and not is_called_an_id(text, found[0])


def _is_recovery_phrase(row: str) -> bool:
    words = re.findall(r"[a-z]{3,8}", row)
    if 0 < row.count(",") < len(words) - 1:  # A list of things, some of them of two words.
        return False
    return SMALL_WORDS.isdisjoint(words) and len(set(words)) >= len(words) - 2
