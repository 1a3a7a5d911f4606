"""``standfast bench import``: episodes from real histories."""

from pathlib import Path

import click

from standfast.cli.output import json_option, print_json


@click.group("import")
def command() -> None:
    """Make an episode from a real history, labelled by mechanical rules (see docs/bench.md)."""


def _done(episode: object, out: str, *, as_json: bool) -> None:
    from standfast.bench.episodes import Episode  # noqa: PLC0415  # Help must not wait for the benchmark.
    from standfast.bench.files import file_hash, write_jsonl  # noqa: PLC0415  # As above.

    assert isinstance(episode, Episode), "an importer gives an episode"
    write_jsonl(out, [episode])
    critical = len(episode.labels.critical_steps)
    if as_json:
        print_json({"file": out, "steps": len(episode.steps), "critical": critical, "sha256": file_hash(out)})
    else:
        click.echo(f"{len(episode.steps)} steps, {critical} of them critical, in {out}")


@command.command("openapi")
@click.argument("versions", nargs=-1, type=click.Path())
@click.option("--out", required=True, type=click.Path(dir_okay=False), help="The episode file to write.")
@click.option("--source", default="api", show_default=True, help="What endpoints' names begin with.")
@click.option(
    "--host/--no-host", default=False, show_default=True, help="Put the server's host into endpoints' names."
)
@click.option(
    "--git", "repository", default=None, type=click.Path(exists=True), help="Take versions from a repository."
)
@click.option("--path", default=None, help="The description's path in that repository.")
@click.option("--redundancy", type=click.FloatRange(0, 100), default=0.0, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@json_option
def openapi(  # noqa: PLR0917  # One argument for each option.
    versions: tuple[str, ...],
    out: str,
    source: str,
    host: bool,
    repository: str | None,
    path: str | None,
    redundancy: float,
    seed: int,
    as_json: bool,
) -> None:
    """What changed between VERSIONS of an OpenAPI description, oldest first; JSON or YAML, OpenAPI 3 or Swagger 2.

    With --git and --path, the versions are the last of each day in that repository's history.
    """
    from standfast.bench.sources.history import Version, openapi_episode, versions_from_git  # noqa: PLC0415  # As above.
    from standfast.bench.sources.openapi import load_description  # noqa: PLC0415  # As above.

    if (repository is None) != (path is None) or (repository is None) == (len(versions) == 0):
        raise click.UsageError("give two VERSIONS or more, or --git and --path")
    if repository is not None and path is not None:
        found = versions_from_git(repository, path)
    else:
        found = (Version(label=Path(file).stem, document=load_description(file)) for file in versions)
    episode = openapi_episode(found, source=source, with_host=host, redundancy=redundancy, seed=seed)
    _done(episode, out, as_json=as_json)


@command.command("changelog")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--out", required=True, type=click.Path(dir_okay=False), help="The episode file to write.")
@click.option("--source", default="changelog", show_default=True, help="What endpoints' names begin with.")
@json_option
def changelog(file: str, out: str, source: str, as_json: bool) -> None:
    """The notes of a Markdown changelog, oldest release first."""
    from standfast.bench.sources.changelog import changelog_episode  # noqa: PLC0415  # As above.

    text = Path(file).read_text(encoding="utf-8", errors="replace")
    _done(changelog_episode(text, source=source, name=Path(file).name), out, as_json=as_json)


@command.command("docs")
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--out", required=True, type=click.Path(dir_okay=False), help="The episode file to write.")
@click.option("--source", default="docs", show_default=True, help="What endpoints' names begin with.")
@json_option
def docs(folders: tuple[str, ...], out: str, source: str, as_json: bool) -> None:
    """What changed between versions of a documentation: FOLDERS of Markdown, oldest first."""
    from standfast.bench.sources.docs import docs_episode  # noqa: PLC0415  # As above.

    _done(docs_episode(folders, source=source), out, as_json=as_json)
