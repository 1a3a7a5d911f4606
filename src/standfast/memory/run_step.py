"""Steps: what each call did to a run, so that another process can carry the run on.

A step holds the outcome of a call and not the call: it was judged once, at one instant and by one judge, and
stays as it was answered. It holds no secret, because what was judged and what is recorded are redacted.
"""

from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from standfast.govern.admission import JudgedRecord
from standfast.recall.answers import Package
from standfast.recall.index.store_index import key_at
from standfast.records.conversion import decoded
from standfast.records.requests import ForgetRequest, RememberRequest
from standfast.records.scopes import scope_in
from standfast.records.vocabulary import ErasedSince, Remembered
from standfast.traces.artifact import RetrievalBudget, SelectedRecord
from standfast.traces.entries import TraceEntry
from standfast.traces.recorder import Recorder

RECALL: Final = "recall"
REMEMBER: Final = "remember"
FORGET: Final = "forget"
RECORD: Final = "record"

Recalled = tuple[str, str, str]
"""The scope, the id and the excerpt of something that a run was handed."""


def recalled_from(package: Package, namespace: str) -> tuple[Recalled, ...]:
    """What a package hands out."""
    return tuple(
        (scope_in(key_at(namespace, item.store_path, item.memory_id)), item.memory_id, item.excerpt)
        for item in package.items
    )


class RunStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one call did to a run.

    ``asked`` is what a trace records of the call. ``fingerprint`` is that of the call if the run's id is an
    idempotency key. ``named`` counts the ids that the run has given out.
    """

    verb: str
    asked: dict[str, Any]
    answer: Remembered | None = None
    fingerprint: str = ""
    judged: tuple[JudgedRecord, ...] = ()
    forgotten: dict[str, str] = {}
    recalled: tuple[Recalled, ...] = ()
    named: int = 0

    @classmethod
    def of_recall(cls, facts: Mapping[str, Any], recalled: tuple[Recalled, ...]) -> Self:
        """The step of a recall; ``facts`` are the arguments of ``Recorder.retrieval``."""
        return cls(verb=RECALL, asked=msgspec.to_builtins(dict(facts)), recalled=recalled)

    def as_bytes(self) -> bytes:
        """The step as it is stored."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, stored: bytes) -> Self:
        """The step that ``as_bytes`` gave."""
        return decoded(stored, cls)

    def record_in(self, recorder: Recorder) -> None:
        """Record the call again, with the answer that it was given."""
        if self.verb == RECORD:
            recorder.record(TraceEntry.from_json(self.asked))
        elif self.verb == RECALL:
            recorder.retrieval(**_retrieval_facts(self.asked))
        elif self.verb == REMEMBER:
            recorder.wrote(RememberRequest.from_json(self.asked), self.answer)
        else:
            recorder.wrote(ForgetRequest.from_json(self.asked))


def _retrieval_facts(asked: dict[str, Any]) -> dict[str, Any]:
    erased = asked.get("erased_since")
    return {
        **asked,
        "budget": RetrievalBudget.from_json(asked["budget"]),
        "selected_records": [SelectedRecord.from_json(one) for one in asked["selected_records"]],
        "erased_since": None if erased is None else ErasedSince.from_json(erased),
    }
