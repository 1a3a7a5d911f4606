"""``standfast hook``: what coding agents call at a prompt and at the end of a session.

It answers or gives up within a second, start-up included, so nothing is imported before it is needed, and a
question is answered by words alone. Whatever goes wrong, it exits with 0 and says nothing: an agent works
without memory rather than not at all.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any, Final

import click

from standfast.places import memory_in, repository_of

PROMPT: Final = "UserPromptSubmit"
ENDS: Final = ("SessionEnd", "Stop", "PreCompact")
DEFAULT_TOKENS: Final = 400
_MAX_INPUT_CHARS: Final = 1 << 20
_MAX_QUERY_CHARS: Final = 4_000
_NAMESPACE: Final = "default"


@click.command("hook")
@click.option("--tokens", type=click.IntRange(20, 10_000), default=DEFAULT_TOKENS, help="The token budget.")
@click.option("--store", "store", help="Another memory than that of the repository and of the user.")
@click.option("--capture", "captures", is_flag=True, help="Capture in this process, without a time limit.")
def hook_command(tokens: int, store: str | None, captures: bool) -> None:
    """Answer the hook of a coding agent, whose JSON is on standard input.

    At a prompt, print what memory says about it; at the end of a session or turn, remember the decisions and
    preferences that the user stated, each judged, with the transcript as source. Gives up after a second, and
    never fails: without an answer, nothing is printed.
    """
    try:
        given = json.loads(sys.stdin.read(_MAX_INPUT_CHARS))
        event = given["hook_event_name"]
        if event == PROMPT:
            _print_context(str(given["prompt"]), _memories(given, store), tokens)
        elif event in ENDS and captures:
            from standfast.cli.transcripts import capture

            capture(given, next(iter(_memories(given, store, may_be_new=True)), None))
        elif event in ENDS:
            _capture_apart(given, store)
            # Codex reads JSON at the end of a turn.
            click.echo("{}") if event == "Stop" else None
    except Exception:  # noqa: BLE001  # An agent must not stop because memory has a problem.
        if os.environ.get("STANDFAST_HOOK_DEBUG"):
            import traceback

            # Printed here: the process of a hook ends before Python would print what was raised.
            traceback.print_exc()


def _memories(given: dict[str, Any], store: str | None, *, may_be_new: bool = False) -> list[Path]:
    """The memories to ask, that of the project first. One that nobody set up is not made."""
    if store is not None:
        return [Path(store)]
    root = repository_of(Path(str(given.get("cwd") or Path.cwd())))
    folders = [one for one in (root, Path.home()) if one is not None]
    files = [memory_in(one) for one in dict.fromkeys(folders)]
    return [one for one in files if (one.parent if may_be_new else one).exists()]


def _print_context(prompt: str, memories: list[Path], tokens: int) -> None:
    """Print what the memories say about a prompt, in the form that agents document."""
    parts: list[str] = []
    for memory in memories:
        found = recalled(memory, prompt[:_MAX_QUERY_CHARS], tokens)
        if found is not None:
            text, used = found
            parts.append(text)
            tokens -= used
    if parts:
        output = {"hookEventName": PROMPT, "additionalContext": "\n".join(parts)}
        click.echo(json.dumps({"hookSpecificOutput": output}))


def recalled(memory: Path, query: str, tokens: int) -> tuple[str, int] | None:
    """The text of what one memory says about a question, and its tokens; None if nothing matches.

    It reads the index directly: a whole ``Memory`` takes twice as long to import.
    """
    from standfast.recall.answers import RecordView
    from standfast.recall.controllers import ControllerRegistry
    from standfast.recall.index.store_index import StoreIndex
    from standfast.recall.package import RecallPackage
    from standfast.records.requests import RecallRequest
    from standfast.store.opening import open_store

    if tokens <= 0:
        return None
    store = open_store(str(memory), create=False, recover=False)
    try:
        head = store.head()
        if head == 0:
            return None
        request = RecallRequest.of(query, tokens=tokens, controller="lexical-v1")
        index = StoreIndex(store, _NAMESPACE, may_write=False)
        instant = store.commit_of(head).committed_at
        view = RecordView(
            (), lambda: index.view(request.bands, at=head, scopes=request.places, head=head), instant
        )
        package = ControllerRegistry.shipped().answer(request.controller, request, view, None).package
    finally:
        store.close()
    if not isinstance(package, RecallPackage) or not package.matched or not package.items:
        return None
    return package.text, package.text_tokens


def _capture_apart(given: dict[str, Any], store: str | None) -> None:
    """Capture in a process of its own, which outlives this one: reading and judging may take seconds."""
    import subprocess

    words = ["--store", store] if store is not None else []
    child = subprocess.Popen(  # noqa: S603  # This very program.
        [sys.executable, "-m", "standfast", "hook", "--capture", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert child.stdin is not None
    with child.stdin as end:
        end.write(json.dumps(given).encode())
