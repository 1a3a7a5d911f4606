# The names of standfast.recall. Each is listed here and nowhere else; see lazy_names.py.

from standfast.recall.analysis import LANGUAGES as LANGUAGES
from standfast.recall.answers import (
    ExplainedMatch as ExplainedMatch,
    Explanation as Explanation,
    Package as Package,
    RecallAnswer as RecallAnswer,
    RecordView as RecordView,
)
from standfast.recall.candidates import Candidate as Candidate
from standfast.recall.controllers import (
    Controller as Controller,
    ControllerRegistry as ControllerRegistry,
)
from standfast.recall.embedders import (
    Embedder as Embedder,
    HttpEmbedder as HttpEmbedder,
    LocalEmbedder as LocalEmbedder,
    QueryVector as QueryVector,
    StaticEmbedder as StaticEmbedder,
    open_embedder as open_embedder,
    to_signed_bytes as to_signed_bytes,
)
from standfast.recall.hybrid import HybridController as HybridController
from standfast.recall.jsonl import (
    JsonlSource as JsonlSource,
    Source as Source,
)
from standfast.recall.lexical import LexicalController as LexicalController
from standfast.recall.package import (
    ContextPackage as ContextPackage,
    RecallItem as RecallItem,
    RecallPackage as RecallPackage,
)
from standfast.recall.phase6 import (
    Phase6Controller as Phase6Controller,
    explain as explain,
    read as read,
)
from standfast.recall.request import (
    DroppedForm as DroppedForm,
    MemoryControllerInput as MemoryControllerInput,
    Scoring as Scoring,
    TrustFilter as TrustFilter,
)
from standfast.recall.rerankers import (
    HttpReranker as HttpReranker,
    LocalReranker as LocalReranker,
    Reranker as Reranker,
    RerankScores as RerankScores,
    open_reranker as open_reranker,
)
from standfast.recall.tokens import (
    BpeCounter as BpeCounter,
    EstimatedCounter as EstimatedCounter,
    TokenCounter as TokenCounter,
)
from standfast.records.filters import (
    Filter as Filter,
    Where as Where,
)
from standfast.records.requests import RecallRequest as RecallRequest
