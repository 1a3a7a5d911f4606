"""``standfast trace compare``: whether two recorded runs did the same."""

from pathlib import Path

import click

from standfast.cli.output import json_option, print_json
from standfast.cli.trace.telling import EXIT_CODES, comparison_json, tell_comparison
from standfast.traces.equivalence import compare_artifacts
from standfast.traces.folder import read_artifact


@click.command("compare", epilog="Exit codes: 0 equivalent; 1 different; 2 the claim is rejected.")
@click.argument("left", type=click.Path(exists=True, dir_okay=False))
@click.argument("right", type=click.Path(exists=True, dir_okay=False))
@json_option
def command(left: str, right: str, as_json: bool) -> None:
    """Prove the runs recorded in LEFT and RIGHT equivalent, or list every difference, the first one marked.

    A trace that is truncated, incomplete, damaged, of another version, or of a run that read live memory proves nothing:
    the claim is then rejected.
    """
    comparison = compare_artifacts(read_artifact(Path(left)), read_artifact(Path(right)))
    verdict = comparison.verdict
    if as_json:
        print_json(comparison_json(comparison, verdict))
    else:
        tell_comparison(comparison, verdict, names=(left, right))
    raise SystemExit(EXIT_CODES[verdict])
