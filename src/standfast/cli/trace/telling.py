"""How comparisons are told: words for people, one object for machines, and an exit code for a build."""

from typing import Any, Final

import click

from standfast.cli.output import ANSWER_IS_NO, BAD_INPUT
from standfast.traces.contract import Shortfall
from standfast.traces.equivalence import ClaimVerdict, Comparison, Difference

EXIT_CODES: Final = {
    ClaimVerdict.EQUIVALENT: 0,
    ClaimVerdict.DIFFERENT: ANSWER_IS_NO,
    ClaimVerdict.REJECTED: BAD_INPUT,
}
assert set(EXIT_CODES) == set(ClaimVerdict)
_SHOWN_CHARS: Final = 120


def tell_comparison(comparison: Comparison, verdict: ClaimVerdict, *, names: tuple[str, str]) -> None:
    """Print a verdict with all that it rests on."""
    click.echo(f"{verdict}: {names[0]} and {names[1]}")
    for name, short in zip(names, (comparison.left_shortfalls, comparison.right_shortfalls), strict=True):
        for fall in short:
            click.echo(f"  ✗ {name} {fall_told(fall)}")
    for number, difference in enumerate(comparison.differences):
        click.echo(_difference_told(difference, is_first=number == 0))


def fall_told(fall: Shortfall) -> str:
    """One way in which an artifact falls short, on a line."""
    return f"[{fall.code}] {fall.place}: {fall.problem}"


def _difference_told(difference: Difference, *, is_first: bool) -> str:
    mark = "→ first " if is_first else "  "
    event = "" if difference.event_index is None else f"event {difference.event_index}, "
    return (
        f"{mark}[{difference.code}] {event}{difference.place}\n"
        f"      left   {_shown(difference.left)}\n"
        f"      right  {_shown(difference.right)}"
    )


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def comparison_json(comparison: Comparison, verdict: ClaimVerdict) -> dict[str, Any]:
    """The whole answer, with the first difference on its own."""
    first = comparison.first
    told = comparison.as_json()
    return {**told, "verdict": verdict.value, "first": None if first is None else first.as_json()}
