"""A table of what is a secret, at the edges: values of many kinds in many frames, cut to every length.

A line names a frame, a kind of value, lengths of it, and the kind of secret that it is there when it is
cut to one of these lengths. What is no secret is left out. If a change is meant, ``python -m
tests.govern.secret_edges`` writes the table anew; the difference of the file shows what is judged otherwise.
"""

import random
import string
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final

from standfast.govern.judge.secrets import every_secret_in

FILE: Final = Path(__file__).with_name("secret_edges.txt")
LONGEST: Final = 44
SIZES: Final = (*range(3, 27), 29, 30, 31, 32, 33, 35, 36, 39, 40, 41, 44)


def _token(seed: str, alphabet: str) -> str:
    return "".join(random.Random(seed).choices(alphabet, k=LONGEST))


def _with_digits(*places: int) -> str:
    letters = _token("letters", string.ascii_letters)
    return "".join("7" if place in places else letter for place, letter in enumerate(letters))


def _grouped(joint: str, size: int) -> str:
    token = _token(joint, string.ascii_letters + "23456789")
    return joint.join(token[at : at + size] for at in range(0, 36, size))


VALUES: Final = {
    "both cases and digits": _token("mixed", string.ascii_letters + string.digits),
    "lower case and digits": _token("lower", string.ascii_lowercase + string.digits * 2),
    "capitals and digits": _token("upper", string.ascii_uppercase + "234567"),
    "hex": _token("hex", "0123456789abcdef"),
    "few characters": _token("few", "aB3cD5f"),
    "one digit": _with_digits(2),
    "two digits": _with_digits(1, 4),
    "three digits": _with_digits(1, 4, 9),
    "groups of four": _grouped("-", 4),
    "groups of twelve": _grouped("_", 12),
    "a path": _grouped("/", 13),
    "signs": "Tr0ub&dor+3*" * 3,
    "words": "correct-horse-battery-staple-again-and-again",
    "words and numbers": "north3-harbor-17-Lamp_station4-12-quiet-river",
    "a name in a program": "self.client2_backend.list_pools_4_all_of_them",
    "words in capitals' rhythm": "RotateRootCredentials4TheNextReleaseOfServer",
    "a date": "k7-2024-11-05-Qz81mWv3Lr4Tn8KpX2cB6hYj5dGs9",
}

FRAMES: Final = (
    "{}",
    "The password is {}",
    "password: {}",
    'passphrase = "{}"',
    "<password> is <{}>",
    "api_key: {}",
    "The api key is {}",
    "the key id is {}",
    "API_TOKEN={} = x",
    "credentials = {}()",
    "secret=${{{{ {} }}}}",
    "login token={}&x=1",
    "next_token={}&x=1",
    "sonar.login={}",
    "sonar.login {}",
    "ado_pat: {}",
    "deploy_key {}",
    "build.tag={}",
    "asana-{}",
    "The Asana token {}",
    "asana: {}",
    "asanatoken_{}",
    "Our access token, for the record: {}",
    "Our access token for https://files.test/get/{}",
    "Authorization: Bearer {}",
    "Authorization: {}",
    "X-Api-Key: {}",
    "Cookie: session_id={}",
    "curl --token {}",
    "mysql -p{} -u root",
    "curl -u bo:{} localhost",
    "postgres://bo:{}@db.test/x",
    "postgres://bo:{}@localhost/x",
    "<secret>{}</secret>",
    "<dbPassword>{}</dbPassword>",
    '{{"name": "API_SECRET", "value": "{}"}}',
    '{{"name": "DB_PASSWORD", "value": "{}"}}',
    "acme_{}",
    "acme-{}",
    "sk_{}",
    "sk-{}",
    "ghp_{}",
    "glpat-{}",
    "eyJ{}...",
    "access data: bo / {}",
    "wifi password: {}",
    "two-factor seed: {}",
    "two-factor seed, id: {}",
    "https://zoom.us/j/5551234?pwd={}",
)
FILLED: Final = {
    "private key{} 5f2b9c81e07d4a36b8f1c29d7e40a5636d1f8b2c94e7a05d3b61c8f2907ae4d1": 90,
    "5f2b9c81e07d4a36b8f1c29d7e40a5636d1f8b2c94e7a05d3b61c8f2907ae4d1{} is the private key": 90,
    "5f2b9c81e07d4a36b8f1c29d7e40a5636d1f8b2c94e7a05d3b61c8f2907ae4d1, a private key{} sha256": 90,
    "the token{}: q7Zm2Xv9Lr4Tn8KpX2cB6hYj5dGs9": 130,
    "the token, https://files.test/{}/q7Zm2Xv9Lr4Tn8KpX2cB6hYj5dGs9": 60,
    "authenticator{} JBSWY3DPEHPK3PXQ": 90,
    "JBSWY3DPEHPK3PXQ{} authenticator": 90,
    "the id is{} q7Zm2Xv9Lr4Tn8KpX2cB6hYj5dGs9, a token": 20,
    "asana{} q7Zm2Xv9Lr4Tn8KpX2cB6hYj5dGs9": 50,
    "the default{} PIN is 4711": 30,
    "password{}: Zq7Wm2": 40,
}
"""Texts in which something stands between a value and the word for it, up to so many characters."""


def kind_of(text: str) -> str:
    """The kind of the first secret in a text; nothing if there is none."""
    found = next(every_secret_in(text, max(map(len, text.split()))), None)
    return "" if found is None else found.kind


def text_of(frame: str, value: str, size: int) -> str:
    """A frame around the start of a value."""
    return f"{frame.format(VALUES[value][:size])} as agreed"


def filled(frame: str, size: int) -> str:
    """A frame with so many characters between a value and the word for it."""
    filler = "-so" if "://" in frame else " so"
    return frame.format((filler * 60)[:size])


def _lines() -> Iterator[str]:
    for frame in FRAMES:
        for value in VALUES:
            runs = _runs([(size, kind_of(text_of(frame, value, size))) for size in SIZES])
            yield from (f"{frame} | {value} | {start}-{end} | {kind}" for start, end, kind in runs if kind)
    for frame, longest in FILLED.items():
        runs = _runs([(size, kind_of(filled(frame, size))) for size in range(longest)])
        yield from (f"{frame} | filled | {start}-{end} | {kind}" for start, end, kind in runs if kind)


def _runs(kinds: Sequence[tuple[int, str]]) -> list[tuple[int, int, str]]:
    """The first and the last size of each run of one kind."""
    return [
        (run[0][0], run[-1][0], kind)
        for kind, some in groupby(kinds, key=itemgetter(1))
        for run in [list(some)]
    ]


def table() -> dict[tuple[str, str], dict[int, str]]:
    """What the file says of each frame and value: the kind at each size."""
    kinds: dict[tuple[str, str], dict[int, str]] = {
        **{(frame, value): dict.fromkeys(SIZES, "") for frame in FRAMES for value in VALUES},
        **{(frame, "filled"): dict.fromkeys(range(longest), "") for frame, longest in FILLED.items()},
    }
    for line in FILE.read_text(encoding="utf-8").splitlines():
        frame, value, sizes, kind = line.split(" | ")
        start, end = map(int, sizes.split("-"))
        row = kinds[frame, value]
        row |= {size: kind for size in row if start <= size <= end}
    return kinds


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in _lines()), encoding="utf-8")
