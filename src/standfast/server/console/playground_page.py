"""The playground: what a model would be told for a question, and why each memory is or is not in it."""

from dataclasses import dataclass
from typing import Any, Final

from standfast.errors import StandfastError
from standfast.limits import CONSOLE_PAGE_ITEMS, DEFAULT_MAX_ITEMS, DEFAULT_RECALL_TOKENS
from standfast.recall.tokens import EstimatedCounter
from standfast.records.filters import Filter
from standfast.records.origins import Origin
from standfast.records.requests import DEFAULT_CONTROLLER
from standfast.records.vocabulary import Record, Value
from standfast.server.access.permissions import Permission
from standfast.server.console.rendering import Page, PageRequest, listed
from standfast.server.console.times import PointInTime, point_of
from standfast.server.operations import memory_operations
from standfast.server.operations.schemas import RecallBody

REASONS: Final = {
    "pinned": "it is pinned",
    "words": "it shares words with the question",
    "meaning": "it means something similar",
    "neighbours": "it stands next to a match in the conversation",
    "speaker": "the question names its speaker",
    "date": "the question names its date",
    "newest": "there was room, and it is new",
}
OUTCOMES: Final = {
    "selected": "in the text",
    "budget_exhausted": "did not fit the token budget",
    "max_items_reached": "more than the number of items allows",
    "same": "says the same as another",
    "not_looked_at": "ranked too low to be looked at",
    "not_valid": "not valid at that time",
    "unreviewed": "waits for a decision",
    "untrusted_elsewhere": "untrusted, and not in a scope that was named",
    "untrusted_beside": "untrusted, and something trusted matches",
    "least_origin": "not trusted enough for this question",
    "filtered": "left out by a filter",
    "trust_denied": "not trusted enough",
    "no_match": "shares nothing with the question",
}
"""What became of a memory, in plain words. A controller's own reason is shown as it is."""
_FILTERS: Final = ("tag", "source_kind", "subject_prefix", "session", "speaker", "after", "before")


class PlaygroundQuery(Value, frozen=True, kw_only=True):
    """A question with everything that decides about its answer. All of it is in the address.

    Args:
        q: The question.
        scopes: The scopes to read, with commas.
        day: The day or minute as of which memory is read; without one, now.
        zone: How many minutes the browser's clock is ahead of UTC.
    """

    q: str = ""
    scopes: str = ""
    tokens: int = DEFAULT_RECALL_TOKENS
    max_items: int = DEFAULT_MAX_ITEMS
    controller: str = DEFAULT_CONTROLLER
    day: str = ""
    zone: int = 0
    tag: str = ""
    source_kind: str = ""
    subject_prefix: str = ""
    session: str = ""
    speaker: str = ""
    after: str = ""
    before: str = ""
    least_origin: Origin | None = None
    include_unreviewed: bool = False

    @property
    def has_filters(self) -> bool:
        """Whether more than question, scopes and budget is given."""
        is_usual = self.max_items == DEFAULT_MAX_ITEMS and self.controller == DEFAULT_CONTROLLER
        chosen = (*(getattr(self, name) for name in _FILTERS), self.day, self.least_origin)
        return any(chosen) or self.include_unreviewed or not is_usual

    def body(self, at: int) -> RecallBody:
        """The recall that the fields describe, of a snapshot."""
        where = {name: text for name in _FILTERS if (text := getattr(self, name))}
        return RecallBody(
            query=self.q.strip(),
            tokens=self.tokens,
            max_items=self.max_items,
            controller=self.controller,
            scopes=tuple(listed(self.scopes)) or None,
            where=Filter.of(where),
            least_origin=self.least_origin,
            include_unreviewed=self.include_unreviewed,
            at=at,
            explain=True,
        )


@dataclass(frozen=True, slots=True)
class Considered:
    """A memory that recall looked at: what became of it, and why."""

    record: Record | None
    memory_id: str
    rank: int
    score: str
    outcome: str
    why: tuple[str, ...]
    matched: tuple[str, ...]
    ceiling: dict[str, Any] | None

    @property
    def is_chosen(self) -> bool:
        """Whether the text has it."""
        return self.outcome == "selected"


def playground(request: PageRequest) -> Page:
    """The form, and with a question the answer: the exact text, and why it is what it is."""
    memory = request.memory(Permission.RECALL)
    query = request.parse_query(PlaygroundQuery)
    context: dict[str, Any] = {
        "query": query,
        "answer": None,
        "problem": None,
        "point": None,
        "controllers": sorted(one.version for one in memory.reader.controllers),
        "origins": tuple(Origin),
        "outcomes": OUTCOMES,
        "scopes_of_key": ", ".join(request.caller.scopes),
    }
    if not query.q.strip():
        return Page(template="playground.html", context=context)
    try:
        context["point"] = point = point_of(memory.store, query.day, query.zone)
        context["answer"] = _answer(request, query, point)
    except StandfastError as error:
        context["problem"] = error
    return Page(template="playground.html", context=context)


def _answer(request: PageRequest, query: PlaygroundQuery, point: PointInTime) -> dict[str, Any]:
    answer = memory_operations.recall(*request.target, query.body(point.snapshot))
    view = request.memory(Permission.RECALL).at(point.snapshot)
    explained = answer.explanation or {}
    best = max((one["score"] for one in explained["items"]), default=1)
    same = {f"says the same as {one['memory_id']}": one["rank"] for one in explained["items"]}
    looked_at = [
        Considered(
            record=view.record_at(one["store_path"], one["memory_id"]),
            memory_id=one["memory_id"],
            rank=one["rank"],
            score=_shown_score(one["score"], best),
            outcome=(
                f"says the same as number {same[one['outcome']]}"
                if one["outcome"] in same
                else one["outcome"]
            ),
            why=tuple(REASONS.get(reason, reason) for reason in one.get("why", ())),
            matched=tuple(
                one.get("matched") or [*one.get("matched_terms", ()), *one.get("matched_tags", ())]
            ),
            ceiling=one.get("ceiling"),
        )
        for one in explained["items"]
    ]
    chosen = [one for one in looked_at if one.is_chosen]
    others = [one for one in looked_at if not one.is_chosen]
    return {
        "response": answer,
        "tokens": EstimatedCounter().count(answer.text),
        "chosen": chosen,
        "others": others[:CONSOLE_PAGE_ITEMS],
        "dropped": {reason: count for reason, count in explained["dropped"].items() if count},
        "advice": answer.package.get("advice", ""),
    }


def _shown_score(score: float, best: float) -> str:
    """A score as people read it: as a share of the best one, where a controller counts in whole numbers."""
    return f"{score / max(1, best) if isinstance(score, int) else score:.3f}"
