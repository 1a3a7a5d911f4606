"""Recall: what memory hands back, the same to the byte, under a token budget.

Read in this order: ``controllers`` (what answers, and how to add one), ``answers`` (what it is given and what
it gives), ``lexical`` and ``hybrid`` (scores and ranks), ``packing``, ``package`` (what comes out), ``index``
and
``analysis`` (what is ranked), ``vectors`` and ``embedders``. ``phase6`` is the contract's ``memory.read``,
with ``request`` and ``selection``. ``words`` has word lists as data, which ``word_lists`` reads.
"""

from standfast.recall.analysis import LANGUAGES
from standfast.recall.answers import ExplainedMatch, Explanation, Package, RecallAnswer, RecordView
from standfast.recall.candidates import Candidate
from standfast.recall.controllers import Controller, ControllerRegistry
from standfast.recall.embedders import (
    Embedder,
    HttpEmbedder,
    LocalEmbedder,
    QueryVector,
    StaticEmbedder,
    open_embedder,
    to_signed_bytes,
)
from standfast.recall.hybrid import HybridController
from standfast.recall.jsonl import JsonlSource, Source
from standfast.recall.lexical import LexicalController
from standfast.recall.package import ContextPackage, RecallItem, RecallPackage
from standfast.recall.phase6 import Phase6Controller, explain, read
from standfast.recall.request import DroppedForm, MemoryControllerInput, Scoring, TrustFilter
from standfast.recall.rerankers import HttpReranker, LocalReranker, Reranker, RerankScores, open_reranker
from standfast.recall.tokens import BpeCounter, EstimatedCounter, TokenCounter
from standfast.records.filters import Filter, Where
from standfast.records.requests import RecallRequest

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
    "HttpReranker",
    "HybridController",
    "JsonlSource",
    "LexicalController",
    "LocalEmbedder",
    "LocalReranker",
    "MemoryControllerInput",
    "Package",
    "Phase6Controller",
    "QueryVector",
    "RecallAnswer",
    "RecallItem",
    "RecallPackage",
    "RecallRequest",
    "RecordView",
    "RerankScores",
    "Reranker",
    "Scoring",
    "Source",
    "StaticEmbedder",
    "TokenCounter",
    "TrustFilter",
    "Where",
    "explain",
    "open_embedder",
    "open_reranker",
    "read",
    "to_signed_bytes",
]
