"""Traces: what a run did, recorded so that two runs can be proved equivalent, or where they differ.

artifact.py       the JSON file that a run leaves: ToolProfile, ModelConfig, ToolCall, Event, Trace
shapes.py         the structure of an output without its words
recorder.py       the Recorder that a run has, over recording.py: events in lanes until they are the artifact
equivalence.py    the trace contract, and the comparison of two traces
replay.py         a run played again from its artifact
folder.py         where artifacts are stored, with the journals of runs that go on
schemas/          the JSON Schemas, for other programs
"""

from standfast.traces.artifact import (
    Event,
    ModelConfig,
    RetrievalBudget,
    SelectedRecord,
    ToolCall,
    ToolProfile,
    Trace,
    ranked,
)
from standfast.traces.equivalence import (
    ClaimVerdict,
    Comparison,
    Difference,
    ReasonCode,
    Shortfall,
    ShortfallCode,
    compare,
    compare_artifacts,
    shortfalls,
)
from standfast.traces.folder import TraceFolder
from standfast.traces.recorder import Recorder
from standfast.traces.replay import Replay, ReplayedRun
from standfast.traces.shapes import (
    ChoiceShape,
    CodePatchShape,
    CustomShape,
    JsonShape,
    PlanShape,
    RefusalShape,
    Shape,
    TableShape,
    TextShape,
    code_patch_shape,
    json_shape,
    text_shape,
)

__all__ = [
    "ChoiceShape",
    "ClaimVerdict",
    "CodePatchShape",
    "Comparison",
    "CustomShape",
    "Difference",
    "Event",
    "JsonShape",
    "ModelConfig",
    "PlanShape",
    "ReasonCode",
    "Recorder",
    "RefusalShape",
    "Replay",
    "ReplayedRun",
    "RetrievalBudget",
    "SelectedRecord",
    "Shape",
    "Shortfall",
    "ShortfallCode",
    "TableShape",
    "TextShape",
    "ToolCall",
    "ToolProfile",
    "Trace",
    "TraceFolder",
    "code_patch_shape",
    "compare",
    "compare_artifacts",
    "json_shape",
    "ranked",
    "shortfalls",
    "text_shape",
]
