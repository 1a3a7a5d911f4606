"""The committed JSON Schemas, made from the structs that check artifacts: ``make schemas`` writes them, a
test compares.
"""

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

import standfast
from standfast.records.vocabulary import BufferState
from standfast.store.pipeline import BUFFER_SCHEMA, TRANSITIONS, BufferStatus
from standfast.traces.artifact import (
    DETERMINISM_SCHEMA,
    RETRIEVAL_SCHEMA,
    Output,
    Retrieval,
    ToolProfile,
    Trace,
)
from standfast.traces.shapes import (
    ChangeKind,
    ChoiceShape,
    CodePatchShape,
    PatchedFile,
    PlanShape,
    PlanStep,
    RefusalShape,
    Shape,
    ShapeChange,
    TableShape,
    TextShape,
    json_shape,
    output_shape_hash,
    output_type,
)

EXAMPLE_SHAPES: tuple[Shape, ...] = (
    TextShape(sections=("intro", "body", "conclusion")),
    PlanShape(steps=(PlanStep(id=1, action="analyze"), PlanStep(id=2, action="generate"))),
    CodePatchShape(
        files=(
            PatchedFile(
                path="foo.py",
                changes=(ShapeChange(kind=ChangeKind.REPLACE, at_line=3, lines_added=2, lines_removed=1),),
            ),
        )
    ),
    json_shape({"total": 12.5, "items": [{"id": 1}, {"id": 2}], "paid": True}),
    TableShape(columns=("city", "weather"), rows=4),
    ChoiceShape(options=("approve", "reject"), chosen=("approve",)),
    RefusalShape(reason_code="unsafe"),
)
ROOTS: dict[str, Any] = {
    DETERMINISM_SCHEMA: Trace,
    RETRIEVAL_SCHEMA: Retrieval,
    "memory.tool_profile.v1": ToolProfile,
    "memory.output_shape.v1": Shape,
    BUFFER_SCHEMA: BufferStatus,
}


def file_of(name: str) -> Path:
    """Where a schema is committed: in the package that it describes."""
    package = "store" if name == BUFFER_SCHEMA else "traces"
    return Path(standfast.__file__).parent / package / "schemas" / f"{name}.json"


def examples() -> list[dict[str, Any]]:
    """Outputs as an artifact tells them, hashes and all: golden vectors for other implementations."""
    return [
        Output(
            output_type=output_type(shape),
            output_shape=shape,
            output_shape_hash=output_shape_hash(shape),
            normalization_version="json-v1",
        ).as_json()
        for shape in EXAMPLE_SHAPES
    ]


def schema(name: str) -> dict[str, Any]:
    """One schema, as its file holds it."""
    made = msgspec.json.schema(ROOTS[name])
    for part in made["$defs"].values():
        if "description" in part:
            part["description"] = inspect.cleandoc(part["description"])
    if "Output" in made["$defs"]:
        made["$defs"]["Output"]["examples"] = examples()
    if ROOTS[name] is Shape:
        made["examples"] = [shape.as_json() for shape in EXAMPLE_SHAPES]
    if name == BUFFER_SCHEMA:
        _describe_state_machine(made)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:standfast:{name}",
        "title": name,
    }
    return head | made


def _describe_state_machine(made: dict[str, Any]) -> None:
    """Add what the struct's types can't say: which state has which fields, and the steps between states."""
    status = made["$defs"]["BufferStatus"]
    text, number = {"type": "string"}, {"type": "integer"}
    nothing = {"type": "null"}
    of_state = {
        BufferState.ABORTED: {"reason_code": text, "problem": text},
        BufferState.APPLIED: {"memory_snapshot_id": number},
    }
    status["allOf"] = [
        {
            "if": {"properties": {"state": {"const": state.value}}, "required": ["state"]},
            "then": {"properties": fields, "required": sorted(fields)},
            "else": {"properties": dict.fromkeys(sorted(fields), nothing)},
        }
        for state, fields in of_state.items()
    ]
    made["x-transitions"] = [step._asdict() for step in TRANSITIONS]


def text(name: str) -> str:
    """The file's text."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in ROOTS:
        file_of(each).parent.mkdir(exist_ok=True)
        file_of(each).write_text(text(each), encoding="utf-8")
