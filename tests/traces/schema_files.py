"""The committed JSON Schemas, made from the structs that check artifacts: ``make schemas`` writes them, a test compares."""

import inspect
import json
from pathlib import Path
from typing import Any

import msgspec

import standfast.traces
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

FOLDER = Path(standfast.traces.__file__).parent / "schemas"
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
}


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
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:standfast:{name}",
        "title": name,
    }
    return head | made


def text(name: str) -> str:
    """The file's text."""
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for each in ROOTS:
        (FOLDER / f"{each}.json").write_text(text(each), encoding="utf-8")
