"""``standfast bench policies``: which policies there are."""

import click

from standfast.cli.output import json_option, print_json


@click.command("policies")
@json_option
def command(as_json: bool) -> None:
    """List all policies, with their tracks: ours, and those that installed packages bring."""
    from standfast.policies.registry import PolicySpec, names  # noqa: PLC0415  # Help must not wait for the benchmark.

    specs = [PolicySpec.parse(name) for name in names()]
    told = {
        str(spec): (str(spec.track), (spec.kind.__doc__ or "").strip().splitlines()[:1]) for spec in specs
    }
    if as_json:
        print_json({name: {"track": track, "about": "".join(about)} for name, (track, about) in told.items()})
    else:
        for name, (track, about) in told.items():
            click.echo(f"{name:18} {track:13} {''.join(about)}")
