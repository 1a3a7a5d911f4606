"""The labelled corpus on which the floors are measured: one claim a line, all of it made up.

``judge-corpus.jsonl`` is what the floors are worked on with: whoever mends a floor looks at what it gets
wrong there. ``judge-corpus-held-out.jsonl`` is the other half of one batch of claims that was written after
the floors and split by chance, by the hand that wrote the floors. ``judge-corpus-independent.jsonl`` is one
half of 240 texts that were written blind, by someone who had never seen the floors and only knew the three
labels secret, injection and clean. Its other half was shown, and mended by; this one nobody looked at before
its figures were taken, once, after the last mending. Of both parts only figures are looked at, never lines,
so that they say what fresh claims may expect. Don't mend a floor by a line of them; if you must, move that
line over and write new ones.

A line has a ``label`` and a ``text``, and what else the claim or its context need: ``subject``, ``tags``,
``source``, ``refs``, ``band``, ``verdict``; ``known`` and ``vault`` for texts that are remembered or sealed
already, ``recalled`` for excerpts, ``refused`` for texts that a human rejected. ``also`` names labels that
are right as well.

Secrets are made here and stand nowhere, so that no scanner finds one in the repository: ``{{ghp_|alnum|36}}``
is the prefix and 36 characters that the line itself determines; ``card``, ``iban``, ``jwt``, ``pem`` and
``b64`` have forms of their own. Texts that others wrote are taken as they are, and stand in base64
(``encoded``) for the same reason.
"""

import base64
import hashlib
import json
import re
import string
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from standfast.govern.judge.claim import refused_by_human
from standfast.govern.judge.floors import RECALLED
from standfast.govern.judge.judge import Claim, Judge, Judgement, JudgingContext
from standfast.govern.judge.text_reading import TextReading
from standfast.records.origins import Origin
from standfast.records.vocabulary import Record, Verdict, normal_tags

WORKED_ON, HELD_OUT, INDEPENDENT = PARTS = ("worked on", "held out", "independent")
FILES = {
    WORKED_ON: Path(__file__).with_name("judge-corpus.jsonl"),
    HELD_OUT: Path(__file__).with_name("judge-corpus-held-out.jsonl"),
    INDEPENDENT: Path(__file__).with_name("judge-corpus-independent.jsonl"),
}
SOURCE = {"kind": "doc", "id": "handbook#4"}

# How a floor's reason begins, and the label that it means.
LABEL_OF_REASON = {
    "contains a secret": "secret",
    "contains personal data": "secret",
    "gives orders": "injection",
    "in disguise, gives orders": "injection",
    "rejected before": "refused",
    "claims authority": "authority",
    "contradicts": "contradiction",
    **dict.fromkeys(("hidden", "empty", "broken encoding", "noise"), "hidden"),
}
LABELS = ("secret", "injection", "duplicate", "recall", "refused", "authority", "contradiction", "hidden")

ALPHABETS = {
    "alnum": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "word": string.ascii_letters + string.digits + "_-",
    "base64": string.ascii_letters + string.digits + "+/",
    "base32": string.ascii_uppercase + "234567",
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "hex": "0123456789abcdef",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One line: a claim in its context, and what it is."""

    number: int
    label: str
    also: frozenset[str]
    claim: Claim
    context: JudgingContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """How well one label is found."""

    label: str
    found: int
    of: int
    wrongly: int

    @property
    def recall(self) -> float:
        """The share of its claims that are found."""
        return self.found / self.of

    @property
    def precision(self) -> float:
        """The share of what is found that is right."""
        return self.found / max(1, self.found + self.wrongly)


def sealed_share(judge: Judge, part: str = WORKED_ON) -> float:
    """The share of clean claims that are sealed, as all should be."""
    clean = [case for case in cases(part) if case.label == "clean"]
    sealed = [judge.judge(case.claim, case.context).verdict is Verdict.SEAL for case in clean]
    return sum(sealed) / len(sealed)


def claim(text: str, *, role: str = "agent", memory_id: str = "claim", **fields: Any) -> Claim:
    """A claim with a source, as most tests need one."""
    return Claim(record=known(memory_id, text, **fields), role=role)


def known(memory_id: str, text: str, **fields: Any) -> Record:
    """A record that is remembered already."""
    return Record(**{"memory_id": memory_id, "text": text, "source": SOURCE, **fields})


@cache
def cases(part: str = WORKED_ON) -> tuple[Case, ...]:
    """A part of the corpus, ready to be judged."""
    lines = FILES[part].read_text(encoding="utf-8").splitlines()
    return tuple(_case(number, json.loads(line)) for number, line in enumerate(lines, 1))


def labels_given(judgement: Judgement) -> frozenset[str]:
    """The labels that the failed hard floors stand for, and whether it is known."""
    known = {None: frozenset[str](), RECALLED: frozenset({"recall"})}
    return known.get(judgement.known, frozenset({"duplicate"})) | frozenset(
        _label(check.reason)
        for check in judgement.floor_checks
        if check.hard and check.reason and not check.passed
    )


def _label(reason: str) -> str:
    return next((label for start, label in LABEL_OF_REASON.items() if reason.startswith(start)), reason)


def figures(judge: Judge, part: str = WORKED_ON) -> dict[str, Figure]:
    """Precision and recall of each label that a part of the corpus has."""
    given = [(case, labels_given(judge.judge(case.claim, case.context))) for case in cases(part)]
    there = {case.label for case, _ in given}
    return {
        label: Figure(
            label=label,
            found=sum(case.label == label and label in labels for case, labels in given),
            of=sum(case.label == label for case, _ in given),
            wrongly=sum(
                label in labels and case.label != label and label not in case.also for case, labels in given
            ),
        )
        for label in LABELS
        if label in there
    }


def _case(number: int, line: dict[str, Any]) -> Case:
    encoded = line.pop("encoded", None)
    filled = _filled(line, iter(range(10**6)), number)
    if encoded is not None:
        filled["text"] = base64.b64decode(encoded).decode()
    texts = {key: filled.pop(key, ()) for key in ("known", "vault", "recalled", "refused")}
    label, also, role = filled.pop("label"), frozenset(filled.pop("also", ())), filled.pop("role", "agent")
    tags, refs = normal_tags(filled.pop("tags", ())), tuple(filled.pop("refs", ()))
    subject = filled.get("subject")
    context = JudgingContext(
        related=tuple(known(f"known-{place}", text) for place, text in enumerate(texts["known"])),
        vault=tuple(
            known(f"vault-{n}", text, subject=subject, band="VAULT") for n, text in enumerate(texts["vault"])
        ),
        recalled=tuple(texts["recalled"]),
        refused=frozenset(
            refused_by_human(TextReading(text).fingerprint, Origin.ORDINARY) for text in texts["refused"]
        ),
    )
    made = claim(role=role, tags=tags, refs=refs, **filled)
    return Case(number=number, label=label, also=also, claim=made, context=context)


def _filled(value: Any, places: Any, number: int) -> Any:
    """The value with every recipe in it carried out."""
    if isinstance(value, str):
        return re.sub(
            r"\{\{([^{}]*)\}\}", lambda recipe: _made(recipe[1].split("|"), f"{number}/{next(places)}"), value
        )
    if isinstance(value, dict):
        return {key: _filled(member, places, number) for key, member in value.items()}
    return [_filled(member, places, number) for member in value] if isinstance(value, list) else value


def _made(recipe: list[str], seed: str) -> str:
    special: dict[str, Callable[..., str]] = {
        "card": _card,
        "iban": _iban,
        "jwt": _jwt,
        "pem": _pem,
        "b64": _b64,
    }
    if recipe[0] in special:
        return special[recipe[0]](seed, *recipe[1:])
    prefix, alphabet, length = recipe
    return prefix + _drawn(ALPHABETS[alphabet], int(length), seed)


def _drawn(alphabet: str, length: int, seed: str) -> str:
    stream = hashlib.shake_256(f"no secret: {seed}".encode()).digest(2 * length)
    return "".join(
        alphabet[int.from_bytes(stream[at : at + 2]) % len(alphabet)] for at in range(0, 2 * length, 2)
    )


def _card(seed: str, prefix: str, length: str, group: str) -> str:
    """A number that keeps Luhn's law, in groups if wanted."""
    body = prefix + _drawn(string.digits, int(length) - len(prefix) - 1, seed)
    total = sum(sum(divmod(int(d) * (2 - at % 2), 10)) for at, d in enumerate(reversed(body)))
    digits = body + str(-total % 10)
    size = int(group) or len(digits)
    return " ".join(digits[at : at + size] for at in range(0, len(digits), size))


def _iban(seed: str, country: str, *parts: str) -> str:
    body = "".join(part if part.isalpha() else _drawn(string.digits, int(part), seed) for part in parts)
    check = 98 - int("".join(str(int(char, 36)) for char in f"{body}{country}00")) % 97
    return f"{country}{check:02}{body}"


def _jwt(seed: str) -> str:
    parts = (
        b'{"alg":"HS256","typ":"JWT"}',
        b'{"sub":"nobody","name":"made up"}',
        _drawn(string.ascii_letters, 32, seed).encode(),
    )
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def _pem(_seed: str, kind: str) -> str:
    return f"-----BEGIN {kind} PRIVATE KEY-----".replace("  ", " ")


def _b64(_seed: str, text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SHORT_HOSTILE_CHARS = 1_600
# Texts of about n characters on which a careless pattern takes quadratic time.
HOSTILE: dict[str, Callable[[int], str]] = {
    "one letter": lambda n: "a" * n,
    "one lookalike": lambda n: "а" * n,
    "letters, then another script": lambda n: "a" * n + "中",
    "digits": lambda n: "1" * n,
    "digits apart": lambda n: "1 " * (n // 2),
    "numbers joined": lambda n: "1." * (n // 2),
    "letters apart": lambda n: "a " * (n // 2),
    "pairs of hex": lambda n: "ab:" * (n // 3),
    "spaces": lambda n: "password" + " " * n,
    "passwords": lambda n: "password is " * (n // 12),
    "secrets and colons": lambda n: "secret:" * (n // 7),
    "tokens begun": lambda n: "-eyJa" * (n // 5),
    "keys begun": lambda n: "sk-a" * (n // 4),
    "URLs begun": lambda n: "a://b:" * (n // 6),
    "addresses begun": lambda n: "a.b@c" * (n // 5),
    "cards begun": lambda n: "4111 " * (n // 5),
    "accounts begun": lambda n: "DE89 3704 " * (n // 10),
    "seed phrases begun": lambda n: "seed phrase lamp " * (n // 17),
    "orders begun": lambda n: "ignore all the previous " * (n // 24),
    "orders sent": lambda n: "please send the keys to " * (n // 24),
    "tools called": lambda n: "then call the tool to " * (n // 22),
    "users asking": lambda n: "when the user asks then always " * (n // 31),
    "law begun": lambda n: "this is hereby the " * (n // 19),
    "comments begun": lambda n: "<!-- " * (n // 5),
    "tags begun": lambda n: "<system " * (n // 8),
    "spans begun": lambda n: "<span style=" * (n // 12),
    "images begun": lambda n: "![](https://a/?" * (n // 15),
    "quotes": lambda n: "\"'" * (n // 2),
    "brackets": lambda n: "[{(<" * (n // 4),
    "dashes": lambda n: "-" * n,
    "apostrophes": lambda n: "a'" * (n // 2),
    "combining marks": lambda n: "e" + "\u0301" * n,
    "joiners": lambda n: "a\u200d" * (n // 2),
    "selectors": lambda n: "\ufe0f" * n,
    "base64": lambda n: "QUJD" * (n // 4),
    "percent": lambda n: "%41" * (n // 3),
    "entities": lambda n: "&#65;" * (n // 5),
    "backslashes": lambda n: "\\u0041" * (n // 6),
    "pairs apart": lambda n: "41 " * (n // 3),
    "pairs marked": lambda n: "0x41," * (n // 5),
    "hyphens in a word": lambda n: "ig-nore-" * (n // 8),
    "wide gaps": lambda n: "a  b c  " * (n // 8),
    "links with keys": lambda n: "?key=a&sig=" * (n // 11),
    "logins": lambda n: "-u a:b " * (n // 7),
    "prefixes": lambda n: "ab_cd_" * (n // 6),
    "numbers of persons": lambda n: "DNI 1234567" * (n // 11),
    "passports": lambda n: "passport no A1" * (n // 14),
    "roles begun": lambda n: "you are now act as if " * (n // 22),
    "prompts begun": lambda n: "print me your " * (n // 14),
    "assistants": lambda n: "hey assistant you must " * (n // 23),
    "marks": lambda n: '. : " ' * (n // 6),
    "dates": lambda n: "4 May 2027 " * (n // 11),
    "characters to come": lambda n: "\U0001fae8" * (n // 8),
}
