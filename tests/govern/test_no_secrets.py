"""What looks like a secret and is none: each cause next to a secret in the same place."""

import pytest

from standfast.govern.judge.claim import NOTHING_KNOWN
from standfast.govern.judge.secrecy import SecrecyFloor
from standfast.govern.judge.secret_values import is_name
from tests.govern.corpus import claim

VALUE = "Zq7Wm2Xv9Lr4" + "Tn8Kd3Hs"
HEX = "9944b09199c62bcf" + "9418ad846dd0e4bb"
NKEY = "AM46E3YF5WOZSE5WNYWHN3YYISVZOSI6XHTF2Q64ECPXSFQZROJMP2H"
PAIRS = {
    "what is left out": (f"api_key = {VALUE[:14]}...", f"api_key = {VALUE}"),
    "the name of a secret": ("secretName: webhook1-certificate", f"secretName1: {VALUE}"),
    "a name in the place of a token": ("api_key: cp4d-missing-username-key", f"api_key: cp4d-{VALUE}"),
    "an attribute in camel case": (f"tokenUrl = {HEX}", f"token = {HEX}"),
    "an attribute in capitals": ("API_KEY_VERSION=release2024build7x", f"API_KEY_V={VALUE}"),
    "when it expires": ("access_token_expires: 2021-01-05T15:34:30Z", f"access_token: {VALUE}"),
    "the next line of a file": (
        "The password is in the file.\n\napiVersion: acme.io/v1\n",
        "The password for you: acme.io/v1",
    ),
    "where a secret is kept": (
        "api_key = arn:aws:secretsmanager:us-west-2:111122223333:secret:openai-key-AbC1Ef",
        f"api_key = arn{VALUE}",
    ),
    "what is to be filled in": ("password: <random-64-128-character>", "password: random-64-128-character"),
    "a value of a template": (
        "key: ${{ secrets.ACME_TOKEN_PROUD_BAY_0E9E0E81E }}",
        f"key: acme_token_{VALUE}",
    ),
    "a token of a form": (f"csrf_token={VALUE}", f"access_token={VALUE}"),
    "a token of an assembly": ('publicKeyToken="b03f5f7f11d50a3a"', 'apiToken="b03f5f7f11d50a3a"'),
    "a tokenizer": ("Tokenizer = 'Acme4AI/acme-2-7b-v1'", f"Token = '{VALUE}'"),
    "a call": ("Authorization: Basic base64(user1:pw2)", f"Authorization: Basic {VALUE}"),
    "an address": ("Authorization: `https://acme.example/v2/auth`", f"Authorization: `{VALUE}`"),
    "an id": (f'"item_id": "zz_{HEX}01234568"', f'"item": "zz_{HEX}01234568"'),
    "a login that stands for one": ("amqp://me:mypassword@acme.example", "amqp://me:mypassw0rd@acme.example"),
    "a user as their own password": ("amqp://admin:admin@acme.example", "amqp://admin:root@acme.example"),
    "a word on this machine": ("redis://me:tiger@localhost:5432", "redis://me:tiger@acme.example:5432"),
    "names of variables": ("-u EMAIL_ADDRESS:API_KEY", "-u email:API_KEY9"),
    "a server and its port": ("-u pd-service:2379", "-u service:237981"),
    "an address after -u": ("push -u nats://localhost", "push -u nats:localhost"),
    "a link": (f"See the token policy at https://acme.example/@a/{VALUE}zz8Q", f"token policy {VALUE}zz8Q"),
    "a name with a date": (
        "the signing key cert-pgp-2021-09-20-1020CF3C033D4F35BAE1C19E12x",
        "the signing key certX1020CF3C033D4F35BAE1C19E12x",
    ),
    "letters of other scripts": (
        "password: OAuth2で定義されているセキュリティと認証を扱うA1",
        f"token: {VALUE}で",
    ),
    "a test": (
        "The password is kept.\nfunc TestBackend_RotateRootCredentials_WAL_no_rollback_1(t)",
        f"The password is kept: {VALUE}.",
    ),
    "a public key of NATS": (f'stored account key "A{NKEY}"', f'stored account key "S{NKEY}"'),
    "a seed that is far away": (f"The seed server.{' The next line.' * 9} {NKEY}", f"The seed: {NKEY}"),
    "a path of settings": (
        "Key: VBoxInternal2/SharedFoldersEnableSymlinksCreate/srv_acme1",
        f"Key: VBox{VALUE}",
    ),
    "a key that is the word for it": (
        f"-----BEGIN PRIVATE KEY-----\n{'privatekey' * 3}\n{'privatekey' * 3}\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\nMIIEpA{VALUE}\nQ{VALUE}\n-----END PRIVATE KEY-----",
    ),
    "emphasis": ("The password is *rehashed* by us.", "The password is *rehash3d* by us."),
    "a setting of another name": ("password=\nacme.connect_timeout=60", f"password=\n{VALUE}"),
    "the start of a web token": (
        '{"access_token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9..."}',
        '{"access_token": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"}',
    ),
    "the type of a document": ("TOKEN, Accept: application/vnd.acme.v3+json", f"TOKEN: {VALUE}"),
    "two services": ("Login with ADFS/Office365 works.", "Login ada/Office365 works."),
}


def _is_refused(text: str) -> bool:
    return "secret" in SecrecyFloor().check(claim(text), NOTHING_KNOWN).reason


@pytest.mark.parametrize("cause", PAIRS)
def test_what_only_looks_like_a_secret_passes_and_one_in_its_place_does_not(cause: str) -> None:
    harmless, secret = PAIRS[cause]

    assert not _is_refused(harmless)
    assert _is_refused(secret)


@pytest.mark.parametrize(
    "name", ["previous-hmac-secret-1", "test_schema_2", "favourite-113010503322889311-479", "CustomOauth2"]
)
def test_words_and_numbers_that_are_joined_are_a_name(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "token", ["a73c9572-f1b9-8983-983d-ba3ac3cc913d", "q7w3-e9r2-t5y8-u1i4", VALUE, f"acme-{VALUE}", "secret"]
)
def test_letters_and_digits_in_any_other_order_are_none(token: str) -> None:
    assert not is_name(token)
