"""Recall: what memory hands back, the same to the byte, under a token budget.

Read in this order: ``controller`` (what is asked, and what answers), ``lexical`` (``lexical-v1`` and
``hybrid-v1``: scores and ranks; and the registry, to add a controller), ``packing``, ``index_view``,
``lexical_index`` and ``analysis`` (what it ranks by), ``package`` (what comes out), ``vectors`` and
``embedders`` (for ``hybrid-v1``). ``phase6-v1``, the contract's ``memory.read``, is in ``memory_read``, with
``request`` and ``selection``.
"""

from standfast.recall.analysis import LANGUAGES
from standfast.recall.candidates import Candidate
from standfast.recall.controller import (
    Controller,
    ExplainedMatch,
    Explanation,
    Package,
    RecallAnswer,
    RecallRequest,
    RecordView,
)
from standfast.recall.embedders import (
    Embedder,
    HttpEmbedder,
    LocalEmbedder,
    QueryVector,
    StaticEmbedder,
    open_embedder,
    to_signed_bytes,
)
from standfast.recall.filters import Filter, Where
from standfast.recall.jsonl import JsonlSource, Source
from standfast.recall.lexical import ControllerRegistry, HybridController, LexicalController
from standfast.recall.memory_read import Phase6Controller, explain, read
from standfast.recall.package import ContextPackage, RecallItem, RecallPackage
from standfast.recall.request import DroppedForm, MemoryControllerInput, Scoring, TrustFilter
from standfast.recall.tokens import BpeCounter, EstimatedCounter, TokenCounter

__all__ = [
    "LANGUAGES",
    "BpeCounter",
    "Candidate",
    "ContextPackage",
    "Controller",
    "ControllerRegistry",
    "DroppedForm",
    "Embedder",
    "EstimatedCounter",
    "ExplainedMatch",
    "Explanation",
    "Filter",
    "HttpEmbedder",
    "HybridController",
    "JsonlSource",
    "LexicalController",
    "LocalEmbedder",
    "MemoryControllerInput",
    "Package",
    "Phase6Controller",
    "QueryVector",
    "RecallAnswer",
    "RecallItem",
    "RecallPackage",
    "RecallRequest",
    "RecordView",
    "Scoring",
    "Source",
    "StaticEmbedder",
    "TokenCounter",
    "TrustFilter",
    "Where",
    "explain",
    "open_embedder",
    "read",
    "to_signed_bytes",
]
