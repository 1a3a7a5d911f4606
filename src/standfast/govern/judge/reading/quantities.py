"""Numbers in one notation, with the units that they count.

``1,000`` is ``1000``, ``15.01.2026`` and ``15 January 2026`` are ``2026-01-15``, and two weeks are 14 days.
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from standfast.govern.judge.reading.lexicon import MONTHS, NUMBER_WORDS, STOPS, UNITS

_GROUPED: Final = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})*")
_DECIMAL: Final = re.compile(r"\d{1,18}(?:\.\d{1,12})?")
_GERMAN_DATE: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})")
_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def quantities_in(words: Sequence[str]) -> dict[str, frozenset[str]]:
    """The numbers of each unit, in the unit's smallest; a number without a unit stands under the empty one."""
    found: dict[str, set[str]] = {}
    after_date = 0
    for index, word in enumerate(words):
        if index < after_date:
            continue
        if (date := _date_at(words, index)) is not None:
            found.setdefault("date", set()).add(date)
            after_date = index + 3
        elif (figure := NUMBER_WORDS.get(word) or (number(word) if word[0].isdigit() else None)) is not None:
            unit, amount = _measured(words, index, figure)
            found.setdefault(unit, set()).add(amount)
    return {unit: frozenset(amounts) for unit, amounts in found.items()}


def with_dates(words: Sequence[str]) -> list[str]:
    """The words, each date that three of them spell as one in ISO's form."""
    dated: list[str] = []
    index = 0
    while index < len(words):
        date = _date_at(words, index)
        dated.append(date or words[index])
        index += 3 if date else 1
    return dated


def stem(word: str) -> str:
    """A word without the ending of an English plural."""
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


def number(token: str) -> str:
    """A number in one notation: no grouping, a point for decimals, ISO for a German date."""
    if _GROUPED.fullmatch(token):
        token = token.replace(",", "").replace(".", "")
    elif date := _GERMAN_DATE.fullmatch(token):
        day, month, year = date.groups()
        return f"{year}-{int(month):02}-{int(day):02}"
    elif token.count(",") == 1 and "." not in token:
        token = token.replace(",", ".")
    if _DECIMAL.fullmatch(token):
        whole, _, fraction = token.partition(".")
        return f"{int(whole)}.{fraction}".rstrip("0").rstrip(".") if fraction else str(int(whole))
    return token


def _date_at(words: Sequence[str], index: int) -> str | None:
    """The ISO date that three words spell from here on, in either order of day and month."""
    if index + 2 >= len(words) or len(words[index + 2]) != 4 or not words[index + 2].isdecimal():
        return None
    first, second = words[index], words[index + 1]
    day, name = (first, second) if second in MONTHS else (second, first)
    if name not in MONTHS or not day.isdecimal() or len(day) > 2:
        return None
    return f"{words[index + 2]}-{MONTHS[name]:02}-{int(day):02}"


def _measured(words: Sequence[str], index: int, figure: str) -> tuple[str, str]:
    """The unit of a number, which stands after it or before it, and the amount in the unit's smallest."""
    if _ISO_DATE.fullmatch(figure):
        return "date", figure
    after = words[index + 1] if index + 1 < len(words) else ""
    before = words[index - 1] if index else ""
    for neighbour in (after, before):
        if neighbour in UNITS:
            unit, factor = UNITS[neighbour]
            return unit, _times(figure, factor)
    for neighbour in (after, before):
        if neighbour.isalpha() and neighbour not in STOPS and neighbour not in NUMBER_WORDS:
            return stem(neighbour), figure
    return "", figure


def _times(figure: str, factor: int) -> str:
    return str((Decimal(figure) * factor).normalize()) if _DECIMAL.fullmatch(figure) else figure
