"""Recall: what memory hands back, the same to the byte, under a token budget.

Read in this order: ``request`` (what is asked), ``memory_read`` (``phase6-v1``, from stores to package), ``selection``
(scores, order, budget), ``package`` (what comes out), ``controller`` and ``registry`` (how to add a controller).
"""

from standfast.recall.controller import (
    Controller,
    Explanation,
    RecallAnswer,
    RecallRequest,
    RecordView,
)
from standfast.recall.filters import Filter, Where
from standfast.recall.jsonl import JsonlCorpus, JsonlSource, Source
from standfast.recall.memory_read import Phase6Controller, explain, read
from standfast.recall.package import ContextPackage
from standfast.recall.records import Candidate
from standfast.recall.registry import ControllerRegistry
from standfast.recall.request import DroppedForm, MemoryControllerInput, Scoring, TrustFilter
from standfast.recall.store_corpus import StoreCorpus
from standfast.recall.tokens import BpeCounter, EstimatedCounter, TokenCounter

__all__ = [
    "BpeCounter",
    "Candidate",
    "ContextPackage",
    "Controller",
    "ControllerRegistry",
    "DroppedForm",
    "EstimatedCounter",
    "Explanation",
    "Filter",
    "JsonlCorpus",
    "JsonlSource",
    "MemoryControllerInput",
    "Phase6Controller",
    "RecallAnswer",
    "RecallRequest",
    "RecordView",
    "Scoring",
    "Source",
    "StoreCorpus",
    "TokenCounter",
    "TrustFilter",
    "Where",
    "explain",
    "read",
]
