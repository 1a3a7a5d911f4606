# The names of standfast.traces. Each is listed here and nowhere else; see lazy_names.py.

from standfast.traces.artifact import (
    Event as Event,
    ModelConfig as ModelConfig,
    RetrievalBudget as RetrievalBudget,
    SelectedRecord as SelectedRecord,
    ToolCall as ToolCall,
    ToolProfile as ToolProfile,
    Trace as Trace,
    ranked as ranked,
)
from standfast.traces.equivalence import (
    ClaimVerdict as ClaimVerdict,
    Comparison as Comparison,
    Difference as Difference,
    ReasonCode as ReasonCode,
    Shortfall as Shortfall,
    ShortfallCode as ShortfallCode,
    compare as compare,
    compare_artifacts as compare_artifacts,
    shortfalls as shortfalls,
)
from standfast.traces.folder import TraceFolder as TraceFolder
from standfast.traces.recorder import Recorder as Recorder
from standfast.traces.replay import (
    Replay as Replay,
    ReplayedRun as ReplayedRun,
)
from standfast.traces.shapes import (
    ChoiceShape as ChoiceShape,
    CodePatchShape as CodePatchShape,
    CustomShape as CustomShape,
    JsonShape as JsonShape,
    PlanShape as PlanShape,
    RefusalShape as RefusalShape,
    Shape as Shape,
    TableShape as TableShape,
    TextShape as TextShape,
    code_patch_shape as code_patch_shape,
    json_shape as json_shape,
    text_shape as text_shape,
)
