"""The routes of what stands beside memory: traces, bench results, prompts."""

from typing import Final

from standfast.optimize.prompts.overrides import PromptOverride
from standfast.server.access.table import Act
from standfast.server.http.rows.operation import Call, Operation, do, read
from standfast.server.operations.beside import grading, prompting, shapes, tracing
from standfast.traces.artifact import Trace
from standfast.traces.equivalence import Comparison

_PROMPT: Final = "/v1/prompts/{ns}/{prompt_key}"


def _prompt(call: Call) -> tuple[str, str]:
    return call.path["ns"], call.path["prompt_key"]


def _version(override: PromptOverride) -> int:
    return override.version


BESIDE_OPERATIONS: Final = (
    read(
        "list_traces",
        Act.READ_TRACES,
        "/v1/traces",
        "The runs that left a trace.",
        asks=shapes.AskedTraces,
        does=lambda call: tracing.list_traces(call.hall, call.caller, call.asked),
        answers=shapes.TracesPage,
    ),
    # Before the route of one trace, which would take the word for a run's id.
    read(
        "compare_traces",
        Act.READ_TRACES,
        "/v1/traces/compare",
        "Whether two runs did the same, or every difference, the first one first.",
        asks=shapes.AskedComparison,
        does=lambda call: tracing.compare_traces(call.hall, call.caller, call.asked),
        answers=Comparison,
    ),
    read(
        "get_trace",
        Act.READ_TRACES,
        "/v1/traces/{run_id}",
        "What one run decided, called, read and put out, in order.",
        does=lambda call: tracing.get_trace(call.hall, call.caller, call.run_id),
        answers=Trace,
    ),
    read(
        "bench",
        Act.READ_BENCH,
        "/v1/bench",
        "The leaderboard of the finished grid, and a report for each policy.",
        asks=shapes.AskedBench,
        does=lambda call: grading.bench(call.hall, call.caller, call.asked),
        answers=shapes.BenchResults,
    ),
    read(
        "get_prompt",
        Act.READ_PROMPT,
        _PROMPT,
        "What a tag overrides in a prompt.",
        asks=shapes.AskedOverride,
        does=lambda call: prompting.get_prompt(call.hall, call.caller, *_prompt(call), call.asked),
        answers=PromptOverride,
        version_of=_version,
    ),
    Operation(
        name="put_prompt",
        act=Act.CHANGE_PROMPT,
        method="PUT",
        path=_PROMPT,
        says="Set all that a tag overrides in a prompt, if it still has the version that was read.",
        asks=shapes.PutOverride,
        does=lambda call: prompting.put_prompt(
            call.hall, call.caller, *_prompt(call), call.asked, if_version=call.if_version
        ),
        answers=PromptOverride,
        takes_version=True,
        version_of=_version,
    ),
    do(
        "roll_back_prompt",
        Act.CHANGE_PROMPT,
        f"{_PROMPT}/rollback",
        "Make a tag what it was before its last change; again undoes it.",
        asks=shapes.RollBack,
        does=lambda call: prompting.roll_back_prompt(
            call.hall, call.caller, *_prompt(call), call.asked, if_version=call.if_version
        ),
        answers=PromptOverride,
        takes_version=True,
        version_of=_version,
    ),
)
