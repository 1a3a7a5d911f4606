"""Credentials by their looks: keys that services issue in a known form, key blocks, passwords where one is given.

``credential_in`` names the kind and never the value, because its answer is kept in a ledger. Placeholders, as
documentation prints them, are no credentials. A token without a known form counts only where a word beside it says
what it is; a bare hash, UUID or commit id does not.
"""

import re
from collections import Counter
from math import log2
from typing import Final

from standfast.govern.judge.reading.lexicon import SMALL_WORDS
from standfast.govern.judge.signs.issued import A_PREFIX, ISSUED, NAMES_OF_THINGS, SPACED

# Issued keys are long and have no space in them.
_LEAST_RUN_CHARS: Final = 20

# Where a value stands beside the word for it: `db_password = "…"`, `the password for the router is …`.
_NAMED: Final = (
    r"pass(?:word|wd|phrase|wort|code)|(?<![^\W_])pass(?=\s?[=:])|(?<![^\W_])p(?:wd?)(?![^\W_])|kennwort|mot de passe|contrase[ñn]a|"
    r"senha|parola|wachtwoord|clave|hasło|lösenord|密码|密碼|口令|パスワード|пароль|비밀번호|"
    r"secret|token|credentials?|api[ _-]?key|access[ _-]?key|auth[ _-]?key|signing[ _-]?key|encryption[ _-]?key|"
    r"client[ _-]?secret|secret[ _-]?key|private[ _-]?key|master[ _-]?key|license[ _-]?key|account[ _-]?key"
)
_NAME_SIGNS: Final = ("pass", "pw", "secret", "token", "key", "kennwort", "contrase", "senha", "parola", "credential",
                        "wachtwoord", "clave", "hasło", "lösenord", "密", "口令", "パスワード", "пароль", "비밀번호")  # fmt: skip
_GIVEN: Final = re.compile(
    rf"(?P<word>{_NAMED})(?P<joint>[\w.-]{{0,30}}[\"'`\])]{{0,2}}\s{{0,3}}(?::=|=>|==?|:|：|\?=|は|是|为)\s{{0,3}}"
    r"|(?:\s{1,8}[^\s:=]{1,40}){1,5}?:\s{1,8}"
    r"|(?:\s{1,8}(?!fingerprint|thumbprint|hash|digest|checksum|sha-?\d|md5)[^\s:=;]{1,40}){0,8}?\s{1,8}(?:is|was|ist|lautet|est|es|è|é|are|be)(?:\s{1,8}now|\s{1,8}set to|:)?\s{1,8}"
    r"|\s{1,2}(?=[\"'`])|(?<=pw)\s{1,2}|\s{1,2}(?=0x[0-9a-f]{64}))"
    r"[\"'`(<]{0,2}(?P<value>[^\s\"'`,;<>()]{4,200})",
    re.IGNORECASE,
)
_CHOSEN_BY_PEOPLE: Final = (
    "pass", "pw", "kenn", "mot", "contra", "senha", "parola", "wacht", "clave", "hasło", "lösen", "密", "口令", "パスワード",
    "пароль", "비밀번호",
)  # fmt: skip
# Paths, calls and references; names of algorithms and formats; words joined by hyphens.
_NO_VALUE: Final = re.compile(
    r"[/~@]|\.{1,2}/|https?:|--|.*\($|(?:sha|md5|bcrypt|argon|pbkdf|base|aes|utf|rot|rfc|scrypt|oauth|hmac|jwt|2fa)[\w-]{0,40}$|"
    r"[a-z]{2,20}(?:[._/-][a-z]{2,20}){1,2}$",
    re.IGNORECASE,
)
_BEARER: Final = re.compile(r"(?<!\w)(?:bearer|basic)\s{1,3}([A-Za-z0-9._~+/=-]{16,4000})", re.IGNORECASE)
_PIN: Final = re.compile(
    r"(?<!\w)(?:pin(?:[ -]?code)?|passcode|cvv|cvc)\s{0,3}(?:is|:|=|ist)\s{0,3}(\d{3,8})(?!\w)", re.IGNORECASE
)
# Codes that open doors, and pairs of a name and a password.
_DOOR_CODE: Final = re.compile(
    r"(?<!\w)(?:(?:alarm|door|gate|entry|safe|lock(?:er|box)?|garage|key[ -]?(?:box|safe)|building|keypad|unlock|t[uü]r|alarmanlage)[ -]?code|"
    r"(?:combination|code) (?:of|for|to) (?:the|my|our|his|her) (?:\w{1,20} )?(?:safe|lock|door|gate|alarm|vault|locker))"
    r"(?:\s[^\s:=]{1,20}){0,6}?\s{0,2}(?:is|:|=|ist|lautet|are)\s{1,3}['\"]?((?=[\w#*-]{0,9}\d[\w#*-]{0,9}\d[\w#*-]{0,9}\d)[A-Z0-9#*-]{4,12})(?![\w%])",
    re.IGNORECASE,
)
_CARD_PIN: Final = re.compile(
    r"(?<!\w)PIN(?:[ -]?[Cc]ode)?(?:\s[^\s:=]{1,20}){0,5}?\s{0,2}(?:is|:|=|ist|est|es)\s{1,3}(\d{4,8})(?![\w.,%]\d|\w)"
)
_PAIR: Final = re.compile(
    r"(?<!\w)(?:log[ -]?in|creds?|credentials|access data|zugangsdaten|zugang|identifiants|credenciales|accesso)(?!\w)[^\n/]{0,60}?[\w.@-]{2,40}\s?/\s?"
    r"((?=\S{0,60}\d)(?=\S{0,60}[A-Za-z])(?=\S{0,60}[!@#$%^&*+?~=§]|\S{0,60}[a-z]\S{0,60}[A-Z]|\S{0,60}[A-Z]\S{0,60}[a-z])[^\s/]{6,60})(?!\S)",
    re.IGNORECASE,
)
_PAIR_SIGNS: Final = ("log", "cred", "acces", "zugang", "identif")
_RECOVERY_CODES: Final = re.compile(
    r"(?:recovery|backup|rescue|scratch|emergency)[ -]codes?\W{1,4}(?:\S{1,20}\s){0,5}?(?:[0-9a-z]{4,6}-[0-9a-z]{4,6}|\d{8})(?:[\s,;]{1,3}(?:[0-9a-z]{4,6}-[0-9a-z]{4,6}|\d{8})){1,20}",
    re.IGNORECASE,
)
_OTP_SEED: Final = re.compile(r"(?<!\w)(?=[A-Z2-7]{0,62}[2-7][A-Z2-7]{0,62}[2-7])[A-Z2-7]{16,64}(?!\w)")
_SEED: Final = re.compile(
    r"(?:seed|recovery|mnemonic|backup|secret)[ -](?:phrase|words)\W{1,4}(?:[a-z]{2,8}\W{1,4}){0,3}?(?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8}",
    re.IGNORECASE,
)
# Twelve words in a row of which none is one that sentences are made with, and a word for what they open.
_WORD_ROW: Final = re.compile(
    r"(?<![\w-])(?:\d{1,2}[.)] ?)?[a-z]{3,8}(?:[ ,]{1,2}(?:\d{1,2}[.)] ?)?[a-z]{3,8}){11,23}(?![\w-])"
)
_ROW_WORDS: Final = (
    "seed",
    "mnemonic",
    "wallet",
    "recovery",
    "metamask",
    "ledger",
    "trezor",
    "bip39",
    "bip-39",
)
_SESSION_COOKIE: Final = re.compile(
    r"(?:(?<!\w)(?:set-)?cookie['\"]?\s{0,2}[:=][^\n]{0,300}?[\s;:='\"]|(?<![\w.-])(?=(?:j|php|asp\.net_)?sess|connect\.sid|sid=|laravel_|remember_|auth_?token))"
    r"[\w.-]{2,40}=([A-Za-z0-9%._~+/|-]{16,400})",
    re.IGNORECASE,
)
_LONG_HEX: Final = re.compile(r"[0-9a-fA-F]{24,128}(?:[.!][\w.-]{1,40})?")
# A key of 256 bits looks like a digest; what stands around it tells them apart.
_HEX_OF_256_BITS: Final = re.compile(r"(?<!\w)(?:0x)?[0-9a-f]{64}(?!\w)", re.IGNORECASE)
_PRIVATE_KEY: Final = re.compile(r"priv(?:ate)?[ _-]?key|privkey", re.IGNORECASE)
_A_DIGEST: Final = re.compile(
    r"sha-?256|digest|fingerprint|checksum|hash|transaction|(?<!\w)tx|block|commit", re.IGNORECASE
)
_TOKEN: Final = re.compile(r"(?<![\w+/=.-])[A-Za-z0-9][\w+/-]{22,199}={0,2}(?![\w+/=-])")
_SPACED_SIGNS: Final = tuple(sign for sign, _, _ in SPACED)
_CONTEXT_CHARS: Final = 60
_CONTEXT: Final = re.compile(
    r"secret|token|password|credential|(?:api|access|private|signing|wallet|wif|auth|deploy|user).?key|bearer",
    re.IGNORECASE,
)
_LEAST_BITS: Final = 3.5
_LEAST_VARIETY: Final = 8

_PLACEHOLDER: Final = re.compile(
    r"x{4}|\*{3}|\.{3}|…|•{3}|(.)\1{7}|example|sample|placeholder|your[_-]|change_?me|redacted|dummy|insert|replace|fake|"
    r"^[$%<\[]|[>\]]$|\{\{?|\$\(|os\.environ|process\.env|getenv|secrets\.|vault:|"
    r"^(?:true|false|null|none|nil|undefined|required|optional|string|password|passwd|secret|token|pass|user|hunter2?)\W*$",
    re.IGNORECASE,
)
# A machine draws no such key; a human chooses such a password.
_DRAWN_BY_NOBODY: Final = re.compile(r"0{8}|1234567|abcdefg", re.IGNORECASE)
_DIGIT_RUNS: Final = re.compile(r"\d+")
_HASH_OR_ID: Final = re.compile(
    r"(?:0x)?[0-9a-f]{7,128}|[0-9A-F]{7,128}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)


def credential_in(text: str, longest_run_chars: int) -> str | None:
    """The kind of the first credential that shows, in a fixed order of kinds; None if there is none."""
    if any(map(text.__contains__, _SPACED_SIGNS)):
        for sign, kind, pattern in SPACED:
            if sign in text and any(_is_issued(found[1]) for found in pattern.finditer(text)):
                return kind
    if longest_run_chars >= _LEAST_RUN_CHARS and (issued := _issued_in(text)) is not None:
        return issued
    lowered = text.lower()
    if any(map(lowered.__contains__, _NAME_SIGNS)):
        if any(_is_given(found) for found in _GIVEN.finditer(text)):
            return "password or key given beside its name"
        if any(_is_random_beside_a_word_for_it(text, found) for found in _TOKEN.finditer(text)):
            return "random token beside a word for a secret"
    if ("bearer" in lowered or "basic" in lowered) and any(_is_random(f[1]) for f in _BEARER.finditer(text)):
        return "authorization header"
    if ("pin" in lowered or "cv" in lowered or "passcode" in lowered) and _PIN.search(text):
        return "PIN or card code"
    if "code" in lowered or "combination" in lowered:
        if _DOOR_CODE.search(text):
            return "code that opens a door"
        if _RECOVERY_CODES.search(text):
            return "recovery codes"
    if "PIN" in text and _CARD_PIN.search(text):
        return "PIN or card code"
    if (
        "/" in text
        and any(map(lowered.__contains__, _PAIR_SIGNS))
        and any(not _is_placeholder(found[1]) for found in _PAIR.finditer(text))
    ):
        return "login with its password"
    if any(map(lowered.__contains__, ("otp", "2fa", "mfa", "authenticator", "seed"))) and any(
        len(set(found[0])) >= _LEAST_VARIETY and not _is_placeholder(found[0])
        for found in _OTP_SEED.finditer(text)
    ):
        return "seed of one-time passwords"
    if ("phrase" in lowered or "words" in lowered) and _SEED.search(text):
        return "wallet recovery phrase"
    if any(map(lowered.__contains__, _ROW_WORDS)) and any(map(_is_drawn_row, _WORD_ROW.findall(text))):
        return "wallet recovery phrase"
    if (
        "cookie" in lowered
        or "sess" in lowered
        or "sid=" in lowered
        or "auth" in lowered
        or "remember_" in lowered
    ) and any(
        _is_random(found[1]) or _LONG_HEX.fullmatch(found[1]) for found in _SESSION_COOKIE.finditer(text)
    ):
        return "session cookie"
    if "priv" in lowered and any(_is_private_key(text, found) for found in _HEX_OF_256_BITS.finditer(text)):
        return "private key"
    return None


def _is_drawn_row(row: str) -> bool:
    words = re.findall(r"[a-z]{3,8}", row)
    return SMALL_WORDS.isdisjoint(words) and len(set(words)) >= len(words) - 2


def _is_private_key(text: str, found: re.Match[str]) -> bool:
    around = text[max(0, found.start() - _CONTEXT_CHARS) : found.end() + _CONTEXT_CHARS].replace(
        found[0], " "
    )
    return _PRIVATE_KEY.search(around) is not None and _A_DIGEST.search(around) is None


def _issued_in(text: str) -> str | None:
    runs = " ".join(run for run in text.split() if len(run) >= _LEAST_RUN_CHARS)
    for sign, kind, pattern in ISSUED:
        if sign in runs and any(_is_issued(found[1]) for found in pattern.finditer(runs)):
            return kind
    if any(
        _is_random(found[2]) and _mixes_digits_in(found[2]) and found[1] not in NAMES_OF_THINGS
        for found in A_PREFIX.finditer(runs)
    ):
        return "token in the form of an issued key"
    return None


def _mixes_digits_in(body: str) -> bool:
    """Whether digits stand among the letters, as chance puts them, and not at the end of a name that somebody chose."""
    return len(_DIGIT_RUNS.findall(body)) >= 3


def _is_issued(body: str) -> bool:
    return not _is_placeholder(body) and _DRAWN_BY_NOBODY.search(body) is None


def _is_placeholder(value: str) -> bool:
    """Whether a value is what documentation prints in place of a secret."""
    return _PLACEHOLDER.search(value) is not None or len(set(value)) <= max(2, min(4, len(value) // 10))


def _is_given(found: re.Match[str]) -> bool:
    """Whether what stands beside the word is a value, and not a sentence going on."""
    value = found["value"].rstrip(".!?:]}")
    if _is_placeholder(value) or _NO_VALUE.match(value):
        return False
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    has_symbol = any(char in "!@#$%^&*+?~=§" for char in value)
    is_assigned = any(char in found["joint"] for char in ":=：\"'`")
    if found["word"].lower().startswith(_CHOSEN_BY_PEOPLE):
        if value.isdigit():
            return len(value) >= 6
        mixed = has_letter and (has_digit or has_symbol)
        return len(value) >= 5 and (mixed or (is_assigned and "-" in value and len(value) >= 16))
    if is_assigned:
        return len(value) >= 12 and has_letter and has_digit
    return len(value) >= 12 and (
        _is_random(value) or (len(value) >= 24 and _HASH_OR_ID.fullmatch(value) is not None)
    )


def _is_random_beside_a_word_for_it(text: str, found: re.Match[str]) -> bool:
    token = found[0]
    if _HASH_OR_ID.fullmatch(token) or not _is_random(token):
        return False
    return _CONTEXT.search(text, max(0, found.start() - _CONTEXT_CHARS), found.start()) is not None


def _is_random(token: str) -> bool:
    """Upper and lower case and digits, mixed as chance mixes them."""
    if not _is_issued(token) or not any(map(str.isdigit, token)):
        return False
    if not (any(map(str.isupper, token)) and any(map(str.islower, token))):
        return False
    counts, length = Counter(token), len(token)
    return sum(-count / length * log2(count / length) for count in counts.values()) >= _LEAST_BITS
