"""``standfast trace show``: what a recorded run did, event by event."""

from pathlib import Path
from typing import Any

import click

from standfast.canon import canonical_bytes
from standfast.cli.output import json_option, print_json
from standfast.cli.trace.telling import fall_told
from standfast.traces.artifact import Event, Retrieval, ToolCall, Trace
from standfast.traces.contract import shortfalls
from standfast.traces.folder import read_artifact


@click.command("show")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@json_option
def command(file: str, as_json: bool) -> None:
    """Print the run recorded in FILE: what it was, what it decided, called and read, and what it put out."""
    trace = Trace.read(read_artifact(Path(file)))
    if as_json:
        print_json(trace.as_json())
        return
    _tell_head(trace)
    reads = {read.retrieval_event_id: read for read in trace.retrievals}
    for event in trace.events:
        _tell_event(event, [reads[link] for link in event.retrieval_event_ids if link in reads])
    output = trace.output
    click.echo(
        "no output" if output is None else f"output {output.output_type} {output.output_shape_hash[:16]}…"
    )
    for fall in shortfalls(trace):
        click.echo(f"✗ {fall_told(fall)}")


def _tell_head(trace: Trace) -> None:
    model = trace.model_config
    told: dict[str, Any] = {
        "run": trace.run_id,
        "workflow": trace.workflow_id,
        "snapshot": f"{trace.memory_snapshot_id} ({trace.visibility_mode})",
        "policies": trace.policy_set_id,
        "model": "unknown" if model is None else f"{model.provider_name} {model.model_name}",
        "recorded": f"{trace.metadata.started_at} to {trace.metadata.finished_at}",
    }
    for name, value in told.items():
        click.echo(f"{name:9} {value}")


def _tell_event(event: Event, reads: list[Retrieval]) -> None:
    click.echo(f"{event.index:4}  {event.role} · {event.interceptor} · {event.decision_type}")
    for read in reads:
        ids = ", ".join(record.record_id for record in read.selected_records)
        click.echo(f"      read  {read.policy_id} {read.policy_version}: {ids or 'nothing'}")
    for call in event.tool_calls:
        click.echo(f"      call  {call.tool_name} {_args(call)} {call.outcome}")
    for guardrail in event.guardrails_triggered:
        click.echo(f"      guard {guardrail}")


def _args(call: ToolCall) -> str:
    text = canonical_bytes(call.normalized_args).decode()
    return text if len(text) <= 100 else f"{text[:99]}…"
