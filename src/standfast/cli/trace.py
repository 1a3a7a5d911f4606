"""``standfast trace``: show, validate, compare and replay recorded runs."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from standfast.cli.options import load_settings, opened_store
from standfast.cli.output import ANSWER_IS_NO, BAD_INPUT, json_option, print_json
from standfast.errors import TraceError
from standfast.memory import Memory
from standfast.records.canon import canonical_bytes
from standfast.traces.artifact import Event, Retrieval, ToolCall, Trace
from standfast.traces.equivalence import (
    ClaimVerdict,
    Comparison,
    Difference,
    Shortfall,
    compare_artifacts,
    shortfall_of_error,
    shortfalls,
)
from standfast.traces.folder import read_artifact
from standfast.traces.replay import ReplayMemory, replay

EXIT_CODES: Final = {
    ClaimVerdict.EQUIVALENT: 0,
    ClaimVerdict.DIFFERENT: ANSWER_IS_NO,
    ClaimVerdict.ERASED: ANSWER_IS_NO,
    ClaimVerdict.REJECTED: BAD_INPUT,
}
assert set(EXIT_CODES) == set(ClaimVerdict)
_MOST_CHARS: Final = 120
_TRACE_FILE: Final = click.Path(exists=True, dir_okay=False)


@click.group("trace")
def trace_command() -> None:
    """Show, validate, compare and replay recorded runs."""


@trace_command.command("show")
@click.argument("file", type=_TRACE_FILE)
@json_option
def show(file: str, as_json: bool) -> None:
    """Print the run recorded in FILE: its settings, decisions, tool calls, reads and output."""
    trace = Trace.read(read_artifact(Path(file)))
    if as_json:
        print_json(trace.as_json())
        return
    _print_head(trace)
    reads = {read.retrieval_event_id: read for read in trace.retrievals}
    for event in trace.events:
        _print_event(event, [reads[link] for link in event.retrieval_event_ids if link in reads])
    output = trace.output
    click.echo(
        "no output" if output is None else f"output {output.output_type} {output.output_shape_hash[:16]}…"
    )
    for shortfall in shortfalls(trace):
        click.echo(f"✗ {_shortfall_line(shortfall)}")


def _print_head(trace: Trace) -> None:
    model = trace.model_config
    lines: dict[str, Any] = {
        "run": trace.run_id,
        "workflow": trace.workflow_id,
        "snapshot": f"{trace.memory_snapshot_id} ({trace.visibility_mode})",
        "policies": trace.policy_set_id,
        "model": "unknown" if model is None else f"{model.provider_name} {model.model_name}",
        "recorded": f"{trace.metadata.started_at} to {trace.metadata.finished_at}",
    }
    for name, value in lines.items():
        click.echo(f"{name:9} {value}")


def _print_event(event: Event, reads: list[Retrieval]) -> None:
    click.echo(f"{event.index:4}  {event.role} · {event.interceptor} · {event.decision_type}")
    for read in reads:
        ids = ", ".join(record.record_id for record in read.selected_records)
        click.echo(f"      read  {read.policy_id} {read.policy_version}: {ids or 'nothing'}")
    for call in event.tool_calls:
        click.echo(f"      call  {call.tool_name} {_arguments(call)} {call.outcome}")
    for guardrail in event.guardrails_triggered:
        click.echo(f"      guard {guardrail}")


def _arguments(call: ToolCall) -> str:
    text = canonical_bytes(call.normalized_args).decode()
    return text if len(text) <= 100 else f"{text[:99]}…"


@trace_command.command("validate", epilog="Exit codes: 0 all are valid; 2 at least one is not.")
@click.argument("files", nargs=-1, required=True, type=_TRACE_FILE)
@json_option
def validate(files: tuple[str, ...], as_json: bool) -> None:
    """Check each of FILES against the trace contract: schema, hash, completeness."""
    found = {name: _shortfalls_of(Path(name)) for name in files}
    if as_json:
        print_json({name: [fall.as_json() for fall in falls] for name, falls in found.items()})
    else:
        for name, falls in found.items():
            click.echo(f"{name}: {'invalid' if falls else 'valid'}")
            for fall in falls:
                click.echo(f"  ✗ {_shortfall_line(fall)}")
    if any(found.values()):
        raise SystemExit(BAD_INPUT)


def _shortfalls_of(file: Path) -> tuple[Shortfall, ...]:
    try:
        return shortfalls(Trace.read(read_artifact(file)))
    except TraceError as error:
        return (shortfall_of_error(error),)


@trace_command.command(
    "compare", epilog="Exit codes: 0 equivalent; 1 different, or erased; 2 the claim is rejected."
)
@click.argument("left", type=_TRACE_FILE)
@click.argument("right", type=_TRACE_FILE)
@json_option
def compare(left: str, right: str, as_json: bool) -> None:
    """Compare the runs recorded in LEFT and RIGHT: equivalent, or every difference, the first one marked.

    "erased" means that the runs diverged because content that one of them read was erased before the other.

    The claim is rejected if a trace is truncated, incomplete, damaged, of another version, or of a run that
    read live memory: such a trace proves nothing.
    """
    comparison = compare_artifacts(read_artifact(Path(left)), read_artifact(Path(right)))
    verdict = comparison.verdict
    if as_json:
        print_json(_comparison_json(comparison, verdict))
    else:
        _print_comparison(comparison, verdict, names=(left, right))
    raise SystemExit(EXIT_CODES[verdict])


@trace_command.command(
    "replay", epilog="Exit codes: 0 equivalent; 1 different; 2 it can't be replayed, or proves nothing."
)
@click.argument("file", type=_TRACE_FILE)
@click.argument("agent", metavar="MODULE:FUNCTION")
@click.option(
    "--tools", metavar="MODULE:MAPPING", help="Functions by tool name, for results that are not in the trace."
)
@click.option(
    "--store",
    "store_url",
    help="Read memory as of the run's snapshot from this store: a SQLite file, or postgresql://….",
)
@click.option("--namespace", help="Namespace of that store; default: the setting `namespace`.")
@click.option(
    "--memory",
    metavar="MODULE:FUNCTION",
    help="Instead of a store: a function that takes a snapshot number and returns memory as of then.",
)
@click.option("--out", type=click.Path(dir_okay=False), help="Write the trace of the replay to this file.")
@json_option
def replay_command(
    *,
    file: str,
    agent: str,
    tools: str | None,
    store_url: str | None,
    namespace: str | None,
    memory: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Run the agent MODULE:FUNCTION again on the recorded inputs of FILE, and compare both runs.

    Tools are not called: their recorded results are returned. A store is only read. MODULE is imported from
    the working folder first and runs with your rights; name only code that you trust.
    """
    trace = Trace.read(read_artifact(Path(file)))
    with _working_folder_on_path(), ExitStack() as stack:
        view = _memory_at(
            stack, trace.memory_snapshot_id, store_url=store_url, namespace=namespace, memory=memory
        )
        replayed = replay(trace, _function(agent), None if tools is None else _mapping(tools), memory=view)
    if out is not None:
        Path(out).write_bytes(replayed.trace.as_bytes())
    error = None if replayed.error is None else f"{type(replayed.error).__name__}: {replayed.error}"
    if as_json:
        print_json({**_comparison_json(replayed.comparison, replayed.verdict), "agent_error": error})
    else:
        _print_comparison(replayed.comparison, replayed.verdict, names=(file, "its replay"))
        if error is not None:
            click.echo(f"  the agent raised {error}")
    raise SystemExit(EXIT_CODES[replayed.verdict])


def _memory_at(
    stack: ExitStack, snapshot: int, *, store_url: str | None, namespace: str | None, memory: str | None
) -> ReplayMemory | None:
    """Memory as of the run's snapshot: from a store, from the user's function, or none."""
    if memory is not None and (store_url or namespace):
        raise click.UsageError("give --store or --memory, not both")
    if memory is not None:
        view: ReplayMemory = _function(memory)(snapshot)
        return view
    if store_url is None:
        if namespace is not None:
            raise click.UsageError("--namespace needs --store")
        return None
    store = stack.enter_context(opened_store(store_url, recover=False))
    return Memory(store, namespace=namespace or load_settings().namespace).at(snapshot)


@contextmanager
def _working_folder_on_path() -> Iterator[None]:
    """Import modules from the working folder first, as ``python -m`` does."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _function(name: str) -> Callable[..., Any]:
    found = _load(name)
    if not callable(found):
        raise click.BadParameter(f"{name} is not a function")
    return found  # type: ignore[no-any-return]  # What the user's function returns is not checked here.


def _mapping(name: str) -> dict[str, Callable[..., Any]]:
    found = _load(name)
    if not isinstance(found, dict):
        raise click.BadParameter(f"{name} is not a dict of functions by tool name")
    return found


def _load(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise click.BadParameter(f"{name} is not of the form MODULE:NAME")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise click.BadParameter(f"can't load {name}: {error}") from error


def _comparison_json(comparison: Comparison, verdict: ClaimVerdict) -> dict[str, Any]:
    first = comparison.first
    return {
        **comparison.as_json(),
        "verdict": verdict.value,
        "first": None if first is None else first.as_json(),
    }


def _print_comparison(comparison: Comparison, verdict: ClaimVerdict, *, names: tuple[str, str]) -> None:
    click.echo(f"{verdict}: {names[0]} and {names[1]}")
    for name, falls in zip(names, (comparison.left_shortfalls, comparison.right_shortfalls), strict=True):
        for fall in falls:
            click.echo(f"  ✗ {name} {_shortfall_line(fall)}")
    for number, difference in enumerate(comparison.differences):
        _print_difference(difference, is_first=number == 0)


def _print_difference(difference: Difference, *, is_first: bool) -> None:
    mark = "→ first " if is_first else "  "
    event = "" if difference.event_index is None else f"event {difference.event_index}, "
    click.echo(f"{mark}[{difference.code}] {event}{difference.place}")
    click.echo(f"      left   {_shortened(difference.left)}")
    click.echo(f"      right  {_shortened(difference.right)}")


def _shortfall_line(shortfall: Shortfall) -> str:
    return f"[{shortfall.code}] {shortfall.place}: {shortfall.problem}"


def _shortened(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…"
