"""``standfast bench manifest``: whether frozen episodes are still the same."""

import json
from pathlib import Path

import click

from standfast.cli.output import ANSWER_IS_NO, json_option, print_json


@click.command("manifest")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@click.option("--write", is_flag=True, help="Write MANIFEST.json for the episode files that are there.")
@json_option
def command(folder: str, write: bool, as_json: bool) -> None:
    """Compare the episode files in FOLDER with the hashes in its MANIFEST.json; exit code 1 if one differs."""
    from standfast.bench.files import MANIFEST, check_manifest, manifest_of  # noqa: PLC0415  # Help must not wait for it.

    if write:
        told = manifest_of(folder)
        (Path(folder) / MANIFEST).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        problems = []
    else:
        problems = check_manifest(folder)
    if as_json:
        print_json({"folder": folder, "problems": problems})
    else:
        for problem in problems:
            click.echo(f"✗ {problem}")
        click.echo(f"{folder}: {len(problems)} problems" if problems else f"{folder}: as the manifest says")
    if problems:
        raise SystemExit(ANSWER_IS_NO)
