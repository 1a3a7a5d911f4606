"""Secrets: finds credentials by their form.

``find_secret`` recognises keys that services issue in a known form (``key_formats.py``), key blocks, and
passwords that stand next to a word for them. It returns the kind and never the value, because the answer is
stored. Placeholders from documentation are not secrets. A token without a known form counts only next to a
word that says what it is; a bare hash, UUID or commit id does not.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from standfast.govern.judge.framed_secrets import FoundSecret, framed_secrets_in, service_keys_in
from standfast.govern.judge.key_formats import (
    HARMLESS_PREFIXES,
    ISSUED_FORMS,
    KEY_FORMATS,
    KEY_PREFIXES,
    SHORT_FORMS,
)
from standfast.govern.judge.secret_codes import CODE_WORDS, codes_in, phrases_in
from standfast.govern.judge.secret_values import (
    CODE_NAME,
    DATED,
    DIGIT_RUNS,
    HASH_OR_ID,
    LEAST_BITS,
    LEAST_VARIETY,
    NO_VALUE,
    VARIABLE,
    WORDS_IN_CASE,
    bits,
    is_called_an_id,
    is_example,
    is_issued,
    is_name,
    is_placeholder,
    is_random,
    mixes_digits_in,
)
from standfast.govern.judge.tables import WordTable
from standfast.govern.judge.text_reading import SIEVE, TextReading

_TABLE: Final = WordTable("secrets.words")

GENERIC_KIND: Final = "token in the form of an issued key"
"""The kind of a token that no service is known for."""
# The form that most services share: one or two short names, then a long random part. Digests begin with their
# algorithm.
_GENERIC_FORM: Final = re.compile(
    r"(?<![\w/.-])(?!sha|md5|integrity|blake|crc|ssh-|ecdsa)([a-z][a-z0-9]{1,11})"
    r"(?:[_-][a-z0-9]{2,8}){0,2}[_-]([A-Za-z0-9][\w-]{23,199})(?![\w/.-])"
)
_PREFIXED_ID: Final = re.compile(
    r"(?<![\w/.-])([a-z]{2,10})[_-]([0-9a-z]{8}(?:-[0-9a-z]{4}){3}-[0-9a-z]{12})(?![\w/.-])"
)

# Issued keys are long and contain no space.
_LEAST_RUN_CHARS: Final = 20

# A value next to the word for it: `db_password = "…"`, `the password for the router is …`.
_NAMED: Final = (
    r"pass(?:word|wd|phrase|wort|code)|(?<![^\W_])pass(?=[\"']?\s?[=:])|(?<![^\W_])p(?:wd?)(?![^\W_])|"
    r"kennwort|mot"
    r" de passe|contrase[ñn]a|"
    r"senha|parola|wachtwoord|clave|hasło|lösenord|密码|密碼|口令|パスワード|пароль|"
    r"비밀번호|şifre|heslo|salasana|mật khẩu|κωδικός(?: πρόσβασης)?|סיסמה|كلمة (?:المرور|السر)|"
    r"पासवर्ड|adgangskode|jelszó|lozinka|"
    r"secret|(?<!ss|ch)token(?!i[sz])|credentials?|api[ _-]?key|access[ _-]?key|auth[ _-]?key|"
    r"signing[ _-]?key|encryption[ _-]?key|"
    r"client[ _-]?secret|secret[ _-]?key|private[ _-]?key|master[ _-]?key|license[ _-]?key|account[ _-]?key"
)
_NAME_WORDS: Final = tuple(_TABLE.words("name parts"))
_GIVEN: Final = re.compile(
    rf"(?P<word>{_NAMED})(?!\s{{1,8}}(?:manager|polic(?:y|ies)|generator|limit|length)\b)"
    rf"(?P<joint>[\w.-]{{0,30}}[\\\"'`\])]{{0,4}}\s{{0,3}}(?::=|=>|==?|:|：|\?=|は|是|"
    rf"为)\s{{0,3}}"
    r"|(?:[^\S\n]{1,8}[^\s:=]{1,40}){1,5}?:\s{1,8}"
    r"|(?:\s{1,8}(?!fingerprint|thumbprint|hash|digest|checksum|sha-?\d|md5)[^\s:=;]{1,40}){0,8}?\s{1,8}"
    r"(?:is|was|ist|lautet|est|es|è|é|are|be)(?:\s{1,8}now|\s{1,8}set"
    r" to|:)?\s{1,8}"
    r"|\s{1,2}(?=[\"'`])|(?<=pw)\s{1,2}|\s{1,2}(?=0x[0-9a-f]{64}))"
    r"[\\\"'`(<]{0,4}(?P<value>[^\s\"'`,;<>()]{4,200})",
    re.IGNORECASE,
)
# A name that ends in a word for a key, with anything before and after it, and a token next to it.
_NAMED_TOKEN: Final = re.compile(
    r"(?P<name>(?<![A-Za-z0-9])[\w.-]{0,40}?(?:key|token|tkn|secret|passw(?:or)?d|pwd|credentials?|login|access|private|"
    r"(?<![a-z])pat|auth)"
    r"(?:[_. -]?(?:key|token|tok|secret|id|value|string|code|hash|pass|private|access|v\d)){0,2}s?\d{0,2})"
    r"(?P<joint>[\\\"'`\])]{0,4}\s{0,3}(?::=|=>|==?|!=|:|=|,)\s{0,3}[\\\"'`(]{0,4}|\s{1,2}[\"'`]?|[-_.](?=[0-9a-z]))"
    r"(?P<token>(?=[A-Za-z+/=_.~-]{0,60}\d)(?=[\d+/=_.~-]{0,60}[A-Za-z])[A-Za-z0-9][A-Za-z0-9+/=_.~-]{11,299})(?![\w@])",
    re.IGNORECASE,
)
# A password or a key as an option of a command.
_OPTION: Final = re.compile(
    r"(?<![\w-])--?(?:[a-z]{1,20}-)?"
    r"(?:password|passwd|passphrase|pwd|token|secret|(?:api|access|secret)-?key)[ =]"
    r"[\"']?(?P<value>[^\s\"'`,;<>()$%{\[-][^\s\"'`,;<>()]{5,200})",
    re.IGNORECASE,
)
# Tokens that page through a list, or tell that a form is one's own, open nothing by themselves.
_HARMLESS_BEFORE: Final = re.compile(
    r"(?:page|next|continuation|cursor|sync|csrf|xsrf|public[_-]?key)[_-]?$", re.IGNORECASE
)
# What is said of a secret, and not the secret: `secretName`, `token_expires`, `PASSWORD_HASH_TYPE`.
_ATTRIBUTES: Final = "|".join(sorted(_TABLE.words("attributes")))
_ATTRIBUTE: Final = re.compile(
    rf"[\w.-]{{0,24}}?(?:(?:(?<!\w)|[_.-])(?i:{_ATTRIBUTES})|(?:{_ATTRIBUTES.title()}))s?"
    r"(?:_?(?:at|in|on|At|In|On))?[\\\"'`\])]{0,4}\s{0,3}[:=]"
)
_IN_A_PATH: Final = re.compile(r"://[^\s?#\"'<>]{0,200}$")
_BEFORE_PATH_CHARS: Final = 200
_HARMLESS_NAME: Final = re.compile(
    r"idempoten|partition|resource.?key|sstoken|search.?token|primary|foreign|cache|public|sort|row|dedup|etag|key.?id|kid$|fingerprint|hash|digest|checksum|"
    r"(?<![a-z])sha|(?<![a-z])page|cursor|next|continuation|access.?log|tokeni|keyboard|monkey|author|csrf|nonce|key.?name|object|(?<![a-z])bucket|"
    r"image|commit|trace|span|session.?id|token.?id|access.?point|hot.?key|key.?word|keystore|redis|shard|ledger|label|vapid|server.?key|group.?key|channel.?key|"
    r"issuer|(?:form|doc|rl)key$",
    re.IGNORECASE,
)
# The public half of a key of NATS; the secret half begins with S.
_PUBLIC_NKEY: Final = re.compile(r"(?:^|\.)[ACNOUX][A-Z2-7]{55}$")
_GIVES_ACCESS: Final = re.compile(
    r"secret|token|tkn|passw|pwd|login|(?<![a-z])pat$|access|private|(?:api|auth|account|app|service|client|user|license|"
    r"integration|rest|write|admin|master)[_. -]?key|[a-z]{3,}[_.-]?key$",
    re.IGNORECASE,
)
_CHOSEN_BY_PEOPLE: Final = tuple(_TABLE.words("chosen by people"))
# The line of a test that passed.
_TEST_NAME: Final = re.compile(r"Test[A-Z]|test_")
_CAMEL_CASE: Final = re.compile(
    r"[A-Za-z][a-z]*(?:[A-Z]{1,3}[a-z]{2,20}|[A-Z]\d(?=[A-Z][a-z]{2})|[A-Z]{2,4}(?=\d)|(?<!\d)\d{1,300}(?!\d)){1,12}"
)
# What follows is assigned a value itself: "Password confirmation:", and in the next line `password1 = …`.
_ASSIGNED_TO: Final = re.compile(r"\s{0,3}\+?=(?!=)")
_CALLED: Final = re.compile(r"[A-Za-z_]\w{0,60}(?:\[\w{0,20}\])?(?:\.[A-Za-z_]\w{0,60}){0,6}")
_MEETING: Final = re.compile(r"://(?:[\w-]{1,40}\.)?zoom\.us/[^\s?]{1,60}\?(?:[^\s?]{0,40}&)?$")
_BEARER: Final = re.compile(r"(?<!\w)(?:bearer|basic)\s{1,3}([A-Za-z0-9._~+/=-]{16,4000})", re.IGNORECASE)
# The credential in a header, as programs and command lines send it.
_HEADER: Final = re.compile(
    r"(?<![\w-])(?:(?:proxy-)?authorization|(?:x-)?(?:[a-z]{1,20}-){0,2}(?:api|auth|access|private)-?"
    r"(?:token|key))['\"]?\s{0,2}:\s{0,3}['\"]?"
    r"(?:(?:basic|bearer|token|api-?token|api-?key|digest|key)\s{1,3})?([^\s'\"$<{%(\[,][^\s'\",]{9,400})",
    re.IGNORECASE,
)
_SESSION_COOKIE: Final = re.compile(
    r"(?:(?<!\w)(?:set-)?cookie['\"]?\s{0,2}[:=][^\n]{0,300}?[\s;:='\"]|(?<![\w.-])(?=(?:j|php|"
    r"asp\.net_)?sess|connect\.sid|sid=|laravel_|remember_|auth_?token))"
    r"[\w.-]{2,40}=([A-Za-z0-9%._~+/|-]{16,400})",
    re.IGNORECASE,
)
_LONG_HEX: Final = re.compile(r"[0-9a-fA-F]{24,128}(?:[.!][\w.-]{1,40})?")
# A key of 256 bits looks like a digest; the words around it tell them apart.
_HEX_OF_256_BITS: Final = re.compile(r"(?<!\w)(?:0x)?[0-9a-f]{64}(?!\w)", re.IGNORECASE)
_PRIVATE_KEY: Final = re.compile(r"priv(?:ate)?[ _-]?key|privkey", re.IGNORECASE)
_A_DIGEST: Final = re.compile(
    r"sha-?256|digest|fingerprint|checksum|hash|transaction|(?<!\w)tx|block|commit", re.IGNORECASE
)
_TOKEN: Final = re.compile(r"(?<![\w+/=.#%-])[A-Za-z0-9][A-Za-z0-9_+/-]{22,199}={0,2}(?![\w+/=-])")
_SHORT_PARTS: Final = tuple(form.part for form in SHORT_FORMS)
_CONTEXT_CHARS: Final = 60
_CONTEXT: Final = re.compile(
    r"secret|(?<!csrf)(?<!csrf[_ -])(?<!publickey)token(?!i[sz]|.?type)|password|credential|"
    r"(?:api|access|private|signing|wallet|wif|auth|deploy|user).?key|bearer",
    re.IGNORECASE,
)
_GROUP_STARTS: Final = tuple(dict.fromkeys(one.prefix for one in KEY_FORMATS if len(one.prefix) > 3))
_UNJOINED_STARTS: Final = tuple(start for start in _GROUP_STARTS if "_" not in start and "-" not in start)
_GROUPS: Final = re.compile(
    rf"(?<![\w-])(?:{'|'.join(map(re.escape, _GROUP_STARTS))})[\w-]{{0,12}}(?: [\w-]{{2,12}}){{2,40}}"
)
_LINE_END: Final = re.compile(r"[ \t]*\\?\r?\n[ \t]*")
_TWO_LINES: Final = re.compile(
    rf"(?<![\w-])(?:{'|'.join(map(re.escape, _GROUP_STARTS))})[\w+/=-]{{0,250}}[ \t]*\\?\r?\n[ \t]*[\w+/=-]{{4,250}}"  # noqa: E501  # A pattern is read as a whole.
)
# A name in a program: words in one case, joined. Issued keys have digits among their letters, or upper and
# lower case.
_IDENTIFIER: Final = re.compile(r"[a-z]+(?:[_-][a-z]+)+\d{0,4}|[A-Z]+(?:[_-][A-Z]+)+\d{0,4}|[a-z]{1,31}")
_DIGITS_OF_A_KEY: Final = 4
"""So many runs of digits are in keys, and not in names of a program."""


# Substrings, in lower case, of which a text has one before the patterns for them are tried.
_BEARER_WORDS: Final = _TABLE.words("bearer")
_HEADER_WORDS: Final = _TABLE.words("header")
_COOKIE_WORDS: Final = _TABLE.words("cookie")
_PRIVATE_WORD: Final = "priv"


def _any_of(substrings: Iterable[str]) -> str:
    """An expression that finds any of these.

    Those that begin alike share their beginning, so that few are compared at each place.
    """
    if "" in (rest := set(substrings)):
        return ""
    branches = [
        re.escape(first) + _any_of(one[1:] for one in rest if one[0] == first)
        for first in sorted({one[0] for one in rest})
    ]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


# A text with neither a long run of characters nor the start of one of these, in lower case, holds no secret.
_TELLTALE_CHARS: Final = 5
_TELLTALES: Final = frozenset(
    substring.lower()[:_TELLTALE_CHARS]
    for substrings in (
        _SHORT_PARTS,
        _NAME_WORDS,
        _GROUP_STARTS,
        _BEARER_WORDS,
        _HEADER_WORDS,
        _COOKIE_WORDS,
        CODE_WORDS,
        (_PRIVATE_WORD,),
    )
    for substring in substrings
)


# Where a telltale with a space in it ends a word.
_ENDS_OF_WORDS: Final = tuple(sorted(one.partition(" ")[0] for one in _TELLTALES if " " in one))


@cache
def _telltale() -> re.Pattern[str]:
    return re.compile(_any_of(_TELLTALES))


def _is_telling(word: str) -> bool:
    """Whether a text with this word in it may hold a secret."""
    return (
        len(word) >= _LEAST_RUN_CHARS or word.endswith(_ENDS_OF_WORDS) or _telltale().search(word) is not None
    )


_WITHOUT_SECRETS: Final = SIEVE.add_search(_is_telling)


def find_secret(reading: TextReading) -> str | None:
    """The kind of the first secret found, in a fixed order of kinds, or None."""
    if reading.plain_for & _WITHOUT_SECRETS:
        return None
    found = next(secrets_in(reading.text, reading.longest_run_chars), None)
    return None if found is None else found.kind


def secrets_in(text: str, longest_run_chars: int) -> Iterator[FoundSecret]:
    """The secrets of a text, in a fixed order of kinds."""
    if longest_run_chars < _LEAST_RUN_CHARS and _telltale().search(text.lower()) is None:
        return iter(())
    return every_secret_in(text, longest_run_chars)


def every_secret_in(text: str, longest_run_chars: int) -> Iterator[FoundSecret]:
    """``secrets_in`` for a text that may hold some."""
    if any(map(text.__contains__, _SHORT_PARTS)):
        for form in SHORT_FORMS:
            if form.part in text:
                for found in form.pattern.finditer(text):
                    if is_issued(found[1]) and not is_example(found):
                        yield FoundSecret(form.kind, found[0])
    if longest_run_chars >= _LEAST_RUN_CHARS:
        yield from _issued_in(text)
    lowered = text.lower()
    if any(map(lowered.__contains__, _NAME_WORDS)):
        for found in _GIVEN.finditer(text):
            if _is_given(found):
                yield FoundSecret("password or key next to a word for it", found["value"])
        for found in _TOKEN.finditer(text):
            if _is_random_next_to_a_word_for_it(text, found):
                yield FoundSecret("random token next to a word for a secret", found[0])
    yield from _split_keys_in(text)
    yield from _headers_in(text, lowered)
    yield from codes_in(text, lowered)
    yield from phrases_in(text, lowered)
    if any(map(lowered.__contains__, _COOKIE_WORDS)):
        for found in _SESSION_COOKIE.finditer(text):
            if is_random(found[1]) or _LONG_HEX.fullmatch(found[1]):
                yield FoundSecret("session cookie", found[1])
    if _PRIVATE_WORD in lowered:
        for found in _HEX_OF_256_BITS.finditer(text):
            if _is_private_key(text, found):
                yield FoundSecret("private key", found[0])
    if any(map(lowered.__contains__, _NAME_WORDS)):
        for found in _OPTION.finditer(text):
            if _is_given_as_option(found["value"]):
                yield FoundSecret("password or key on a command line", found["value"])
        yield from framed_secrets_in(text, lowered)
        for found in _NAMED_TOKEN.finditer(text):
            if _is_named_token(found):
                yield FoundSecret("token after the name of a key", found["token"])
    # The least specific kind comes last.
    if longest_run_chars >= _LEAST_RUN_CHARS:
        yield from service_keys_in(text)


def _headers_in(text: str, lowered: str) -> Iterator[FoundSecret]:
    """The credentials of headers."""
    if any(map(lowered.__contains__, _BEARER_WORDS)):
        for found in _BEARER.finditer(text):
            if is_random(found[1]):
                yield FoundSecret("authorization header", found[1])
    if any(map(lowered.__contains__, _HEADER_WORDS)):
        for found in _HEADER.finditer(text):
            if _is_credential(found[1]):
                yield FoundSecret("authorization header", found[1])


def _is_private_key(text: str, found: re.Match[str]) -> bool:
    around = text[max(0, found.start() - _CONTEXT_CHARS) : found.end() + _CONTEXT_CHARS].replace(
        found[0], " "
    )
    return _PRIVATE_KEY.search(around) is not None and _A_DIGEST.search(around) is None


def _issued_in(text: str) -> Iterator[FoundSecret]:
    runs = " ".join(run for run in text.split() if len(run) >= _LEAST_RUN_CHARS)
    for form in ISSUED_FORMS:
        if form.part in runs:
            for found in form.pattern.finditer(runs):
                is_cut = form.part == _JWT_BEGINS and _is_start_of_a_token(found)
                if is_issued(found[1]) and not _IDENTIFIER.fullmatch(found[1]) and not is_cut:
                    yield FoundSecret(form.kind, found[0])
    for found in _GENERIC_FORM.finditer(runs):
        if found[1] in HARMLESS_PREFIXES or is_name(found[0]) or not _has_the_form_of_a_key(found):
            continue
        if found[1] in KEY_PREFIXES or not is_called_an_id(text, found[0]):
            yield FoundSecret(GENERIC_KIND, found[0])
    for found in _PREFIXED_ID.finditer(runs):
        if found[1] in KEY_PREFIXES and is_issued(found[2]):
            yield FoundSecret(GENERIC_KIND, found[0])


def _has_the_form_of_a_key(found: re.Match[str]) -> bool:
    """Whether the part after the prefix is random: in both cases, or long and in one, as few names are.

    A digest or an id counts after a prefix for keys, such as ``api-``, or in the length of a key after ``_``.
    """
    prefix, body = found[1], found[2]
    if not mixes_digits_in(body) or not is_issued(body) or DATED.search(found[0]):
        return False
    if HASH_OR_ID.fullmatch(body):
        return prefix in KEY_PREFIXES or (
            len(body) >= 40 and found[0][found.start(2) - found.start() - 1] == "_"
        )
    if is_random(body):
        return True
    return (
        body.isalnum() and len(body) >= 30 and len(DIGIT_RUNS.findall(body)) >= 5 and bits(body) >= LEAST_BITS
    )


def _split_keys_in(text: str) -> Iterator[FoundSecret]:
    """Keys whose characters stand in groups with spaces between them."""
    is_joined = "_" in text or "-" in text
    if not any(map(text.__contains__, _GROUP_STARTS if is_joined else _UNJOINED_STARTS)):
        return
    for found in _GROUPS.finditer(text):
        groups = found[0].split(" ")
        forms = [form for form in ISSUED_FORMS if groups[0].startswith(form.part)]
        for count in range(len(groups), 2, -1):
            joined = "".join(groups[:count])
            for form in forms:
                key = form.pattern.fullmatch(joined)
                if key is not None and is_issued(key[1]) and len(DIGIT_RUNS.findall(key[1])) >= 2:
                    yield FoundSecret(form.kind, " ".join(groups[:count]))
    if "\n" in text:
        yield from _broken_keys_in(text)


def _broken_keys_in(text: str) -> Iterator[FoundSecret]:
    """Keys that go on in the next line."""
    for found in _TWO_LINES.finditer(text):
        first, rest = _LINE_END.split(found[0], maxsplit=1)
        for form in ISSUED_FORMS:
            if first.startswith(form.part):
                key = form.pattern.match(first + rest)
                is_broken = key is not None and key.end() > len(first)
                if key is not None and is_broken and is_issued(key[1]) and DIGIT_RUNS.search(rest):
                    yield FoundSecret(form.kind, found[0])
                    break


def _is_credential(value: str) -> bool:
    """Whether the value of a header is one that somebody was given: letters and digits, and no name of a
    thing.
    """
    has_both = any(map(str.isalpha, value)) and any(map(str.isdigit, value))
    return (
        has_both
        and is_issued(value)
        and NO_VALUE.match(value.lstrip("`")) is None
        and not is_name(value)
        and len(set(value)) >= LEAST_VARIETY
    )


def _is_given(found: re.Match[str]) -> bool:
    """Whether a value follows the word, and not just the rest of the sentence."""
    value = found["value"].partition("&")[0].rstrip(".!?:]}\\")
    if (
        is_placeholder(found["value"])
        or is_placeholder(value)
        or _is_in_brackets(found)
        or _is_template(found)
        or _ATTRIBUTE.match(found["joint"])
        or (found["word"] == "PASS" and _TEST_NAME.match(value))
        or NO_VALUE.match(value)
        or VARIABLE.fullmatch(value)
        or _is_called(found)
        or _ASSIGNED_TO.match(found.string, found.end("value"))
        or _is_meeting_link(found)
        or _HARMLESS_BEFORE.search(found.string, max(0, found.start() - 16), found.start())
    ):
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
        is_key = len(value) >= 12 and has_letter and has_digit and (len(value) >= 20 or is_issued(value))
        return is_key and CODE_NAME.fullmatch(value) is None and not is_name(value)
    return len(value) >= 12 and (
        is_random(value) or (len(value) >= 24 and HASH_OR_ID.fullmatch(value) is not None)
    )


def _is_named_token(found: re.Match[str]) -> bool:
    """Whether a token after a name such as ``sonar.login`` or ``ado_pat`` is one that a service issued."""
    token, name = found["token"].rstrip(".=-_"), found["name"].lower()
    if _HARMLESS_NAME.search(name) or not is_issued(token) or VARIABLE.fullmatch(token):
        return False
    if NO_VALUE.match(token) or DATED.search(token) or _is_called(found) or _is_meeting_link(found):
        return False
    if is_name(token) or is_placeholder(found["token"]) or _is_template(found):
        return False
    if (found["joint"] == "_" and name.endswith("login")) or _PUBLIC_NKEY.search(token):
        return False
    # The address of a page is made of words: `…/wi-fi-password-hitron-coda4582-cgn3amr`.
    if found["joint"] in ("-", ".") and ("-" in token or "/" in token):
        return False
    digits = len(DIGIT_RUNS.findall(token))
    if CODE_NAME.fullmatch(token) and digits < _DIGITS_OF_A_KEY:
        return False
    is_assigned = any(char in found["joint"] for char in ":=")
    gives_access = _GIVES_ACCESS.search(name) is not None
    if HASH_OR_ID.fullmatch(token):
        # A digest or an id, unless its name says that it gives access.
        return gives_access and len(token) >= (16 if is_assigned else 32)
    is_unbroken = token.isalnum()
    if not gives_access and "/" in token and _is_short_in_parts(token):
        return False
    if is_assigned:
        if digits < 2:
            # Few digits, but both cases without the rhythm of a name.
            return (
                len(token) >= 20
                and is_random(token)
                and bits(token) >= 4
                and not _CAMEL_CASE.fullmatch(token)
            )
        return len(token) >= (12 if gives_access and is_unbroken else 16) and bits(token) >= 3.0
    is_spread = digits >= 3 or (digits >= 2 and gives_access and is_unbroken)
    return len(token) >= 20 and is_spread and bits(token) >= LEAST_BITS


def _is_given_as_option(value: str) -> bool:
    """Whether the value of an option is a password or a key, and not a word for one."""
    if is_placeholder(value):
        return False
    value = value.rstrip(".!?:]}")
    if is_placeholder(value) or is_name(value) or NO_VALUE.match(value) or VARIABLE.fullmatch(value):
        return False
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return len(value) >= 6 and has_letter and has_digit


def _is_in_brackets(found: re.Match[str]) -> bool:
    """Whether the value stands in ``<…>``, as the name of what is to be filled in does."""
    return found.string.startswith(">", found.end("value")) and found.string.startswith(
        "<", found.start("value") - 1
    )


def _is_template(found: re.Match[str]) -> bool:
    """Whether the name is that of a value which a template fills in: ``${{ secrets.DEPLOY_KEY }}``."""
    return found.string[max(0, found.start() - 3) : found.start()].rstrip().endswith(("{{", "${"))


def _is_called(found: re.Match[str]) -> bool:
    """Whether the value is the name of a function that a program calls: ``credentials = boto3.Session()``."""
    group = "value" if "value" in found.re.groupindex else "token"
    return found.string.startswith("(", found.end(group)) and _CALLED.fullmatch(found[group]) is not None


def _is_meeting_link(found: re.Match[str]) -> bool:
    """Whether it is the passcode inside a link to a meeting, which is how such links are handed out."""
    start = found.start()
    name = found["word"] if "word" in found.re.groupindex else found["name"]
    return name.lower() == "pwd" and _MEETING.search(found.string, max(0, start - 120), start) is not None


def _is_random_next_to_a_word_for_it(text: str, found: re.Match[str]) -> bool:
    token = found[0]
    if (
        HASH_OR_ID.fullmatch(token)
        or NO_VALUE.match(token)
        or DATED.search(token)
        or not is_random(token)
        or is_name(token)
        or _is_start_of_a_token(found)
        or _is_joined(token)
        or _CAMEL_CASE.fullmatch(token)
    ):
        return False
    start = found.start()
    if _IN_A_PATH.search(text, max(0, start - _BEFORE_PATH_CHARS), start) or is_called_an_id(text, token):
        return False
    return _CONTEXT.search(text, max(0, start - _CONTEXT_CHARS), start) is not None


def _is_start_of_a_token(found: re.Match[str]) -> bool:
    """Whether it is a JSON web token of which the rest, with the signature, was left out."""
    rest = found.string[found.end() - (found[0][-1] == ".") :]
    return (
        found[0].startswith(_JWT_BEGINS)
        and rest.startswith(("...", "…"))
        and found[0].rstrip(".").count(".") < _DOTS_IN_A_TOKEN
    )


def _is_joined(token: str) -> bool:
    """Whether a token is made of short words, as names of models and files are: ``all-MiniLM-L6-v2``."""
    # In the name of a model with its owner's, sizes and versions stand between words.
    has_owner = "/" in token and token.count("-") >= 2
    return _is_short_in_parts(token) and (not mixes_digits_in(token) or has_owner)


def _is_short_in_parts(token: str) -> bool:
    parts = (part for part in re.split(r"[-_/]", token) if not WORDS_IN_CASE.fullmatch(part))
    return max(map(len, parts), default=0) < _LEAST_PART_CHARS


_JWT_BEGINS: Final = "eyJ"
_DOTS_IN_A_TOKEN: Final = 2
_LEAST_PART_CHARS: Final = 13
_RANDOM_TAG: Final = re.compile(r"(?=(?:[^\d]*\d){3})[a-z0-9][a-z0-9+/=_.-]{19,199}")
_LEAST_TAG_BITS: Final = 3.4


def is_secret_tag(tag: str) -> bool:
    """Whether a tag looks like an issued key. Tags are in lower case, so that forms of keys do not fit
    them.
    """
    return any(map(_is_random_in_lower_case, tag.split()))


def _is_random_in_lower_case(word: str) -> bool:
    if _RANDOM_TAG.fullmatch(word) is None or HASH_OR_ID.fullmatch(word) or not is_issued(word):
        return False
    return mixes_digits_in(word) and not DATED.search(word) and bits(word) >= _LEAST_TAG_BITS
