"""``standfast trace replay``: a recorded run played again, and compared with itself."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from standfast.cli.options import opened, settings
from standfast.cli.output import json_option, print_json
from standfast.cli.trace.telling import EXIT_CODES, comparison_json, tell_comparison
from standfast.memory import Memory
from standfast.traces.artifact import Trace
from standfast.traces.folder import read_artifact
from standfast.traces.replay import replay
from standfast.traces.traced_run import MemoryAt


@click.command(
    "replay", epilog="Exit codes: 0 equivalent; 1 different; 2 it can't be replayed, or proves nothing."
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("agent", metavar="MODULE:FUNCTION")
@click.option(
    "--tools",
    metavar="MODULE:MAPPING",
    help="Functions by tool name, for results that the trace has not kept.",
)
@click.option(
    "--store",
    "store_url",
    help="Read memory as of the run's snapshot from this store: a SQLite file, or postgresql://….",
)
@click.option("--namespace", help="Whose memory of that store; by default what the settings say.")
@click.option(
    "--memory",
    metavar="MODULE:FUNCTION",
    help="Instead of a store: called with a snapshot's number, gives memory as of then.",
)
@click.option("--out", type=click.Path(dir_okay=False), help="Where to write the trace of the replay.")
@json_option
def command(
    *, file: str, agent: str, tools: str | None, out: str | None, as_json: bool, **where: Any
) -> None:
    """Run the agent MODULE:FUNCTION again on what the run recorded in FILE saw, and compare the two.

    Tools are not called: their recorded results are given back; a store is only read. MODULE is looked for in the working folder first, and runs
    with your rights; name only code that you trust.
    """
    trace = Trace.read(read_artifact(Path(file)))
    with _working_folder_first(), ExitStack() as stack:
        at = _memory_at(stack, trace.memory_snapshot_id, **where)
        played = replay(trace, _named(agent), None if tools is None else _mapping(tools), memory=at)
    if out is not None:
        Path(out).write_bytes(played.trace.as_bytes())
    failed = None if played.error is None else f"{type(played.error).__name__}: {played.error}"
    if as_json:
        print_json({**comparison_json(played.comparison, played.verdict), "agent_error": failed})
    else:
        tell_comparison(played.comparison, played.verdict, names=(file, "its replay"))
        if failed is not None:
            click.echo(f"  the agent ended with {failed}")
    raise SystemExit(EXIT_CODES[played.verdict])


def _memory_at(
    stack: ExitStack, snapshot: int, *, store_url: str | None, namespace: str | None, memory: str | None
) -> MemoryAt | None:
    """Memory as of the run's snapshot, from wherever the caller has it."""
    if memory is not None and (store_url or namespace):
        raise click.UsageError("memory comes from --store or from --memory, not from both")
    if memory is not None:
        found: MemoryAt = _named(memory)(snapshot)
        return found
    if store_url is None:
        if namespace is not None:
            raise click.UsageError("--namespace is of a store; name it with --store")
        return None
    store = stack.enter_context(opened(store_url, recover=False))
    return Memory(store, namespace=namespace or settings().namespace).at(snapshot)


@contextmanager
def _working_folder_first() -> Iterator[None]:
    """Find modules in the working folder, as ``python -m`` does."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _named(name: str) -> Callable[..., Any]:
    found = _loaded(name)
    if not callable(found):
        raise click.BadParameter(f"{name} is no function")
    return found  # type: ignore[no-any-return]  # It is callable, and what it gives is the user's affair.


def _mapping(name: str) -> dict[str, Callable[..., Any]]:
    found = _loaded(name)
    if not isinstance(found, dict):
        raise click.BadParameter(f"{name} is no mapping of names to functions")
    return found


def _loaded(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise click.BadParameter(f"{name} is not of the form MODULE:NAME")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise click.BadParameter(f"{name} can't be loaded: {error}") from error
