"""What a text says under its disguises: leet, spaced-out letters, and the encodings that a model reads without effort.

``unmasked`` gives the other texts that a text holds: each encoded run decoded, letters put together, digits read as
the letters they stand for. It looks one or two layers deep and at a bounded number of runs, never at images, ciphers
or meaning.
"""

import base64
import binascii
import codecs
import html
import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote

from standfast.govern.judge.reading.lexicon import word_set
from standfast.govern.judge.reading.words import TextReading

_MOST_RUNS: Final = 8
_MOST_RUN_CHARS: Final = 8_192
_LAYERS: Final = 2
_LEAST_PRINTABLE: Final = 0.9

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{20,8192}={0,2}")
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2}:?){12,4096}")
_HEX_APART: Final = re.compile(
    r"(?<!\w)(?:0x)?[0-9A-Fa-f]{2}(?:[ ,]{1,2}(?:0x)?[0-9A-Fa-f]{2}){11,2047}(?!\w)"
)
_HEX_PAIRS: Final = frozenset(f"{prefix}{number:02x}" for number in range(256) for prefix in ("", "0x"))
_LEAST_HEX_PAIRS: Final = 6
_LEAST_RUN_CHARS: Final = 20
_SPACED: Final = re.compile(r"(?<!\w)(?:[^\W_][ .\-_*·|/]{1,3}){5,400}[^\W_](?!\w)")
# One sign between letters holds a word together; a wider gap keeps two words apart.
_NARROW_JOINTS: Final = re.compile(r"(?<=[^\W_])[ .\-_*·|/](?=[^\W_])")
_WIDE_JOINTS: Final = re.compile(r"[ .\-_*·|/]+")
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_LEAST_LONE_LETTERS: Final = 4
_LEET_WORD: Final = re.compile(r"[a-z][0134578@$!|]{1,3}[a-z]|(?<!\w)[0134578@$!|]{1,2}[a-z]{2}")
_LEET: Final = str.maketrans("0134578@$!|", "oieastbasil")
_ESCAPED: Final = re.compile(r"(?:\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}){4}")
# Characters that no screen shows and that spell ASCII.
_TAG_OFFSET: Final = 0xE0000
_TAGS: Final = re.compile("[\U000e0020-\U000e007e]")
_ONE_ESCAPE: Final = re.compile(r"\\u([0-9A-Fa-f]{4})|\\x([0-9A-Fa-f]{2})")
# Words that betray text in ROT13, written backwards or cut by hyphens: what it says can't be put without one of them.
_BETRAYING: Final = word_set("ignore disregard forget instructions previous system prompt password reveal")
_ROT13: Final = frozenset(codecs.encode(word, "rot13") for word in _BETRAYING)
_BACKWARDS: Final = frozenset(word[::-1] for word in _BETRAYING)
_BETRAYED: Final = _ROT13 | _BACKWARDS
# Digits and signs inside a word.
_MIXED: Final = re.compile(r"[0134578@$!|][a-z]")


def unmasked(reading: TextReading) -> list[TextReading]:
    """The texts inside a text, each as a reading of its own; none for a text that wears no disguise."""
    found: list[TextReading] = []
    seen = {reading.folded}
    layer = [reading]
    for _ in range(_LAYERS):
        inside = [TextReading(text) for outer in layer for text in _inside(outer)]
        layer = []
        for one in inside:
            if one.folded not in seen and len(seen) <= _MOST_RUNS:
                seen.add(one.folded)
                layer.append(one)
        found += layer
        if not layer:
            break
    return found


def _inside(reading: TextReading) -> Iterator[str]:
    """Each disguise is only looked for where it left a trace; nearly every text has none."""
    text, folded, vocabulary = reading.text, reading.folded, reading.vocabulary
    if reading.longest_run_chars >= _LEAST_RUN_CHARS:
        runs = " ".join(run for run in text.split() if len(run) >= _LEAST_RUN_CHARS)
        yield from _decoded(_BASE64, runs, _from_base64)
        yield from _decoded(_HEX, runs, _from_hex)
    if len(vocabulary & _HEX_PAIRS) >= _LEAST_HEX_PAIRS:
        yield from _decoded(_HEX_APART, text, _from_hex)
    if "%" in text and text.count("%") >= 4 and (plain := unquote(text, errors="ignore")) != text:
        yield plain
    if "&" in text and text.count("&") >= 4 and (plain := html.unescape(text)) != text:
        yield plain
    if "\\" in text and _ESCAPED.search(text):
        yield _ONE_ESCAPE.sub(lambda one: chr(int(one[1] or one[2], 16)), text)
    if not text.isascii() and _TAGS.search(text):
        yield _TAGS.sub(lambda tag: chr(ord(tag[0]) - _TAG_OFFSET), text)
    if len(vocabulary & _LETTERS) >= _LEAST_LONE_LETTERS and _SPACED.search(folded):
        yield _SPACED.sub(lambda run: _WIDE_JOINTS.sub(" ", _NARROW_JOINTS.sub("", run[0])), folded)
    if _MIXED.search(folded) and _LEET_WORD.search(folded):
        yield folded.translate(_LEET)
    if not vocabulary.isdisjoint(_BETRAYED):
        yield codecs.encode(folded, "rot13") if not vocabulary.isdisjoint(_ROT13) else folded[::-1]
    if "-" in folded and not (_BETRAYING - vocabulary).isdisjoint((whole := folded.replace("-", "")).split()):
        yield whole


def _decoded(run: re.Pattern[str], text: str, decode: Callable[[str], bytes]) -> Iterator[str]:
    for count, found in enumerate(run.finditer(text)):
        if count == _MOST_RUNS:
            return
        try:
            plain = decode(found[0][:_MOST_RUN_CHARS]).decode()
        except (binascii.Error, ValueError):
            continue
        if sum(map(str.isprintable, plain)) >= _LEAST_PRINTABLE * max(len(plain), 1):
            yield plain


def _from_base64(run: str) -> bytes:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(body + "=" * (-len(body) % 4), validate=True)


def _from_hex(run: str) -> bytes:
    return bytes.fromhex(run.replace("0x", "").replace(":", " ").replace(",", " "))
