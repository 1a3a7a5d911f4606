"""``standfast bench import``: episodes from real histories.

The importers are imported inside the commands, so help is fast.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from standfast.cli.options import progress_bar
from standfast.cli.output import json_option, print_json

if TYPE_CHECKING:
    from standfast.bench import Episode
    from standfast.bench.sources.git_history import SourceVersion

_F = TypeVar("_F", bound=Callable[..., Any])


@click.group("import")
def command() -> None:
    """Make an episode from a real history, labelled by mechanical rules (see docs/bench.md).

    What an importer leaves out, and why, is reported on the standard error and under "skipped" in --json.
    """


_OUT: Final = click.option(
    "--out", required=True, type=click.Path(dir_okay=False), help="The episode file to write."
)
_GIT: Final = click.option(
    "--git", "repository", default=None, type=click.Path(exists=True), help="Take versions from a repository."
)
_WINDOW: Final = click.option(
    "--window",
    "window_steps",
    type=click.IntRange(0),
    default=None,
    help=(
        "Steps of an episode. Without it, the history is cut into about 20 windows of 25 to 100 steps, so"
        " that policies can be ranked on it; 0 makes one episode."
    ),
)
_MOST: Final = click.option(
    "--most",
    type=click.IntRange(2, 10_000),
    default=10_000,
    help="With --git: how many versions to use. If there are more, they are chosen evenly.",
)


def _source_option(default: str) -> Callable[[_F], _F]:
    return click.option("--source", default=default, help="The prefix of endpoints' names.")


def _path_option(what: str) -> Callable[[_F], _F]:
    return click.option("--path", default=None, help=f"With --git: {what} in that repository.")


class _Skipped:
    """Collects what an importer left out, and says so on the standard error: twenty, then how many more."""

    MOST_SHOWN: Final = 20

    def __init__(self) -> None:
        self.found: list[dict[str, str]] = []

    def __call__(self, what: str, why: str) -> None:
        """Report one thing that was left out."""
        self.found.append({"what": what, "why": why})
        if len(self.found) <= self.MOST_SHOWN:
            click.echo(f"skipped {what}: {why}", err=True)
        elif len(self.found) == self.MOST_SHOWN + 1:
            click.echo("more is skipped; --json lists all", err=True)


def _write_episode(
    episode: "Episode",
    out: str,
    *,
    window_steps: int | None,
    as_json: bool,
    skipped: Sequence[dict[str, str]] = (),
) -> None:
    from standfast.bench.episodes import file_hash, write_jsonl
    from standfast.bench.sources.labelling import windows_of

    windows = [episode] if window_steps == 0 else windows_of(episode, window_steps)
    write_jsonl(out, windows)
    steps, critical = len(episode.steps), len(episode.labels.critical_steps)
    if as_json:
        print_json(
            {
                "file": out,
                "episodes": len(windows),
                "steps": steps,
                "critical": critical,
                "sha256": file_hash(out),
                "skipped": list(skipped),
            }
        )
    else:
        left_out = f"; {len(skipped)} skipped" if skipped else ""
        cut = f"{len(windows)} windows of " if len(windows) > 1 else ""
        click.echo(f"{cut}{steps} steps, {critical} of them critical, in {out}{left_out}")


def _versions(
    files: Sequence[str],
    repository: str | None,
    path: str | None,
    *,
    suffixes: Sequence[str],
    most: int,
    skipped: _Skipped,
    progress: Callable[[int, int], None],
) -> "Iterator[SourceVersion]":
    """Yield versions from files or folders, or from a repository."""
    from standfast.bench.sources.git_history import file_version, git_versions

    if repository is not None and path is not None:
        yield from git_versions(
            repository, path, suffixes=suffixes, most=most, skipped=skipped, progress=progress
        )
    for number, file in enumerate(files):
        progress(number, len(files))
        yield file_version(file, suffixes)


def _check_origin(versions: Sequence[str], repository: str | None, path: str | None, what: str) -> None:
    if (repository is None) != (path is None) or (repository is None) == (len(versions) == 0):
        raise click.UsageError(f"give {what}, or --git and --path")


class InterfaceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the commands that import the versions of an interface, as click passes them."""

    versions: tuple[str, ...]
    out: str
    source: str
    repository: str | None
    path: str | None
    most: int
    window_steps: int | None
    redundancy: float
    seed: int
    as_json: bool


def _import_interface(form: str, options: InterfaceOptions, *, with_host: bool = False) -> None:
    from standfast.bench.sources import descriptions, idl, interfaces

    read, suffixes = {
        "openapi": (descriptions.read_openapi, (".json", ".yaml", ".yml")),
        "asyncapi": (descriptions.read_asyncapi, (".json", ".yaml", ".yml")),
        "json-schema": (descriptions.read_json_schema, (".json",)),
        "graphql": (idl.read_graphql, (".graphql", ".graphqls", ".gql")),
        "protobuf": (idl.read_protobuf, (".proto",)),
    }[form]
    if with_host:
        read = descriptions.read_openapi_with_host
    repository, path, source = options.repository, options.path, options.source
    _check_origin(options.versions, repository, path, "two or more VERSIONS")
    skipped = _Skipped()
    with progress_bar("reading versions", quiet=options.as_json) as progress:
        versions = _versions(
            options.versions,
            repository,
            path,
            suffixes=suffixes,
            most=options.most,
            skipped=skipped,
            progress=progress,
        )
        found = interfaces.interface_versions(
            versions,
            read,
            source=source,
            by_file=form not in ("graphql", "protobuf"),
            # A file that the user named is wanted; one of a history may be broken.
            skipped=skipped if repository is not None else None,
        )
        episode = interfaces.interface_episode(
            found, source=source, mode=form, redundancy=options.redundancy, seed=options.seed, skipped=skipped
        )
    _write_episode(
        episode,
        options.out,
        window_steps=options.window_steps,
        as_json=options.as_json,
        skipped=skipped.found,
    )


def _interface_options(function: _F) -> _F:
    options = (
        click.argument("versions", nargs=-1, type=click.Path()),
        _OUT,
        _source_option("api"),
        _GIT,
        _path_option("the description's file or folder"),
        _MOST,
        _WINDOW,
        click.option(
            "--redundancy",
            type=click.FloatRange(0, 100),
            default=0.0,
            help="How many unchanged observations are added for each change.",
        ),
        click.option("--seed", type=int, default=0, help="For the choice of those."),
        json_option,
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command("openapi")
@_interface_options
@click.option("--host/--no-host", default=False, help="Put the server's host into endpoints' names.")
def openapi(host: bool, **options: Any) -> None:
    """Import what changed between VERSIONS of an OpenAPI description, oldest first: OpenAPI 3 or Swagger 2.

    A version is a file, or a folder of descriptions. With --git and --path, the versions are the last of each
    day in that repository's history. Versions that can't be read, or that lost most of their operations, are
    left out and reported.
    """
    _import_interface("openapi", InterfaceOptions(**options), with_host=host)


def _interface_command(form: str, title: str) -> None:
    @command.command(
        form,
        help=(
            f"Import what changed between VERSIONS of {title}, oldest first.\n\nA version is a file or a"
            " folder. With --git and --path, the versions are the last of each day in that repository's"
            " history. What can't be read is reported."
        ),
    )
    @_interface_options
    def run(**options: Any) -> None:
        _import_interface(form, InterfaceOptions(**options))


_interface_command("asyncapi", "an AsyncAPI description (2 or 3; JSON or YAML)")
_interface_command("graphql", "a GraphQL schema in its definition language")
_interface_command("protobuf", "protobuf files (proto2 or proto3)")
_interface_command("json-schema", "a JSON Schema")


@command.command("changelog")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@_OUT
@_source_option("changelog")
@_GIT
@_path_option("the changelog's file")
@_WINDOW
@json_option
def changelog(
    file: str | None,
    out: str,
    source: str,
    repository: str | None,
    path: str | None,
    window_steps: int | None,
    as_json: bool,
) -> None:
    """Import the notes of a Markdown changelog, oldest first: a FILE, or the newest one of a repository."""
    from standfast.bench.sources.git_history import git_file
    from standfast.bench.sources.markdown import changelog_episode

    _check_origin([file] if file is not None else [], repository, path, "FILE")
    if repository is not None and path is not None:
        content, name = git_file(repository, path), Path(path).name
    else:
        assert file is not None, "there is a file or a repository"
        content, name = Path(file).read_bytes(), Path(file).name
    skipped = _Skipped()
    text = content.decode("utf-8", "replace")
    episode = changelog_episode(text, source=source, name=name, skipped=skipped)
    _write_episode(episode, out, window_steps=window_steps, as_json=as_json, skipped=skipped.found)


@command.command("docs")
@click.argument("folders", nargs=-1, type=click.Path(exists=True, file_okay=False))
@_OUT
@_source_option("docs")
@_GIT
@_path_option("the documentation's folder")
@_MOST
@_WINDOW
@json_option
def docs(
    folders: tuple[str, ...],
    out: str,
    source: str,
    repository: str | None,
    path: str | None,
    most: int,
    window_steps: int | None,
    as_json: bool,
) -> None:
    """Import what changed in a documentation: FOLDERS of Markdown and notebooks, oldest version first.

    With --git and --path, the versions are the last of each day in that repository's history. Pages that
    can't be read are reported and count as unchanged.
    """
    from standfast.bench.sources.markdown import SUFFIXES, docs_episode

    _check_origin(folders, repository, path, "two or more FOLDERS")
    skipped = _Skipped()
    with progress_bar("reading versions", quiet=as_json) as progress:
        versions = _versions(
            folders, repository, path, suffixes=SUFFIXES, most=most, skipped=skipped, progress=progress
        )
        episode = docs_episode(versions, source=source, skipped=skipped)
    _write_episode(episode, out, window_steps=window_steps, as_json=as_json, skipped=skipped.found)


@command.command("conversation")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@_OUT
@_source_option("conversation")
@_WINDOW
@json_option
def conversation(file: str, out: str, source: str, window_steps: int | None, as_json: bool) -> None:
    """Import the messages of the conversations in FILE: JSON, or JSON lines.

    A message has a role (or speaker) and a content (or text). Where a conversation has questions with
    evidence, the messages that they cite are critical.
    """
    from standfast.bench.sources.conversations import conversation_episode

    skipped = _Skipped()
    episode = conversation_episode(
        Path(file).read_bytes(), source=source, name=Path(file).name, skipped=skipped
    )
    _write_episode(episode, out, window_steps=window_steps, as_json=as_json, skipped=skipped.found)
