"""Secrets: every form of an issued key, the numbers of persons with their checksums, and what only looks like
one.
"""

import base64
import random
import string
import uuid
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from standfast.govern.judge import secrets
from standfast.govern.judge.claim import NOTHING_KNOWN
from standfast.govern.judge.key_formats import ISSUED_FORMS, KEY_FORMATS, SHORT_FORMS, KeyFormat
from standfast.govern.judge.secrecy import SecrecyFloor, is_luhn, national_ids_in, redacted
from standfast.govern.judge.secrets import find_secret
from standfast.govern.judge.text_reading import TextReading
from standfast.records.vocabulary import Record
from tests.govern.corpus import cases, claim

DICE = random.Random(20260101)


def _drawn(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(DICE.choice(alphabet) for _ in range(length))


def _kind(text: str) -> str:
    return SecrecyFloor().check(claim(text), NOTHING_KNOWN).reason


HEX = "0123456789abcdef"
# Made here, so that no scanner finds one in the repository; lengths as the services document them.
KEYS = {
    "AKIA": lambda: _drawn(16, string.ascii_uppercase),
    "ghp_": lambda: _drawn(36),
    "glpat-": lambda: _drawn(20),
    "xoxb-": lambda: f"{_drawn(12, string.digits)}-{_drawn(24)}",
    "sk_live_": lambda: _drawn(24),
    "sk-ant-api03-": lambda: _drawn(90),
    "sk-proj-": lambda: _drawn(48),
    "hf_": lambda: _drawn(34, string.ascii_letters),
    "gsk_": lambda: _drawn(52),
    "npm_": lambda: _drawn(36),
    "dckr_pat_": lambda: _drawn(27),
    "SG.": lambda: f"{_drawn(22)}.{_drawn(43)}",
    "key-": lambda: _drawn(32, HEX),
    "shpat_": lambda: _drawn(32, HEX),
    "dop_v1_": lambda: _drawn(64, HEX),
    "lin_api_": lambda: _drawn(40),
    "NRAK-": lambda: _drawn(27, string.ascii_uppercase + string.digits),
    "sbp_": lambda: _drawn(40, HEX),
    "tskey-auth-": lambda: f"{_drawn(12)}-{_drawn(30)}",
    "hvs.": lambda: _drawn(24),
    "dp.st.dev.": lambda: _drawn(43),
    "sgp_": lambda: f"{_drawn(16, HEX)}_{_drawn(40, HEX)}",
    "bkua_": lambda: _drawn(40, string.ascii_lowercase + string.digits),
    "1/1208440223456784:": lambda: _drawn(32, HEX),
}


@pytest.mark.parametrize("prefix", KEYS)
def test_an_issued_key_is_found_and_its_placeholder_is_not(prefix: str) -> None:
    body = KEYS[prefix]()

    assert _kind(f"The job logs in with {prefix}{body}, as agreed.").startswith("contains a secret (")
    assert body not in _kind(f"The job logs in with {prefix}{body}, as agreed.")
    assert _kind(f"The job logs in with {prefix}{'x' * len(body)}, as agreed.") == ""
    assert _kind(f"Such a key starts with {prefix} and is long.") == ""


WORDS = "abandon ability absorb abuse access acid acoustic acquire action actor adapt adult"
SENTENCES = (
    ("The database has the password: {} now.", "Winter" + "2025x", "password or key next to a word for it"),
    (
        "The database has the password: {}(an old one).",
        "Tulpe-" + "7x!9",
        "password or key next to a word for it",
    ),
    ("The guest network password is {}.", "Sommer" + "wiese", "network password"),
    ("curl sends bearer {} each time.", _drawn(32), "authorization header"),
    ("It sends Proxy-Authorization: {} each time.", _drawn(24), "authorization header"),
    ("Her passcode is {}.", "4" + "821", "PIN or card code"),
    ("The PIN of her card is {}.", "4" + "8217", "PIN or card code"),
    ("The alarm code downstairs is {}.", "4" + "82#7", "code that opens a door"),
    ("Keep them: recovery codes: {}.", "a1b2c-3d4e5 f6a7b-8c9d0", "recovery codes"),
    ("Login for the shop: ada / {}", "Tulpen" + "feld7!", "login with its password"),
    ("The authenticator's seed {} is new.", "JBSWY3DP" + "EHPK3PXP", "seed of one-time passwords"),
    ("My seed phrase: {}", WORDS, "wallet recovery phrase"),
    ("Her wallet: {}", WORDS, "wallet recovery phrase"),
    ("It sends Cookie: sid={} then.", _drawn(32, HEX), "session cookie"),
    ("The wallet's private key {} is old.", _drawn(64, HEX), "private key"),
    ("It answers to acme_live_{} now.", "aB3dE5fG7hJ9kL1mN3pQ5rS7", "token in the form of an issued key"),
)


@pytest.mark.parametrize(("sentence", "secret", "kind"), SENTENCES, ids=[kind for *_, kind in SENTENCES])
def test_what_is_told_of_a_secret_is_its_kind_and_nothing_of_itself(
    sentence: str, secret: str, kind: str
) -> None:
    text = sentence.format(secret)
    told, left = _kind(text), redacted(Record(memory_id="m", text=text)).text

    assert told == f"contains a secret ({kind}). Remove it"
    assert f"[redacted: {kind}]" in left
    assert not any(word in left for word in secret.split())


def test_every_known_form_begins_with_its_prefix() -> None:
    """A form whose substring is no part of what it matches would never be tried."""
    assert [
        form.kind
        for form in (*ISSUED_FORMS, *SHORT_FORMS)
        if not form.part or not form.kind or not form.pattern.groups
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "acme_live_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7",
        "new-svc-" + "Zk4Xw81QmP0tR7vB2nC6yL9d3F",
    ],
)
def test_a_key_of_a_service_that_nobody_has_heard_of_is_found_by_its_shape(text: str) -> None:
    assert (
        _kind(f"It answers to {text} since May.")
        == "contains a secret (token in the form of an issued key). Remove it"
    )


@pytest.mark.parametrize(
    "text",
    [
        "test_user_cannot_delete_a_locked_record_twice",
        "my_VeryLongCamelCaseIdentifierNameFactory2",
        "sha512-XI5MPzVNApjAyhQzphX8BkmKsKUxD4LdyK24iZeQ",
        "release-2026-01-15-rc1-build-4711-linux-amd64",
        "https://example.com/docs/get-started_with-the_new-api-v2/index.html",
        "arn:aws:s3:::reports-2026/year=2026/month=01/day=15",
    ],
)
def test_a_long_name_is_no_key(text: str) -> None:
    assert _kind(f"It is called {text} in the logs.") == ""


@pytest.mark.parametrize(
    "text",
    [
        "The router's ｐａｓｓｗｏｒｄ： Winter2025!",
        "The router's pаsswоrd: Winter2025!",
        "The router's pass\u00adword: Winter2025!",
        "The card is ４５３９ 1488 0343 6467.",
        "The key is ＡＫＩＡ" + "QWERTZUIOPASDFGH",
        "The key is АКІА" + "QWERTZUIOPASDFGH",
    ],
)
def test_a_secret_in_other_letters_is_one(text: str) -> None:
    assert _kind(text).startswith(("contains a secret (", "contains personal data ("))


def _number(text: str) -> str | None:
    return next((kind for kind, _ in national_ids_in(TextReading(text))), None)


def _cpf(body: str) -> str:
    for start in (10, 11):
        total = sum(int(digit) * (start - place) for place, digit in enumerate(body))
        body += str(total * 10 % 11 % 10)
    return f"{body[:3]}.{body[3:6]}.{body[6:9]}-{body[9:]}"


def _dni(number: int) -> str:
    return f"{number:08}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"


def _first(make: Callable[[int], str]) -> str:
    """The first of ten candidates, one for each last digit, that is accepted: exactly one keeps the law."""
    found = [text for digit in range(10) if _number(text := make(digit)) is not None]
    assert len(found) == 1
    return found[0]


def test_national_ids_are_recognised_by_their_checksums() -> None:
    assert _number(f"CPF {_cpf('418360295')}") == "Brazilian taxpayer number"
    assert _number(f"su DNI es {_dni(48219376)}") == "Spanish identity number"
    assert _number("Codice fiscale RSSMRA85T10A562S") == "Italian tax code"
    assert _first(lambda digit: f"Aadhaar 5839 2047 162{digit}")
    assert _first(lambda digit: f"PESEL 8504101234{digit}")
    assert _first(lambda digit: f"personnummer 850410-123{digit}")
    assert _first(lambda digit: f"social insurance number 046 454 28{digit}")


# A published example of each form, with the last digit or letter that makes it wrong (empty where nothing is
# checked).
PUBLISHED_IDS = (
    ("360426199101010071", "2", "Chinese identity number"),
    ("BOXW310820HNERXN09", "8", "Mexican identity number"),
    ("2 95 10 99 126 111 93", "4", "French social security number"),
    ("7569217076985", "6", "Swiss social security number"),
    ("131052-308T", "U", "Finnish identity number"),
    ("3-1006-00445-63-5", "6", "Thai identity number"),
    ("NIE X-2482300W", "R", "Spanish identity number"),
    ("BSN 111222333", "4", "Dutch citizen number"),
    ("Steuer-ID 36 574 261 809", "8", "German tax number"),
    ("SVNR 1237 010180", "", "Austrian social insurance number"),
    ("Rijksregisternummer 85.07.30-033.28", "9", "Belgian national number"),
    ("EGN 8032056031", "2", "Bulgarian identity number"),
    ("OIB 33392005961", "2", "Croatian identity number"),
    ("rodné číslo 710319/2745", "6", "Czech or Slovak birth number"),
    ("CPR 211062-5629", "", "Danish identity number"),
    ("isikukood 36805280109", "8", "Estonian identity number"),
    ("asmens kodas 33309240064", "5", "Lithuanian identity number"),
    ("AMKA 01013099997", "8", "Greek social security number"),
    ("PPS 6433435F", "G", "Irish personal number"),
    ("fødselsnummer 151086 95088", "9", "Norwegian identity number"),
    ("NIF 123 456 789", "8", "Portuguese tax number"),
    ("CNP 1630615123457", "8", "Romanian identity number"),
    ("EMŠO 0101006500006", "7", "Slovenian identity number"),
    ("kimlik 17291716060", "1", "Turkish identity number"),
    ("NHS 943-476-5870", "1", "British health service number"),
    ("CUIT 20-05536168-2", "3", "Argentinian tax number"),
    ("RUT 76086428-5", "6", "Chilean identity number"),
    ("cédula 171430710-3", "4", "Ecuadorian identity number"),
    ("teudat zehut 03933742-3", "4", "Israeli identity number"),
    ("TFN 123 456 782", "3", "Australian tax number"),
    ("IRD 49-091-850", "1", "New Zealand tax number"),
    ("NRIC 770305-02-1234", "", "Malaysian identity number"),
    ("identity number 7503305044089", "8", "South African identity number"),
)


@pytest.mark.parametrize(("text", "wrong", "kind"), PUBLISHED_IDS)
def test_a_published_example_of_each_form_is_found_and_one_with_a_wrong_end_is_not(
    text: str, wrong: str, kind: str
) -> None:
    assert _number(text) == kind
    assert not wrong or _number(text[:-1] + wrong) != kind


@pytest.mark.parametrize(
    "text",
    [
        "CPF 418.360.295-00",
        "su DNI es 48219376A",
        "RSSMRA85T10A562T is a part number",
        "Order 583920471628 left on Monday.",
        "Batch 850410-1234 is on hold.",
        "Passport control opens at 6.",
        "The pan holds 3 litres, article ABCPD1234F excluded.".replace("pan", "pot"),
    ],
)
def test_a_number_with_a_wrong_checksum_or_without_a_word_for_it_is_none(text: str) -> None:
    assert _number(text) is None


def test_luhn_catches_every_single_wrong_digit() -> None:
    digits = "4539148803436467"
    others = [
        digits[:place] + str(other) + digits[place + 1 :]
        for place in range(len(digits))
        for other in range(10)
        if str(other) != digits[place]
    ]

    assert is_luhn(digits)
    assert not any(map(is_luhn, others))


ALPHABET_OF = {
    "a": string.ascii_letters + string.digits,
    "h": HEX,
    "H": HEX,
    "w": string.ascii_letters + string.digits,
    "u": string.ascii_uppercase + "234567",
    "l": string.ascii_lowercase + string.digits,
    "b": string.ascii_letters + string.digits,
    "L": string.ascii_letters,
}


def test_there_are_at_least_two_hundred_key_formats() -> None:
    assert len({form.prefix for form in KEY_FORMATS}) == len(KEY_FORMATS) >= 200


@pytest.mark.parametrize("form", KEY_FORMATS, ids=lambda form: form.prefix)
def test_a_key_of_each_documented_format_is_found(form: KeyFormat) -> None:
    body = "".join(random.Random(form.prefix).choices(ALPHABET_OF[form.characters], k=form.least))

    assert _kind(f"The job logs in with {form.prefix}{body}, as agreed.").startswith("contains a secret (")
    assert _kind(f"The job logs in with {form.prefix}{'x' * form.least}, as agreed.") == ""


DISCORD_TOKEN = "MTE5NDc2NzM2NDk4MzEyMzQ1Ng." + "GkR2xQ.b7Yc0dUZ4nT1sV9wLq3eXh8mKpRj2fAo5iHg6u"
IBAN_OF_ALBANIA = "AL35" + "2021110900000000" + "01234567"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("She paid with 4539 5787 6362 1486 yesterday.", "payment card number"),
        ("His NI number is QQ 12 34 56 C.".replace("QQ", "AB"), "national insurance number"),
        (f"The supplier's account is {IBAN_OF_ALBANIA}.", "bank account number"),
        (
            "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\n" + "AAAAIHk2",
            "private key block",
        ),
        (f"The bot runs with {DISCORD_TOKEN}.", "Discord token"),
        ("machine api.example.org login deploy password correcthorse", "password in a .netrc file"),
        ('{"user": "deploy", "pass": "Tr0ub4dor&3x"}', "password or key next to a word for it"),
        ("Use " + "AKIA" + " Q3EG R7ZP 2MX5 TN4B for uploads.", "AWS access key id"),
        ("The wifi password is sunflower.", "network password"),
        ("Our Wi-Fi password: bluebirdlane", "network password"),
    ],
)
def test_what_used_to_pass_is_found(text: str, kind: str) -> None:
    assert f"({kind})" in _kind(text)


@pytest.mark.parametrize(
    "text",
    [
        "The wifi password is required.",
        "The wifi password is printed on the router.",
        "The router password is wrong.",
        "Order id 4539 5787 6362 1486 was shipped.",
        "re_compile_all_patterns_of_the_project is slow.",
        "The function sk_live_mode_is_enabled_for_tests returns a bool.",
        "The departmental id is 7.",
        'fields(label2=_("Password confirmation")):\n    password1 = forms.CharField(',
        "rules = ['password' => 'required|min:8|confirmed']",
        "'password' => static::$password ??= Hash::make('password'),",
        "[the-secret-number]: ch02-00-guessing-game.html#the-secret-number",
        "  username: ada\n  password: !secret oven_pass4",
        "It looks like `mysql2://signon-user2:a-secret-password@host/signon`.",
        "The default PIN of these radios is 1234.",
        "See https://drive.example/view?usp=sharing&resourcekey=0-9P0D8xh9vdnsxBiRU4YO7w",
        "Book [here](https://calendar.example/selfsched?sstoken=UUYtMlFDQlRoTG10fGRlZmF1bHR8NWY2YTg2).",
        "Write `id_ed25519_sk` without a password: Private Key (pointer): `id_ed25519_sk`",
        "General key info..: pub  ed25519/A3F1E9C0B827D54E 2025-09-23",
        "The password rules are `validate: ['password' => 'min:8']`.",
        "See https://site.example/wi-fi-password-hitron-coda4582-cgn3amr-cgnm3552-cgn3acr",
        "More: [templates](http://m.onkey.org/2008/12/4/rails-templates4)",
        "See https://images.example/?uselang=en&searchToken=5902rmnmjz5fivko9172xs74c",
        "The seed of this MFA thread: https://mail.example/thread/VNSD4TSAM2BM64FJNIQPAOPNEGNX4MDX/",
        "Un commit sin nombre: 69bcdaff commit 214 152 167\n",
        "See https://play.example/?strict=true&code=" + "GYJw9gtgBAhgRgYygSwgBzCALrOBnLEGBLCAUywA" * 5,
        "The token counts are in `PASSWORD_HASHERS = [CountingMD5PasswordHasher]`.",
    ],
)
def test_what_is_ordinary_is_no_secret(text: str) -> None:
    assert _kind(text) == ""


@pytest.mark.parametrize(
    ("text", "is_secret"),
    [
        ("curl -u 'api:m4Rk!t92pQx' https://localhost:9200", True),
        ("curl -s --user ada:'Tz5wL0qH8sVb2' -X PATCH https://localhost", True),
        ("curl -H 'Authorization: Token 9f31c07ab2d84e6650bb17fd93a2c48e11d0c7b5' https://localhost", True),
        ("curl --header 'Authorization: 0d7be4c1-93fa-4c6e-8a15-6b2f90c4d7e3' https://localhost", True),
        ("curl -u 'm4Rk7t92pQxZw:' https://localhost:9200", True),
        ("curl -u 'ada.lovelace:' https://localhost:9200", False),
        ("The token was eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI4MzkyMDE3NDY1IiwibmFtZSI6IkFkYSJ9 then.", True),
        ("curl -u user:password https://localhost", False),
        ("curl -H 'Authorization: Bearer $TOKEN' https://localhost", False),
        ("Send the header Authorization: Bearer <your token>.", False),
        ("next_token=self.sesv2_backend.list_mail_pools_of_2", False),
        ('{"secret": rotate_the_key_after_24_hours}', False),
        ("The workspace is wrkspc_07Yq4TnXw2RbL9sKd3Fv8Hc1.", False),
        ("The call has the id toolu_05Hs8KpWz3Vn6Qb1Xr9Lt2Cd.", False),
    ],
)
def test_credentials_on_command_lines_and_in_headers(text: str, is_secret: bool) -> None:
    found = find_secret(TextReading(text))

    assert (found is not None) == is_secret, found


@given(
    st.lists(
        st.sampled_from(secrets._GROUP_STARTS) | st.text("aB3 _-.", max_size=14) | st.text(max_size=3),
        max_size=8,
    ),
    st.sampled_from(["", " "]),
)
def test_no_key_in_groups_is_passed_over_by_the_search_for_how_keys_begin(
    parts: list[str], joint: str
) -> None:
    text = joint.join(parts)
    is_joined = "_" in text or "-" in text
    starts = secrets._GROUP_STARTS if is_joined else secrets._UNJOINED_STARTS

    assert any(start in text for start in starts) or secrets._GROUPS.search(text) is None


# Words around which secrets stand, the words themselves cut and in any case, and short values.
_FRAGMENTS = st.sampled_from(
    sorted(
        {word for case in cases() for word in case.claim.record.text.split()}
        | {
            "Wi-Fi password is sunny-day-7",
            "PIN: 4711",
            "alarm code is 84736",
            "mysql -p hunter-9!",
            "7z a x -p geheim-1",
        }
        | {
            "seed phrase: " + "apple river stone cloud " * 3,
            "curl -u ada:Geheim9!",
            "cred ada/Winter2024!",
            "密码：abc12345",
        }
        | {one.prefix for one in KEY_FORMATS}
    )
)


@given(
    st.lists(_FRAGMENTS | _FRAGMENTS.map(str.upper) | st.text(max_size=6), max_size=8),
    st.sampled_from([" ", "\n", ""]),
)
@example(["wifi password is blumen."], " ")
def test_the_quick_look_never_passes_over_a_secret(parts: list[str], joint: str) -> None:
    reading = TextReading(joint.join(parts))
    text, longest = reading.text, reading.longest_run_chars

    every = list(secrets.every_secret_in(text, longest))
    assert list(secrets.secrets_in(text, longest)) == every
    assert find_secret(reading) == (every[0].kind if every else None)


@pytest.mark.parametrize(
    ("name", "token"), [("ado_pat", "q7Wz3kT9-bN4xR2v"), ("sonar.login", "3f9a1c7e5b2d8046")]
)
def test_a_token_after_a_name_is_a_secret_from_16_characters_on(name: str, token: str) -> None:
    """One with a break in it, and one that looks like a digest but stands behind a name that gives access."""
    assert "token after the name of a key" in _kind(f"The setting is {name}: {token} on the server.")
    assert _kind(f"The setting is {name}: {token[:-1]} on the server.") == ""


@pytest.mark.parametrize("name", ["public", "cache", "primary", "commit", "idempotency"])
def test_a_name_that_is_no_secret_makes_none_of_its_token(name: str) -> None:
    token = "a1B2c3D4e5F6g7H8i9J0"

    assert _kind(f"{name}_key = {token}") == ""
    assert "token after the name of a key" in _kind(f"build_key = {token}")


@pytest.mark.parametrize(
    "text",
    [
        "My password manager is 1Password.",
        "Password policy: min8chars",
        "page_token = q7Wz3kT9bN4xR2v8",
        "next-token: q7Wz3kT9bN4xR2v8",
    ],
)
def test_what_manages_passwords_or_pages_through_a_list_is_no_secret(text: str) -> None:
    assert _kind(text) == ""
    assert _kind("The password of the manager is q7Wz3kT9.") != ""
    assert _kind("access_token = q7Wz3kT9bN4xR2v8") != ""


def test_a_token_of_few_different_characters_is_none() -> None:
    """Eight characters, each twice, have three bits each; seven have less."""
    assert "token after the name of a key" in _kind("build_key = w1x2y3z4w1x2y3z4")
    assert _kind("build_key = w1x2y3z3w1x2y3z3") == ""


LOWER = string.ascii_lowercase + string.digits
FRAMES = {
    "secret in an element": "<entry><id>jenkins</id><secret>{{ci AQAA {token}}}</secret></entry>",
    "secret in a list of settings": '{{"name": "MAIL_TOKEN", "value": "{token}"}}',
    "token after the name of a service": "asana {token}",
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_token_is_a_secret_by_the_frame_that_it_stands_in(kind: str) -> None:
    token = f"q7{_drawn(8, LOWER)}z3{_drawn(8, LOWER)}k5{_drawn(10, LOWER)}w1"

    assert kind in _kind(FRAMES[kind].format(token=token))
    assert _kind(FRAMES[kind].format(token="changeme")) == ""


@pytest.mark.parametrize(
    "text",
    [
        "The museum {token}",
        "museum = {token}",
        "See asana.example/{token}",
        "<title>{token}</title>",
        '{{"name": "colour", "value": "{token}"}}',
    ],
)
def test_the_same_token_elsewhere_is_an_id(text: str) -> None:
    token = f"q7{_drawn(8, LOWER)}z3{_drawn(8, LOWER)}k5{_drawn(10, LOWER)}w1"

    assert _kind(text.format(token=token)) == ""


def test_a_password_in_an_element_is_found_and_a_word_for_one_is_not() -> None:
    assert "element" in _kind("<user>ada</user><password>Kestrel#92</password>")
    assert _kind("<user>ada</user><password>required</password>") == ""


def test_a_login_in_base64_is_found_by_what_it_says() -> None:
    login = base64.b64encode(b"ada:Kestrel92").decode()

    assert "login in base64" in _kind(f'{{"auths": {{"hub": {{"auth": "{login}"}}}}}}')
    assert "login in base64" in _kind(rf"{{\"auths\": {{\"hub\": {{\"auth\": \"{login}\"}}}}}}")
    assert _kind("The basic bGV0dGVycw== of it") == ""


def test_escaped_quotes_hide_no_password() -> None:
    assert "password" in _kind(r"config: \"password\": \"Kestrel#92x\"")


@pytest.mark.parametrize("prefix", ["api-", "sdk-", "secret_"])
def test_an_id_after_a_prefix_for_keys_is_a_key(prefix: str) -> None:
    drawn = str(uuid.UUID(int=DICE.getrandbits(128)))

    assert "issued key" in _kind(f"{prefix}{drawn}")
    assert _kind(f"pod-{drawn}") == ""


@pytest.mark.parametrize(
    "text",
    [
        "--- PASS: TestBasicL4ExplicitDestinations (0.3 s)",
        "Set a password:\n\n![User-Password](/images/password-dialog-2.png)",
        "Pass the key: mem0 init --api-key m0-xxx --user-id ada",
        "tcp://db?keystore-pass=keystore_password&ssl_cipher_list=TLS_RSA_128",
        "AutoTokenizer.from_pretrained('sentence-transformers/all-MiniLM-L6-v2')",
        "The run of 162856960 bytes is over.",
        "Use `POSTGRES_PASSWORD=postgres`.",
        "The default model of Anthropic: claude-sonnet-4-5-20250929",
        "Copy the id of the workflow: wf_692a5c1d925c819088c2dbb31abf43350fb1b072990ae648",
        "from secrets import PydanticDeprecatedSince20",
    ],
)
def test_what_documentation_prints_is_no_secret(text: str) -> None:
    assert _kind(text) == ""


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("Şifre", "en az sekiz karakter olmalı"),
        ("heslo", "je povinné pole"),
        ("Salasana", "vähintään kahdeksan merkkiä"),
        ("Mật khẩu", "bắt buộc nhập"),
        ("Κωδικός πρόσβασης", "τουλάχιστον οκτώ χαρακτήρες"),
        ("סיסמה", "לפחות שמונה תווים"),
        ("كلمة المرور", "مطلوبة على الأقل"),
        ("पासवर्ड", "कम से कम आठ अक्षर"),
        ("Adgangskode", "mindst otte tegn"),
        ("Jelszó", "legalább nyolc karakter"),
        ("Lozinka", "najmanje osam znakova"),
    ],
)
def test_a_password_is_found_next_to_the_word_for_it_in_other_languages(word: str, rule: str) -> None:
    assert _kind(f"{word}: Zq7Wm2Xv9Lr4Tn8K")
    assert not _kind(f"{word}: {rule}.")


def _random_token(seed: str, alphabet: str) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=60))


TOKENS = {
    "mixed": _random_token("mixed", string.ascii_letters + string.digits),
    "lower": _random_token("lower", string.ascii_lowercase + string.digits * 2),
    "hex": _random_token("hex", HEX),
    "words": "correct-horse-battery-staple-again-and-again",
}
NEVER = 1_000


@pytest.mark.parametrize(
    ("frame", "least_chars"),
    [
        ("The password is {}", (5, 5, 5, NEVER)),
        ("password: {}", (5, 5, 5, 22)),
        ("api_key: {}", (12, 12, 12, NEVER)),
        ("The api key is {}", (15, NEVER, 24, NEVER)),
        ("login token={}&x=1", (12, 12, 12, NEVER)),
        ("next_token={}&x=1", (NEVER, NEVER, NEVER, NEVER)),
        ("sonar.login={}", (16, 12, 16, NEVER)),
        ("sonar.login {}", (20, 20, 32, NEVER)),
        ("build.tag={}", (NEVER, NEVER, NEVER, NEVER)),
        ("Authorization: Bearer {}", (10, 10, 12, NEVER)),
        ("curl --token {}", (6, 6, 6, NEVER)),
        ("The Asana token {}", (20, 20, 32, NEVER)),
        ("asana: {}", (35, 20, 32, NEVER)),
        ("Our access token, for the record: {}", (23, NEVER, NEVER, NEVER)),
        (f"The access token is in a {'very ' * 12}large folder. {{}}", (NEVER, NEVER, NEVER, NEVER)),
        ("acme_{}", (35, 30, 40, NEVER)),
        ("sk_{}", (35, 30, 24, NEVER)),
        ("{}", (NEVER, NEVER, NEVER, NEVER)),
    ],
)
def test_how_long_a_token_must_be_to_be_a_secret_depends_on_what_stands_before_it(
    frame: str, least_chars: tuple[int, ...]
) -> None:
    for token, least in zip(TOKENS.values(), least_chars, strict=True):
        found = [
            size
            for size in range(1, len(token) + 1)
            if _kind(f"{frame.format(token[:size])} as agreed").startswith("contains a secret (")
        ]

        assert found == list(range(least, len(token) + 1))


def test_an_account_with_a_wrong_checksum_is_none() -> None:
    assert "bank account number" in _kind(f"Pay to {IBAN_OF_ALBANIA} please.")
    assert _kind(f"Pay to {IBAN_OF_ALBANIA.replace('AL35', 'AL36')} please.") == ""
